"""Programs that do the same by deltalake and by adelta.deltalake, on a fresh table each.

What they say on their way is compared, and so are the rows and the definition that each of the two
packages then reads of the other one's table.
"""

from __future__ import annotations

import os
import re
import shutil
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import adelta.deltalake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Program = Callable[[Any, str], object]

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "s": ["a", "b", "c", "d"],
        "f": [1.5, 2.5, None, 4.0],
    }
)
SOURCE = pa.table({"id": pa.array([1, 9], pa.int64()), "s": ["A", "Z"], "f": [0.5, 9.5]})
PROGRAMS: list[Program] = []


def program(made: Program) -> Program:
    PROGRAMS.append(made)
    return made


def said(metrics: dict[str, Any], *names: str) -> dict[str, Any]:
    """What is counted, and under which names times are."""
    counted = {
        name: value
        for name, value in metrics.items()
        if not name.endswith("_ms") and (not names or name in names)
    }
    return {**counted, "times": sorted(name for name in metrics if name.endswith("_ms"))}


def failure(run: Callable[[], object]) -> list[str]:
    """The class of the error and those of deltalake's above it."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the result
        run()
    return [
        kind.__name__
        for kind in type(caught.value).__mro__
        if kind.__module__.startswith(("_internal", "adelta.deltalake", "builtins"))
    ]


@program
def appends_and_time_travel(lake: Any, uri: str) -> object:
    lake.write_deltalake(uri, ROWS)
    lake.write_deltalake(uri, ROWS.slice(0, 1), mode="append")
    lake.write_deltalake(uri, ROWS, mode="ignore")
    table = lake.DeltaTable(uri)
    versions = [table.version()]
    for version in (0, "2099-01-01T00:00:00Z", "1999-01-01T00:00:00Z", datetime(2099, 1, 1)):
        table.load_as_version(version)
        versions.append(table.version())
    table.update_incremental()
    return [
        versions,
        table.count(),
        table.schema(),
        table.protocol(),
        table.metadata().configuration,
        table.to_pyarrow_table(columns=["id"], filters=[("id", ">", 2)]).num_rows,
        sorted(pa.table(table.scan(columns=["s"], predicate='"id" > 1'))["s"].to_pylist()),
        [entry["operation"] for entry in table.history(2)],
        table.history()[0]["operationMetrics"]["num_added_rows"],
        table.history(0),
        table.transaction_version("x"),
        lake.DeltaTable.is_deltatable(uri),
        lake.DeltaTable.is_deltatable(uri + "-none"),
        lake.DeltaTable.is_deltatable("nobodys-scheme://there"),
    ]


@program
def errors(lake: Any, uri: str) -> object:
    write, none = lake.write_deltalake, uri + "-none"
    first = failure(lambda: lake.DeltaTable(none))
    write(uri, ROWS)
    table = lake.DeltaTable(uri)
    wider = ROWS.append_column("z", pa.array([1, 2, 3, 4]))
    return [
        first,
        failure(lambda: write(uri, ROWS)),
        failure(lambda: write(uri, ROWS, mode="upsert")),
        failure(lambda: write(uri, wider, mode="append")),
        failure(lambda: write(uri, ROWS.rename_columns(["id", "s", "g"]), mode="append")),
        failure(lambda: write(uri, ROWS, mode="append", schema_mode="overwrite")),
        failure(lambda: write(uri, ROWS, mode="append", partition_by=["s"])),
        failure(lambda: write(none, ROWS, partition_by=["nope"])),
        failure(lambda: write(uri, {"id": [1]}, mode="append")),
        failure(lambda: write(7, ROWS)),
        failure(lambda: lake.DeltaTable(uri, version=9)),
        failure(lambda: lake.DeltaTable(uri, version=-1)),
        failure(lambda: table.load_as_version("soon")),
        failure(lambda: table.load_as_version(1.5)),
        failure(lambda: table.delete("nope = 1")),
        failure(lambda: table.delete("id === === 1")),
        failure(lambda: table.update()),
        failure(lambda: table.update({"s": "'x'"}, {"s": "x"})),
        failure(lambda: table.update({"id": 1})),
        failure(lambda: table.update(new_values={"id": object()})),
        failure(lambda: table.file_uris(file_pruning_predicate=[("zz", "=", 1)])),
        failure(lambda: table.file_uris(file_pruning_predicate=[("s", "~", 1)])),
        failure(lambda: table.file_uris(file_pruning_predicate=[[]])),
        failure(lambda: table.vacuum(0)),
        failure(lambda: table.vacuum(-1)),
        failure(lambda: table.optimize.z_order([])),
        failure(lambda: table.optimize.z_order(["nope"])),
        failure(lambda: table.restore(100)),
        failure(lambda: table.restore("soon")),
        failure(lambda: table.compact_logs(1, 0)),
        failure(lambda: table.alter.drop_constraint("nope")),
        failure(lambda: table.alter.add_constraint({"c": "id > 2"})),
        failure(lambda: table.alter.set_table_properties({"mine": "1"})),
        failure(lambda: table.alter.set_table_name("")),
        failure(lambda: table.alter.set_column_metadata("nope", {})),
        failure(lambda: table.alter.drop_column_not_null("id")),
        failure(lambda: table.alter.add_columns(lake.Field("id", "string"))),
        failure(lambda: table.alter.add_feature(lake.TableFeatures.ChangeDataFeed)),
        failure(lambda: table.load_cdf(starting_version=7)),
        failure(lambda: table.scan(columns=["nope"])),
        failure(lambda: lake.DeltaTable.create(uri, ROWS.schema)),
        failure(lambda: lake.DeltaTable.create(uri, ROWS.schema, mode="append")),
        failure(lambda: lake.DeltaTable.create(none, ROWS.schema, configuration={"x": "1"})),
        failure(lambda: lake.convert_to_deltalake(uri)),
        failure(lambda: lake.convert_to_deltalake(none, partition_strategy="odd")),
    ]


@program
def schemas_that_change(lake: Any, uri: str) -> object:
    write = lake.write_deltalake
    write(uri, ROWS)
    write(uri, ROWS.select(["f", "s", "id"]), mode="append")
    write(uri, pa.table({"id": ["7"], "s": ["x"], "f": [1]}), mode="append")
    write(
        uri, ROWS.append_column("z", pa.nulls(4, pa.date32())), mode="append", schema_mode="merge"
    )
    write(uri, ROWS.select(["id"]), mode="append", schema_mode="merge")
    before = lake.DeltaTable(uri).to_pyarrow_table().num_rows
    write(uri, ROWS, mode="overwrite", schema_mode="overwrite", partition_by=["s"])
    return [before, lake.DeltaTable(uri).metadata().partition_columns]


@program
def partitions(lake: Any, uri: str) -> object:
    rows = pa.table(
        {
            "k": ["a b", "x/y", "ü%", None],
            "d": [date(2020, 1, 1), date(2020, 1, 2), date(2021, 1, 1), None],
            "n": pa.array([1, 2, 3, None], pa.int32()),
            "v": [1, 2, 3, 4],
        }
    )
    lake.write_deltalake(uri, rows, partition_by=["k", "d", "n"])
    table = lake.DeltaTable(uri)

    def count(predicate: Any) -> int:
        return len(table.file_uris(file_pruning_predicate=predicate))

    lake.write_deltalake(table, rows.slice(0, 1), mode="overwrite", predicate="k = 'a b'")
    counts = [
        count([("k", "=", "a b")]),
        count([("n", ">", 1)]),
        count([("n", "in", [1, 3])]),
        count([("n", "=", "")]),
        count([("n", "!=", "")]),
        count([("k", "not in", ["x/y"])]),
        count([("d", ">=", date(2020, 1, 2))]),
        count([[("n", "=", 1)], [("n", "=", 2)]]),
        count("d = DATE '2020-01-01' OR n IS NULL"),
        count([("v", "=", 4)]),
    ]
    told = failure(
        lambda: lake.write_deltalake(table, rows, mode="overwrite", predicate="k = 'a b'")
    )
    return [counts, told, sorted(map(str, (sorted(p.items()) for p in table.partitions())))]


@program
def values_of_all_types(lake: Any, uri: str) -> object:
    rows = pa.table(
        {
            "d": [date(2020, 1, 1), date(2021, 1, 1)],
            "ts": pa.array([datetime(2020, 1, 1), datetime(2021, 1, 1)], pa.timestamp("ms", "UTC")),
            "tz": pa.array([1, 2], pa.timestamp("ms", "Europe/Berlin")),
            "dec": pa.array([Decimal("1.25"), Decimal("2.50")], pa.decimal128(10, 2)),
            "l": [[1], [2, None]],
            "fsl": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
            "st": [{"x": 1, "y": "a"}, {"x": 2, "y": None}],
            "m": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())),
            "u8": pa.array([1, 2], pa.uint8()),
            "fl": pa.array([1, 2], pa.float32()),
            "dic": pa.array(["a", "b"]).dictionary_encode(),
            "fsb": pa.array([b"aa", b"bb"], pa.binary(2)),
            "ls": pa.array(["a", "b"], pa.large_string()),
        }
    )
    lake.write_deltalake(uri, rows)
    actions = pa.table(lake.DeltaTable(uri).get_add_actions(flatten=True))
    bounds = [name for name in actions.column_names if name.startswith(("min.", "max."))]
    return [lake.DeltaTable(uri).schema(), actions.schema, actions.select(bounds).to_pylist()]


@program
def nested_add_actions(lake: Any, uri: str) -> object:
    lake.write_deltalake(uri, ROWS, partition_by="s")
    actions = pa.table(lake.DeltaTable(uri).get_add_actions())
    kept = actions.drop_columns(["path", "size_bytes", "modification_time"])
    return [actions.schema, sorted(map(str, kept.to_pylist()))]


@program
def frames_and_readers(lake: Any, uri: str) -> object:
    for data in (
        pl.from_arrow(ROWS),
        ROWS.to_reader(),
        ROWS.to_batches(),
        ROWS.to_batches()[0],
        ROWS.to_struct_array().chunk(0),
    ):
        lake.write_deltalake(uri, data, mode="append")
    return lake.DeltaTable(uri).to_pyarrow_table().num_rows


@program
def deletes_and_updates(lake: Any, uri: str) -> object:
    lake.write_deltalake(uri, ROWS)
    table = lake.DeltaTable(uri)
    return [
        said(table.delete("id = 1")),
        said(table.delete("id = 100")),
        said(table.update({"s": "concat(s, '_x')"}, predicate="id >= 3")),
        said(table.update(new_values={"s": "its", "f": 3}, predicate="id = 2")),
        said(table.update({"id": "'x'"}, predicate="id = 4", error_on_type_mismatch=False)),
        said(table.update({"s": "'x'"}, predicate="id = 100")),
        table.version(),
        [entry["operationParameters"] for entry in table.history(3)],
        said(table.delete()),
    ]


@program
def merges(lake: Any, uri: str) -> object:
    lake.write_deltalake(uri, ROWS)
    table = lake.DeltaTable(uri)
    counted = (
        "num_source_rows",
        "num_target_rows_inserted",
        "num_target_rows_updated",
        "num_target_rows_deleted",
    )

    def merge(**more: Any) -> Any:
        condition = "target.id = source.id"
        return table.merge(SOURCE, condition, source_alias="source", target_alias="target", **more)

    done = [
        merge().when_matched_update({"target.s": "source.s", "`f`": "source.`f`"}).execute(),
        merge().when_matched_update_all().when_not_matched_insert_all().execute(),
        merge().when_not_matched_by_source_update({"s": "'n'"}, "target.id > 2").execute(),
        merge().when_matched_delete("source.id = 1").execute(),
        merge().when_not_matched_insert_all(except_cols=["f"]).execute(),
        merge().when_matched_update_all(except_cols=["s"], predicate="source.f > 1").execute(),
        merge().when_not_matched_insert({"id": "source.id"}, "source.id > 100").execute(),
        merge().execute(),
    ]
    extra = SOURCE.append_column("q", pa.array([1, 2]))
    told = {"source_alias": "s", "target_alias": "t"}
    done.append(table.merge(extra, "t.id = s.id", **told).when_matched_update_all().execute())
    table.merge(
        extra, "t.id = s.id", merge_schema=True, **told
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    twice = pa.concat_tables([SOURCE, SOURCE])
    return [
        [said(each, *counted) for each in done],
        failure(
            lambda: table.merge(twice, "t.id = s.id", **told).when_matched_update_all().execute()
        ),
        failure(lambda: table.merge({"a": 1}, "a = 1")),
        *merge_of_some_files(lake, f"{uri}2"),
    ]


def merge_of_some_files(lake: Any, uri: str) -> list[object]:
    """What is told of files that a merge looks into, and leaves alone: one partition of three."""
    parts = pa.table({"id": [1, 2, 3], "p": ["a", "b", "c"]})
    lake.write_deltalake(uri, parts, partition_by=["p"])
    table = lake.DeltaTable(uri)
    merge = table.merge(parts.slice(0, 1), "t.p = 'a' AND t.id = s.id", "s", "t")
    done = merge.when_matched_update_all().execute()
    entry = table.history(1)[0]
    told = ("num_target_files_scanned", "num_target_files_skipped_during_scan")
    return [
        said(done, *told),
        said(entry["operationMetrics"], *told[:1]),
        "mergePredicate" in entry["operationParameters"],
    ]


@program
def properties_of_commits(lake: Any, uri: str) -> object:
    properties = lake.CommitProperties(
        custom_metadata={"userName": "ada", "job": {"run": 7}, "userMetadata": "um"},
        app_transactions=[lake.Transaction("app", 1), lake.Transaction("b", 7)],
    )
    after = lake.PostCommitHookProperties(create_checkpoint=False)
    every = {"delta.checkpointInterval": "2"}
    lake.write_deltalake(
        uri, ROWS, commit_properties=properties, configuration=every, name="n", description="d"
    )
    table = lake.DeltaTable(uri)
    for _ in range(3):
        lake.write_deltalake(
            table,
            ROWS,
            mode="append",
            commit_properties=properties,
            post_commithook_properties=after,
        )
    table.delete("id = 1", commit_properties=lake.CommitProperties({"x": 1}))
    names = ("userName", "job", "userMetadata", "x")

    def delete(properties: Any) -> object:
        return table.delete("id = 2", commit_properties=properties)

    refused = [
        {"timestamp": 1},
        {"operationParameters": 3},
        {"readVersion": -1},
        {"userId": 1},
        {"isolationLevel": "odd"},
        {"isBlindAppend": 1},
        {"nan": float("nan")},
        {1: 2},
    ]
    return [
        [{k: e[k] for k in names if k in e} for e in table.history()],
        [table.transaction_version(app) for app in ("app", "b", "c")],
        [table.metadata().name, table.metadata().description, table.metadata().configuration],
        table.to_pyarrow_table().num_rows,
        sum("checkpoint.parquet" in name for name in os.listdir(f"{uri}/_delta_log")) <= 1,
        [failure(partial(delete, lake.CommitProperties(each))) for each in refused],
    ]


@program
def alterations(lake: Any, uri: str) -> object:
    lake.write_deltalake(uri, ROWS)
    table = lake.DeltaTable(uri)
    alter, field = table.alter, lake.Field
    struct = lake.schema.StructType
    alter.add_columns([field("x", "integer"), field("y", struct([field("z", "string")]))])
    alter.add_columns(field("y", struct([field("q", "string")])))
    alter.add_columns(field("x", "integer"))
    for spelling in ("id > 0", "id>0"):
        alter.add_constraint({"c": spelling})
    configured = table.metadata().configuration
    bad = pa.table({"id": [-1], "s": ["a"], "f": [1.0]})
    broken = failure(lambda: lake.write_deltalake(table, bad, mode="append", schema_mode="merge"))
    alter.drop_constraint("c")
    alter.drop_constraint("c", raise_if_not_exists=False)
    alter.set_table_name("name")
    alter.set_table_description("words")
    alter.set_column_metadata("id", {"comment": "a number"})
    alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    alter.set_table_properties({"mine": "1"}, raise_if_not_exists=False)
    alter.add_feature([lake.TableFeatures.DeletionVectors], allow_protocol_versions_increase=True)
    return [
        configured,
        broken,
        table.schema(),
        table.metadata().name,
        table.metadata().description,
        sorted(table.metadata().configuration.items()),
        "deletionVectors" in (table.protocol().reader_features or ()),
    ]


@program
def creations(lake: Any, uri: str) -> object:
    schema = lake.Schema(
        [lake.Field("a", "integer", nullable=False), lake.Field("b", "string", metadata={"k": "1"})]
    )
    made = lake.DeltaTable.create(uri, schema, partition_by="b", name="n", description="d")
    lake.DeltaTable.create(uri, pa.schema([("z", pa.int8())]), mode="ignore")
    null = pa.table({"a": pa.array([None], pa.int32()), "b": ["x"]})
    found = [
        made.version(),
        made.schema(),
        made.metadata().partition_columns,
        made.metadata().name,
        failure(lambda: lake.write_deltalake(uri, null, mode="append")),
    ]
    made = lake.DeltaTable.create(uri, pa.schema([("z", pa.uint8())]), mode="overwrite")
    lake.write_deltalake(uri, pa.table({"z": pa.array([3], pa.int8())}), mode="append")
    return [*found, made.version(), made.schema()]


@program
def upkeep(lake: Any, uri: str) -> object:
    for _ in range(3):
        lake.write_deltalake(uri, ROWS, mode="append")
    table = lake.DeltaTable(uri)
    names = ("numFilesAdded", "numFilesRemoved", "partitionsOptimized", "totalConsideredFiles")
    compacted = table.optimize.compact()
    again = table.optimize.compact()
    ordered = table.optimize.z_order(["id"])
    listed = len(table.vacuum(0, enforce_retention_duration=False))
    restored = table.restore(0)
    deleted = len(table.vacuum(0, dry_run=False, enforce_retention_duration=False))
    table.create_checkpoint()
    table.cleanup_metadata()
    os.remove(table.file_uris()[0])
    repaired = [table.repair(dry_run=True), table.repair()]
    return [
        [[each[name] for name in names] for each in (compacted, again, ordered)],
        sorted(compacted),
        listed,
        restored,
        deleted > 0,
        [(each["dry_run"], len(each["files_removed"])) for each in repaired],
        table.to_pyarrow_table().num_rows,
    ]


@program
def change_data(lake: Any, uri: str) -> object:
    lake.write_deltalake(uri, ROWS, configuration={"delta.enableChangeDataFeed": "true"})
    table = lake.DeltaTable(uri)
    table.update({"s": "'u'"}, predicate="id = 1")
    table.delete("id = 2")

    def rows(**asked: Any) -> list[str]:
        found = pa.table(table.load_cdf(**asked))
        if "_commit_timestamp" in found.column_names:
            found = found.drop_columns(["_commit_timestamp"])
        return sorted(map(str, found.to_pylist()))

    return [
        rows(),
        rows(starting_version=1, ending_version=1),
        rows(columns=["id", "_change_type"]),
        rows(predicate="_change_type = 'delete'"),
        rows(starting_version=9, allow_out_of_range=True),
        rows(starting_timestamp="2000-01-01T00:00:00Z", ending_version=0),
        failure(lambda: table.load_cdf(starting_version=2, ending_version=1)),
        failure(lambda: table.load_cdf(starting_timestamp="soon")),
    ]


@program
def conversions(lake: Any, uri: str) -> object:
    for path in ("hive/k=a", "hive/k=b", "plain/a", "plain/b"):
        os.makedirs(f"{uri}/{path}")
        pq.write_table(ROWS, f"{uri}/{path}/x.parquet")
    by = lake.Schema([lake.Field("k", "string")])
    found: list[object] = []
    for name, strategy in (("hive", "hive"), ("plain", "directory")):
        lake.convert_to_deltalake(f"{uri}/{name}", partition_by=by, partition_strategy=strategy)
        table = lake.DeltaTable(f"{uri}/{name}")
        found += [sorted(map(str, table.partitions())), table.to_pyarrow_table().num_rows]
    shutil.move(f"{uri}/hive/_delta_log", f"{uri}/_delta_log")
    for folder in ("k=a", "k=b"):
        shutil.move(f"{uri}/hive/{folder}", f"{uri}/{folder}")
    return found


@program
def files_in_place(lake: Any, uri: str) -> object:
    lake.write_deltalake(uri, ROWS)
    table = lake.DeltaTable(uri)
    pq.write_table(ROWS, f"{uri}/new.parquet")
    action = lake.transaction.AddAction(
        "new.parquet", os.path.getsize(f"{uri}/new.parquet"), {}, 1, True, '{"numRecords":4}'
    )
    table.create_write_transaction([action], "append", table.schema())
    rows = lake.DeltaTable(uri).to_pyarrow_table().num_rows
    table = lake.DeltaTable(uri)
    gone = lake.transaction.RemoveAction("new.parquet", True, 1)
    table.create_write_transaction([gone], "append", table.schema())
    return [rows, lake.DeltaTable(uri).to_pyarrow_table().num_rows, repr(gone), repr(action)]


@program
def datasets(lake: Any, uri: str) -> object:
    lake.write_deltalake(uri, ROWS, partition_by="s")
    table = lake.DeltaTable(uri)
    found = table.to_pyarrow_dataset()
    return [
        found.schema,
        table.to_pyarrow_dataset(as_large_types=True).schema,
        found.to_table(filter=pc.field("id") > 2).num_rows,
        len(list(found.get_fragments(filter=pc.field("id") == 1))),
        len(list(found.get_fragments(filter=pc.field("s") == "a"))),
        table.to_pyarrow_dataset(file_pruning_predicate="s = 'a'").to_table().num_rows,
        table.to_pyarrow_table(filters=pc.field("f").is_null()).to_pylist(),
    ]


@program
def queries(lake: Any, uri: str) -> object:
    pytest.importorskip("duckdb")
    lake.write_deltalake(uri, ROWS)
    table = lake.DeltaTable(uri)
    lake.write_deltalake(uri, ROWS, mode="append")
    builder = lake.QueryBuilder().register("t", table)
    answer = builder.execute("select id, s from t where id > 2 order by id").read_all()
    return [
        pa.table(answer).to_pydict(),
        failure(lambda: builder.register("t", table)),
        failure(lambda: builder.execute("select nope from t").read_all()),
    ]


def normal(value: object, uri: str) -> str:
    """A result as text, without what differs from run to run."""
    text = repr(value).replace(uri, "TABLE").replace("arro3.core.", "")
    return re.sub(r"\.[0-9a-z]*\.?(snappy|zstd)?\.parquet", ".parquet", text)


def seen(lake: Any, uri: str) -> list[object]:
    """A table as a package reads it."""
    table = lake.DeltaTable(uri)
    rows = table.to_pyarrow_table().to_pylist() if reads_all(lake, table) else "not read"
    fields = [(f.name, str(f.type), f.nullable) for f in table.schema().fields]
    return [sorted(map(str, rows)), fields, table.metadata().partition_columns]


def reads_all(lake: Any, table: Any) -> bool:
    """Whether both packages read the table into pyarrow."""
    return "deletionVectors" not in (table.protocol().reader_features or ())


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_both_do_the_same(run: Program, tmp_path: Path) -> None:
    theirs, ours = str(tmp_path / "theirs"), str(tmp_path / "ours")
    said_there = normal(run(deltalake, theirs), theirs)
    said_here = normal(run(adelta.deltalake, ours), ours)
    assert said_here == said_there
    there, here = seen(deltalake, theirs), seen(adelta.deltalake, ours)
    assert here == there
    assert seen(adelta.deltalake, theirs) == there
    assert seen(deltalake, ours) == here
