from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta.errors import (
    ConcurrentAppendError,
    InvalidOptionError,
    InvalidPropertyError,
    MetadataChangedError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from adelta.kernel.log_path import commit_path
from adelta.log.commit_reader import read_commit
from adelta.operations import add_columns, create_table, replace_table, write_table
from adelta.table import Table, open_table
from tests.support.stores import CountingStore, WrappedStore

if TYPE_CHECKING:
    from adelta.storage.object_store import ObjectMeta

ROWS = pa.table({"id": [1, 2], "p": ["x", None]})
MORE = pa.table({"id": [3], "p": ["y"]})


def address() -> str:
    return f"memory://{uuid.uuid4()}/table"


async def ids(uri: str) -> list[int]:
    snapshot = await open_table(uri).snapshot()
    return sorted((await snapshot.scan(columns=["id"]).to_arrow()).column("id").to_pylist())


async def parquet_files(uri: str) -> int:
    store = open_table(uri).store
    return len([m async for page in store.list() for m in page if m.path.endswith(".parquet")])


# ------------------------------------------------------------------------------------------- create


async def test_a_new_table_is_empty_and_open() -> None:
    uri = address()
    table = await create_table(
        uri, ROWS.schema, partition_by=["P"], name="n", description="d", properties={"own": "1"}
    )
    snapshot = await table.snapshot()
    assert snapshot.version == 0
    assert snapshot.schema.equals(ROWS.schema)
    assert snapshot.partition_columns == ("p",)
    assert (snapshot.metadata.name, snapshot.metadata.description) == ("n", "d")
    assert snapshot.properties == {"own": "1"}
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (1, 2)
    assert (await snapshot.scan().to_arrow()).num_rows == 0
    info = (await read_commit(table.store, 0)).info
    assert info is not None
    assert info.operation == "CREATE TABLE"
    assert info.operation_parameters == {
        "isManaged": "false",
        "description": "d",
        "partitionBy": '["p"]',
        "clusterBy": "[]",
        "properties": '{"own":"1"}',
    }


async def test_a_table_is_not_created_twice() -> None:
    uri = address()
    await create_table(uri, ROWS.schema)
    with pytest.raises(TableAlreadyExistsError, match="already"):
        await create_table(uri, MORE.schema)
    again = await create_table(uri, pa.schema([("other", pa.int8())]), mode="ignore")
    assert (await again.snapshot()).schema.names == ["id", "p"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["nope"], "no column 'nope' to partition by"),
        (["id", "ID"], "named twice"),
        (["id", "p"], "all of its columns"),
        (["l"], "cannot be partitioned"),
    ],
)
async def test_impossible_partitionings_are_refused(columns: list[str], message: str) -> None:
    fields = [("id", pa.int64()), ("p", pa.string())]
    if columns == ["l"]:
        fields.append(("l", pa.list_(pa.int64())))
    with pytest.raises(SchemaMismatchError, match=message):
        await create_table(address(), pa.schema(fields), partition_by=columns)


async def test_impossible_properties_are_refused_before_anything_is_written() -> None:
    uri = address()
    for properties in ({"delta.nope": "1"}, {"delta.checkpointInterval": "0"}):
        with pytest.raises(InvalidPropertyError):
            await create_table(uri, ROWS.schema, properties=properties)
    with pytest.raises(UnsupportedFeatureError):
        await create_table(uri, ROWS.schema, properties={"delta.feature.tomorrow": "supported"})
    for schema in (object(), {"id": "bigint"}, [1], None):
        with pytest.raises(InvalidOptionError, match=r"is no schema: .*or a text such as 'id big"):
            await create_table(uri, schema)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match=r"'id' is no list of columns: .*write id bigint"):
        await create_table(uri, "id")
    with pytest.raises(InvalidOptionError, match="no mode 'append'"):
        await create_table(uri, ROWS.schema, mode="append")  # type: ignore[arg-type]
    assert [page async for page in open_table(uri).store.list()] in ([], [[]])


