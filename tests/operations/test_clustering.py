"""Columns by which rows are to be kept together (PROTOCOL.md, "Clustered Table")."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pytest

from adelta.errors import (
    ConcurrentTransactionError,
    InvalidOptionError,
    InvalidPropertyError,
    InvalidUseError,
    SchemaMismatchError,
)
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.operations import (
    AlterMetrics,
    add_columns,
    change_column,
    cluster_by,
    create_table,
    detail,
    drop_columns,
    drop_feature,
    history,
    optimize,
    rename_column,
    set_properties,
    write_table,
)
from adelta.operations.clustering import clustered_by
from adelta.storage.memory import MemoryStore
from adelta.table import Table, open_table
from tests.operations.altered import MODE, ROWS, new_table
from tests.support.races import OvertakenStore

if TYPE_CHECKING:
    from pathlib import Path

DOMAIN = "delta.clustering"


async def columns(table: Table) -> Any:
    known = await (await table.snapshot()).domain_metadata()
    return orjson.loads(known[DOMAIN])["clusteringColumns"]


async def test_a_write_creates_a_table_that_is_clustered(tmp_path: Path) -> None:
    """B12-06, B12-07: one commit has the rows and the columns, under their physical names."""
    uri = str(tmp_path)
    await write_table(uri, ROWS, cluster_by=["ID", "s.a"], properties={MODE: "name"})
    async with open_table(uri) as table:
        schema = (await table.snapshot()).delta_schema
        names = [f.metadata["delta.columnMapping.physicalName"] for f in schema.fields]
        (first, second) = await columns(table)
        assert (first, second[0], len(second)) == ([names[0]], names[2], 2)
        (entry,) = await history(table)
        assert entry.operation == "WRITE"
        assert orjson.loads(entry.operation_parameters["clusterBy"]) == ["ID", "s.a"]
        assert (await table.snapshot()).version == 0
        assert "clustering" in ((await table.snapshot()).protocol.writer_features or ())

        await write_table(table, ROWS, cluster_by=["id", "S.A"])
        await write_table(table, ROWS, mode="overwrite", schema_mode="overwrite")
        assert len(await columns(table)) == 2
        for wanted in (["s.a", "id"], ["id"], []):
            with pytest.raises(SchemaMismatchError, match=r"is clustered by \(id, s\.a\), not by"):
                await write_table(table, ROWS, cluster_by=wanted)
        with pytest.raises(SchemaMismatchError, match="no column"):
            await write_table(table, ROWS, cluster_by=["q"])


async def test_a_write_into_a_table_that_is_not_clustered_cannot_cluster_it() -> None:
    table = await new_table()
    with pytest.raises(
        SchemaMismatchError, match=r"is clustered by \(\), not by \(id\).*cluster_by"
    ):
        await write_table(table, ROWS, cluster_by=["id"])
    await write_table(table, ROWS, cluster_by=[])
    assert (await table.snapshot()).version == 1


async def test_what_cannot_cluster_a_table_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path / "t")
    for more, kind, message in (
        ({"cluster_by": "id"}, InvalidOptionError, "is the text 'id'"),
        ({"cluster_by": ["l"]}, SchemaMismatchError, "whose values have an order"),
        ({"cluster_by": ["id", "id"]}, InvalidOptionError, "named once"),
        ({"cluster_by": ["id"], "partition_by": ["p"]}, InvalidPropertyError, "partition"),
    ):
        arguments: dict[str, Any] = more
        with pytest.raises(kind, match=message):
            await write_table(uri, ROWS, **arguments)
    assert not (tmp_path / "t").exists()


async def test_a_table_is_clustered_from_the_start(tmp_path: Path) -> None:
    """B12-06, B12-07: Spark's shape, the parts of physical names, in one commit with the table."""
    uri = str(tmp_path)
    table = await create_table(
        uri, ROWS.schema, cluster_by=["ID", "s.a"], properties={MODE: "name"}
    )
    schema = (await table.snapshot()).delta_schema
    (first, second) = await columns(table)
    assert first == [schema.fields[0].metadata["delta.columnMapping.physicalName"]]
    assert second[0] == schema.fields[2].metadata["delta.columnMapping.physicalName"]
    assert len(second) == 2
    features = (await table.snapshot()).protocol.writer_features or ()
    assert {"clustering", "domainMetadata"} <= set(features)
    assert (await detail(table)).clustering_columns == ("id", "s.a")
    parameters = (await history(table))[0].operation_parameters
    assert parameters["clusterBy"] == '["ID","s.a"]'
    await write_table(table, ROWS)
    await table.aclose()
    known = deltalake.DeltaTable(uri)
    assert len(known.file_uris()) == 1


