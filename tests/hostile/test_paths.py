"""Paths that lead out of the table: of data files, deletion vectors, sidecars and change files."""

from __future__ import annotations

import os
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

import anyio
import orjson
import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    InvalidTableError,
    MissingDataFileError,
    RootNotAllowedError,
    UnsupportedFeatureError,
)
from adelta.kernel.deletion_vector.descriptor import encode_relative
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
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


ABSOLUTE = ["{}", "file://{}", "file:{}", "FILE://{}", "file://localhost{}"]


@pytest.mark.parametrize("form", ABSOLUTE)
async def test_an_absolute_path_is_followed_to_roots_that_are_allowed(
    tmp_path: Path, form: str
) -> None:
    store = await _local_table(tmp_path, logs.add(form.format(tmp_path / "secret.parquet")))
    failure = await failure_of(store)
    assert isinstance(failure, RootNotAllowedError)
    assert f"allowed_roots={tmp_path}" in str(failure)
    assert (await everything(store, allowed_roots=str(tmp_path))).num_rows == 7
    assert (await everything(store, allowed_roots="/")).num_rows == 7
    elsewhere = f"{tmp_path}/table, {tmp_path}/secret, {tmp_path}/sec, s3://secret.parquet"
    with pytest.raises(RootNotAllowedError):
        await everything(store, allowed_roots=elsewhere)


@pytest.mark.parametrize("form", ABSOLUTE)
@pytest.mark.parametrize("opened_as", ["table", "current"])
async def test_an_absolute_path_below_the_root_is_in_the_table(
    tmp_path: Path, form: str, opened_as: str
) -> None:
    (tmp_path / "current").symlink_to(tmp_path / "table")
    path = form.format(quote(str(tmp_path / "table" / "x y.parquet")))
    store = await _local_table(tmp_path, logs.add(path))
    await store.put("x y.parquet", parquet())
    assert (await everything(LocalStore(tmp_path / opened_as))).num_rows == 40


@pytest.mark.parametrize("path", ["{}/../secret.parquet", "file://{}/%2e%2e/secret.parquet"])
async def test_an_absolute_path_does_not_climb_out_of_an_allowed_root(
    tmp_path: Path, path: str
) -> None:
    store = await _local_table(tmp_path, logs.add(path.format(tmp_path / "table")))
    with pytest.raises((InvalidTableError, RootNotAllowedError)):
        await everything(store, allowed_roots=str(tmp_path / "table" / "below"))


@pytest.mark.parametrize(
    "path", ["file:///etc/passwd", "file:/etc/passwd", "FILE://localhost/etc/passwd"]
)
async def test_a_table_in_another_store_leads_to_no_local_file(path: str) -> None:
    failure = await failure_of(await table_with(orjson.dumps(logs.add(path))))
    assert isinstance(failure, RootNotAllowedError)
    assert path in str(failure)
    assert "allowed_roots=/etc" in str(failure)


@pytest.mark.parametrize("path", ["file:///etc/passwd", "s3://bucket/x.bin", "memory://x/x.bin"])
async def test_a_deletion_vector_leads_to_no_root_that_is_not_allowed(path: str) -> None:
    vector = DV | {"storageType": "p", "pathOrInlineDv": path}
    line = logs.add("a.parquet", size=len(parquet()), deletionVector=vector)
    failure = await failure_of(await table_with(orjson.dumps(line)))
    assert isinstance(failure, RootNotAllowedError)
    assert path in str(failure)


async def test_a_change_file_leads_to_no_root_that_is_not_allowed(tmp_path: Path) -> None:
    feed = logs.metadata(configuration={"delta.enableChangeDataFeed": "true"})
    path = str(tmp_path / "secret.parquet")
    cdc = {"cdc": {"path": path, "partitionValues": {}, "size": 1, "dataChange": False}}
    store = await _local_table(tmp_path, feed, logs.protocol(1, 4), cdc)
    async with Table("memory://of/tests", store=store) as table:
        with pytest.raises(RootNotAllowedError, match="secret"):
            [batch async for batch in adelta.changes(table)]


async def test_a_path_from_the_top_is_in_the_bucket_of_the_table() -> None:
    name = f"bucket-{uuid.uuid4().hex}"
    store = MemoryStore(name, "lake/table")
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata(), logs.add("/other/x.parquet"))
    await MemoryStore(name).put("other/x.parquet", parquet())
    assert f"allowed_roots=memory://{name}/other" in str(await failure_of(store))
    assert (await everything(store, allowed_roots=f"memory://{name}/other/")).num_rows == 40
    assert (await everything(store, allowed_roots=f"memory://{name}")).num_rows == 40