async def test_columns_are_defined_by_a_text_as_spark_has_them() -> None:
    uri = address()
    async with await create_table(uri, "id bigint NOT NULL, tags array<string>") as table:
        await add_columns(table, "at timestamp, `end` date", first=True)
        found = (await table.snapshot()).schema
        assert found == pa.schema(
            [
                ("at", pa.timestamp("us", "UTC")),
                ("end", pa.date32()),
                pa.field("id", pa.int64(), nullable=False),
                pa.field("tags", pa.list_(pa.field("element", pa.string()))),
            ]
        )
        await replace_table(table, "id int")
        assert (await table.snapshot()).schema == pa.schema([("id", pa.int32())])


async def test_column_names_that_delta_cannot_hold_are_refused() -> None:
    for names in (["a b"], ["a", "A"]):
        schema = pa.schema([(name, pa.int64()) for name in names])
        with pytest.raises(SchemaMismatchError):
            await create_table(address(), schema)


# -------------------------------------------------------------------------------------------- write


async def test_a_write_creates_the_table_with_its_rows_in_one_commit() -> None:
    uri = address()
    written = await write_table(uri, ROWS, partition_by=["p"], properties={"own": "1"})
    assert (written.version, written.num_files, written.num_output_rows) == (0, 2, 2)
    snapshot = await open_table(uri).snapshot()
    assert snapshot.version == 0
    assert snapshot.partition_columns == ("p",)
    assert snapshot.properties == {"own": "1"}
    assert await ids(uri) == [1, 2]


