"""What calls take, refuse and answer, argument by argument: by both packages."""

from __future__ import annotations

import json
import os
import re
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest

import adelta.deltalake
from tests.deltalake.test_same_edges import both

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"], "f": [1.5, None, 4.0]})
HOUR = 3_600_000
BEGAN = 1_700_000_000_000  # 2023-11-14T22:13:20Z


def answer(run: Callable[[], object]) -> object:
    """What is answered, or the class of the error and what both packages say of it."""
    try:
        return run()
    except Exception as error:
        own = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ != "builtins"]
        told = str(error) if isinstance(error, TypeError) and "instance of" in str(error) else ""
        return own or type(error).__name__, told


def test_flags_are_true_or_false(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        table = lake.DeltaTable(uri)
        feature = lake.TableFeatures.DeletionVectors
        calls: list[Callable[[Any], object]] = [
            lambda flag: table.vacuum(dry_run=flag),
            lambda flag: table.vacuum(enforce_retention_duration=flag),
            lambda flag: table.repair(dry_run=flag),
            lambda flag: table.restore(0, ignore_missing_files=flag),
            lambda flag: table.get_add_actions(flag),
            lambda flag: table.load_cdf(allow_out_of_range=flag),
            lambda flag: table.merge(ROWS, "true", merge_schema=flag),
            lambda flag: table.alter.drop_constraint("c", raise_if_not_exists=flag),
            lambda flag: table.alter.set_table_properties({}, raise_if_not_exists=flag),
            lambda flag: table.alter.add_feature(feature, allow_protocol_versions_increase=flag),
        ]
        refused = [answer(partial(call, flag)) for call in calls for flag in (None, 1, "x")]
        return refused, table.version()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


SIZES = ("data_page_size_limit", "max_row_group_size", "statistics_truncate_length")


def write_with(lake: Any, uri: str, name: str) -> None:
    properties = lake.WriterProperties(**{name: -1})
    lake.write_deltalake(uri, ROWS, writer_properties=properties)


def test_arguments_of_other_types_are_refused_alike(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        table, create = lake.DeltaTable(uri), lake.DeltaTable.create
        none = uri + "-none"
        return [
            answer(lambda: create(none, ROWS.schema, name=1)),
            answer(lambda: create(none, ROWS.schema, description=1)),
            answer(lambda: create(none, ROWS.schema, configuration="x")),
            answer(lambda: table.alter.set_column_metadata(1, {})),
            answer(lambda: table.history(1.5)),
            answer(lambda: table.compact_logs(-1, 0)),
            answer(lambda: table.compact_logs("a", 0)),
            answer(lambda: table.transaction_version(None)),
            answer(lambda: lake.write_deltalake(none, ROWS, name=1)),
            answer(lambda: lake.write_deltalake(none, ROWS, target_file_size=1.5)),
            answer(lambda: lake.write_deltalake(uri, ROWS, mode="append", schema_mode=1)),
            answer(lambda: lake.write_deltalake(none, ROWS, partition_by=["s", "s"]))[1:],
            answer(lambda: table.merge(ROWS, "true", 1, 2)),
            answer(lambda: table.merge(ROWS, "true").when_matched_update(None)),
            answer(lambda: table.scan(columns="id")),
            answer(lambda: table.scan(columns=["id", "id"])),
            answer(lambda: table.scan(predicate=3)),
            *(answer(partial(write_with, lake, none, name)) for name in SIZES),
            answer(lambda: create(uri, ROWS.schema, mode="Overwrite").version()),
        ]

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


RANGES: list[dict[str, Any]] = [
    {"starting_version": None},
    {"starting_version": -1},
    {"starting_version": "1"},
    {"starting_version": 1.0},
    {"ending_timestamp": "1999-01-01T00:00:00Z"},
    {
        "starting_timestamp": "2023-11-14T23:30:00Z",
        "ending_timestamp": "2023-11-14T23:00:00Z",
    },
    {"starting_version": 1, "starting_timestamp": "2023-11-15T00:00:00Z"},
    {"starting_timestamp": "2023-11-14T23:30:00Z", "ending_version": 1},
    {"ending_timestamp": "2023-11-14T23:30:00Z"},
    {"columns": ["nope"]},
    {"columns": ["s", "id", "s"]},
    {"columns": "id"},
    {"columns": ["s"], "predicate": "id = 1"},
    {"predicate": "nope = 1"},
    {"predicate": "id ="},
    {"predicate": 3},
]


def test_ranges_of_changes_are_answered_alike(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        feed = {"delta.enableChangeDataFeed": "true"}
        lake.write_deltalake(uri, ROWS, configuration=feed)
        early = lake.DeltaTable(uri)
        table = lake.DeltaTable(uri)
        table.update({"f": "9.0"}, predicate="id = 1")
        table.delete("id = 2")
        for version in range(3):
            file = Path(uri) / "_delta_log" / f"{version:020d}.json"
            when = BEGAN + version * HOUR
            file.write_text(re.sub(r'("timestamp":)\d+', rf"\g<1>{when}", file.read_text()))
            os.utime(file, (when / 1000, when / 1000))

        def read(handle: Any, asked: dict[str, Any]) -> object:
            found = pa.table(handle.load_cdf(**asked))
            return found.column_names, sorted(map(str, found.to_pylist()))

        anew = lake.DeltaTable(uri)
        answers = [answer(partial(read, anew, asked)) for asked in RANGES]
        return answers, answer(partial(read, early, {}))

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_files_are_listed_with_the_columns_that_have_statistics(tmp_path: Path) -> None:
    rows = ROWS.append_column("st", pa.array([{"x": 1, "y": "a"}] * 3)).append_column(
        "z", [[1]] * 3
    )

    def run(lake: Any, uri: str) -> object:
        found = []
        for number, (partitions, properties) in enumerate(
            [
                (["s", "id"], {}),
                (["f"], {"delta.dataSkippingNumIndexedCols": "3"}),
                (None, {"delta.dataSkippingNumIndexedCols": "0"}),
                (None, {"delta.dataSkippingNumIndexedCols": "-1"}),
                (None, {"delta.dataSkippingStatsColumns": "f,id"}),
            ]
        ):
            at = f"{uri}{number}"
            lake.write_deltalake(at, rows, partition_by=partitions, configuration=properties)
            for flat in (True, False):
                schema = pa.schema(lake.DeltaTable(at).get_add_actions(flat).schema)
                found.append([(field.name, str(field.type)) for field in schema])
        return found

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_a_partition_of_nulls_is_in_no_range_of_numbers(tmp_path: Path) -> None:
    numbers = {
        "byte": (pa.array([1, 2, None], pa.int8()), 1, "byte > 1"),
        "short": (pa.array([1, 2, None], pa.int16()), 1, "short > 1"),
        "dec": (pa.array([Decimal("1.5"), Decimal("2.5"), None]), "1.5", "dec > 2"),
    }

    def run(lake: Any, uri: str) -> object:
        found = []
        for name, (values, value, text) in numbers.items():
            rows = ROWS.append_column(name, values)
            lake.write_deltalake(uri + name, rows, partition_by=name)
            table = lake.DeltaTable(uri + name)
            asked = [text, *([(name, op, value)] for op in ("=", "!=", "<", ">", "<=", ">="))]
            asked.append([(name, "in", [value])])
            for each in asked:
                kept = table.partitions(file_pruning_predicate=each)
                found.append(sorted(map(str, kept)))
            table.delete(text)
            told = table.history(1)[0]["operationMetrics"]
            found.append([str(told["num_copied_rows"])])
        return found

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_files_that_are_gone_and_logs_that_are_damaged_are_told_alike(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        table = lake.DeltaTable(uri)
        (file,) = table.file_uris()
        table.delete()
        os.unlink(file)
        restored = answer(lambda: table.restore(0))
        log = Path(uri + "-damaged") / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020d}.json").write_text("no JSON")
        return restored, lake.DeltaTable.is_deltatable(uri + "-damaged")

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


@pytest.mark.filterwarnings("ignore:.partitions. is deprecated")
def test_columns_inside_and_conditions_on_them_are_written_alike(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "st": [{"x": 1}, {"x": 2}], "p": ["a", "b"]})

    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, rows, partition_by=("p",))
        lake.write_deltalake(uri, rows, mode="append", partition_by=("p",))
        table = lake.DeltaTable(uri)
        found = [
            table.to_pyarrow_table(columns=["st.x", "id"]).sort_by("id").to_pydict(),
            answer(lambda: table.to_pyarrow_table(columns=["st.nope"])),
            sorted(table.to_pyarrow_table(partitions="p = 'a'")["id"].to_pylist()),
            pa.table(table.scan(["id"], "st['x'] = 1"))["id"].to_pylist(),
            answer(lambda: pa.table(table.scan(["id"], "st['nope'] = 1"))),
        ]
        merge = table.merge(rows.slice(0, 1), "t.id = s.id AND t.st['x'] = 1", "s", "t")
        merge.when_matched_delete().execute()
        return found, table.to_pyarrow_table()["id"].to_pylist()

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_constraints_come_in_one_commit_or_not_at_all(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        table = lake.DeltaTable(uri)
        table.alter.add_constraint({"c": "id > 0", "d": "id < 10"})
        told = table.history(1)[0]
        refused = answer(lambda: table.alter.add_constraint({"e": "id > 0", "g": "id > 10"}))
        table.alter.add_constraint({"c": "id > 0", "h": "id < 100"})
        names = [each["name"] for each in json.loads(told["operationParameters"]["constraints"])]
        return refused, told["operation"], sorted(names), table.version(), table.metadata()

    theirs, ours = both(tmp_path, run)
    assert ours[:4] == theirs[:4]  # type: ignore[index]
    assert ours[4].configuration == theirs[4].configuration  # type: ignore[index]


def test_decimals_of_a_negative_scale_are_no_type_of_a_table(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        schema = pa.schema([("x", pa.decimal128(5, -2))])
        with pytest.raises(Exception, match="Negative scales are not supported in Delta"):
            lake.Schema.from_arrow(schema)
        with pytest.raises(Exception, match="Negative scales are not supported in Delta"):
            lake.DeltaTable.create(uri, schema)
        return lake.DeltaTable.is_deltatable(uri)

    assert both(tmp_path, run) == (False, False)


def test_a_merge_is_executed_once(tmp_path: Path) -> None:
    lake = adelta.deltalake
    lake.write_deltalake(str(tmp_path), ROWS)
    merge = lake.DeltaTable(str(tmp_path)).merge(ROWS.slice(0, 1), "s.id = t.id", "s", "t")
    merge.when_not_matched_by_source_delete("t.id = 2")
    merge.execute()
    with pytest.raises(lake.exceptions.DeltaError, match="has been executed"):
        merge.execute()
    assert sorted(lake.DeltaTable(str(tmp_path)).to_pyarrow_table()["id"].to_pylist()) == [1, 3]


def write_null(lake: Any, uri: str) -> None:
    """Write a null into a column that forbids it."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.string())])
    lake.DeltaTable.create(uri, schema)
    rows = pa.table({"id": pa.array([None, 1], pa.int64()), "s": ["a", "b"]})
    lake.write_deltalake(uri, rows, mode="append")


def test_key_words_of_deltalakes_errors_are_there(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        table = lake.DeltaTable(uri)
        twice = pa.concat_tables([ROWS, ROWS])
        calls: list[tuple[Callable[[], object], str]] = [
            (
                lambda: (
                    table.merge(twice, "s.id = t.id", "s", "t").when_matched_update_all().execute()
                ),
                "MERGE matched a target row with multiple source rows that satisfy duplicate "
                "relevant WHEN MATCHED clauses",
            ),
            (
                lambda: table.merge(ROWS, "s.zz = t.id", "s", "t").when_matched_delete().execute(),
                "Schema error: No field named s.zz.",
            ),
            (
                lambda: lake.write_deltalake(
                    uri, ROWS.set_column(0, "id", pa.array(["x"] * 3)), mode="append"
                ),
                "Cast error: Cannot cast string 'x' to value of Int64 type",
            ),
            (
                lambda: lake.write_deltalake(uri + "2", ROWS, partition_by=["s", "s"]),
                "Kernel error: Generic delta kernel error: Duplicate partition column: 's'",
            ),
            (
                lambda: table.alter.add_constraint({"few": "id > 2"}),
                "2 rows failed validation check",
            ),
            (
                lambda: table.alter.set_table_properties({"delta.nope": "1"}),
                "Kernel: Generic delta kernel error: Error parsing property 'delta.nope'",
            ),
            (
                lambda: table.load_cdf(starting_version=5).read_all(),
                "External error: Invalid table version: 5",
            ),
            (lambda: write_null(lake, uri + "3"), "1 rows failed validation check"),
        ]
        for call, words in calls:
            with pytest.raises(Exception, match=re.escape(words)):
                call()
        return None

    both(tmp_path, run)


def test_categories_of_polars_are_texts(tmp_path: Path) -> None:
    """deltalake's writer fails at them."""
    frame = pl.DataFrame({"c": pl.Series(["x", None, "y"], dtype=pl.Categorical)})
    adelta.deltalake.write_deltalake(str(tmp_path), frame)
    found = adelta.deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert found.to_pydict() == {"c": ["x", None, "y"]}
