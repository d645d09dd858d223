"""Functions of the library: their page, their text, what they refuse; `tests/spark` has values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.compute import can_fail, evaluate
from adelta.kernel.expressions.functions import FUNCTIONS
from adelta.kernel.expressions.nodes import Literal
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind, type_of
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import from_arrow_schema, to_arrow_type
from tools.function_table import EXAMPLES, PAGE, page

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "list": pa.array([[1, 2], None, [None, 7]], pa.list_(pa.int64())),
        "tags": pa.array([[("a", 1)], [("b", 2)], None], pa.map_(pa.string(), pa.int32())),
        "name": ["Ann", "bob", None],
    }
)
SCHEMA = from_arrow_schema(ROWS.schema)


def test_the_page_of_functions_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tools.function_table`"
    assert set(EXAMPLES) == set(FUNCTIONS)


@pytest.mark.parametrize("text", EXAMPLES.values())
def test_an_example_has_a_value_of_its_type_and_is_the_same_when_it_is_written_out(
    text: str,
) -> None:
    node = parse_expression(text)
    assert parse_expression(to_sql(node)) == node
    values = evaluate(bind(node, SCHEMA), ROWS)
    assert values.type == to_arrow_type(type_of(node, SCHEMA))
    assert bind(bind(node, SCHEMA), SCHEMA) == bind(node, SCHEMA)


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("list[0] = 1", [1]),
        ("array_contains(list, 7)", [3]),
        ("array_contains(array(id, 7), 2)", [2]),
        ("size(array()) = 0 AND id = 1", [1]),
        ("size(list) = 2 AND id > 1", [3]),
        ("tags['b'] = 2", [2]),
        ("element_at(tags, 'a') IS NOT NULL", [1]),
        ("name ILIKE 'A%'", [1]),
        ("name NOT ILIKE '%B'", [1]),
        ("split(name, 'n')[0] = 'A'", [1]),
        ("lpad(CAST(id AS STRING), 3, '0') IN ('002', '003')", [2, 3]),
        ("substring_index(concat_ws('-', name, id), '-', -1) = '3'", [3]),
    ],
)
async def test_predicates_over_files_use_them(tmp_path: Path, where: str, ids: list[int]) -> None:
    for row in range(3):  # a file each, with statistics
        await adelta.write_table(tmp_path, ROWS.slice(row, 1))
    async with adelta.open_table(tmp_path) as table:
        if where.startswith("list[0]"):  # a list that has no first element is an error
            where = f"size(list) > 0 AND {where}"
        found = await (await table.snapshot()).scan(columns=["id"], where=where).to_arrow()
    assert sorted(found.column("id").to_pylist()) == ids


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("split(name, name)", "argument 2 must be a constant"),
        ("split(name, 'x*')", "matches the empty string"),
        ("regexp_replace(name, 'a', '$10')", "more than one digit"),
        ("regexp_replace(name, 'a', '$1')", "names group 1"),
        ("list['a']", "whole number"),
        ("tags[1]", "keys are string"),
        ("id[0]", "has no elements"),
        ("array_contains(list, 'a')", "cast the value"),
        ("array(id, true)", "of one type, not"),
        ("size(name)", "no elements to count"),
        ("lpad(name, 2000000000)", "is the most"),
        ("repeat(name, 2000000000)", "is the most"),
        ("sqrt(list)", "argument 1"),
        ("xxhash64(list)", "plain types"),
        ("concat_ws(',', list)", "arrays of strings"),
        ("bround(1.5)", "argument 1"),
        ("element_at(list, 0)", "counted from 1"),
        ("initcap(name)", "initcap"),
    ],
)
def test_what_a_function_does_not_take_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidExpressionError, match=why):
        evaluate(bind(parse_expression(text), SCHEMA), ROWS)


@pytest.mark.parametrize(
    "text",
    [
        "at > TIMESTAMP_NTZ '2024-01-01' - INTERVAL 1 DAY",
        "INTERVAL 3 MONTHS 1 YEAR + day = day",
        "day - INTERVAL '1 02:03:04.5' DAY TO SECOND < at",
        "at + INTERVAL '-1.5' SECOND = at",
        "at + INTERVAL -3 WEEKS = at",
    ],
)
def test_an_interval_is_the_same_when_it_is_written_out(text: str) -> None:
    schema = t.StructType((t.StructField("at", t.TIMESTAMP), t.StructField("day", t.DATE)))
    node = parse_expression(text)
    assert parse_expression(to_sql(node)) == node
    bound = bind(node, schema, zone="Europe/Vienna")
    assert bind(bound, schema, zone="Europe/Vienna") == bound
    assert parse_expression(to_sql(bound))


@pytest.mark.parametrize(
    "text", ["1 + INTERVAL 1 DAY", "name + INTERVAL 1 DAY", "INTERVAL 1 DAY 1 MONTH", "INTERVAL x"]
)
def test_what_is_no_sum_with_an_interval_is_refused(text: str) -> None:
    with pytest.raises(InvalidExpressionError):
        bind(parse_expression(text), SCHEMA)


def test_clocks_of_a_zone_go_on_changing_after_2037() -> None:
    at = parse_expression("hour(TIMESTAMP '2050-07-01 10:00:00Z')")
    assert evaluate(bind(at, SCHEMA, zone="America/New_York"), ROWS)[0].as_py() == 6


async def test_the_current_time_is_that_of_the_statement(tmp_path: Path) -> None:
    times = [datetime.now(UTC) - timedelta(days=days) for days in (0, 3)]
    rows = pa.table({"at": pa.array(times, pa.timestamp("us", "UTC")), "day": times})
    rows = rows.set_column(1, "day", rows.column("at").cast(pa.date32()))
    await adelta.write_table(tmp_path, rows)
    async with adelta.open_table(tmp_path) as table:
        for where in (
            "at > current_timestamp() - INTERVAL 1 DAY AND at <= now()",
            "day > date_sub(CURRENT_DATE, 2)",
            "CAST(at AS TIMESTAMP_NTZ) > localtimestamp - INTERVAL 1 DAY",
        ):
            assert await (await table.snapshot()).scan(where=where).count() == 1
    await adelta.update(
        tmp_path, {"at": "current_timestamp"}, "at < current_timestamp - INTERVAL 1 DAY"
    )
    assert (await adelta.delete(tmp_path, "at <= now()")).num_deleted_rows == 2
    with pytest.raises(InvalidExpressionError, match="another one from call to call"):
        await adelta.add_constraint(tmp_path, "past", "at < current_timestamp()")


def test_a_constant_that_is_null_makes_the_value_null_and_arrays_are_not_constants() -> None:
    assert bind(parse_expression("split(name, NULL)"), SCHEMA) == Literal(
        None, t.ArrayType(t.STRING, contains_null=False)
    )
    bound = bind(parse_expression("split('a,b', ',')"), SCHEMA)
    assert not isinstance(bound, Literal)
    assert not can_fail(parse_expression("reverse(name)"))
    assert can_fail(parse_expression("list[0]"))