async def test_a_table_that_exists_is_clustered_and_by_other_columns_later() -> None:
    table = await new_table(mode="none")
    assert await cluster_by(table, ["id"]) == AlterMetrics(1)
    assert await columns(table) == [["id"]]
    assert await cluster_by(table, ["id"]) == AlterMetrics(None)
    await cluster_by(table, ["s.b", "id"])
    newest = (await history(table, 1))[0]
    assert newest.operation == "CLUSTER BY"
    assert newest.operation_parameters == {
        "oldClusteringColumns": "id",
        "newClusteringColumns": "s.b,id",
    }
    await cluster_by(table, [])
    assert await columns(table) == []
    assert (await detail(table)).clustering_columns == ()


async def test_plain_names_that_other_writers_leave_are_understood() -> None:
    table = await new_table(mode="none", properties={"delta.feature.clustering": "supported"})
    async with table.transaction() as tx:
        tx._core.staging.domains[DOMAIN] = DomainMetadata(
            DOMAIN, '{"clusteringColumns":["id","p"]}'
        )
    assert (await detail(table)).clustering_columns == ("id", "p")


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        (["gone"], SchemaMismatchError, "no column 'gone'"),
        (["l"], SchemaMismatchError, "cannot be clustered"),
        (["s"], SchemaMismatchError, "cannot be clustered"),
        (["id", "ID"], InvalidOptionError, "named once"),
        (["id", "p", "s.a", "s.b", "x"], InvalidOptionError, "4 columns at the most"),
        ("id", InvalidOptionError, "pass a list"),
    ],
)
async def test_columns_that_rows_cannot_be_kept_together_by_are_refused(
    wanted: Any, error: type[Exception], message: str
) -> None:
    table = await new_table(ROWS.append_column("x", pa.array([1, 2])), mode="none")
    with pytest.raises(error, match=message):
        await cluster_by(table, wanted)
    assert (await table.snapshot()).version == 0


async def test_a_table_is_partitioned_or_clustered() -> None:
    with pytest.raises(InvalidPropertyError, match=r"partitioned \(by p\) cannot be clustered"):
        await create_table(
            f"memory://{uuid.uuid4()}/t", ROWS.schema, partition_by=["p"], cluster_by=["id"]
        )
    table = await new_table(mode="none", partition_by=["p"])
    with pytest.raises(InvalidPropertyError, match="cannot be clustered"):
        await cluster_by(table, ["id"])


async def test_a_clustered_table_always_has_statistics_of_its_columns() -> None:
    """B12-06: the columns have them, whatever else about the table changes."""
    few = {"delta.dataSkippingNumIndexedCols": "1"}
    table = await new_table(mode="none", properties=few)
    with pytest.raises(InvalidUseError, match="no statistics of column 'p'"):
        await cluster_by(table, ["p"])
    await set_properties(table, {"delta.dataSkippingNumIndexedCols": "2"})
    with pytest.raises(InvalidUseError, match=r"1 files .* no statistics of p"):
        await cluster_by(table, ["p"])
    await cluster_by(table, ["id"])
    with pytest.raises(InvalidUseError, match="no statistics of column 'id'"):
        await set_properties(table, {"delta.dataSkippingNumIndexedCols": "0"})
    with pytest.raises(InvalidUseError, match="no statistics of column 'id'"):
        await change_column(table, "id", after="l")
    more = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    with pytest.raises(InvalidUseError, match="no statistics of column 'id'"):
        await add_columns(table, more, first=True)
    await add_columns(table, more)


async def test_a_column_that_clusters_a_table_is_renamed_and_not_dropped() -> None:
    table = await new_table()
    await cluster_by(table, ["s.a"])
    before = await columns(table)
    await rename_column(table, "s", "t")
    assert await columns(table) == before
    assert (await detail(table)).clustering_columns == ("t.a",)
    for name in ("t.a", "t"):
        with pytest.raises(InvalidUseError, match="clustered by it"):
            await drop_columns(table, [name])
    await drop_columns(table, ["t.b"])


