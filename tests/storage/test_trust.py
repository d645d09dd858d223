"""Whose certificates are trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import certifi
import pytest

from adelta.errors import InvalidOptionError, StorageError
from adelta.storage.credentials import AccessProvider
from adelta.storage.dynamodb import DynamoTable
from adelta.storage.dynamodb_options import parse_dynamo_options
from adelta.storage.json_http import JsonServer
from adelta.storage.s3_options import parse_options
from tests.storage.scripted_server import Server, told
from tests.storage.test_proxies import ROLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from adelta.storage.s3 import S3Store

KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region": "us-east-1"}


@pytest.fixture(autouse=True)
def nobodys_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)


def answer(number: int, head: str) -> Iterator[bytes]:
    if "x-amz-target" in head.lower():
        return told("{}")
    return told(ROLE if head.startswith("POST") else "hello")


async def got(store: S3Store) -> bytes:
    try:
        return await store.get("x")
    finally:
        await store.aclose()


async def test_a_server_is_trusted_by_the_bundle_of_the_options_or_of_the_environment(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Server(answer, certificate) as server:
        with pytest.raises(StorageError, match="the certificate is not trusted"):
            await got(server.store())
        assert await got(server.store(aws_ca_bundle=str(certificate))) == b"hello"
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
        assert await got(server.store()) == b"hello"
        catalog = JsonServer(server.endpoint)  # which is no service of AWS
        with pytest.raises(StorageError, match="certificate verify failed"):
            await catalog.post("x", {})
        await catalog.aclose()


async def test_a_server_is_trusted_by_the_bundle_of_the_profile(
    certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(
        f"[profile lake]\nca_bundle = {certificate}\naws_access_key_id = a\n"
        "aws_secret_access_key = b\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    async with Server(answer, certificate) as server:
        store = server.store(aws_profile="lake", aws_skip_signature="false")
        assert await got(store) == b"hello"


async def test_a_bundle_is_trusted_alone(certificate: Path) -> None:
    async with Server(answer, certificate) as server:
        with pytest.raises(StorageError, match="the certificate is not trusted"):
            await got(server.store(aws_ca_bundle=certifi.where()))


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_a_bundle_that_is_none_is_refused(
    content: str | None, certificate: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle.pem"
    if content is not None:
        bundle.write_text(content)
    async with Server(answer, certificate) as server:
        with pytest.raises(InvalidOptionError, match=r"AWS_CA_BUNDLE: .*bundle\.pem' is no file"):
            await got(server.store(aws_ca_bundle=str(bundle)))


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "SSL_CERT_FILE"])
async def test_sts_and_dynamodb_are_trusted_as_s3_is(
    name: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Server(answer, certificate) as server:
        role = {"aws_role_arn": "arn:aws:iam::1:role/x", "aws_sts_endpoint": server.endpoint}
        monkeypatch.setenv(name, str(certificate))
        access = await AccessProvider(parse_options({**KEYS, **role})).current()
        assert access.credentials is not None
        assert access.credentials.session_token == "c"
        options = parse_dynamo_options({**KEYS, "aws_endpoint_url_dynamodb": server.endpoint})
        table = DynamoTable(options, partition="p", sort="s")
        assert await table.get("p", "s") is None
        await table.aclose()
