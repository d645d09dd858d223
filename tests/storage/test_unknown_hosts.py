"""Addresses whose host has no such name: said at once, with what names it."""

from __future__ import annotations

import socket

import pytest

from adelta.errors import StorageError
from adelta.storage.http_store import HttpObjectStore
from adelta.storage.resolve import open_store

HOST = "store.adelta.invalid"  # a domain in which there is no name, by RFC 6761
KEYS = {"aws_access_key_id": "id", "aws_secret_access_key": "key", "aws_allow_http": "true"}
NOWHERE = f"http://{HOST}:9000"


def knows_that_there_is_none() -> bool:
    try:
        socket.getaddrinfo(HOST, 9000)
    except socket.gaierror as error:
        return error.errno == socket.EAI_NONAME
    return False


@pytest.mark.skipif(not knows_that_there_is_none(), reason="names are not looked up here")
@pytest.mark.parametrize(
    ("uri", "options", "named"),
    [
        ("s3://lake/t", {**KEYS, "aws_endpoint_url": NOWHERE}, "aws_endpoint_url"),
        (
            "s3://lake/t",
            {**KEYS, "aws_endpoint_url": "http://127.0.0.1:9000", "proxy_url": NOWHERE},
            "proxy_url",
        ),
        (
            "gs://lake/t",
            {"google_skip_signature": "true", "google_base_url": NOWHERE, "allow_http": "true"},
            "google_base_url",
        ),
        (
            "az://lake/t",
            {
                "azure_skip_signature": "true",
                "azure_storage_account_name": "acct",
                "azure_storage_endpoint": NOWHERE,
                "allow_http": "true",
            },
            "azure_storage_endpoint",
        ),
        (f"hdfs://{HOST}/t", {"hadoop_user_name": "me"}, "dfs.namenode.http-address"),
    ],
    ids=["s3", "proxy", "gcs", "azure", "hdfs"],
)
async def test_a_host_that_is_not_there_is_named_at_once(
    uri: str, options: dict[str, str], named: str
) -> None:
    store = open_store(uri, options)
    assert isinstance(store, HttpObjectStore)
    with pytest.raises(StorageError, match=f"there is no host '{HOST}'; check .*{named}"):
        await store.get("x")
    assert store.request_count == 1
    await store.aclose()
