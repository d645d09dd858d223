"""Debug logging: each request with its status, each retry with its reason, and never a secret."""

from __future__ import annotations

import base64
import logging
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest
from yarl import URL

import adelta
from adelta.errors import InvalidOptionError, StorageError
from adelta.storage.json_http import JsonServer
from adelta.storage.request_log import place
from adelta.storage.resolve import open_store
from tests.storage.faulty_proxy import Fate, FaultyProxy

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.s3_server import S3Location

CUSTOMER_KEY = base64.b64encode(b"S3CRET-of-a-customer-32-bytes-xx").decode()
SECRETS = {
    "aws_access_key_id": "AKIDS3CRET",
    "aws_secret_access_key": "S3CRET-KEY",
    "aws_session_token": "S3CRET-TOKEN",
    "aws_server_side_encryption": "sse-c",
    "aws_sse_customer_key_base64": CUSTOMER_KEY,
}


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def said(caplog: pytest.LogCaptureFixture, name: str = "adelta.storage") -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == name]


async def test_each_request_is_said_with_its_status_and_time(
    s3_location: S3Location, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(s3_location.uri, s3_location.storage_options)
    await store.put("a/b", b"x")
    assert await store.get("a/b") == b"x"
    await store.aclose()
    lines = said(caplog)
    assert len(lines) == 2
    for line, method in zip(lines, ("PUT", "GET"), strict=True):
        assert re.fullmatch(rf"{method} http://\S+/a/b: 200 in \d+\.\d{{3}} s", line), line


async def test_each_retry_is_said_with_its_reason(
    s3_location: S3Location, caplog: pytest.LogCaptureFixture
) -> None:
    async with FaultyProxy(s3_location.server.endpoint) as proxy:
        proxy.fates = [Fate.answer(503, "SlowDown"), Fate.cut_before()]
        options = s3_location.storage_options | {"aws_endpoint_url": proxy.endpoint}
        store = open_store(s3_location.uri, options)
        await store.put("a", b"x")
        await store.aclose()
    assert (dict(store.stats.requests), store.stats.retries) == ({"put": 3}, 2)
    first, again, lost, once_more, last = said(caplog)
    assert ": 503 in " in first
    assert re.search(r"PUT s3://\S+/a: again in \d\.\d+ s, because it was throttled$", again)
    assert re.search(r": no answer, \w+ in ", lost)
    assert once_more.endswith("because it was lost")
    assert ": 200 in " in last


async def test_a_catalog_s_requests_are_said_too(caplog: pytest.LogCaptureFixture) -> None:
    async with FaultyProxy("http://127.0.0.1:9") as proxy:
        proxy.fates = [Fate.answer(503), Fate.answer(404)]
        server = JsonServer(f"{proxy.endpoint}/api", token="S3CRET-TOKEN")
        await server.get("tables", {"token": "S3CRET"})
        await server.aclose()
    first, again, last = said(caplog)
    assert re.search(r"^GET http://127\.0\.0\.1:\d+/api/tables: 503 in ", first)
    assert again.endswith("because its status is 503")
    assert ": 404 in " in last
    assert "S3CRET" not in "".join(said(caplog))


async def test_no_line_has_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    async with FaultyProxy("http://127.0.0.1:9") as proxy:
        proxy.choose = lambda _method, _target: Fate.answer(503, "S3CRET-TOKEN")
        options = SECRETS | {
            "aws_region": "us-east-1",
            "aws_allow_http": "true",
            "aws_endpoint_url": "http://127.0.0.1:9",
            "proxy_url": proxy.endpoint.replace("://", "://user:S3CRET@"),
            "max_retries": "1",
        }
        for store in (
            open_store("s3://bucket/t", options),
            open_store("s3://bucket/t", options | {"proxy_url": "http://user:S3CRET@127.0.0.1:9"}),
        ):
            for work in (store.get("a"), store.put("a", b"x"), anext(store.list(""))):
                with suppress(StorageError):
                    await work
            await store.aclose()
        assert proxy.seen
    lines = said(caplog)
    assert sum(": 503 in " in line for line in lines) == 6
    assert sum(", because " in line for line in lines) == 6
    for record in caplog.records:
        if record.name.startswith("adelta"):
            for secret in ("S3CRET", CUSTOMER_KEY, "Authorization", "Signature", "?"):
                assert secret not in record.getMessage()


async def test_a_key_of_several_lines_is_said_in_one(caplog: pytest.LogCaptureFixture) -> None:
    async with FaultyProxy("http://127.0.0.1:9") as proxy:
        proxy.choose = lambda _method, _target: Fate.answer(503, "SlowDown")
        options = SECRETS | {
            "aws_region": "us-east-1",
            "aws_allow_http": "true",
            "aws_endpoint_url": proxy.endpoint,
            "max_retries": "1",
        }
        store = open_store("s3://bucket/t", options)
        with suppress(StorageError):
            await store.get("a\nCRITICAL all is lost\x1b[31m")
        await store.aclose()
    assert all(line.isprintable() for line in said(caplog))
    assert any(r"a\nCRITICAL" in line for line in said(caplog))


@pytest.mark.parametrize("part", ["?token=S3CRET", "#S3CRET"])
def test_an_address_of_a_catalog_with_a_query_is_refused_without_saying_it(part: str) -> None:
    with pytest.raises(InvalidOptionError, match="without user and query"):
        JsonServer(f"http://127.0.0.1:9/api{part}")


def test_an_address_is_said_without_user_password_query_and_fragment() -> None:
    signed = URL("https://me:S3CRET@host:8443/b/k%20x?X-Amz-Signature=S3CRET#S3CRET", encoded=True)
    assert place(signed) == "https://host:8443/b/k%20x"


async def test_nothing_is_said_above_debug(
    s3_location: S3Location, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = open_store(s3_location.uri, s3_location.storage_options)
    await store.put("a", b"x")
    await store.aclose()
    assert not said(caplog)


async def test_a_lost_race_is_said_with_the_winner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows, uri = pa.table({"id": [1]}), str(tmp_path / "t")
    await adelta.write_table(uri, rows)
    async with adelta.open_table(uri) as table, table.transaction() as tx:
        await tx.append(rows)
        deltalake.write_deltalake(uri, rows, mode="append")
    assert tx.version == 2
    (line,) = (each for each in said(caplog, "adelta.transaction") if "another commit's" in each)
    assert line.startswith(f"file://{uri}: version 1 is another commit's, of operation 'WRITE'")
