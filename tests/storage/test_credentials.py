from __future__ import annotations

import asyncio
import json
import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidOptionError, PermissionDeniedError, StorageError
from adelta.storage import credentials
from adelta.storage.credentials import AccessProvider
from adelta.storage.renewal import Renewed
from adelta.storage.s3 import S3Store
from adelta.storage.s3_options import parse_options
from tests.storage.faulty_proxy import Fate, FaultyProxy
from tests.support.s3_server import moto_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.s3_server import S3Location


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "ENDPOINT_URL"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
async def proxy(s3_location: S3Location) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(s3_location.server.endpoint) as proxy:
        yield proxy


async def test_a_profile_gives_keys_region_and_endpoint(
    tmp_path: Path, s3_location: S3Location
) -> None:
    server = s3_location.server
    (tmp_path / "config").write_text(
        f"[profile lake]\nregion = eu-central-1\nendpoint_url = {server.endpoint}\n"
        f"aws_access_key_id = {server.access_key}\naws_secret_access_key = {server.secret_key}\n"
    )
    options = {"aws_profile": "lake", "aws_allow_http": "true"}
    access = await AccessProvider(parse_options(options)).current()
    assert (access.region, access.endpoint) == ("eu-central-1", server.endpoint)
    store = S3Store.from_options(s3_location.bucket, s3_location.prefix, options)
    await store.put("x", b"1")
    assert await store.get("x") == b"1"
    await store.aclose()
    with pytest.raises(InvalidOptionError, match="aws_allow_http"):
        await AccessProvider(parse_options({"aws_profile": "lake"})).current()


async def test_no_keys_anywhere_is_said_with_what_to_do() -> None:
    provider = AccessProvider(parse_options({"aws_region": "us-east-1"}))
    with pytest.raises(PermissionDeniedError, match="aws_skip_signature=true"):
        await provider.current()
    provider = AccessProvider(parse_options({"aws_profile": "none-such"}))
    with pytest.raises(PermissionDeniedError, match="none-such"):
        await provider.current()


async def test_given_keys_need_no_aws_library() -> None:
    options = {"aws_access_key_id": "i", "aws_secret_access_key": "s", "aws_region": "r"}
    provider = AccessProvider(parse_options(options, {}))
    access = provider.peek()
    assert access is not None
    assert access.region == "r"
    unsigned = AccessProvider(parse_options({"aws_skip_signature": "true"}, {})).peek()
    assert unsigned is not None
    assert unsigned.credentials is None


def process_profile(tmp_path: Path, server_keys: dict[str, str], lifetime: timedelta) -> Path:
    """A profile whose keys come from a program that notes how often it ran."""
    calls = tmp_path / "calls"
    calls.write_text("")
    answer = {
        "Version": 1,
        "AccessKeyId": server_keys["aws_access_key_id"],
        "SecretAccessKey": server_keys["aws_secret_access_key"],
        "Expiration": (datetime.now(UTC) + lifetime).isoformat(),
    }
    program = tmp_path / "keys.py"
    program.write_text(f"open({str(calls)!r}, 'a').write('x')\nprint({json.dumps(answer)!r})\n")
    (tmp_path / "config").write_text(
        f"[profile lake]\ncredential_process = {sys.executable} {program}\n"
    )
    return calls


def lake_options(location: S3Location, endpoint: str) -> dict[str, str]:
    return {"aws_profile": "lake", "aws_endpoint_url": endpoint, "aws_allow_http": "true"}


async def test_an_expired_token_is_renewed_once_and_the_request_made_again(
    tmp_path: Path, s3_location: S3Location, proxy: FaultyProxy
) -> None:
    calls = process_profile(tmp_path, s3_location.storage_options, timedelta(hours=1))
    options = lake_options(s3_location, proxy.endpoint)
    store = S3Store.from_options(s3_location.bucket, s3_location.prefix, options)
    await store.put("x", b"1")
    ran = len(calls.read_text())
    proxy.fates = [Fate.answer(400, "ExpiredToken")]
    assert await store.get("x") == b"1"
    assert len(calls.read_text()) == 2 * ran
    proxy.fates = [Fate.answer(400, "ExpiredToken")] * 2
    with pytest.raises(PermissionDeniedError, match="ExpiredToken"):
        await store.get("x")
    await store.aclose()