async def test_properties_that_a_table_does_not_take_on_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They are for a new table."""
    uri = address()
    await write_table(uri, ROWS, properties={"own": "1"})
    await write_table(uri, ROWS, properties={"own": "1", "delta.minWriterVersion": "2"})
    assert not caplog.records
    await write_table(uri, ROWS, properties={"own": "2", "delta.appendOnly": "true"})
    assert "without the delta.appendOnly, own that were asked for; set_prop" in caplog.text
    assert (await open_table(uri).snapshot()).properties == {"own": "1"}


async def test_each_mode_does_what_it_says() -> None:
    uri = address()
    assert (await write_table(uri, ROWS, mode="error")).version == 0
    assert (await write_table(uri, MORE)).version == 1
    assert await ids(uri) == [1, 2, 3]
    with pytest.raises(TableAlreadyExistsError, match="'append', 'overwrite' or 'ignore'"):
        await write_table(uri, MORE, mode="error")
    assert (await write_table(uri, MORE, mode="ignore")).version is None
    assert await ids(uri) == [1, 2, 3]
    replaced = await write_table(uri, MORE, mode="overwrite")
    assert (replaced.version, replaced.num_removed_files) == (2, 2)
    assert await ids(uri) == [3]
    with pytest.raises(InvalidOptionError, match="no mode 'upsert'"):
        await write_table(uri, MORE, mode="upsert")  # type: ignore[arg-type]


async def test_partition_columns_of_an_existing_table_cannot_be_changed_by_a_write() -> None:
    uri = address()
    await write_table(uri, ROWS, partition_by=["p"])
    await write_table(uri, MORE, partition_by=["P"])
    for columns in ([], ["id"]):
        with pytest.raises(SchemaMismatchError, match=r"partitioned by \(p\)"):
            await write_table(uri, MORE, partition_by=columns)


async def test_a_batch_with_an_application_version_is_written_once() -> None:
    uri = address()
    assert (await write_table(uri, ROWS, txn=("app", 1))).version == 0
    assert (await write_table(uri, ROWS, txn=("app", 1))).skipped
    assert (await write_table(uri, MORE, txn=("app", 2))).version == 1
    assert await ids(uri) == [1, 2, 3]


async def test_an_iterator_without_rows_cannot_create_a_table() -> None:
    with pytest.raises(InvalidOptionError, match="call create_table first"):
        await write_table(address(), [])


async def test_an_append_through_an_open_handle_is_four_requests() -> None:
    uri = address()
    await write_table(uri, ROWS)
    store = CountingStore(open_table(uri).store)
    table = Table(uri, store=store)
    await table.snapshot()
    store.clear()
    await write_table(table, MORE)
    kinds = [request.kind for request in store.requests]
    assert sorted(kinds[:2]) == ["get", "put"], "the base, while the rows are uploaded"
    assert kinds[2:] == ["put", "put"], "the commit, and its checksum"


class CreatedMeanwhile(WrappedStore):
    """Another writer creates the table right before our first commit."""

    theirs: pa.Table = ROWS
    done = False

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        if path == commit_path(0) and not self.done:
            self.done = True
            await write_table(self.uri, self.theirs)
        return await super().put_if_absent(path, data)


async def test_an_append_that_loses_the_creation_of_its_table_becomes_the_next_version() -> None:
    uri = address()
    table = Table(uri, store=CreatedMeanwhile(open_table(uri).store))
    written = await write_table(table, MORE, txn=("app", 1))
    assert (written.version, written.num_output_rows) == (1, 1)
    assert await ids(uri) == [1, 2, 3]


@pytest.mark.parametrize("mode", ["overwrite", "error", "ignore"])
async def test_other_modes_that_lose_the_creation_leave_nothing_behind(mode: str) -> None:
    uri = address()
    table = Table(uri, store=CreatedMeanwhile(open_table(uri).store))
    if mode == "ignore":
        assert (await write_table(table, MORE, mode="ignore")).version is None
    else:
        with pytest.raises((MetadataChangedError, TableAlreadyExistsError)):
            await write_table(table, MORE, mode=mode)  # type: ignore[arg-type]
    assert await ids(uri) == [1, 2]
    assert await parquet_files(uri) == 1


async def test_an_append_of_other_columns_that_loses_the_creation_fails_and_cleans_up() -> None:
    uri = address()
    table = Table(uri, store=CreatedMeanwhile(open_table(uri).store))
    with pytest.raises(MetadataChangedError, match="write again"):
        await write_table(table, pa.table({"other": [1]}))
    assert await parquet_files(uri) == 1


async def test_rows_that_do_not_fit_are_refused_by_the_name_of_the_column() -> None:
    uri = address()
    await write_table(uri, ROWS)
    with pytest.raises(SchemaMismatchError, match="'extra'"):
        await write_table(uri, ROWS.append_column("extra", [[1, 2]]))
    assert await parquet_files(uri) == 1


async def test_a_conflicting_overwrite_says_who_won() -> None:
    uri = address()
    await write_table(uri, ROWS)

    class Overtaken(WrappedStore):
        async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
            if path == commit_path(1):
                await write_table(self.uri, MORE)
            return await super().put_if_absent(path, data)

    with pytest.raises(ConcurrentAppendError, match="version 1") as caught:
        await write_table(
            Table(uri, store=Overtaken(open_table(uri).store)), MORE, mode="overwrite"
        )
    assert caught.value.winning_operation == "WRITE"
    assert await ids(uri) == [1, 2, 3]


async def test_an_overwrite_begins_with_the_latest_version_whatever_it_reads_first() -> None:
    uri = address()
    table = await create_table(uri, ROWS.schema, cluster_by=["id"])
    await write_table(table, ROWS)
    await write_table(uri, MORE)
    written = await write_table(table, ROWS, mode="overwrite", cluster_by=["id"])
    assert (written.version, written.num_removed_files) == (3, 2)


async def test_a_table_that_was_dropped_under_a_handle_is_not_there() -> None:
    table = open_table(address())
    await write_table(table, ROWS)
    for mode in ("ignore", "error"):
        await table.store.delete([m.path async for page in table.store.list() for m in page])
        assert (await write_table(table, ROWS, mode=mode)).version == 0
    await table.store.delete([m.path async for page in table.store.list() for m in page])
    with pytest.raises(TableNotFoundError):
        await write_table(table, ROWS)
    assert (await write_table(table, ROWS)).version == 0