async def test_a_change_of_rows_copies_none_from_outside(tmp_path: Path) -> None:
    private = f"file://{tmp_path}/secret.parquet"
    store = await _local_table(tmp_path, logs.add(private, size=len(parquet(7))))
    before = {path.name for path in (tmp_path / "table").iterdir()}
    for change in (
        adelta.delete(store.root, "id = 1"),
        adelta.update(store.root, {"id": "9"}, "id = 1"),
        adelta.write_table(
            store.root, pa.table({"id": [1]}), mode="overwrite", replace_where="id = 1"
        ),
    ):
        with pytest.raises(RootNotAllowedError, match="secret"):
            await change
    assert {path.name for path in (tmp_path / "table").iterdir()} == before
    options = {"allowed_roots": str(tmp_path)}
    assert (await adelta.delete(store.root, "id = 1", storage_options=options)).num_copied_rows == 6


# ---------------------------------------------------------------------------------------- links


@pytest.mark.parametrize("kind", ["file", "folder", "chain"])
async def test_a_link_is_followed_to_roots_that_are_allowed(tmp_path: Path, kind: str) -> None:
    store = await _local_table(tmp_path, logs.add("sub/x.parquet"))
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "secret.parquet").rename(outside / "x.parquet")
    sub = tmp_path / "table" / "sub"
    if kind == "file":
        sub.mkdir()
        (sub / "x.parquet").symlink_to(outside / "x.parquet")
    else:
        (tmp_path / "hop").symlink_to(outside)
        sub.symlink_to(outside if kind == "folder" else tmp_path / "hop")
    failure = await failure_of(store)
    assert isinstance(failure, RootNotAllowedError)
    assert f"allowed_roots={outside}" in str(failure)
    async with adelta.open_table(store.root, allowed_roots=outside) as table:
        assert await (await table.snapshot()).scan().count() == 7
        rows = await (await table.snapshot()).scan(where="id >= 0").to_arrow()
    assert rows.num_rows == 7


async def test_a_log_is_not_read_through_a_link_that_leads_out(tmp_path: Path) -> None:
    await adelta.write_table(tmp_path / "private", pa.table({"id": [1]}))
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "_delta_log").symlink_to(tmp_path / "private" / "_delta_log")
    async with adelta.open_table(tmp_path / "table") as table:
        with pytest.raises(RootNotAllowedError, match="link"):
            await table.snapshot()
    options = {"allowed_roots": str(tmp_path / "private")}
    async with adelta.open_table(tmp_path / "table", options) as table:
        assert (await table.snapshot()).version == 0


@pytest.mark.parametrize("folder", ["_sidecars", "_staged_commits"])
async def test_a_linked_folder_of_the_log_is_not_cleaned_up(tmp_path: Path, folder: str) -> None:
    await adelta.write_table(tmp_path / "table", pa.table({"id": [1]}))
    for _ in range(3):
        await adelta.checkpoint(tmp_path / "table")
        await adelta.write_table(tmp_path / "table", pa.table({"id": [1]}))
    precious = tmp_path / "elsewhere" / f"{0:020d}.{uuid.uuid4()}.json"
    precious.parent.mkdir()
    precious.write_bytes(b"1")
    for old in (precious, *(tmp_path / "table" / "_delta_log").iterdir()):
        os.utime(old, (1, 1))
    (tmp_path / "table" / "_delta_log" / folder).symlink_to(precious.parent)
    cleaned = await adelta.cleanup_log(tmp_path / "table", retention=timedelta(days=1))
    assert cleaned.first_version == 2
    assert precious.read_bytes() == b"1"


async def test_links_within_the_table_are_followed(tmp_path: Path) -> None:
    await adelta.write_table(tmp_path / "moved" / "table", pa.table({"id": [1, 2]}))
    (data,) = (tmp_path / "moved" / "table").glob("*.parquet")
    (tmp_path / "moved" / "table" / "kept").mkdir()
    data.rename(data.parent / "kept" / data.name)
    data.symlink_to(data.parent / "kept" / data.name)
    (tmp_path / "link").symlink_to(tmp_path / "moved")  # above the root: the caller named it
    async with adelta.open_table(tmp_path / "link" / "table") as table:
        rows = await (await table.snapshot()).scan(where="id > 1").to_arrow()
    assert rows.num_rows == 1


async def test_fsck_tells_of_what_it_may_not_look_at(tmp_path: Path) -> None:
    linked, absolute = logs.add("sub/x.parquet"), logs.add(f"{tmp_path}/secret.parquet")
    store = await _local_table(tmp_path, linked, absolute)
    (tmp_path / "table" / "sub").symlink_to(tmp_path)
    (tmp_path / "x.parquet").write_bytes(parquet())
    report = await adelta.fsck(store.root, dry_run=False)
    assert [p.path for p in report.problems] == [f"{tmp_path}/secret.parquet", "sub/x.parquet"]
    assert all("allowed_roots" in p.message for p in report.problems)
    assert report.repaired_version is None


@pytest.mark.parametrize(
    "path",
    [
        "gopher://x/y",
        "nosuch://bucket/x",
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
    with anyio.fail_after(60):
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