async def test_a_given_token_that_expired_is_not_tried_again(
    s3_location: S3Location, proxy: FaultyProxy
) -> None:
    options = {**s3_location.storage_options, "aws_endpoint_url": proxy.endpoint}
    store = S3Store.from_options(s3_location.bucket, s3_location.prefix, options)
    proxy.fates = [Fate.answer(400, "ExpiredToken")]
    with pytest.raises(PermissionDeniedError, match="storage options"):
        await store.get("x")
    assert len(proxy.seen) == 1
    await store.aclose()


@pytest.mark.parametrize(("minutes", "renewed"), [(10, True), (60, False)])
async def test_keys_are_renewed_ahead_of_their_end(
    tmp_path: Path,
    s3_location: S3Location,
    monkeypatch: pytest.MonkeyPatch,
    minutes: int,
    renewed: bool,
) -> None:
    monkeypatch.setattr(credentials, "_LOOK_EVERY", 0.0)
    calls = process_profile(tmp_path, s3_location.storage_options, timedelta(minutes=minutes))
    options = lake_options(s3_location, s3_location.server.endpoint)
    provider = AccessProvider(parse_options(options))
    await provider.current()
    before = len(calls.read_text())
    await provider.current()
    assert (len(calls.read_text()) > before) is renewed


async def test_keys_that_cannot_be_renewed_yet_are_used_to_their_end(
    tmp_path: Path, s3_location: S3Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_LOOK_EVERY", 0.0)
    process_profile(tmp_path, s3_location.storage_options, timedelta(minutes=5))
    options = lake_options(s3_location, s3_location.server.endpoint)
    provider = AccessProvider(parse_options(options))
    access = await provider.current()
    (tmp_path / "keys.py").write_text("raise SystemExit(1)")
    assert await provider.current() == access


async def test_nobody_goes_on_with_keys_that_are_over_while_another_renews_them() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def fetch() -> str:
        begun.set()
        goes_on.wait(20)
        return "new"

    keys = Renewed(fetch, "old")
    renewing = asyncio.ensure_future(keys.ahead("old", lambda: False))
    await asyncio.to_thread(begun.wait, 20)
    assert await keys.ahead("old", lambda: False) == "old"
    late = asyncio.ensure_future(keys.ahead("old", lambda: True))
    await asyncio.wait({late}, timeout=0.02)
    assert not late.done()
    goes_on.set()
    assert await asyncio.gather(renewing, late) == ["new", "new"]


async def test_roles_are_assumed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a.web.token\n")
    with moto_server() as server:
        options = {
            **server.storage_options,
            "aws_iam_role_arn": "arn:aws:iam::123456789012:role/reader",
            "aws_sts_endpoint": server.endpoint,
        }
        access = await AccessProvider(parse_options(options)).current()
        assert access.credentials is not None
        assert access.credentials.session_token
        assert access.credentials.access_key_id != server.access_key
        assert access.credentials.source == f"assumed role {options['aws_iam_role_arn']}"
        options["aws_web_identity_token_file"] = str(token)
        access = await AccessProvider(parse_options(options)).current()
        assert access.credentials is not None
        assert access.credentials.session_token
        options["aws_web_identity_token_file"] = str(tmp_path / "none")
        with pytest.raises(PermissionDeniedError, match="web identity token"):
            await AccessProvider(parse_options(options)).current()


async def test_a_server_of_roles_that_is_away_denies_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    options = {
        "aws_access_key_id": "x",
        "aws_secret_access_key": "y",
        "aws_region": "us-east-1",
        "aws_role_arn": "arn:aws:iam::123456789012:role/reader",
        "aws_sts_endpoint": "http://127.0.0.1:9",
    }
    store = S3Store.from_options("bucket", "", options)
    with pytest.raises(StorageError, match="try again later") as raised:
        await store.get("x")
    assert not isinstance(raised.value, PermissionDeniedError)
    await store.aclose()


async def test_the_region_that_the_store_names_is_signed_for(
    s3_location: S3Location, proxy: FaultyProxy
) -> None:
    options = {**s3_location.storage_options, "aws_endpoint_url": proxy.endpoint}
    store = S3Store.from_options(s3_location.bucket, s3_location.prefix, options)
    await store.put("x", b"1")
    proxy.fates = [Fate.answer(400, "AuthorizationHeaderMalformed", region="eu-west-3")]
    assert await store.get("x") == b"1"
    assert await store.get("x") == b"1"
    assert len(proxy.seen) == 4
    await store.aclose()
