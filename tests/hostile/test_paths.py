"""Paths that lead out of the table: of data files, deletion vectors, sidecars and change files."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import anyio
import orjson
import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidTableError, MissingDataFileError, UnsupportedFeatureError
from adelta.kernel.deletion_vector.descriptor import encode_relative
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from adelta.storage.roots import StoreRoots
from adelta.table import Table
from tests.hostile.reading import DV, everything, failure_of, parquet, table_with
from tests.support import logs

if TYPE_CHECKING:
    from pathlib import Path

OUTSIDE = [
    "../secret.parquet",
    "x/../../secret.parquet",
    "./../secret.parquet",
    "%2e%2e/secret.parquet",
    "%2E%2E%2Fsecret.parquet",
    "..%2fsecret.parquet",
    "x/%2e%2e/%2e%2e/secret.parquet",
    "",
    ".",
    "x//y.parquet",
    "a\x00.parquet",
    "a%00.parquet",
    "//elsewhere/secret.parquet",
]


async def _local_table(path: Path, *lines: logs.Line) -> LocalStore:
    (path / "secret.parquet").write_bytes(parquet(7))
    store = LocalStore(path / "table")
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata(), *lines)
    return store


@pytest.mark.parametrize("path", OUTSIDE)
async def test_a_relative_path_never_leaves_the_table(tmp_path: Path, path: str) -> None:
    store = await _local_table(tmp_path, logs.add(path))
    failure = await failure_of(store)
    assert isinstance(failure, InvalidTableError)
    assert repr(path) in str(failure)
    assert "estore" in str(failure)


@pytest.mark.parametrize("path", OUTSIDE)
async def test_a_change_file_never_leaves_the_table(tmp_path: Path, path: str) -> None:
    feed = logs.metadata(configuration={"delta.enableChangeDataFeed": "true"})
    cdc = {"cdc": {"path": path, "partitionValues": {}, "size": 1, "dataChange": False}}
    store = await _local_table(tmp_path, feed, logs.protocol(1, 4), cdc)
    async with Table("memory://of/tests", store=store) as table:
        with pytest.raises(InvalidTableError, match="estore"):
            [batch async for batch in adelta.changes(table)]


@pytest.mark.parametrize("path", [p for p in OUTSIDE if p])
async def test_a_deletion_vector_never_leaves_the_table(tmp_path: Path, path: str) -> None:
    vector = DV | {"storageType": "p", "pathOrInlineDv": path}
    line = logs.add("a.parquet", size=len(parquet()), deletionVector=vector)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    store = await _local_table(tmp_path, logs.protocol(3, 7, **features), line)
    await store.put("a.parquet", parquet())
    assert isinstance(await failure_of(store), InvalidTableError)


async def test_the_random_prefix_of_a_deletion_vector_never_leaves_the_table(
    tmp_path: Path,
) -> None:
    text = encode_relative(uuid.uuid4(), "../../etc")
    vector = DV | {"storageType": "u", "pathOrInlineDv": text}
    line = logs.add("a.parquet", size=len(parquet()), deletionVector=vector)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    store = await _local_table(tmp_path, logs.protocol(3, 7, **features), line)
    await store.put("a.parquet", parquet())
    failure = await failure_of(store)
    assert isinstance(failure, InvalidTableError)
    assert "../../etc" in str(failure)


@pytest.mark.parametrize(
    "name", ["..\\secret.parquet", "%252e%252e/secret.parquet", "..a/b..", "C:\\x"]
)
async def test_what_only_looks_like_a_way_out_is_a_name_in_the_table(
    tmp_path: Path, name: str
) -> None:
    store = await _local_table(tmp_path, logs.add(name))
    assert isinstance(await failure_of(store), MissingDataFileError)
    await store.put(name.replace("%25", "%"), parquet())
    assert (await everything(store)).num_rows == 40


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "FILE://{}", "file://localhost{}"])
async def test_an_absolute_path_is_followed_on_the_local_disk(tmp_path: Path, form: str) -> None:
    path = form.format(tmp_path / "secret.parquet")
    store = await _local_table(tmp_path, logs.add(path))
    assert (await everything(store)).num_rows == 7


@pytest.mark.parametrize(
    "path", ["file:///etc/passwd", "file:/etc/passwd", "FILE://localhost/etc/passwd"]
)
async def test_a_table_in_another_store_leads_to_no_local_file(path: str) -> None:
    failure = await failure_of(await table_with(orjson.dumps(logs.add(path))))
    assert isinstance(failure, InvalidTableError)
    assert "local file" in str(failure)
    assert path in str(failure)


async def test_a_deletion_vector_in_another_store_is_no_local_file() -> None:
    vector = DV | {"storageType": "p", "pathOrInlineDv": "file:///etc/passwd"}
    line = logs.add("a.parquet", size=len(parquet()), deletionVector=vector)
    failure = await failure_of(await table_with(orjson.dumps(line)))
    assert isinstance(failure, InvalidTableError)
    assert "local file" in str(failure)


async def test_a_path_from_the_top_is_in_the_bucket_of_the_table() -> None:
    name = f"bucket-{uuid.uuid4().hex}"
    store = MemoryStore(name, "lake/table")
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata(), logs.add("/other/x.parquet"))
    await MemoryStore(name).put("other/x.parquet", parquet())
    assert (await everything(store)).num_rows == 40
    s3 = StoreRoots(adelta.open_table("s3://b/t", {"aws_region": "x"}).store, {"aws_region": "x"})
    found, below = s3.locate("/x/y", "/x/y")
    assert (found.uri, below) == ("s3://b", "x/y")


@pytest.mark.parametrize(
    "path",
    [
        "gopher://x/y",
        "abfss://c@a.dfs.core.windows.net/x",
        "http://169.254.169.254/x",
        "javascript:/x",
    ],
)
async def test_a_scheme_that_adelta_does_not_read_is_named(path: str) -> None:
    failure = await failure_of(await table_with(orjson.dumps(logs.add(path))))
    assert isinstance(failure, UnsupportedFeatureError)
    assert path in str(failure)


async def test_a_file_uri_of_another_host_is_refused(tmp_path: Path) -> None:
    store = await _local_table(tmp_path, logs.add("file://elsewhere/x.parquet"))
    assert isinstance(await failure_of(store), UnsupportedFeatureError)


async def test_a_path_that_is_too_long_for_the_disk_is_one_error(tmp_path: Path) -> None:
    store = await _local_table(tmp_path, logs.add("x" * 100_000))
    failure = await failure_of(store)
    assert failure is not None
    assert len(str(failure)) < 2000


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
async def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    store = await _local_table(tmp_path, logs.add("x.parquet"))
    place = tmp_path / "table" / "x.parquet"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    else:
        place.mkdir()
    with anyio.fail_after(10):
        failure = await failure_of(store)
    assert failure is not None
    assert "x.parquet" in str(failure)


@pytest.mark.parametrize(
    "path",
    [
        "../../secret.parquet",
        "%2e%2e/x.parquet",
        "/etc/passwd",
        "file:///etc/passwd",
        "s3://b/x",
        "",
    ],
)
async def test_a_sidecar_lies_in_its_own_folder(path: str) -> None:
    store = MemoryStore()
    features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
    await logs.put_commit(store, 0, logs.protocol(3, 7, **features), logs.metadata())
    await logs.put_v2_checkpoint(
        store,
        0,
        [
            logs.protocol(3, 7, **features),
            logs.metadata(),
            {"sidecar": {"path": path, "sizeInBytes": 9, "modificationTime": 1}},
        ],
    )
    await store.delete(["_delta_log/00000000000000000000.json"])
    failure = await failure_of(store)
    assert isinstance(failure, InvalidTableError)
    assert "sidecar" in str(failure)


async def test_a_table_of_files_below_each_other_is_read(tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2]})
    await adelta.write_table(str(tmp_path / "plain"), data)
    async with adelta.open_table(str(tmp_path / "plain")) as table:
        assert (await (await table.snapshot()).scan().to_arrow()).num_rows == 2
