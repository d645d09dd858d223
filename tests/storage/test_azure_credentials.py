"""Whose tokens requests to Azure bear, and how they are kept fresh."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from adelta.errors import ObjectExistsError, PermissionDeniedError, StorageError, ThrottledError
from adelta.storage.azure import AzureStore
from adelta.storage.azure_auth import shared_key
from adelta.storage.azure_client import AzureClient
from adelta.storage.azure_options import parse_azure_options
from adelta.storage.bearer import BearerTokens, Token
from adelta.storage.local import LocalStore
from adelta.storage.renewal import Renewed
from tests.storage.scripted_server import Server, told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

identity = pytest.importorskip("azure.identity", reason="adelta[azure] is not installed")

exceptions = pytest.importorskip("azure.core.exceptions")


def store_at(server: Server, **options: str) -> AzureStore:
    given = {
        "azure_storage_account_name": "acct",
        "azure_storage_endpoint": f"{server.endpoint}/acct",
        "allow_http": "true",
        "max_retries": "0",
    }
    return AzureStore.from_options("lake", "t", {**given, **options})


class Tokens:
    """In the place of credentials of azure-identity, which only servers of Microsoft answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
        self.made: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.given: list[str] = []
        self.lifetime = 3600.0
        for kind in kinds:
            monkeypatch.setattr(identity, kind, self._maker(kind))

    def _maker(self, kind: str) -> Any:
        def make(*arguments: Any, **named: Any) -> Tokens:
            self.made.append((kind, arguments, named))
            return self

        return make

    def get_token(self, scope: str) -> Any:
        assert scope == "https://storage.azure.com/.default"
        self.given.append(f"token-{len(self.given) + 1}")
        return type(
            "Made", (), {"token": self.given[-1], "expires_on": time.time() + self.lifetime}
        )