async def test_a_table_that_no_longer_maps_its_columns_is_clustered_by_the_same_ones() -> None:
    table = await new_table()
    await cluster_by(table, ["s.a", "id"])
    await rename_column(table, "id", "number")
    assert await columns(table) != [["s", "a"], ["number"]]
    await drop_feature(table, "columnMapping")
    assert await columns(table) == [["s", "a"], ["number"]]
    assert (await detail(table)).clustering_columns == ("s.a", "number")
    await write_table(table, (await (await table.snapshot()).scan().to_arrow()))
    assert (await optimize(table)).versions


async def test_two_who_cluster_a_table_at_once_conflict() -> None:
    uri = f"memory://{uuid.uuid4()}/t"
    table = open_table(uri)
    await write_table(table, ROWS, properties={"delta.feature.clustering": "supported"})
    tx = await table.transaction("CLUSTER BY").__aenter__()
    tx._core.staging.set_domain(DOMAIN, '{"clusteringColumns":[]}')
    await cluster_by(table, ["id"])
    with pytest.raises(ConcurrentTransactionError, match=DOMAIN):
        await tx.__aexit__(None, None, None)


async def test_a_schema_is_overwritten_only_with_the_columns_that_cluster_the_table() -> None:
    table = await new_table()
    await cluster_by(table, ["id"])
    options: Any = {"mode": "overwrite", "schema_mode": "overwrite"}
    with pytest.raises(InvalidUseError, match=r"clustered by id, .* \(cluster_by\)"):
        await write_table(table, pa.table({"p": ["x"]}), **options)
    with pytest.raises(InvalidUseError, match="clustered by id"):
        await write_table(table, pa.table({"id": ["of another type"]}), **options)
    with pytest.raises(InvalidPropertyError, match="cannot be clustered"):
        await write_table(table, ROWS, partition_by=["p"], **options)
    await write_table(table, pa.table({"new": [1], "id": [1]}), **options)
    assert (await detail(table)).clustering_columns == ("id",)


async def test_a_column_that_comes_to_cluster_a_table_is_not_dropped_meanwhile() -> None:
    table = await new_table(properties={"delta.feature.clustering": "supported"})
    await cluster_by(table, ["p"])
    async with open_table(table.uri) as other:
        await other.snapshot()
        tx = await other.transaction("DROP COLUMNS").__aenter__()
        assert await clustered_by(tx._core) == (("p",),)
        tx.set_transaction("drop", 1)
        await cluster_by(table, ["id"])
        with pytest.raises(ConcurrentTransactionError, match=DOMAIN):
            await tx.__aexit__(None, None, None)


async def test_whoever_looked_for_clustering_in_vain_conflicts_with_who_sets_it() -> None:
    properties = {
        "delta.columnMapping.mode": "name",
        "delta.feature.clustering": "supported",
        "delta.feature.domainMetadata": "supported",
    }
    inner = MemoryStore()
    rows = pa.table({"id": [1], "p": ["a"]})
    await write_table(Table(inner.uri, store=inner), rows, properties=properties)

    async def cluster() -> None:
        await cluster_by(Table(inner.uri, store=inner), ["p"])

    table = Table(inner.uri, store=OvertakenStore(inner, cluster))
    with pytest.raises(ConcurrentTransactionError, match=r"delta\.clustering"):
        await drop_columns(table, ["p"])
    assert (await detail(table)).clustering_columns == ("p",)


async def test_columns_come_between_those_of_a_clustered_table_that_maps_its_columns() -> None:
    """What is new has no physical name before it is staged; clustering is none the less."""
    table = await new_table(mode="none")
    await cluster_by(table, ["id", "s.a"])
    await set_properties(table, {MODE: "name"})
    await add_columns(table, pa.schema([("x", pa.int64())]), first=True)
    await add_columns(table, pa.schema([("y", pa.int64())]), parent="s")
    await change_column(table, "x", after="id")
    assert (await detail(table)).clustering_columns == ("id", "s.a")
