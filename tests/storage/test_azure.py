"""Azure, on Azurite, and what Azurite lacks on a server that answers as its documentation says."""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from hmac import new
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    InvalidOptionError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
)
from adelta.storage.addresses import Place, split_uri
from adelta.storage.azure import AzureStore
from adelta.storage.azure_options import parse_azure_options
from adelta.storage.memory import MemoryStore
from adelta.storage.object_client import ObjectRequest
from adelta.storage.parallel_list import list_in_parallel
from adelta.storage.resolve import open_store
from adelta.storage.token_client import TokenTarget
from tests.storage.faulty_proxy import Exchange, Fate, FaultyProxy
from tests.storage.http_store_suite import SHAKY, HttpStoreSuite
from tests.storage.object_store_suite import ODD_PATHS, ObjectStoreSuite, paths_of, pieces
from tests.storage.request_counts import RequestCounts
from tests.storage.scripted_server import TAGGED, Server, told
from tests.support.depth import DEEP, cases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from adelta.storage.object_store import ObjectStore
    from tests.support.azure_server import AzureLocation, AzureServer


def store_at(location: AzureLocation, **options: str) -> AzureStore:
    given = {**location.storage_options, **options}
    return AzureStore.from_options(location.container, location.prefix, given)


@pytest.fixture
async def store(azure_location: AzureLocation) -> AsyncIterator[AzureStore]:
    store = store_at(azure_location)
    yield store
    await store.aclose()


@pytest.fixture
async def proxy(azure_server: AzureServer) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(azure_server.endpoint.partition("/devstore")[0]) as proxy:
        yield proxy


@pytest.fixture
async def shaky(azure_location: AzureLocation, proxy: FaultyProxy) -> AsyncIterator[AzureStore]:
    endpoint = f"{proxy.endpoint}/devstoreaccount1"
    store = store_at(azure_location, azure_storage_endpoint=endpoint, **SHAKY)
    yield store
    await store.aclose()


