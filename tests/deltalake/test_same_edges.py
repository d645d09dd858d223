"""What deltalake takes at the edges of its interface, and how it refuses: by both packages."""

from __future__ import annotations

import inspect
import json
import warnings
from datetime import date, datetime
from decimal import Decimal
from os import unlink
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import adelta.deltalake
import adelta.deltalake.schema
import adelta.deltalake.table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Program = Callable[[Any, str], object]

MOMENT = datetime(2020, 1, 1)
ROWS = pa.table({"id": [1, 2], "timestamp": [MOMENT] * 2, "date": ["a", "b"]})


def both(tmp_path: Path, run: Program) -> tuple[object, object]:
    """What the program says by deltalake, and by adelta.deltalake."""
    theirs, ours = str(tmp_path / "theirs"), str(tmp_path / "ours")
    return run(deltalake, theirs), run(adelta.deltalake, ours)


def refusal(run: Callable[[], object]) -> tuple[list[str], str]:
    """The class of the error and those above it, and its message as far as both say it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the result
            run()
    kinds = [kind.__name__ for kind in type(caught.value).__mro__]
    return kinds, str(caught.value).partition("append-only")[0]


def kind_of(run: Callable[[], object]) -> None:
    """What `run` raises, without what it says."""
    try:
        run()
    except Exception as error:
        raise type(error) from error


def test_columns_that_are_called_as_words_of_sql_are_set(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        table = lake.DeltaTable(uri)
        table.update(new_values={"timestamp": datetime(2021, 1, 1)}, predicate="id = 1")
        table.update({"date": "'z'"}, predicate="id = 2")
        table.update({"`date`": "'q'"}, predicate="id = 1", error_on_type_mismatch=False)
        return table.to_pyarrow_table().sort_by("id").to_pylist()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_lists_are_set(tmp_path: Path) -> None:
    rows = {"id": [1, 2, 3], "whole": [[1], [2], None], "texts": [["a"], None, []]}

    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, pa.table(rows))
        table = lake.DeltaTable(uri)
        table.update(new_values={"whole": [5, 6], "texts": ["x", "y z"]}, predicate="id = 1")
        table.update(new_values={"whole": []}, predicate="id = 2")
        table.update({"whole": "make_array(id, NULL)"}, predicate="id = 3")
        return table.to_pyarrow_table().sort_by("id").to_pydict()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_lists_that_are_set_hold_what_texts_of_sql_would_not(tmp_path: Path) -> None:
    """Of which deltalake takes texts with quotes for names of columns."""
    table = pa.table({"texts": [["a"]], "x": [[0.5]], "at": [[datetime(2021, 1, 1)]]})
    adelta.deltalake.write_deltalake(str(tmp_path), table)
    new: dict[str, list[Any]] = {
        "texts": ["it's", 'a "b"', "\\"],
        "x": [1.5, 1e300, float("inf")],
        "at": [datetime(2022, 2, 2, 1), None],
    }
    opened = adelta.deltalake.DeltaTable(str(tmp_path))
    opened.update(new_values=new)
    assert opened.to_pyarrow_table().to_pylist() == [new]


def test_values_are_written_with_their_type_in_front(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        table = lake.DeltaTable(uri)
        table.update({"id": "int'10'"}, predicate="id = bigint'1'")
        table.merge(ROWS, "t.id = s.id", "s", "t").when_not_matched_by_source_update(
            {"id": "INT '11'", "timestamp": "timestamp'2022-01-01 00:00:00'"}
        ).execute()
        return table.to_pyarrow_table().sort_by("id").to_pylist()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


TYPED = pa.table(
    {
        "id": [1],
        "i": pa.array([1], pa.int32()),
        "f": [1.75],
        "b": [False],
        "d": [date(2020, 1, 1)],
        "t": pa.array([MOMENT], pa.timestamp("us", "UTC")),
        "s": ["x"],
        "dec": [Decimal("1.25")],
    }
)
SET = {
    "i": "'7'",
    "f": "'1.25'",
    "d": "'2021-01-01'",
    "t": "'2021-01-02'",
    "s": "12",
    "dec": "1",
    "id": "t.f",
}
NOT_TO_BE_SET = [("i", "'abc'"), ("i", "3000000000"), ("f", "'q'"), ("dec", "12345678")]


@pytest.mark.parametrize("fails", [True, False])
def test_what_is_set_is_cast_to_the_columns_types(fails: bool, tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, TYPED)
        table = lake.DeltaTable(uri)
        table.merge(
            TYPED, "t.id = s.id", "s", "t", error_on_type_mismatch=fails
        ).when_matched_update(SET).execute()
        merged = table.to_pyarrow_table().to_pylist()
        table.update({**SET, "id": "f", "b": "1", "s": "d"}, error_on_type_mismatch=fails)
        table.update(new_values={"i": 2.5, "f": 3, "b": True}, error_on_type_mismatch=fails)
        return merged, table.to_pyarrow_table().to_pylist()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_what_cannot_be_cast_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path)
    lake = adelta.deltalake
    lake.write_deltalake(uri, TYPED)
    table = lake.DeltaTable(uri)
    for column, value in NOT_TO_BE_SET:
        with pytest.raises(lake.exceptions.DeltaError, match=r"cannot be cast to"):
            table.update({column: value})
        merge = table.merge(TYPED, "t.id = s.id", "s", "t").when_matched_update({column: value})
        with pytest.raises(lake.exceptions.DeltaError, match=r"cannot be cast to"):
            merge.execute()
    with pytest.raises(
        lake.exceptions.DeltaError,
        match=r"^Cast error: Cannot cast string 'abc' to value of Int64 type",
    ):
        table.update({"id": "'abc'"})
    assert table.version() == 0


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], None, [2, 3], []], pa.list_view(pa.int64())),
        pa.array([["x"], ["y"]], pa.large_list_view(pa.string())).slice(1),
    ],
)
def test_list_views_are_lists(column: Any, tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, pa.table({"a": column}))
        table = lake.DeltaTable(uri)
        return table.schema().to_json(), table.to_pyarrow_table().to_pylist()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_generated_columns_may_be_left_out_of_an_append(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        field, schema = lake.schema.Field, lake.schema.Schema
        twice = field("g", "long", metadata={"delta.generationExpression": "a * 2"})
        lake.DeltaTable.create(uri, schema([field("a", "long"), twice]))
        lake.write_deltalake(uri, pa.table({"a": [3]}), mode="append")
        return lake.DeltaTable(uri).to_pyarrow_table().to_pylist()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs == [{"a": 3, "g": 6}]


REFUSED: list[Callable[[Any, Any, str], object]] = [
    lambda lake, table, uri: table.partitions([("nope", "=", "1")]),
    lambda lake, table, uri: table.file_uris([("nope", "=", "1")]),
    lambda lake, table, uri: table.merge([1], "s.id = t.id"),
    lambda lake, table, uri: table.merge("rows", "s.id = t.id"),
    lambda lake, table, uri: table.merge(ROWS.to_batches(), "s.id = t.id"),
    lambda lake, table, uri: lake.write_deltalake(uri, [ROWS], mode="append"),
    lambda lake, table, uri: lake.write_deltalake(uri, ROWS, mode="append", target_file_size=0),
    lambda lake, table, uri: table.optimize.compact(target_size=0),
    lambda lake, table, uri: table.delete(),
    lambda lake, table, uri: table.vacuum(200, True, True, 1, 2, 3, 4, 5),
    lambda lake, table, uri: table.delete("id = 1", None, 1, 2, 3),
    lambda lake, table, uri: table.history(-1),
    lambda lake, table, uri: table.vacuum(1.5),
    lambda lake, table, uri: table.vacuum(keep_versions=[-1]),
    lambda lake, table, uri: kind_of(lambda: table.vacuum(keep_versions=["0"])),
    lambda lake, table, uri: kind_of(lambda: table.transaction_version(1)),
    lambda lake, table, uri: kind_of(lambda: table.alter.add_feature("appendOnly", True)),
    lambda lake, table, uri: kind_of(
        lambda: table.alter.set_table_properties({"delta.appendOnly": True})
    ),
    lambda lake, table, uri: kind_of(lambda: lake.schema.PrimitiveType(3)),
    lambda lake, table, uri: kind_of(lambda: lake.schema.StructType(["x"])),
    lambda lake, table, uri: kind_of(lambda: lake.Transaction(1, 1)),
    lambda lake, table, uri: kind_of(lambda: lake.Transaction("app", "1")),
    lambda lake, table, uri: lake.schema.PrimitiveType("decimal(5,6)"),
    lambda lake, table, uri: lake.schema.Schema([lake.schema.Field(n, "long") for n in "aA"]),
    lambda lake, table, uri: lake.schema.Field(1, "long"),
    lambda lake, table, uri: kind_of(lambda: lake.schema.Field("a", "long", nullable=1)),
    lambda lake, table, uri: kind_of(lambda: lake.DeltaTable(uri, storage_options={"a": 5})),
    lambda lake, table, uri: kind_of(lambda: lake.DeltaTable("")),
    lambda lake, table, uri: lake.write_deltalake(uri, ROWS, mode="append", target_file_size=-1),
    lambda lake, table, uri: lake.write_deltalake(uri, ROWS, mode="append", partition_by="id"),
    lambda lake, table, uri: lake.write_deltalake(uri, ROWS, mode="append", schema_mode="x"),
    lambda lake, table, uri: lake.write_deltalake(uri + "2", ROWS, schema_mode="overwrite"),
    lambda lake, table, uri: lake.write_deltalake(uri + "2", ROWS, configuration={"a": "b"}),
    lambda lake, table, uri: kind_of(
        lambda: lake.write_deltalake(uri + "2", ROWS, configuration={"delta.appendOnly": True})
    ),
    lambda lake, table, uri: kind_of(lambda: lake.write_deltalake(uri, ROWS, mode=None)),
    lambda lake, table, uri: kind_of(lambda: table.merge(ROWS, 5)),
    lambda lake, table, uri: kind_of(
        lambda: table.merge(ROWS, "s.id = t.id", "s", "t").when_matched_update({"id": 5})
    ),
    lambda lake, table, uri: kind_of(lambda: table.alter.add_columns("x")),
    lambda lake, table, uri: kind_of(lambda: table.alter.add_constraint("x")),
    lambda lake, table, uri: table.alter.add_feature([]),
    lambda lake, table, uri: kind_of(lambda: table.alter.drop_constraint(5)),
    lambda lake, table, uri: kind_of(lambda: table.alter.set_table_name(None)),
    lambda lake, table, uri: kind_of(lambda: table.alter.set_column_metadata("id", {"a": 1})),
    lambda lake, table, uri: table.alter.set_table_properties({"a": "b"}),
    lambda lake, table, uri: table.to_pyarrow_table(filters=[]),
    lambda lake, table, uri: table.optimize.z_order([]),
    lambda lake, table, uri: table.restore(0),
    lambda lake, table, uri: table.restore(-1),
    lambda lake, table, uri: table.restore(1.5),
    lambda lake, table, uri: table.load_as_version(9),
    lambda lake, table, uri: table.alter.set_column_metadata("id", {"delta.x": "1"}),
    lambda lake, table, uri: table.alter.set_table_properties({"delta.minReaderVersion": "4"}),
    lambda lake, table, uri: table.alter.set_table_properties({"delta.minReaderVersion": "23"}),
    lambda lake, table, uri: table.alter.set_table_properties({"delta.minWriterVersion": ""}),
    lambda lake, table, uri: lake.write_deltalake(
        uri + "2", ROWS, configuration={"delta.minWriterVersion": "1"}
    ),
    lambda lake, table, uri: table.optimize.compact(target_size="x"),
    lambda lake, table, uri: table.optimize.compact(min_commit_interval=-1),
    lambda lake, table, uri: table.to_pyarrow_table(columns="id"),
    lambda lake, table, uri: table.to_pyarrow_table(filters=[("id", "LIKE", 1)]),
    lambda lake, table, uri: kind_of(lambda: table.to_pyarrow_table(columns=["nope"])),
    lambda lake, table, uri: kind_of(lambda: table.to_pyarrow_table(filters=[("nope", "=", 1)])),
    lambda lake, table, uri: kind_of(
        lambda: table.to_pyarrow_dataset(file_pruning_predicate="nope = 1")
    ),
]


BEGINNINGS: list[tuple[str, Callable[[Any, Any, str], object]]] = [
    ("retention", lambda lake, table, uri: table.vacuum(167)),
    ("version", lambda lake, table, uri: lake.DeltaTable(uri, version=9)),
    ("there", lambda lake, table, uri: lake.DeltaTable.create(uri, ROWS.schema)),
    ("changes", lambda lake, table, uri: table.load_cdf()),
    (
        "partitions",
        lambda lake, table, uri: lake.write_deltalake(uri + "2", ROWS, partition_by="q"),
    ),
    (
        "feature",
        lambda lake, table, uri: lake.DeltaTable.create(
            uri + "2", ROWS.select(["id"]).schema
        ).alter.add_feature(lake.TableFeatures.DeletionVectors),
    ),
    ("convert", lambda lake, table, uri: lake.convert_to_deltalake(uri)),
    (
        "constraint",
        lambda lake, table, uri: [table.alter.add_constraint({"c": f"id > {n}"}) for n in (0, -1)],
    ),
]


@pytest.mark.parametrize(
    "kind",
    [
        pa.float16(),
        pa.time32("s"),
        pa.time64("us"),
        pa.duration("ms"),
        pa.decimal256(40, 2),
        pa.month_day_nano_interval(),
    ],
    ids=str,
)
def test_types_that_no_table_has_are_named_as_in_deltalake(kind: Any, tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        rows = pa.table({"a": pa.nulls(1, kind)})
        said = refusal(lambda: lake.write_deltalake(uri, rows))[1]
        return said.partition("Invalid data type for Delta Lake: ")[2].splitlines()[0]

    theirs, ours = both(tmp_path, run)
    assert str(ours).startswith(str(theirs))


@pytest.mark.parametrize(("what", "call"), BEGINNINGS, ids=[name for name, _ in BEGINNINGS])
def test_errors_begin_with_the_words_of_deltalake(
    what: str, call: Callable[[Any, Any, str], object], tmp_path: Path
) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        return refusal(lambda: call(lake, lake.DeltaTable(uri), uri))[1]

    theirs, ours = both(tmp_path, run)
    assert str(ours).startswith(str(theirs)), what


def test_what_is_refused_is_refused_alike(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(
            uri, ROWS, partition_by=["date"], configuration={"delta.appendOnly": "true"}
        )
        table = lake.DeltaTable(uri)
        return [refusal(lambda call=call: call(lake, table, uri)) for call in REFUSED]  # type: ignore[misc]

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_the_history_names_changes_of_a_table_alike(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS.select(["id"]))
        alter, field = lake.DeltaTable(uri).alter, lake.schema.Field
        alter.add_columns([field("x", "string"), field("y", "long", metadata={"k": "v"})])
        alter.set_table_name("name")
        alter.set_table_description("what it is")
        alter.set_column_metadata("id", {"comment": "a key"})
        alter.add_feature(lake.TableFeatures.DeletionVectors, True)
        alter.set_table_properties({"delta.checkpointInterval": "7"})
        history = lake.DeltaTable(uri).history(6)
        return [(entry["operation"], entry["operationParameters"]) for entry in history]

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_the_history_counts_alike(tmp_path: Path) -> None:
    """Times, and sizes of files, are left out."""
    ids = ROWS.select(["id"])

    def run(lake: Any, uri: str) -> list[dict[str, Any]]:
        lake.write_deltalake(uri, ids)
        lake.write_deltalake(uri, ids, mode="append")
        table = lake.DeltaTable(uri)
        table.optimize.compact()
        table.merge(ids, "s.id = t.id + 1", "s", "t").when_not_matched_insert_all().execute()
        table.restore(1)
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        table.alter.add_constraint({"c": "id > 0"})
        table.optimize.z_order(["id"], target_size=1 << 20)
        unlink(urlsplit(table.file_uris()[0]).path)
        table.repair()
        told = []
        for entry in table.history():
            assert entry["clientVersion"].partition(".")[0] in ("adelta", "delta-rs")
            counts = entry.get("operationMetrics", {})
            told.append(counts | {"constraints": entry["operationParameters"].get("constraints")})
        return told

    theirs, ours = both(tmp_path, run)
    assert isinstance(theirs, list)
    assert isinstance(ours, list)
    names = ("num", "constraints", "preserve", "planner", "partitions", "dry_run", "total", "max")
    left_out = ("numVacuumedDirectories", "num_target_files_added")
    for their, our in zip(theirs, ours, strict=True):
        known = {name: type(value) for name, value in their.items()}
        assert {name: type(our.get(name)) for name in known} == known
        counted = {k: v for k, v in their.items() if k.startswith(names) and k not in left_out}
        assert {name: our.get(name) for name in counted} == counted


@pytest.mark.parametrize(
    "filters", [[("id", "=", "2")], [("p", "=", "b"), ("id", ">", 5)], [("date", "in", ["a"])], []]
)
def test_files_are_left_out_of_an_optimization_by_any_column(filters: Any, tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        for each in (1, 2, 3, 6, 7):
            rows = pa.table({"id": [each, each], "date": ["a", "c"], "p": ["a", "b"]})
            lake.write_deltalake(uri, rows, mode="append", partition_by="p")
        table = lake.DeltaTable(uri)
        done = [table.optimize.compact(filters), table.optimize.z_order(["id"], filters)]
        sizes = ("filesAdded", "filesRemoved")
        return [{k: v for k, v in each.items() if k not in sizes} for each in done]

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_the_log_may_be_kept_for_less_time_than_files(tmp_path: Path) -> None:
    short = {"delta.logRetentionDuration": "interval 1 seconds", "delta.appendOnly": "false"}

    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS, configuration=short)
        lake.DeltaTable.create(uri + "1", ROWS.schema, configuration=short)
        lake.DeltaTable.create(uri + "1", ROWS.schema, mode="overwrite", configuration=short)
        lake.write_deltalake(uri + "2", ROWS)
        altered = lake.DeltaTable(uri + "2")
        altered.alter.set_table_properties(short)
        altered.alter.set_table_properties({"delta.logRetentionDuration": "interval 1 hours"})
        altered.alter.set_table_properties({"delta.checkpointInterval": "7"})
        tables = [lake.DeltaTable(each) for each in (uri, uri + "1", uri + "2")]
        return [(each.metadata().configuration, each.version()) for each in tables]

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


@pytest.mark.parametrize(
    "filters",
    [
        [("p", "not in", ["x"])],
        [("p", "not in", ["x", None])],
        [("p", "in", ["x", None])],
        [("p", "=", None)],
        [("p", "in", "x")],
        [["p", "=", "x"]],
        [[("id", ">", 3)], [("p", "not in", ("x",))]],
        [("id", ">", 1), ("p", "!=", "y")],
    ],
)
def test_filters_find_the_rows_that_pyarrow_finds(filters: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3, 4], "p": ["x", "x", "y", None]})

    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, rows, partition_by="p")
        table = lake.DeltaTable(uri)
        found = table.to_pyarrow_table(filters=filters, columns=["id"])
        return sorted(found["id"].to_pylist())

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_what_is_inside_of_a_table_changes_it(tmp_path: Path) -> None:
    """`DeltaTable._table`, by places of arguments as deltalake's own calls have them."""

    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS.select(["id"]))
        raw = lake.DeltaTable(uri)._table
        reader = ROWS.select(["id"]).to_reader()
        raw.write(reader, reader.schema, "append")
        raw.set_table_name("n")
        raw.add_constraints({"c": "id > 0"})
        raw.drop_constraints("c", True)
        raw.add_columns([lake.schema.Field("x", "string")])
        told = [raw.delete("id = 1"), raw.update({"x": "'y'"}, "id = 2"), raw.repair(True)]
        told += [raw.compact_optimize(), raw.restore(1)]
        names = [sorted(json.loads(each)) for each in told]
        parts = [str(known) for _, known in raw.dataset_partitions(raw.schema.to_arrow())]
        gone = raw.vacuum(True, 0, False)
        return names, parts, len(gone) > 0, raw.version(), raw.metadata().name

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_all_that_is_inside_of_a_table_is_there() -> None:
    ours: Any = adelta.deltalake.table.RawDeltaTable
    theirs: Any = deltalake.table.RawDeltaTable  # type: ignore[attr-defined]
    named = {name for name in vars(theirs) if not name.startswith("__")}
    assert named <= set(dir(ours))
    for name in named - {"schema", "is_deltatable"}:
        known = inspect.signature(getattr(theirs, name)).parameters
        assert list(inspect.signature(getattr(ours, name)).parameters) == list(known), name


