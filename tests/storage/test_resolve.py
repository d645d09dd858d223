from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidOptionError
from adelta.storage import is_absolute_uri, open_store, split_uri
from adelta.storage.local import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

S3_OPTIONS = {"aws_access_key_id": "id", "aws_secret_access_key": "s", "aws_region": "r"}


async def test_a_relative_path_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("lake/table %20")
    monkeypatch.chdir("/")
    await store.put("x", b"1")
    assert (tmp_path / "lake" / "table %20" / "x").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("/lake/a%20b", "/lake/a%20b"),
        ("file:///lake/a%20b", "/lake/a b"),
        ("file:/lake/a", "/lake/a"),
        ("file://localhost/lake/a/", "/lake/a"),
        ("FILE:///lake/%C3%A9", "/lake/é"),
        ("file:///", "/"),
    ],
)
def test_file_uris_are_decoded_and_paths_are_not(uri: str, root: str) -> None:
    store = open_store(uri)
    assert isinstance(store, LocalStore)
    assert store.root == root


@pytest.mark.parametrize(
    "uri",
    [
        "/a b/%20é#?",
        "memory://name/a b",
        "s3://bucket/a b/%20",
        "s3a://bucket",
        "file:///x",
        "gs://bucket/a b",
    ],
)
def test_a_store_can_be_opened_again_by_its_uri(uri: str) -> None:
    store = open_store(uri, S3_OPTIONS)
    assert open_store(store.uri, S3_OPTIONS).uri == store.uri


@pytest.mark.parametrize("uri", ["nowhere://bucket/x", "https://host/x", "http://host/x", "S4://b"])
def test_an_unknown_scheme_is_refused_naming_those_there_are(uri: str) -> None:
    with pytest.raises(
        InvalidOptionError, match=r"file://, memory://, s3://, s3a://, gs://, gcs://, az:"
    ):
        open_store(uri)


@pytest.mark.parametrize("uri", ["", "s3://", "s3:///key", "memory:///x", "file://host/x", "s3:/x"])
def test_an_address_without_a_place_is_refused(uri: str) -> None:
    with pytest.raises(InvalidOptionError):
        open_store(uri)


def test_uris_in_logs_are_decoded_whatever_their_scheme() -> None:
    assert split_uri("s3a://b/t%20x/%25.parquet") == ("s3a://b", "t x/%.parquet")
    assert split_uri("file:/lake/t%20x/p") == ("file:///", "lake/t x/p")
    assert split_uri("memory://n/p") == ("memory://n", "p")
    for uri in ("s3://bucket", "s3://bucket/", "relative/path", "nowhere://b/x"):
        with pytest.raises(InvalidOptionError):
            split_uri(uri)


def test_relative_paths_are_told_from_uris() -> None:
    assert is_absolute_uri("s3://b/x")
    assert is_absolute_uri("file:/x")
    assert not is_absolute_uri("part=a%3A/x.parquet")
    assert not is_absolute_uri("time=12:30/x.parquet")
