"""Passwords, tokens and signatures: no message, representation or chain of errors shows them."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import importlib
import logging
import pickle
import pkgutil
import re
import time
import traceback
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta._dataclasses import dataclass
from adelta._secrets import without_secrets
from adelta.commit.postgresql import PostgresCoordinator
from adelta.errors import AdeltaError, InvalidOptionError, StorageError
from adelta.storage.http import HttpOptions
from adelta.storage.json_http import JsonAnswer, JsonServer
from adelta.storage.memory import MemoryStore
from adelta.storage.resolve import open_store
from adelta.storage.retry import RetryPolicy
from adelta.storage.s3_options import parse_options
from tests.storage.scripted_server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from adelta.storage.object_store import ObjectStore

SECRET = "hun?ter/2@x"
BASE = {
    "aws_access_key_id": "AKID",
    "aws_secret_access_key": "S3CRET-KEY",
    "aws_session_token": "S3CRET-TOKEN",
    "aws_region": "us-east-1",
    "aws_allow_http": "true",
    "aws_endpoint_url": "http://127.0.0.1:9",
    "max_retries": "0",
    "connect_timeout": "1s",
}
HIDDEN = (SECRET, "hunter2", "hun", "ter/2", "S3CRET", "abc%3D")


def everything_told(error: BaseException) -> Iterator[str]:
    """The texts of an error, of its causes, and of what was under way when they were raised."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield from (str(one), repr(one), repr(one.args))
        todo += [one.__cause__, one.__context__]
    yield "".join(line for line in traceback.format_exception(error) if "File" not in line)