@pytest.mark.parametrize("predicate", ["id < 3", "id < 2", "id IS NULL", "nope = 1", "id <"])
@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
def test_rows_of_a_new_table_satisfy_the_predicate(
    mode: str, predicate: str, tmp_path: Path
) -> None:
    def run(lake: Any, uri: str) -> object:
        try:
            lake.write_deltalake(uri, ROWS, mode=mode, predicate=predicate)
        except lake.exceptions.DeltaError as error:
            words = ("Invalid data found: ", "rows failed validation", "No field named", "parser")
            return [each in str(error) for each in words], lake.DeltaTable.is_deltatable(uri)
        return lake.DeltaTable(uri).count()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_columns_are_computed(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        twice = {"twice": pc.multiply(pc.field("id"), 2)}
        return lake.DeltaTable(uri).to_pyarrow_table(columns=twice).to_pydict()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs == {"twice": [2, 4]}


def test_an_update_of_nothing_does_nothing(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        table = lake.DeltaTable(uri)
        return table.update({}), table.update(new_values={}), table.version()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


PREDICATES = [
    "date ~ '^a'",
    "date !~ '^a'",
    "date ~* 'A'",
    "date !~* '^[^B]'",
    "date ~ '(?i)A$'",
    "regexp_like(date, '(?i)A')",
    "regexp_like(concat(date, 'é'), 'É', 'i')",
    "regexp_like(concat(date, chr(10)), 'a.', 's')",
    "regexp_like(concat(date, chr(10)), 'a$')",
    "regexp_replace(concat(date, 'aa'), 'a', '0') = '0aa'",
    "regexp_replace(concat(date, 'aa'), '(A)', '<\\1>', 'ig') = 'b<a><a>'",
    "regexp_count(regexp_replace(date, 'b', 'a'), 'a$') = 1",
    "array_has(array[1, 2], 1) and id = 1",
    "date ~~ 'a%'",
    "date !~~ 'a%'",
    "date ~~* 'A'",
    "date SIMILAR TO 'a|c'",
    "date NOT SIMILAR TO 'a|c'",
    "strpos(date, 'a') = 1",
    "arrow_cast(id, 'Utf8') = '1'",
    "id = arrow_cast((1), 'Int64') and date in ('a')",
    "arrow_cast(id, 'Decimal128(5, 2)') = 1.00",
]


def test_patterns_and_casts_are_written_as_in_deltalake(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        table = lake.DeltaTable(uri)
        found = [pa.table(table.scan(["id"], each)) for each in PREDICATES]
        return [sorted(rows["id"].to_pylist()) for rows in found]

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_queries_quote_names_and_texts_as_in_deltalake(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS.rename_columns(["id", "when", 'a"b']))
        queries = lake.QueryBuilder().register("t", lake.DeltaTable(uri))
        asked = """SELECT "id", "t"."a""b" AS "x y", 'it''s \\n' AS z FROM "t" WHERE "id" > 1"""
        return pa.table(queries.execute(asked)).to_pylist()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


@pytest.mark.parametrize("sql", ["INSERT INTO t VALUES (9)", "DELETE FROM t", "DROP TABLE t"])
def test_a_query_builder_changes_no_table(sql: str, tmp_path: Path) -> None:
    uri = str(tmp_path)
    lake = adelta.deltalake
    lake.write_deltalake(uri, ROWS.select(["id"]))
    queries = lake.QueryBuilder().register("t", lake.DeltaTable(uri))
    with pytest.raises(lake.exceptions.DeltaError):
        queries.execute(sql)
    assert lake.DeltaTable(uri).version() == 0
    assert queries.execute("DESCRIBE t").read_all().num_rows == 1
