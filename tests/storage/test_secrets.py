"""Passwords, tokens and signatures: no message, representation or chain of errors shows them."""

from __future__ import annotations

import logging
import pickle
import time
import traceback
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta._secrets import without_secrets
from adelta.commit.postgresql import PostgresCoordinator
from adelta.errors import AdeltaError, InvalidOptionError, StorageError
from adelta.storage.http import HttpOptions
from adelta.storage.json_http import JsonServer
from adelta.storage.memory import MemoryStore
from adelta.storage.s3_options import parse_options

if TYPE_CHECKING:
    from collections.abc import Iterator

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
