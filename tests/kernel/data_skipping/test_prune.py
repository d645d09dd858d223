"""Files skipped by partition and statistics, and the traps in statistics that others wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from adelta.errors import InvalidExpressionError, InvalidTableError
from adelta.kernel.data_skipping.prune import Skipping, prune_files
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.schema import types as t
from tests.kernel.data_skipping.logged_files import SCHEMA, files, stats


@dataclass(frozen=True)
class Plan:
    schema: t.StructType = SCHEMA
    partition_columns: tuple[str, ...] = ("p",)
    mapping_mode: str = "none"


def kept(table: pa.Table, where: str, plan: Plan | None = None) -> str:
    found = prune_files(table, parse_expression(where), plan or Plan())
    return "".join(found.column("path").to_pylist())


def test_files_are_kept_where_their_bounds_meet_the_predicate():
    table = files(stats(0, 9), stats(10, 19), stats(20, 29))
    assert kept(table, "id = 15") == "1"
    assert kept(table, "id >= 10") == "12"
    assert kept(table, "id IN (0, 29, 50)") == "02"
    assert kept(table, "id BETWEEN 9 AND 10") == "01"
    assert kept(table, "NOT (id < 10 OR id > 19)") == "1"
    assert kept(table, "NOT (id = 100)") == "012"
    assert kept(files(stats(5, 5), stats(5, 6)), "id != 5") == "1"
    assert kept(table, "id = 100") == ""


def test_a_file_whose_statistics_are_missing_or_broken_is_kept():
    table = files(stats(0, 9), None, "{", "{}", stats(None, None), '{"minValues":{"id":50}}')
    assert kept(table, "id = 100") == "12345"
    assert kept(table, "id = 20") == "1234"


def test_a_file_of_nulls_only_satisfies_is_null_alone():
    table = files(stats(None, None, nulls=10), stats(0, 9, nulls=3), stats(0, 9))
    assert kept(table, "id IS NULL") == "01"
    assert kept(table, "id IS NOT NULL") == "12"
    assert kept(table, "id = 5") == "12"
    assert kept(table, "NOT (id = 5)") == "12"


def test_partition_values_are_compared_in_their_type_and_decide_first():
    table = files(*[stats(0, 9)] * 4, partitions=["9", "10", None, ""])
    assert kept(table, "p > 9") == "1"
    assert kept(table, "p IS NULL") == "23"
    assert kept(table, "p = 9 OR id = 100") == "0"
    assert kept(table, "p = 9 AND id = 100") == ""
    assert kept(table, "id >= p") == "023"
    assert kept(table, "id > p") == "23"


def test_statistics_are_read_only_for_files_that_partition_values_keep(monkeypatch):
    seen: list[int] = []
    inner = Skipping.logged_statistics_mask

    def count(self: Skipping, texts: pa.ChunkedArray, *others: Any) -> pa.BooleanArray:
        seen.append(len(texts))
        return inner(self, texts, *others)

    monkeypatch.setattr(Skipping, "logged_statistics_mask", count)
    table = files(*[stats(0, 9)] * 4, partitions=["1", "2", "2", "3"])
    assert kept(table, "p = 2 AND id = 5") == "12"
    assert kept(table, "p = 2") == "12"
    assert seen == [2]


def test_a_broken_partition_value_is_an_error_that_names_the_column():
    with pytest.raises(InvalidTableError, match="p"):
        kept(files(stats(0, 9), partitions=["one"]), "p = 1")


def test_a_predicate_that_fails_on_a_bound_keeps_the_files():
    assert kept(files(stats(0, 9), stats(5, 6)), "6 / p = 6 AND id = 0") == "0"
    with pytest.raises(InvalidExpressionError, match="no column"):
        kept(files(stats(0, 9)), "nothing = 1")


def test_columns_of_a_mapped_table_are_found_by_their_physical_names():
    def mapped(name: str, physical: str, kind: t.DataType) -> t.StructField:
        return t.StructField(name, kind, True, {"delta.columnMapping.physicalName": physical})

    schema = t.StructType((mapped("id", "col-1", t.LONG), mapped("p", "col-2", t.INTEGER)))
    plan = Plan(schema, ("p",), "name")
    table = files(stats(0, 9, column="col-1"), stats(10, 19, column="col-1"))
    maps = pa.array([[("col-2", "1")], [("col-2", "2")]], pa.map_(pa.string(), pa.string()))
    table = table.set_column(
        table.schema.get_field_index("partition_values"), "partition_values", maps
    )
    assert kept(table, "id = 15", plan) == "1"
    assert kept(table, "p = 1", plan) == "0"


def test_stats_parsed_is_used_and_json_where_a_file_has_none():
    side = pa.struct([("id", pa.int64())])
    parsed = pa.array(
        [
            {
                "numRecords": 1,
                "minValues": {"id": 0},
                "maxValues": {"id": 9},
                "nullCount": {"id": 0},
            },
            None,
            None,
        ],
        pa.struct(
            [
                ("numRecords", pa.int64()),
                ("minValues", side),
                ("maxValues", side),
                ("nullCount", side),
            ]
        ),
    )
    table = files(None, stats(10, 19), None).append_column("stats_parsed", parsed)
    assert kept(table, "id = 15") == "12"
    assert kept(table, "id = 5") == "02"
    assert kept(table, "s = 'a'") == "012"


# -------------------------------------------------------------------------------------- the traps


def test_a_maximum_that_was_cut_to_milliseconds_still_covers_its_microseconds():
    table = files(stats("2020-01-01T00:00:00.000Z", "2020-01-01T00:00:00.123Z", column="at"))
    assert kept(table, "at = TIMESTAMP '2020-01-01 00:00:00.123456Z'") == "0"
    assert kept(table, "at > TIMESTAMP '2020-01-01 00:00:00.123456Z'") == "0"
    assert kept(table, "at > TIMESTAMP '2020-01-01 00:00:00.124Z'") == ""
    end = stats("2020-01-01T00:00:00.000Z", "294247-01-10T04:00:54.775Z", column="at")
    assert kept(files(end), "at > TIMESTAMP '2020-01-01 00:00:00Z'") == "0"


@pytest.mark.parametrize("year", ["1950", "1970", "2020"])
def test_files_are_skipped_by_both_ends_of_their_timestamps(year):
    table = files(stats(f"{year}-01-01T00:00:00.000Z", f"{year}-01-02T00:00:00.000Z", column="at"))
    assert kept(table, f"at < TIMESTAMP '{year}-01-01 00:00:00.001Z'") == "0"
    assert kept(table, f"at < TIMESTAMP '{int(year) - 1}-12-31 23:00:00Z'") == ""
    assert kept(table, f"at > TIMESTAMP '{year}-01-02 01:00:00Z'") == ""


@pytest.mark.parametrize("text", ["2020-01-01", "2020-01-01T00:00:00"])
def test_a_timestamp_whose_zone_nobody_knows_excludes_nothing(text):
    table = files(stats(text, text, column="at"), stats("2020-01-01T00:00:00Z", "", column="at"))
    assert kept(table, "at > TIMESTAMP '2030-01-01 00:00:00Z'") == "01"


def test_old_offsets_that_were_cut_to_minutes_still_cover_their_seconds():
    table = files(
        stats("1890-01-01T00:00:00.000+00:53", "1890-01-01T00:00:00.000+00:53", column="at")
    )
    assert kept(table, "at = TIMESTAMP '1889-12-31 23:06:32Z'") == "0"
    assert kept(table, "at = TIMESTAMP '1889-12-31 23:00:00Z'") == ""


def test_dates_before_the_gregorian_calendar_are_covered_in_either_calendar():
    table = files(stats("1001-01-01", "1001-01-01", column="d"))
    assert kept(table, "d = DATE '1001-01-07'") == "0"
    assert kept(table, "d = DATE '1001-03-01'") == ""


def test_a_float_maximum_that_leaves_out_nan_does_not_hide_it():
    table = files(stats(0.0, 1.0, column="x"))
    assert kept(table, "x > 5") == "0"
    assert kept(table, "x = CAST('NaN' AS DOUBLE)") == "0"
    assert kept(table, "x = 5") == ""
    assert kept(table, "x < -1") == ""
    assert kept(files(stats(-0.0, -0.0, column="x")), "x = 0") == "0"


def test_decimals_of_up_to_15_digits_are_compared_exactly():
    table = files(stats(-999_999_999_999_999, 999_999_999_999_999, column="n"))
    assert kept(table, "n = 999999999999999") == "0"
    assert kept(table, "n = 1000000000000000") == ""
    assert kept(table, "n < -999999999999999") == ""


def test_decimals_beyond_a_double_are_found_although_their_bounds_were_rounded():
    table = files(stats(100_000_000_000_000_000, 100_000_000_000_000_000, column="n"))
    assert kept(table, "n = 99999999999999999") == "0"
    assert kept(table, "n > 100000000000000000") == "0"
    assert kept(table, "n = 100000000000000500") == ""
    assert kept(table, "n < 99999999999999500") == ""


def test_a_decimal_bound_at_a_limit_of_int64_excludes_no_file():
    for limit in (-(2**63), 2**63 - 1):
        table = files(stats(limit, limit, column="n"))
        assert kept(table, "n = 99999999999999999999") == "0"
        assert kept(table, "n = -99999999999999999999") == "0"
    assert kept(files(stats(2**63 - 1, 2**63 - 1)), "id < 5") == ""


def test_a_decimal_bound_that_cannot_be_moved_within_its_type_excludes_no_file():
    greatest = "9" * 20
    table = files(stats(int(greatest), int(greatest), column="n"))
    assert kept(table, f"n = {greatest}") == "0"
    assert kept(table, "n = 1") == ""


def test_nan_as_the_minimum_of_a_file_with_numbers_excludes_no_file():
    table = files(stats("NaN", "NaN", column="x"))
    assert kept(table, "x = 5") == "0"
    assert kept(table, "x < 5") == "0"


def test_a_maximum_that_was_cut_within_a_surrogate_pair_covers_the_whole_character():
    table = files(stats("a", "a" * 31 + "?\ufffd", column="s"))
    assert kept(table, f"s = '{'a' * 31}😀b'") == "0"
    assert kept(table, "s = 'b'") == ""


def test_a_shortened_maximum_closed_with_a_character_that_is_not_the_greatest_covers_emoji():
    table = files(stats("a" * 32, "a" * 32 + "\ufffd", column="s"))
    assert kept(table, f"s = '{'a' * 32}😀'") == "0"
    assert kept(table, "s = 'b'") == ""


def test_nothing_closes_a_shortened_maximum_behind_the_last_character_of_all():
    last = "a" * 31 + "\U0010ffff"
    table = files(stats("a" * 32, last + "\ufffd", column="s"))
    assert kept(table, f"s = '{last + chr(0x10FFFF) * 3}'") == "0"
    assert kept(table, "s < 'a'") == ""


def test_strings_are_ordered_by_their_bytes():
    table = files(stats("\uffff", "😀", column="s"))
    assert kept(table, "s = '\U00010000'") == "0"
    assert kept(table, "s LIKE 'x%'") == ""


def test_wide_bounds_with_a_deletion_vector_change_nothing():
    wide = json.dumps(
        {
            "numRecords": 10,
            "tightBounds": False,
            "minValues": {"id": 0},
            "maxValues": {"id": 9},
            "nullCount": {"id": 4},
        }
    )
    assert kept(files(wide, deleted=3), "id = 9") == "0"
    assert kept(files(wide, deleted=3), "id IS NULL") == "0"
    assert kept(files(wide, deleted=3), "id = 10") == ""


# ------------------------------------------------------------------------------------ other sources


def test_row_groups_are_skipped_by_the_same_predicate_over_footer_statistics():
    skipping = Skipping.of(parse_expression("id = 5"), SCHEMA, ["p"])
    columns = {
        ("minValues", "id"): pa.array([0, 6, None], pa.int64()),
        ("maxValues", "id"): pa.array([5, 9, None], pa.int64()),
    }
    assert skipping.statistics_mask(columns, {}, 3).to_pylist() == [True, False, True]


def test_a_predicate_names_the_statistics_that_it_needs():
    skipping = Skipping.of(parse_expression("id = 5 AND p = 1 AND s IS NULL"), SCHEMA, ["p"])
    assert {s.path for s in skipping.statistics} == {
        ("minValues", "id"),
        ("maxValues", "id"),
        ("nullCount", "id"),
        ("nullCount", "s"),
        ("numRecords",),
    }
    assert [f.name for f in skipping.partition_fields] == ["p"]
    assert Skipping.of(parse_expression("p = 1"), SCHEMA, ["p"]).by_statistics is None


# ------------------------------------------------------------------------------------------ counts


def test_bounds_in_the_digits_of_floats_cover_the_doubles_that_these_have_become():
    """0.1 are the shortest digits of a float which as a double is 0.10000000149, and 0.7 of one
    which is less than that double."""
    changes = [{"fromType": "float", "toType": "double"}]
    schema = t.StructType((t.StructField("x", t.DOUBLE, metadata={"delta.typeChanges": changes}),))
    for digits in (0.1, 0.7, -0.1):
        text = json.dumps({"numRecords": 1, "minValues": {"x": digits}, "maxValues": {"x": digits}})
        value = float(np.float32(digits))
        for op in ("=", "<=", ">="):
            where = f"x {op} CAST('{value}' AS DOUBLE)"
            skipping = Skipping.of(parse_expression(where), schema, ())
            for count in (1, 2_000):  # the texts of many are told without being parsed
                mask = skipping.logged_statistics_mask(pa.array([text] * count), None, {}, count)
                assert mask.true_count == count, where


def test_nulls_that_a_writer_may_have_counted_by_elements_exclude_no_file():
    schema = t.StructType((t.StructField("a", t.ArrayType(t.LONG, contains_null=True)),))
    text = json.dumps({"numRecords": 1, "nullCount": {"a": 2}})  # of one list of two NULLs
    skipping = Skipping.of(parse_expression("a IS NOT NULL"), schema, ())
    assert skipping.logged_statistics_mask(pa.array([text]), None, {}, 1).to_pylist() == [True]
