"""Keys go to the bucket, the host and the endpoint that they were given for, and nowhere else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio.to_thread
import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    InvalidOptionError,
    MissingDataFileError,
    RootNotAllowedError,
    StorageError,
)
from adelta.storage.bucket_names import check_bucket
from adelta.storage.memory import MemoryStore
from adelta.storage.resolve import open_store
from adelta.storage.roots import StoreRoots
from tests.support import logs
from tests.support.listener import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.s3_server import S3Location

SSE_KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
SECRETS = ("AKIDTABLE", "TOKENTABLE", SSE_KEY)
KEYS = {
    "aws_access_key_id": "AKIDTABLE",
    "aws_secret_access_key": "SECRET",
    "aws_session_token": "TOKENTABLE",
    "aws_server_side_encryption": "sse-c",
    "aws_sse_customer_key_base64": SSE_KEY,
    "aws_region": "us-east-1",
    "aws_allow_http": "true",
    "max_retries": "0",
}


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    async with Listener() as listener:
        yield listener


@pytest.fixture
async def elsewhere() -> AsyncIterator[Listener]:
    async with Listener() as listener:
        yield listener


async def _located(path: str, options: dict[str, str], uri: str = "s3://mine/table") -> None:
    """Ask for what a log calls `path`."""
    roots = StoreRoots(open_store(uri, options), options)
    try:
        store, below = roots.locate(path, path)
        await store.get(below)
    finally:
        await roots.aclose()


@pytest.mark.parametrize("style", ["true", "false"])
@pytest.mark.parametrize(
    "bucket", ["{}#", "{}?", "{}\\", "{}:80#@", "..", "a%0d%0ab", "user@{}", "other"]
)
async def test_a_log_sends_no_request_to_another_bucket_or_host(
    listener: Listener, elsewhere: Listener, style: str, bucket: str
) -> None:
    options = KEYS | {
        "aws_endpoint_url": listener.endpoint,
        "aws_virtual_hosted_style_request": style,
    }
    path = f"s3://{bucket.format(elsewhere.address)}/private.parquet"
    with pytest.raises(RootNotAllowedError, match="private"):
        await _located(path, options, "s3://127/table")  # with which that host is virtual-hosted
    assert elsewhere.connections == listener.connections == 0


async def test_a_local_table_signs_nothing(
    tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (KEYS | {"aws_endpoint_url": listener.endpoint}).items():
        monkeypatch.setenv(name.upper(), value)
    store = open_store(str(tmp_path / "table"))
    beacon = logs.add("s3://bucket/beacon.parquet", size=100)
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata(), beacon)
    async with adelta.open_table(tmp_path / "table") as table:
        with pytest.raises(RootNotAllowedError, match="allowed_roots=s3://bucket"):
            await (await table.snapshot()).scan().to_arrow()
    assert listener.connections == 0


@pytest.mark.parametrize("style", ["true", "false"])
async def test_a_root_in_the_same_bucket_is_opened_with_the_table_s_keys(
    listener: Listener, style: str
) -> None:
    options = KEYS | {
        "aws_endpoint_url": listener.endpoint,
        "aws_virtual_hosted_style_request": style,
        "allowed_roots": "s3a://127/other",
    }
    listener.objects |= {"/other/x": b"1", "/127/other/x": b"1"}
    await _located("s3://127/other/x", options, "s3://127/table")
    await _located("/other/x", options, "s3://127/table")
    assert len(listener.heard) == 2
    assert all(request.bears(secret) for request in listener.heard for secret in SECRETS)
    with pytest.raises(RootNotAllowedError):
        await _located("/otherwise/x", options, "s3://127/table")


async def test_a_root_in_another_bucket_has_keys_of_its_own(
    listener: Listener, elsewhere: Listener
) -> None:
    own = {
        "aws_access_key_id": "AKIDOTHER",
        "aws_secret_access_key": "S",
        "aws_region": "eu-north-1",
        "aws_endpoint_url": elsewhere.endpoint,
        "aws_allow_http": "true",
    }
    options = KEYS | {
        "aws_endpoint_url": listener.endpoint,
        "allowed_roots": json.dumps({"s3://other/lake": own, "s3://mine": None}),
    }
    elsewhere.objects["/other/lake/x"] = b"1"
    listener.objects["/mine/x"] = b"1"
    await _located("s3a://other/lake/x", options)
    await _located("s3://mine/x", options)
    (theirs,), (ours,) = elsewhere.heard, listener.heard
    assert theirs.bears("AKIDOTHER")
    assert not theirs.bears(*SECRETS)
    assert ours.bears("AKIDTABLE")
    assert not ours.bears("AKIDOTHER")


@pytest.mark.parametrize("table", ["s3://mine/table", "/mine/table", "memory://mine/table"])
async def test_a_root_without_keys_of_its_own_is_opened_as_the_environment_says(
    listener: Listener, elsewhere: Listener, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    environment = {
        "AWS_ACCESS_KEY_ID": "AKIDPROCESS",
        "AWS_SECRET_ACCESS_KEY": "S",
        "AWS_REGION": "eu-north-1",
        "AWS_ENDPOINT_URL": elsewhere.endpoint,
        "AWS_ALLOW_HTTP": "true",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    options = KEYS | {"aws_endpoint_url": listener.endpoint, "allowed_roots": "s3://other"}
    elsewhere.objects["/other/x"] = b"1"
    await _located("s3://other/x", options, table)
    (request,) = elsewhere.heard
    assert request.bears("AKIDPROCESS")
    assert not request.bears(*SECRETS)
    assert listener.connections == 0


async def test_redirects_are_not_followed_to_other_hosts(
    listener: Listener, elsewhere: Listener
) -> None:
    for status in ("301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Moved"):
        listener.status = status
        listener.headers = f"location: {elsewhere.endpoint}/mine/x\r\n"
        with pytest.raises(StorageError):
            await _located("x", KEYS | {"aws_endpoint_url": listener.endpoint})
    assert elsewhere.connections == 0


@pytest.mark.parametrize(
    ("region", "moves"),
    [("eu-north-1", True), ("evil.example/", False), ("x#", False), ("a.b", False), ("", False)],
)
async def test_a_region_that_an_answer_names_is_part_of_amazon_s_own_hosts(
    certificate: Path, region: str, moves: bool
) -> None:
    async with Listener(certificate) as proxy:
        proxy.status = "301 Moved Permanently"
        proxy.headers = f"x-amz-bucket-region: {region}\r\n"
        options = KEYS | {"proxy_url": proxy.endpoint, "allow_invalid_certificates": "true"}
        with pytest.raises(StorageError):
            await _located("x", options)
        hosts = ["mine.s3.us-east-1.amazonaws.com:443"]
        assert proxy.tunnels == hosts + [f"mine.s3.{region}.amazonaws.com:443"] * moves
        assert [request.host for request in proxy.heard] == proxy.tunnels


@pytest.mark.parametrize("region", ["evil.example/", "x#", "a b", "é"])
async def test_a_region_of_the_options_is_part_of_amazon_s_own_hosts(region: str) -> None:
    with pytest.raises(InvalidOptionError, match="aws_region"):
        await _located("x", KEYS | {"aws_region": region})


# ---------------------------------------------------------------------------------- bucket names


@pytest.mark.parametrize("name", ["abc", "my.bucket-1", "1" * 63, "arn-alias-s3alias", "a.b.c"])
def test_a_bucket_by_the_rules_may_be_part_of_a_host(name: str) -> None:
    assert check_bucket(name, in_host=True) == name


@pytest.mark.parametrize(
    "name",
    ["ab", "a" * 64, "My", "my_bucket", "a..b", "-ab", "ab-", ".ab", "ab.", "1.2.3.4", "of:it"],
)
def test_a_bucket_against_the_rules_is_no_part_of_a_host(name: str) -> None:
    options = KEYS | {"aws_virtual_hosted_style_request": "true"}
    with pytest.raises(InvalidOptionError, match="bucket"):
        open_store(f"s3://{name}/t", options)


@pytest.mark.parametrize("name", ["b", "My_Bucket", "tenant:bucket", "_x_", "a" * 255, "1.2.3.4"])
def test_older_buckets_and_those_of_other_servers_are_a_part_of_the_path(name: str) -> None:
    assert open_store(f"s3://{name}/t", KEYS).uri == f"s3://{name}/t"


@pytest.mark.parametrize(
    "name", ["..", ".", "a b", "a#", "a?", "h:1@x", "a\\", "a\r\nb", "a" * 256, "a%2f"]
)
def test_what_no_store_calls_a_bucket_is_none(name: str) -> None:
    with pytest.raises(InvalidOptionError, match="no name of a bucket"):
        open_store(f"s3://{name}/t", KEYS)


# ------------------------------------------------------------------------------ with a real store


async def test_a_clone_in_another_bucket_is_read_and_changed_where_that_is_allowed(
    s3_location: S3Location,
) -> None:
    bucket = f"private-{s3_location.prefix}"
    options = s3_location.storage_options
    await anyio.to_thread.run_sync(s3_location.server.make_bucket, bucket)
    origin, shared = f"s3://{bucket}/salaries", f"{s3_location.uri}/shared"
    await adelta.write_table(origin, pa.table({"id": [1, 2, 3]}), storage_options=options)
    async with adelta.open_table(origin, options) as table:
        (file,) = await (await table.snapshot()).add_files()
    store = open_store(shared, options)
    line = logs.add(f"{origin}/{file.path}", size=file.size)
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata(), line)

    async def files() -> list[str]:
        return [m.path async for page in store.list() for m in page if "_delta_log" not in m.path]

    with pytest.raises(RootNotAllowedError, match=f"allowed_roots={origin}"):
        await adelta.delete(shared, "id = 1", storage_options=options)
    assert await files() == []
    async with adelta.open_table(shared, options, allowed_roots={origin: options}) as table:
        done = await adelta.delete(table, "id = 1")
        assert done.num_copied_rows == 2
        assert await (await table.snapshot()).scan().count() == 2
    assert len(await files()) == 1
    await store.aclose()


async def test_an_absolute_path_in_the_own_bucket_needs_its_root(s3_location: S3Location) -> None:
    options = s3_location.storage_options
    own = open_store(f"{s3_location.uri}/t", options)
    name = own.uri.replace("s3://", "s3a://")
    await own.put("x y", b"own")
    await own.aclose()
    await _located(f"{name}/x%20y", options, own.uri)
    beside = open_store(f"{s3_location.uri}/tt", options)
    await beside.put("x", b"beside")
    await beside.aclose()
    with pytest.raises(RootNotAllowedError):
        await _located(f"{name}t/x", options, own.uri)
    await _located(f"{name}t/x", options | {"allowed_roots": beside.uri}, own.uri)


async def test_what_is_missing_in_an_allowed_root_is_named() -> None:
    store = MemoryStore()
    line = logs.add("memory://other/lake/x.parquet")
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata(), line)
    options = {"allowed_roots": "memory://other/lake"}
    async with adelta.Table(store.uri, options, store=store) as table:
        with pytest.raises(MissingDataFileError, match=r"memory://other/lake/x\.parquet"):
            await (await table.snapshot()).scan().to_arrow()