class TestAzureStore(ObjectStoreSuite):
    @pytest.fixture
    async def store(
        self, azure_location: AzureLocation, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[AzureStore]:
        monkeypatch.setattr("adelta.storage.azure._PAGE", 700)  # it gives 5,000 at once
        place = azure_location
        store = store_at(replace(place, prefix=place.prefix + "/odd %20é root"))
        yield store
        await store.aclose()

    test_it_counts_requests_by_kind_and_bytes = None  # type: ignore[assignment]  # a suffix is two

    async def test_odd_characters_in_paths_come_back_as_they_were(self, store: ObjectStore) -> None:
        """Azurite takes a backslash for a slash."""
        paths = [path for path in ODD_PATHS if "\\" not in path]
        for path in paths:
            await store.put(path, path.encode())
        assert await store.get_many(paths) == [path.encode() for path in paths]
        assert await paths_of(store) == sorted(paths, key=str.encode)
        for path in paths:
            assert (await store.head(path)).path == path
        await store.delete(paths)
        assert await paths_of(store) == []

    if not DEEP:  # Azurite takes its time
        test_a_long_list_comes_in_pages_each_path_once = None  # type: ignore[assignment]
        test_a_large_object_goes_in_and_comes_out = None  # type: ignore[assignment]


class TestFailuresOfAzure(HttpStoreSuite):
    pass


# -------------------------------------------------------------------------------------- requests


class TestRequestCountsOfAzure(RequestCounts):
    costs: ClassVar = {
        "the end": 2,  # its size is asked for before
        "a stream of 20 MiB": 4,  # three blocks, and the list of them
    }


async def test_a_listing_is_not_begun_in_many_places(
    store: AzureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them would list from the beginning."""
    monkeypatch.setattr("adelta.storage.azure._PAGE", 10)
    paths = [f"{number:03}" for number in range(100)]
    for path in paths:
        await store.put(path, b"")
    before = store.request_count
    found = [meta.path async for page in list_in_parallel(store) for meta in page]
    assert found == paths
    assert store.request_count - before <= 11


async def test_a_blob_is_copied_by_the_store(
    store: AzureStore, azure_location: AzureLocation
) -> None:
    other = store_at(replace(azure_location, prefix=azure_location.prefix + "/other"))
    await store.put("a b/é", b"some bytes")
    before = other.request_count
    made = await other.copy_from("copy=1/x", store, "a b/é")
    assert made is not None
    assert other.request_count - before == 1
    assert await other.get("copy=1/x") == b"some bytes"
    there = await other.head("copy=1/x")
    assert (made.etag, made.size, made.last_modified_ms) == (
        there.etag, there.size, there.last_modified_ms,
    )  # fmt: skip
    assert await other.copy_from("y", MemoryStore(), "x") is None
    with pytest.raises(ObjectNotFoundError):
        await other.copy_from("y", store, "none")
    await other.aclose()


@pytest.mark.parametrize("ends", ["success", "failed"])
async def test_a_copy_that_goes_on_is_waited_for(ends: str) -> None:
    states = ["pending", "pending", ends]

    def answer(_: int, head: str) -> Iterator[bytes]:
        if head.startswith("HEAD /acct/lake/t/x"):
            dated = "date: Wed, 01 Jan 2020 00:00:00 GMT\r\ncontent-length: 1\r\n"
            return iter([f"HTTP/1.1 200 OK\r\n{TAGGED}{dated}\r\n".encode()])
        if head.startswith("DELETE /acct/lake/t/y"):
            return told("", "202 Accepted")
        state = states.pop(0)
        return told("", "202 Accepted", headers=f'etag: "2"\r\nx-ms-copy-status: {state}\r\n')

    async with Server(answer) as server:
        options = {
            "account_name": "acct", "endpoint": f"{server.endpoint}/acct", "allow_http": "1",
            "sas_token": "sig=s", "max_retries": "0",
        }  # fmt: skip
        store = AzureStore.from_options("lake", "t", options)
        if ends == "success":
            made = await store.copy_from("y", store, "x")
            assert made is not None
            assert made.etag == '"2"'
        else:
            with pytest.raises(StorageError, match="ended as 'failed'"):
                await store.copy_from("y", store, "x")
        assert states == []
        await store.aclose()


async def test_a_copy_that_is_cancelled_is_ended_and_leaves_no_blob() -> None:
    asked: list[str] = []
    pending, looked = True, asyncio.Event()

    def answer(_: int, head: str) -> Iterator[bytes]:
        nonlocal pending
        method, target, _ = head.split(" ", 2)
        if method == "HEAD" and target.startswith("/acct/lake/t/x"):
            dated = "date: Wed, 01 Jan 2020 00:00:00 GMT\r\ncontent-length: 1\r\n"
            return iter([f"HTTP/1.1 200 OK\r\n{TAGGED}{dated}\r\n".encode()])
        asked.append(f"{method} {target.partition('?sig')[0].partition('&sig')[0]}")
        if "comp=copy" in target:
            assert "x-ms-copy-action: abort" in head.lower()
            pending = False
            return told("", "204 No Content")
        if method == "DELETE" and pending:
            code = "x-ms-error-code: PendingCopyOperation\r\n"
            return told("", "409 There is currently a pending copy operation.", headers=code)
        if method == "DELETE":
            return told("", "202 Accepted")
        if method == "HEAD":
            looked.set()
        said = 'etag: "2"\r\nx-ms-copy-status: pending\r\nx-ms-copy-id: 1f-2\r\n'
        return told("", "202 Accepted", headers=said)

    async with Server(answer) as server:
        options = {
            "account_name": "acct", "endpoint": f"{server.endpoint}/acct", "allow_http": "1",
            "sas_token": "sig=s", "max_retries": "0",
        }  # fmt: skip
        store = AzureStore.from_options("lake", "t", options)
        copying = asyncio.create_task(store.copy_from("y", store, "x"))
        await looked.wait()
        asked.clear()
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying
        blob = "/acct/lake/t/y"
        end = [each for each in asked if each != f"HEAD {blob}"]
        assert end == [f"DELETE {blob}", f"PUT {blob}?comp=copy&copyid=1f-2", f"DELETE {blob}"]
        await store.aclose()


async def test_damage_on_the_way_is_mended_either_way(
    shaky: AzureStore, proxy: FaultyProxy
) -> None:
    async def damaged_put(exchange) -> bool:
        exchange.send(await exchange.forward(exchange.body.replace(b"some bytes", b"some bytez")))
        return True

    async def damaged_get(exchange) -> bool:
        exchange.send((await exchange.forward()).replace(b"some bytes", b"some bytez"))
        return True

    proxy.fates = [damaged_put]
    await shaky.put("x", b"some bytes")
    proxy.fates = [damaged_get]
    assert await shaky.get("x") == b"some bytes"
    assert len(proxy.seen) == 4
    proxy.fates = [damaged_get] * 9
    with pytest.raises(StorageError, match="damaged"):
        await shaky.get("x")


async def test_two_streams_to_one_object_do_not_mix(store: AzureStore) -> None:
    """Blocks that are in no object yet are kept by the object's name."""
    whole = {bytes([n]) * (20 << 20) for n in (1, 2)}

    async def write(data: bytes) -> None:
        with_luck = pieces(*(data[at : at + (1 << 20)] for at in range(0, len(data), 1 << 20)))
        with contextlib.suppress(StorageError):  # its blocks may be forgotten for the other's list
            await store.put_stream("x", with_luck)

    await asyncio.gather(*map(write, whole))
    assert await store.get("x") in whole


# ----------------------------------------------------------------------------- who may, and where


async def test_a_wrong_key_is_refused_by_the_server(azure_location: AzureLocation) -> None:
    store = store_at(azure_location, azure_storage_account_key="d3Jvbmcga2V5")
    with pytest.raises(PermissionDeniedError, match=r"check the account's key.*|credentials") as no:
        await store.get("x")
    assert "d3Jvbmcga2V5" not in str(no.value) + repr(store) + repr(vars(store))
    await store.aclose()


async def test_a_signature_goes_with_every_request(azure_location: AzureLocation) -> None:
    options = parse_azure_options(None, azure_location.storage_options, {})
    assert options.key is not None
    ends = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = f"{options.account}\nrwdlac\nb\nsco\n\n{ends}\n\nhttps,http\n2023-11-03\n\n"
    digest = b64encode(new(options.key, said.encode(), sha256).digest()).decode()
    rights = "sv=2023-11-03&ss=b&srt=sco&sp=rwdlac"
    encoded = f"?{rights}&se={quote(ends)}&spr=https,http&sig={quote(digest, safe='')}"
    plain = f"{rights}&se={ends}&spr=https,http&sig={digest}"
    for sas in (encoded, quote(encoded), plain):
        store = store_at(azure_location, azure_storage_account_key="", azure_storage_sas_token=sas)
        assert store._client.credentials_source() == "a shared access signature"
        await store.put("a b", b"1")
        assert await store.get("a b") == b"1"
        assert await paths_of(store) == ["a b"]
        await store.put_stream("big", pieces(bytes(9 << 20)))
        await store.delete(["a b", "big"])
        if sas is not plain:
            await store.aclose()
    store._client._options = replace(options, key=None, sas=plain.replace("sig=", "sig=x"))
    with pytest.raises(PermissionDeniedError, match="shared access signature") as refused:
        await store.get("a b")
    assert digest not in str(refused.value)
    await store.aclose()


def test_spellings_of_one_address_are_one_place() -> None:
    spelled = [
        "abfss://lake@acct.dfs.core.windows.net/a/b",
        "abfs://lake@acct.dfs.core.windows.net/a/b/",
        "wasbs://lake@acct.blob.core.windows.net/a/b",
        "https://acct.blob.core.windows.net/lake/a/b",
        "https://acct.dfs.core.windows.net/lake/a/b",
    ]
    assert {Place.of(each) for each in spelled} == {Place.of(spelled[0])}
    assert {open_store(each, {"azure_skip_signature": "1"}).uri for each in spelled} == {spelled[0]}
    assert Place.of("azure://lake/a") == Place.of("az://lake/a")
    assert split_uri(f"{spelled[3]}%20c") == ("abfss://lake@acct.dfs.core.windows.net", "a/b c")
    with pytest.raises(InvalidOptionError, match="unknown scheme"):
        Place.of("https://169.254.169.254/lake/a")


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("az://lake/t", {}, "account is not known: set azure_storage_account_name"),
        ("az://lake/t", {"account_name": "a", "sas_token": "x"}, "3 to 24"),
        ("az://lake/t", {"account_name": "abc", "sas_token": "x"}, "has a sig="),
        ("az://lake/t", {"account_name": "abc", "account_key": "?"}, "no base64"),
        ("az://lake/t", {"account_name": "abc", "endpoint": "http://h"}, "set allow_http=true"),
        ("az://l/t", {"account_name": "abc"}, "no name of a container"),
        ("abfss://lake@acct.dfs.core.windows.net/t", {"account_name": "abc"}, "leave that option"),
        ("abfss://lake@acct.dfs.evil.com/t", {}, "no host of Azure"),
        ("https://acct.blob.core.windows.net/lake/t?sv=1&sig=abc", {}, "give that as the storage"),
        ("az://lake/t", {"fs.azure.account.key.abc.dfs.core.windows.net": "x"}, "account_key inst"),
        ("az://lake/t", {"azure_storage_acount_name": "x"}, "did you mean azure_storage_account_n"),
        ("az://lake/t", {"azure_msi_endpoint": "http://h"}, "variables IDENTITY_ENDPOINT"),
        ("az://lake/t", {"fabric_session_token": "x"}, "azure_storage_token instead"),
        ("az://lake/t", {"azure_storage_encryption_key": "x"}, "would write them without it"),
        ("az://lake/t", {"credential_type": "azure_cli"}, "of the one identity"),
        ("az://lake/t", {"azure_proxy_excludes": "h"}, "NO_PROXY"),
    ],
)
def test_what_cannot_be_done_is_said(address: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        adelta.open_table(address, options)


@pytest.mark.parametrize(
    ("address", "options", "expected", "container"),
    [
        (
            "az://lake/t",
            {"account_name": "other", "use_emulator": "1"},
            "127.0.0.1:10000/other",
            "lake",
        ),
        (
            "az://ws1/lh.Lakehouse",
            {"account_name": "onelake", "use_fabric_endpoint": "1"},
            "onelake.blob.fabric.microsoft.com",
            "ws1",
        ),
        (
            f"abfss://Sales%20EU@{'0' * 32}.z28.dfs.fabric.microsoft.com/lh",
            {},
            f"{'0' * 32}.z28.blob.fabric.microsoft.com",
            "Sales%20EU",
        ),
        (
            "https://germanywestcentral-onelake.dfs.fabric.microsoft.com/Sales/lh.Lakehouse/t",
            {},
            "germanywestcentral-onelake.blob.fabric.microsoft.com",
            "Sales",
        ),
    ],
)
def test_emulators_and_fabric_have_endpoints_of_their_own(
    address: str, options: dict[str, str], expected: str, container: str
) -> None:
    store = open_store(address, {"azure_skip_signature": "1", **options})
    assert isinstance(store, AzureStore)
    assert f"://{expected}|" in store.identity
    target = TokenTarget(origin="", proxy=None, token=None)
    signed = store._client.signed(target, ObjectRequest("GET", "x"), "")
    assert signed.path.endswith(f"/{container}/x")


async def test_a_table_is_written_and_read_by_deltalakes_options(
    azure_location: AzureLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", azure_location.server.endpoint)
    options = {"azure_storage_use_emulator": "true"}
    rows = pa.table({"id": [1, 2, 3]})
    for _ in range(2):
        await adelta.write_table(azure_location.uri, rows, storage_options=options)
    table = adelta.open_table(azure_location.uri, storage_options=options)
    snapshot = await table.snapshot()
    assert snapshot.version == 1
    assert (await snapshot.scan().to_arrow()).num_rows == 6
    await table.aclose()


# ------------------------------------------------------------------------- hierarchical namespaces

_ENTRY = (
    "<Blob><Name>{}</Name><Properties><Last-Modified>Tue, 24 Nov 2026 02:00:00 GMT</Last-Modified>"
    "<Etag>0x1</Etag><Content-Length>1</Content-Length><ResourceType>{}</ResourceType>"
    "</Properties></Blob>"
)
_IN_THEIR_ORDER = ["t/a", "t/a/b", "t/a/z", "t/a-c", "t/a.d", "t/b"]  # what is in a folder first


def _hierarchy(number: int, head: str) -> Iterator[bytes]:
    if " /acct/lake?" not in head.partition("\r\n")[0]:
        kind = "x-ms-resource-type: directory\r\nx-ms-meta-hdi_isfolder: true\r\n"
        yield from told("", headers=kind)
        return
    half = _IN_THEIR_ORDER[3:] if "marker=" in head else _IN_THEIR_ORDER[:3]
    entries = "".join(_ENTRY.format(n, "directory" if n == "t/a" else "file") for n in half)
    more = "" if "marker=" in head else "<NextMarker>2</NextMarker>"
    yield from told(f"<EnumerationResults><Blobs>{entries}</Blobs>{more}</EnumerationResults>")


async def test_folders_are_no_objects_and_listings_are_in_our_order() -> None:
    async with Server(_hierarchy) as server:
        options = {
            "azure_storage_account_name": "acct",
            "azure_storage_endpoint": f"{server.endpoint}/acct",
            "azure_skip_signature": "true",
            "allow_http": "true",
            "max_retries": "0",
        }
        store = AzureStore.from_options("lake", "t", options)
        assert await paths_of(store) == ["a-c", "a.d", "a/b", "a/z", "b"]
        assert await paths_of(store, start_after="a.d") == ["a/b", "a/z", "b"]
        for ask in (store.get, store.head):
            with pytest.raises(ObjectNotFoundError, match="directory"):
                await ask("a")
        await store.aclose()


# --------------------------------------------------------------------------------------- deletes


async def test_blobs_are_deleted_many_a_request_and_one_that_is_not_there_is_no_error(
    store: AzureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert AzureStore._most_deletes == 256
    largest = cases(deep=256, shallow=20)
    monkeypatch.setattr(AzureStore, "_most_deletes", largest)
    odd = [path for path in ODD_PATHS if "\\" not in path]
    paths = [*odd, *(f"d/{number:03}" for number in range(largest + 10 - len(odd)))]
    await asyncio.gather(*(store.put(path, b"") for path in paths))
    before = store.stats.requests.get("delete", 0)
    await store.delete([*paths, "not/there"])
    assert store.stats.requests["delete"] == before + 2
    assert await paths_of(store) == []


async def test_deletes_that_a_batch_has_left_are_made_one_by_one(
    azure_location: AzureLocation, proxy: FaultyProxy
) -> None:
    endpoint = f"{proxy.endpoint}/devstoreaccount1"
    store = store_at(azure_location, azure_storage_endpoint=endpoint, **SHAKY)
    for fate in (Fate.answer(400), Fate.answer(403), Fate.answer(503), Fate.cut_after()):
        await store.put("x", b"")
        await store.put("y", b"")
        proxy.fates, proxy.seen[:] = [fate], []
        store._deletes_many = True
        await store.delete(["x", "y"])
        asked = [method for method, _ in proxy.seen]
        tried_again = fate.status not in (400, 403)
        assert asked == ["POST", "POST"] if tried_again else ["POST", "DELETE", "DELETE"]
        assert store._deletes_many is tried_again
        assert await paths_of(store) == []
    await store.aclose()


async def test_an_answer_that_names_no_delete_of_a_batch_has_made_none(
    azure_location: AzureLocation, proxy: FaultyProxy
) -> None:
    """As where the batch as a whole is refused, which the status of the answer does not show."""
    refusal = b"--b\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 400 Bad\r\n\r\n--b--"

    async def refuse(exchange: Exchange) -> bool:
        exchange.send_answer(202, refusal)
        return True

    endpoint = f"{proxy.endpoint}/devstoreaccount1"
    store = store_at(azure_location, azure_storage_endpoint=endpoint, **SHAKY)
    for path in ("x", "y", "z"):
        await store.put(path, b"")
    proxy.fates = [refuse]
    await store.delete(["x", "y"])
    assert await paths_of(store) == ["z"]
    assert not store._deletes_many
    await store.aclose()
