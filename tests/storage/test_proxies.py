"""Which requests go through which proxy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidOptionError
from adelta.storage import azure_auth, gcs_auth
from adelta.storage.azure_options import parse_azure_options
from adelta.storage.credentials import AccessProvider
from adelta.storage.dynamodb import DynamoTable
from adelta.storage.dynamodb_options import parse_dynamo_options
from adelta.storage.gcs_options import parse_gcs_options
from adelta.storage.http import HttpOptions, proxy_for
from adelta.storage.s3 import S3Store
from adelta.storage.s3_client import S3Client
from adelta.storage.s3_options import parse_options
from tests.storage.scripted_server import Server, told

if TYPE_CHECKING:
    from collections.abc import Iterator

PROXY = "http://proxy:3128"
OTHER = "http://other:3128"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("environment", "origin", "proxy"),
    [
        ({}, "https://s3.example", None),
        ({"HTTPS_PROXY": PROXY}, "https://s3.example", PROXY),
        ({"HTTPS_PROXY": PROXY}, "http://s3.example", None),
        ({"ALL_PROXY": PROXY}, "https://s3.example", PROXY),
        ({"all_proxy": PROXY}, "http://s3.example", PROXY),
        ({"ALL_PROXY": PROXY, "HTTPS_PROXY": OTHER}, "https://s3.example", OTHER),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "s3.example"}, "https://s3.example", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": ".example"}, "https://s3.example:9000", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "x, example"}, "https://s3.example", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "*"}, "https://s3.example", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "s3.example.org"}, "https://s3.example", PROXY),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, "http://10.1.2.3:9000", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8,x"}, "http://11.1.2.3:9000", PROXY),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "fd00::/8"}, "http://[fd00::1]:9000", None),
    ],
)
def test_the_proxy_of_an_address(
    environment: dict[str, str], origin: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(origin, HttpOptions()) == proxy
    assert proxy_for(origin, HttpOptions(proxy_url="http://given:1")) == "http://given:1"


def test_a_proxy_of_another_kind_is_refused_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    with pytest.raises(InvalidOptionError, match="the variable all_proxy is no address"):
        proxy_for("https://s3.example", HttpOptions())


ROLE = (
    "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>a</AccessKeyId>"
    "<SecretAccessKey>b</SecretAccessKey><SessionToken>c</SessionToken>"
    "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult>"
    "</AssumeRoleResponse>"
)


async def test_s3_sts_and_dynamodb_are_all_reached_through_the_proxy_of_all_schemes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def answer(number: int, head: str) -> Iterator[bytes]:
        asked.append(head.split(" ")[1].split("/")[2])
        return told({"sts.invalid": ROLE, "dynamodb.invalid": "{}"}.get(asked[-1], "hello"))

    options = {
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
        "max_retries": "0",
    }
    async with Server(answer) as server:
        monkeypatch.setenv("ALL_PROXY", server.endpoint)
        store = S3Store.from_options(
            "bucket", "", {**options, "aws_endpoint_url": "http://s3.invalid"}
        )
        assert await store.get("x") == b"hello"
        await store.aclose()
        role = {"aws_role_arn": "arn:aws:iam::1:role/x", "aws_sts_endpoint": "http://sts.invalid"}
        access = await AccessProvider(parse_options({**options, **role})).current()
        assert access.credentials is not None
        assert access.credentials.session_token == "c"
        table = DynamoTable(
            parse_dynamo_options(
                {**options, "aws_endpoint_url_dynamodb": "http://dynamodb.invalid"}
            ),
            partition="p",
            sort="s",
        )
        assert await table.get("p", "s") is None
        await table.aclose()
    assert asked == ["s3.invalid", "sts.invalid", "dynamodb.invalid"]


async def test_a_bucket_that_is_in_another_region_is_reached_by_the_proxy_of_that_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", ".eu-west-1.amazonaws.com")
    options = parse_options(
        {"aws_region": "us-east-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    )
    client = S3Client("bucket", options)
    assert (await client.aim()).proxy == PROXY
    client.move("eu-west-1")
    assert (await client.aim()).proxy is None
    await client.aclose()


def test_tokens_of_google_and_azure_are_asked_for_on_the_way_that_the_options_say() -> None:
    pytest.importorskip("google.auth")
    given = {"proxy_url": PROXY, "ca_bundle": "/ca.pem"}
    session = gcs_auth._transport(parse_gcs_options(given, {})).func.session
    assert (session.proxies, session.verify) == ({"https": PROXY}, "/ca.pem")
    client = {"client_id": "c", "tenant_id": "t", "account_name": "acct"}
    patience = {"connection_timeout": 5.0, "read_timeout": 30.0}
    way = {**patience, "proxies": {"http": PROXY, "https": PROXY}, "connection_verify": "/ca.pem"}
    named = SimpleNamespace(
        ClientSecretCredential=lambda *_, **named: named,
        ManagedIdentityCredential=lambda **named: named,
    )
    for more, said in (({"client_secret": "s"}, way), ({}, {**patience, "client_id": "c"})):
        options = parse_azure_options(None, {**given, **client, **more}, {})
        assert azure_auth._credential(named, options.identity, options.http) == said
