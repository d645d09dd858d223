"""Another definition for a table, and higher protocol versions."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.errors import (
    ConcurrentAppendError,
    InvalidOptionError,
    InvalidPropertyError,
    InvariantViolationError,
    SchemaMismatchError,
    TableNotFoundError,
)
from adelta.operations import (
    create_table,
    detail,
    history,
    identity_column,
    replace_table,
    restore,
    set_properties,
    upgrade_protocol,
    write_table,
)
from adelta.storage.memory import MemoryStore
from adelta.table import Table, open_table
from tests.operations.altered import MODE, ROWS, new_table, read_by_deltalake, rows, schema_of
from tests.support.races import OvertakenStore

if TYPE_CHECKING:
    from pathlib import Path

OTHER = pa.schema([("city", pa.string()), ("id", pa.int64()), ("p", pa.int32())])


def somewhere() -> str:
    return f"memory://{uuid.uuid4()}/table"


async def test_a_definition_replaces_columns_layout_properties_and_rows(tmp_path: Path) -> None:
    uri = str(tmp_path)
    await write_table(uri, ROWS, cluster_by=["id"], properties={"delta.checkpointInterval": "7"})
    async with open_table(uri) as table:
        before = await detail(table)
        done = await replace_table(
            table, OTHER, properties={"mine": "1"}, name="n", description="new", user_metadata="u"
        )
        assert done.version == 1
        after = await detail(table)
        assert (await schema_of(table)).names == ("city", "id", "p")
        assert (after.num_files, dict(after.properties)) == (0, {"mine": "1"})
        assert (after.name, after.description, after.clustering_columns) == ("n", "new", ())
        assert after.id != before.id
        assert after.table_features == before.table_features  # features are dropped by name
        (entry, _) = await history(table)
        assert (entry.operation, entry.user_metadata) == ("REPLACE TABLE", "u")
        assert entry.operation_parameters["properties"] == '{"mine":"1"}'
        assert len(await rows(table)) == 0
        old = await (await table.snapshot(version=0)).scan().to_arrow()
        assert old.num_rows == 2
        await write_table(table, OTHER.empty_table())
        await write_table(table, pa.table({"city": ["Bern"], "id": [1], "p": [2]}, schema=OTHER))
    found = read_by_deltalake(uri, "SELECT * FROM t")
    assert found == [{"city": "Bern", "id": 1, "p": 2}]


async def test_a_table_becomes_partitioned_clustered_or_numbered() -> None:
    table = await new_table(mode="none")
    schema = pa.schema([identity_column("n"), *OTHER])
    await replace_table(table, schema, partition_by=["CITY"])
    assert (await table.snapshot()).partition_columns == ("city",)
    await write_table(
        table, pa.table({"city": ["Bern"], "id": [1], "p": pa.array([2], pa.int32())})
    )
    assert (await rows(table))[0]["n"] == 1
    await replace_table(table, OTHER, cluster_by=["id"])
    assert (await detail(table)).clustering_columns == ("id",)
    await replace_table(table, OTHER, cluster_by=["city"])
    assert (await detail(table)).clustering_columns == ("city",)
    await replace_table(table, OTHER, partition_by=["city"])
    snapshot = await table.snapshot()
    assert (snapshot.partition_columns, (await detail(table)).clustering_columns) == (("city",), ())
    assert "clustering" not in (snapshot.protocol.writer_features or ())
    await set_properties(table, {"mine": "1"})
    with pytest.raises(InvalidPropertyError, match="partitioned"):
        await replace_table(table, OTHER, partition_by=["city"], cluster_by=["id"])
    for version, clustered in ((snapshot.version - 1, ("city",)), (snapshot.version, ())):
        await restore(table, version=version)
        assert (await detail(table)).clustering_columns == clustered
        await set_properties(table, {"mine": str(version)})


async def test_columns_of_the_same_name_and_type_keep_their_ids() -> None:
    def ids(schema: Any) -> dict[str, int]:
        return {f.name: f.metadata["delta.columnMapping.id"] for f in schema.fields}

    table = await new_table()
    before = ids(await schema_of(table))
    await replace_table(table, OTHER, properties={MODE: "name"})
    after = ids(await schema_of(table))
    assert after["id"] == before["id"]
    assert min(after["city"], after["p"]) > max(before.values())
    await replace_table(table, OTHER)
    assert all(not field.metadata for field in await schema_of(table))
    await replace_table(table, OTHER, properties={MODE: "id"})
    await write_table(table, pa.table({"city": ["Bern"], "id": [1], "p": [2]}, schema=OTHER))
    assert (await rows(table))[0]["city"] == "Bern"


async def test_what_was_switched_on_goes_on_where_it_is_asked_for_again() -> None:
    asked = {"delta.enableRowTracking": "true"}
    table = await new_table(mode="none", properties=asked)
    await set_properties(table, {"delta.enableInCommitTimestamps": "true"})
    was = (await table.snapshot()).properties
    await replace_table(
        table, OTHER, properties={**asked, "delta.enableInCommitTimestamps": "true"}
    )
    assert (
        dict((await table.snapshot()).properties).items()
        >= {key: was[key] for key in was if "materialized" in key or "Enablement" in key}.items()
    )
    await write_table(table, pa.table({"city": ["Bern"], "id": [1], "p": [2]}, schema=OTHER))
    (file,) = (await (await table.snapshot()).files()).to_pylist()
    assert file["base_row_id"] == 2  # no id comes again
    await replace_table(table, OTHER)
    assert "delta.inCommitTimestampEnablementVersion" not in (await table.snapshot()).properties
    assert [entry.version for entry in await history(table)] == [4, 3, 2, 1, 0]


async def test_what_is_not_there_is_replaced_only_where_it_may_be_created() -> None:
    uri = somewhere()
    with pytest.raises(TableNotFoundError):
        await replace_table(uri, OTHER)
    assert (await replace_table(uri, OTHER, or_create=True, partition_by=["p"])).version == 0
    assert (await replace_table(uri, OTHER, or_create=True)).version == 1
    async with open_table(uri) as table:
        operations = [entry.operation for entry in await history(table)]
        assert operations == ["CREATE OR REPLACE TABLE"] * 2
        assert (await table.snapshot()).partition_columns == ()


async def test_what_cannot_be_is_refused_and_nothing_is_done() -> None:
    table = await new_table(properties={"delta.appendOnly": "true"})
    with pytest.raises(InvariantViolationError, match="append-only"):
        await replace_table(table, OTHER)
    with pytest.raises(SchemaMismatchError, match="partition by"):
        await replace_table(table, OTHER, partition_by=["nothing"])
    asked = {"delta.feature.catalogManaged": "supported"}
    other = await new_table(mode="none")
    with pytest.raises(InvalidPropertyError, match="managed by a catalog"):
        await replace_table(other, OTHER, properties=asked)
    assert (await table.snapshot()).version == (await other.snapshot()).version == 0


async def test_a_table_that_iceberg_clients_follow_stays_one() -> None:
    asked = {"delta.enableIcebergCompatV3": "true", "delta.enableRowTracking": "true", MODE: "id"}
    table = open_table(somewhere())
    await create_table(table.uri, OTHER, properties=asked)
    with pytest.raises(InvalidPropertyError, match="IcebergCompatV3"):
        await replace_table(table, OTHER)
    await replace_table(table, OTHER, properties=asked)
    assert (await table.snapshot()).version == 1


@pytest.mark.parametrize("properties", [{}, {"delta.isolationLevel": "Serializable"}])
async def test_rows_that_come_meanwhile_are_a_conflict(properties: dict[str, str]) -> None:
    """A blind append, too: its file would be of other columns."""
    memory = MemoryStore()
    theirs = Table(memory.uri, store=memory)
    await write_table(theirs, ROWS, properties=properties)
    store = OvertakenStore(memory, lambda: write_table(theirs, ROWS))
    mine = Table(memory.uri, store=store)
    with pytest.raises(ConcurrentAppendError):
        await replace_table(mine, OTHER)
    assert len(await rows(theirs)) == 4


async def test_protocols_are_raised_and_never_lowered() -> None:
    table = await new_table(mode="none")
    assert (await upgrade_protocol(table, 1, 4)).version == 1
    protocol = (await table.snapshot()).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 4)
    for versions in ((1, 2), (1, 4), (3, 7), (2, 4)):
        assert (await upgrade_protocol(table, *versions)).version is None
    assert (await upgrade_protocol(table, 2, 5)).version == 2
    (entry, *_) = await history(table, 1)
    assert entry.operation == "SET TBLPROPERTIES"
    assert entry.operation_parameters["properties"] == (
        '{"delta.minReaderVersion":"2","delta.minWriterVersion":"5"}'
    )
    for versions in ((4, 7), (1, 8), (3, 6), (0, 2)):
        with pytest.raises(InvalidOptionError, match="no protocol with reader version"):
            await upgrade_protocol(table, *versions)


async def test_a_table_with_a_list_of_features_gets_the_implied_ones_listed() -> None:
    table = await new_table(mode="none", properties={"delta.enableRowTracking": "true"})
    await upgrade_protocol(table, 1, 3)
    found = (await table.snapshot()).protocol
    assert found.min_writer_version == 7
    assert set(found.writer_features or ()) >= {"checkConstraints", "rowTracking", "appendOnly"}