@pytest.mark.parametrize(
    ("options", "kind", "arguments", "named"),
    [
        (
            {"azure_client_id": "c", "azure_client_secret": "s", "azure_tenant_id": "t"},
            "ClientSecretCredential",
            ("t", "c", "s"),
            {},
        ),
        (
            {"federated_token_file": "/f", "client_id": "c", "tenant_id": "t"},
            "WorkloadIdentityCredential",
            (),
            {"tenant_id": "t", "client_id": "c", "token_file_path": "/f"},
        ),
        ({"azure_use_azure_cli": "true"}, "AzureCliCredential", (), {}),
        ({"azure_client_id": "c"}, "ManagedIdentityCredential", (), {"client_id": "c"}),
        (
            {"azure_object_id": "o"},
            "ManagedIdentityCredential",
            (),
            {"identity_config": {"object_id": "o"}},
        ),
        ({}, "DefaultAzureCredential", (), {}),
        (
            {"client_id": "c", "azure_storage_tenant_id": "t", "AZURE_FEDERATED_TOKEN_FILE": "/f"},
            "WorkloadIdentityCredential",
            (),
            {"tenant_id": "t", "client_id": "c", "token_file_path": "/f"},
        ),
        (
            {
                "azure_storage_client_id": "c",
                "azure_storage_client_secret": "s",
                "azure_storage_tenant_id": "t",
                "azure_storage_authority_host": "https://login.chinacloudapi.cn",
                "sas_token": "sig=x",
                "allow_invalid_certificates": "1",
            },
            "ClientSecretCredential",
            ("t", "c", "s"),
            {"authority": "https://login.chinacloudapi.cn", "connection_verify": False},
        ),
    ],
)
async def test_the_options_choose_whose_token_is_sent(
    options: dict[str, str],
    kind: str,
    arguments: tuple[str, ...],
    named: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in filter(str.isupper, options):  # a variable of the environment
        monkeypatch.setenv(name, options[name])
    options = {name: value for name, value in options.items() if not name.isupper()}
    tokens = Tokens(monkeypatch, kind)
    seen: list[str] = []

    def answer(_: int, head: str) -> Iterator[bytes]:
        seen.append(head)
        yield from told("data")

    async with Server(answer) as server:
        store = store_at(server, **options)
        assert await store.get("x") == await store.get("y") == b"data"
        await store.aclose()
    if kind != "AzureCliCredential":  # which asks no server itself
        named = {**named, "connection_timeout": 5.0, "read_timeout": 30.0}
    assert tokens.made == [(kind, arguments, named)]
    assert tokens.given == ["token-1"]
    assert all("authorization: Bearer token-1" in head for head in seen)


def test_of_several_identities_the_one_is_taken_that_deltalake_takes() -> None:
    given = {"account_name": "acct", "token": "t", "account_key": "a2V5", "sas_token": "sig=x"}
    by_token = parse_azure_options(None, given, {})
    assert (by_token.bearer_token, by_token.key, by_token.sas) == ("t", None, None)
    by_key = parse_azure_options(None, {**given, "token": ""}, {})
    assert (by_key.bearer_token, by_key.key, by_key.sas) == (None, b"key", None)
    client = {"account_name": "acct", "sas_token": "sig=x", "client_id": "c", "client_secret": "s"}
    assert parse_azure_options(None, client, {}).sas == "sig=x"  # of no tenant, so of nobody
    assert parse_azure_options(None, {**client, "tenant_id": "t"}, {}).sas is None


async def test_a_token_that_is_refused_is_renewed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens(monkeypatch, "DefaultAzureCredential")

    def answer(_: int, head: str) -> Iterator[bytes]:
        fresh = "Bearer token-2" in head
        yield from told("data", "200 OK" if fresh else "401 Unauthorized")

    async with Server(answer) as server:
        store = store_at(server)
        assert await store.get("x") == b"data"
        assert await store.get("x") == b"data"
        assert (server.requests, len(tokens.given)) == (3, 2)
        await store.aclose()


async def test_a_fetch_that_fails_fails_for_all_who_wait_for_it() -> None:
    begun, goes_on, asked = threading.Event(), threading.Event(), []

    def fetch() -> Token:
        begun.set()
        goes_on.wait(20)
        asked.append(1)
        raise PermissionDeniedError("no token today")

    tokens = BearerTokens(fetch)
    waiting = [asyncio.ensure_future(tokens.current()) for _ in range(20)]
    await asyncio.to_thread(begun.wait, 20)
    goes_on.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert {str(each) for each in found} == {"no token today"}
    assert len(asked) == 1
    with pytest.raises(PermissionDeniedError):
        await tokens.current()  # who asks later asks anew
    assert len(asked) == 2


async def test_who_waits_for_a_fetch_that_hangs_is_cancelled_at_once_and_holds_up_nobody(
    tmp_path: Path,
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def fetch() -> Token:
        begun.set()
        goes_on.wait(60)
        return Token("late", time.time() + 3600, "a test")

    tokens, local = BearerTokens(fetch), LocalStore(tmp_path)
    waiting = [asyncio.ensure_future(tokens.current()) for _ in range(100)]
    await asyncio.to_thread(begun.wait, 20)
    await local.put("x", b"1")  # the files of a disk, for which there are few threads
    for each in waiting[1:]:
        each.cancel()
    found = await asyncio.gather(*waiting[1:], return_exceptions=True)
    assert {type(each) for each in found} == {asyncio.CancelledError}
    assert not goes_on.is_set()
    goes_on.set()
    assert (await waiting[0]).text == (await tokens.current()).text == "late"


async def test_nobody_waits_long_for_a_token_that_could_be_used_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("adelta.storage.renewal._PATIENCE", 0.01)
    goes_on = threading.Event()
    given = [Token("second", time.time() + 3600, "a test")]

    def fetch() -> Token:
        goes_on.wait(60)
        return given.pop()

    tokens = Renewed(fetch, Token("first", time.time() + 200, "a test"))
    first = tokens.newest
    assert first is not None
    for _ in range(3):
        assert await tokens.ahead(first, lambda: False) is first
    goes_on.set()
    assert (await tokens.ahead(first, lambda: True)).text == "second"  # by the call that hung


async def test_a_credential_that_is_refused_is_made_anew_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it was made of, such as the file of a workload's identity, may be changed by now."""
    tokens = Tokens(monkeypatch, "DefaultAzureCredential")
    right, refused = tokens.get_token, []

    def get_token(scope: str) -> Any:
        if tokens.given and len(tokens.made) < most:
            refused.append(1)
            raise exceptions.ClientAuthenticationError("the assertion has expired")
        return right(scope)

    monkeypatch.setattr(tokens, "get_token", get_token)
    tokens.lifetime, most = 0.0, 2
    async with Server(lambda *_: told("data")) as server:
        store = store_at(server)
        for _ in range(2):
            assert await store.get("x") == b"data"
        assert (len(tokens.made), len(refused)) == (2, 1)
        most = 9
        with pytest.raises(PermissionDeniedError, match="has expired"):
            await store.get("x")
        assert (len(tokens.made), len(refused)) == (3, 3)
        await store.aclose()


async def test_a_token_that_cannot_be_renewed_yet_is_used_until_its_end_without_asking_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = [Token("first", time.time() + 200, "a test")]
    asked = []

    def fetch() -> Token:
        asked.append(1)
        if not given:
            raise PermissionDeniedError("no token today")
        return given.pop()

    tokens = BearerTokens(fetch)
    for _ in range(5):
        assert (await tokens.current()).text == "first"
    assert len(asked) == 2
    monkeypatch.setattr("adelta.storage.bearer._now", lambda: time.time() + 200)
    with pytest.raises(PermissionDeniedError):
        await tokens.current()


async def test_what_is_wrong_with_an_identity_is_said_with_what_to_do() -> None:
    async with Server(lambda *_: told("")) as server:
        store = store_at(server, azure_client_id="c", azure_client_secret="SECRET")
        with pytest.raises(PermissionDeniedError, match="goes with azure_client_id") as refused:
            await store.get("x")
        assert "SECRET" not in str(refused.value) + repr(vars(store))
        assert server.requests == 0
        await store.aclose()


async def test_a_server_of_tokens_that_is_away_denies_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = Tokens(monkeypatch, "DefaultAzureCredential")
    away, denied = exceptions.ServiceRequestError("away"), exceptions.ClientAuthenticationError()
    caused = exceptions.ClientAuthenticationError("failed: away")
    caused.__cause__ = away
    for error, passes in ((away, True), (caused, True), (denied, False)):

        def fail(_: str, error: Exception = error) -> Any:
            raise error

        monkeypatch.setattr(tokens, "get_token", fail)
        async with Server(lambda *_: told("")) as server:
            store = store_at(server)
            with pytest.raises(StorageError, match=r"again later|is for public") as raised:
                await store.get("x")
            await store.aclose()
        assert isinstance(raised.value, PermissionDeniedError) is not passes


@pytest.mark.parametrize(
    ("status", "code", "error", "advice"),
    [
        (412, "ConditionNotMet", ObjectExistsError, ""),
        (412, "LeaseIdMissing", StorageError, "break it"),
        (409, "BlobAlreadyExists", ObjectExistsError, ""),
        (409, "BlobArchived", StorageError, "rehydrate"),
        (409, "SnapshotsPresent", StorageError, "snapshots first"),
        (409, "PublicAccessNotPermitted", PermissionDeniedError, "give credentials"),
        (403, "AuthorizationFailure", PermissionDeniedError, "firewall"),
        (503, "ServerBusy", ThrottledError, ""),
    ],
)
def test_what_azure_refuses_is_told_by_its_code(
    status: int, code: str, error: type[StorageError], advice: str
) -> None:
    client = AzureClient("lake", "az://lake", parse_azure_options(None, {"account_name": "acct"}))
    failure = client.failure_of(status, {"x-ms-error-code": code}, b"")
    raised = failure.error("a request", credentials="none")
    assert type(raised) is error
    assert advice in str(raised)


def test_the_key_signs_as_it_is_documented() -> None:
    """Lines of the text that is signed, by a key that is known."""
    headers = {"x-ms-version": "2023-11-03", "x-ms-date": "Tue, 24 Nov 2026 02:00:00 GMT"}
    one = shared_key("acct", b"k", "GET", "/lake/a%20b", "restype=container&comp=list", headers, 0)
    other = shared_key(
        "acct", b"k", "GET", "/lake/a%20b", "comp=list&restype=container", headers, 0
    )
    assert one == other  # parameters are signed in the order of their names
    assert one.startswith("SharedKey acct:")
    assert one != shared_key("acct", b"k", "GET", "/lake/a%20b", "comp=list", headers, 0)