def assert_hidden(*texts: str) -> None:
    for text in texts:
        for secret in HIDDEN:
            assert secret not in text, text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:pw@host:1/x", "http://***@host:1/x"),
        ("'https://user:p/w?#@host'", "'https://***@host'"),
        ("postgresql://me:a@b@host/db and s3://b/k", "postgresql://***@host/db and s3://b/k"),
        ("s3://token@bucket/x", "s3://***@bucket/x"),
        ("abfss://container@host/x", "abfss://container@host/x"),
        ("abfss://user:pw@host/x", "abfss://***@host/x"),
        ("s3://bucket/a@b:c", "s3://bucket/a@b:c"),
        ("http://host:9000/bucket/a@b", "http://host:9000/bucket/a@b"),
        ("https://h/x?sv=2&sig=a%3D&se=1", "https://h/x?sv=2&sig=***&se=1"),
        (
            "https://h/x?X-Amz-Signature=ab&X-Amz-Security-Token=c&X-Amz-Date=2",
            "https://h/x?X-Amz-Signature=***&X-Amz-Security-Token=***&X-Amz-Date=2",
        ),
        ("postgresql://h/db?password=hunter2", "postgresql://h/db?password=***"),
        ("no address, a@b, ?sig=x", "no address, a@b, ?sig=x"),
    ],
)
def test_what_an_address_hides(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert str(StorageError(text)) == shown
    assert str(pickle.loads(pickle.dumps(StorageError(text)))) == shown


def test_hiding_takes_a_moment_whatever_the_text() -> None:
    for text in ("://a:" * 200_000, "?sig" * 250_000, "://" + "?" * 1_000_000, "x?key://" * 99_999):
        began = time.process_time()
        assert len(str(AdeltaError(text))) < 2000
        assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "proxy",
    [
        "http://user:hunter2@[bad",
        "http://user:hunter2@host:99999999",
        "socks5://user:hunter2@host:1",
        "user:hunter2@host",
        "http://user:hunter2@",
        "http://user:hunter2@ho\nst",
    ],
)
@pytest.mark.parametrize("of_environment", [False, True])
async def test_a_proxy_that_is_none_is_refused_unnamed(
    proxy: str, of_environment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    if of_environment:
        monkeypatch.setenv("http_proxy", proxy)
    options = BASE if of_environment else BASE | {"proxy_url": proxy}
    with pytest.raises(InvalidOptionError, match="proxy") as raised:
        await adelta.write_table("s3://bucket/x", pa.table({"a": [1]}), storage_options=options)
    assert_hidden(*everything_told(raised.value))


@pytest.mark.parametrize(
    "options",
    [
        {"proxy_url": "http://user:hunter2@127.0.0.1:9"},
        {"proxy_url": "http://user:hunter2@no.such.host.invalid:9"},
        {"aws_endpoint_url": "https://user:hunter2@host"},
        {"aws_session_token": "S3CRET\r\nx: y"},
        {"aws_access_key_id": "S3CRET\n"},
        {"aws_region": "S3CRET\r\n"},
        {"user_agent": "S3CRET\n"},
        {"aws_sts_endpoint": "http://user:hunter2@[bad", "aws_role_arn": "arn:aws:iam::1:role/x"},
        {"adelta_commit_lock": "postgresql://user:hunter2@[bad/x"},
        {"adelta_commit_lock": "postgresql://user:hun?ter/2@x@127.0.0.1:9/x"},
        {"adelta_commit_lock": "postgresql://user:hunter2@127.0.0.1:notaport/x"},
        {"adelta_commit_lock": "postgresql://127.0.0.1:9/x?password=hunter2&port=abc"},
        {"adelta_commit_lock": "mysql://user:hunter2@127.0.0.1:9/x"},
    ],
    ids=str,
)
async def test_no_option_is_told_with_its_secret(
    options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(AdeltaError) as raised:
        await adelta.write_table(
            "s3://bucket/x", pa.table({"a": [1]}), storage_options=BASE | options
        )
    assert_hidden(*everything_told(raised.value), caplog.text)


@pytest.mark.parametrize(
    "uri",
    [
        "https://account.host/container?sv=2&sig=abc%3D",
        "ftp://user:hunter2@host/x",
        "s3://AKID:hunter2@bucket/x",
        "file://user:hunter2@host/x",
    ],
)
async def test_an_address_is_told_without_its_secret(uri: str) -> None:
    with pytest.raises(AdeltaError) as raised:
        await adelta.write_table(uri, pa.table({"a": [1]}), storage_options=BASE)
    assert_hidden(*everything_told(raised.value))


@pytest.mark.parametrize("dsn", ["postgresql://u:hun?ter/2@x@127.0.0.1:9/x", "postgresql://u:%@[/"])
async def test_the_address_of_a_lock_is_not_told(dsn: str) -> None:
    coordinator = PostgresCoordinator(MemoryStore(), dsn)
    assert_hidden(repr(coordinator))
    with pytest.raises(AdeltaError) as raised:
        await coordinator.commit(0, b"{}", "x")
    assert_hidden(*everything_told(raised.value))


async def test_the_token_of_a_catalog_is_not_told() -> None:
    for base in ("http://user:hunter2@host", "http://user:hunter2@[x", "ftp://x?token=hunter2"):
        with pytest.raises(InvalidOptionError) as raised:
            JsonServer(base)
        assert_hidden(*everything_told(raised.value))
    server = JsonServer("http://127.0.0.1:9", token="S3CRET\r\nx: y")
    with pytest.raises(AdeltaError) as raised:
        await server.get("x")
    assert_hidden(*everything_told(raised.value), repr(server))
    await server.aclose()
    client = adelta.UnityCatalogClient("http://127.0.0.1:9", "a.b.c", token="S3CRET")
    assert_hidden(repr(client))
    await client.aclose()


def test_options_do_not_show_secrets() -> None:
    made = parse_options(BASE | {"proxy_url": "http://user:hunter2@host:1"}, {})
    assert_hidden(repr(made), repr(made.http), repr(made.credentials), repr(HttpOptions()))


_MAY_HOLD_SECRETS = re.compile(
    r"(headers|query|body|optional|conf|table_conf|options|storage_options)"
    r"|.*(secret|password|token|sas|proxy|proxy_url|key)"
)
_ARE_NO_SECRETS = {
    "Address.key",  # the path of a file
    "CreateTable.query",  # a query in SQL
    "HdfsRequest.key",  # of an object
    "ObjectRequest.key",
    "OwnedTable.table_key",  # a number
    "Page.token",  # where a listing goes on
    "Settings.key",
    "ShowProperties.key",
    "TokenTarget.token",  # a value that does not show its text
    "Writing.key",
    "_Change.query",
    "_Kept.query",
}


def shown_dataclasses() -> Iterator[type]:
    """Every dataclass of what reaches stores, owners and catalogs, or opens tables."""
    for package in ("storage", "commit", "owner", "serving", "sql", "spark", "frames", "cli", "ui"):
        folder = importlib.import_module(f"adelta.{package}")
        for module in pkgutil.walk_packages(folder.__path__, f"adelta.{package}."):
            if module.name.endswith("__main__"):
                continue
            for value in vars(importlib.import_module(module.name)).values():
                is_dataclass = isinstance(value, type) and dataclasses.is_dataclass(value)
                if is_dataclass and value.__module__ == module.name:
                    yield value


def test_no_representation_of_a_dataclass_shows_a_field_that_may_hold_a_secret() -> None:
    looked_at, shown = 0, set()
    for kind in shown_dataclasses():
        for field in dataclasses.fields(kind):
            name = f"{kind.__name__}.{field.name}"
            if not _MAY_HOLD_SECRETS.fullmatch(field.name) or name in _ARE_NO_SECRETS:
                continue
            made: Any = object.__new__(kind)
            for each in dataclasses.fields(kind):
                with contextlib.suppress(AttributeError):  # of a class variable
                    value = "S3CRET" if each is field else None
                    object.__setattr__(made, each.name, value)
            looked_at += 1
            if "S3CRET" in repr(made):
                shown.add(name)
    assert not shown
    assert looked_at > 30


@pytest.mark.parametrize("frozen", [True, False])
def test_no_representation_of_a_dataclass_shows_the_secret_of_an_address(frozen: bool) -> None:
    @dataclass(frozen=frozen)
    class Place:
        uri: str

    assert repr(Place("s3://AKID:hunter2@bucket/x")).endswith("Place(uri='s3://***@bucket/x')")


def _s3(endpoint: str) -> ObjectStore:
    key = base64.b64encode(b"S3CRET" + bytes(26)).decode()
    customer = {"aws_server_side_encryption": "sse-c", "aws_sse_customer_key_base64": key}
    return open_store("s3://bucket/t", BASE | customer | {"aws_endpoint_url": endpoint})


def _azure(endpoint: str) -> ObjectStore:
    return open_store(
        "az://lake/t",
        {
            "account_name": "acct", "endpoint": f"{endpoint}/acct", "allow_http": "true",
            "sas_token": "sv=2&sig=S3CRET", "max_retries": "0",
        },
    )  # fmt: skip


def _gcs(endpoint: str) -> ObjectStore:
    return open_store(
        "gs://bucket/t",
        {
            "google_base_url": endpoint, "allow_http": "true", "max_retries": "0",
            "google_bearer_token": "S3CRET",
        },
    )  # fmt: skip


def _hdfs(endpoint: str) -> ObjectStore:
    address = endpoint.removeprefix("http://")
    return open_store(
        "hdfs://namenode/t",
        {
            "dfs.namenode.http-address": address, "hdfs_delegation_token": "S3CRET",
            "max_retries": "0",
        },
    )  # fmt: skip


_NOT_HTTP = b"SMTP 220 \r\n\r\n"
_TWO_LENGTHS = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"
_REFUSED = b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize("answer", [_NOT_HTTP, _TWO_LENGTHS, _REFUSED, b""])
@pytest.mark.parametrize("opened", [_s3, _azure, _gcs, _hdfs])
async def test_no_failed_exchange_with_a_store_shows_what_was_sent(
    opened: Callable[[str], ObjectStore], answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors of aiohttp hold the address and the headers of the request."""
    caplog.set_level(logging.DEBUG)
    heads: list[str] = []

    def reply(_: int, head: str) -> Iterator[bytes]:
        heads.append(head)
        yield answer
        raise ConnectionResetError

    async with Server(reply) as server:
        store = opened(server.endpoint)
        for use in (store.get("x"), store.put_if_absent("x", b"1")):
            with pytest.raises(AdeltaError) as raised:
                await use
            assert_hidden(*everything_told(raised.value))
        assert_hidden(caplog.text, repr(store), repr(vars(store)))
        await store.aclose()
    assert any("S3CRET" in head for head in heads)


@pytest.mark.parametrize("answer", [_NOT_HTTP, _TWO_LENGTHS, b""])
async def test_no_failed_exchange_with_a_catalog_or_an_owner_shows_its_token(
    answer: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    heads: list[str] = []

    def reply(_: int, head: str) -> Iterator[bytes]:
        heads.append(head)
        yield answer
        raise ConnectionResetError

    monkeypatch.setattr("adelta.storage.json_http._RETRY", RetryPolicy(max_retries=0))
    async with Server(reply) as server:
        asked = JsonServer(server.endpoint, token="S3CRET")
        for use in (asked.get("x"), asked.post("x", {})):
            with pytest.raises(AdeltaError) as raised:
                await use
            assert_hidden(*everything_told(raised.value))
        assert_hidden(caplog.text)
        await asked.aclose()
    assert sum("authorization: bearer s3cret" in head.lower() for head in heads) == 2


async def test_no_failed_exchange_through_a_proxy_shows_its_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)

    def reply(_: int, head: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 502 No\r\ncontent-length: 0\r\n\r\n"

    async with Server(reply) as server:
        proxy = server.endpoint.replace("://", "://user:hunter2@")
        options = BASE | {"proxy_url": proxy, "aws_endpoint_url": "https://store.invalid"}
        store = open_store("s3://bucket/t", options)
        with pytest.raises(StorageError) as raised:
            await store.get("x")
        assert_hidden(*everything_told(raised.value), caplog.text)
        await store.aclose()
        assert server.requests


def test_no_representation_of_an_answer_of_a_catalog_shows_credentials() -> None:
    answer = JsonAnswer(200, {"aws_temp_credentials": {"secret_access_key": "S3CRET"}})
    assert_hidden(repr(answer))
