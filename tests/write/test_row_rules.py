"""Constraints, invariants, generated columns and defaults: enforced for every row written."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest

from adelta.errors import (
    InvalidExpressionError,
    InvalidTableError,
    InvariantViolationError,
    SchemaMismatchError,
)
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.types import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from adelta.operations import create_table, write_table
from adelta.write.row_rules import RowRules

if TYPE_CHECKING:
    from adelta.table import Table

GENERATION = "delta.generationExpression"


async def new_table(*fields: StructField, **constraints: str) -> Table:
    return await create_table(
        f"memory://{uuid.uuid4()}/table",
        StructType(fields),
        properties={f"delta.constraints.{name}": text for name, text in constraints.items()},
    )


def invariant(text: str) -> dict[str, str]:
    return {"delta.invariants": orjson.dumps({"expression": {"expression": text}}).decode()}


async def contents(table: Table) -> list[dict[str, Any]]:
    return (await (await table.snapshot()).scan().to_arrow()).to_pylist()


# ------------------------------------------------------------------------------------- constraints


async def test_rows_that_break_a_constraint_are_refused_with_the_first_of_them_shown() -> None:
    table = await new_table(StructField("id", LONG), StructField("n", LONG), positive="n > 0")
    await write_table(table, pa.table({"id": [1], "n": [5]}))
    with pytest.raises(
        InvariantViolationError,
        match=r"CHECK constraint 'positive' \(n > 0\) is violated by 2 of 3 rows.*n = -7;",
    ):
        await write_table(table, pa.table({"id": [2, 3, 4], "n": [1, -7, -8]}))
    assert len(await contents(table)) == 1
    live = (await (await table.snapshot()).files())["path"].to_pylist()
    assert [m.path async for page in table.store.list() for m in page if "part-" in m.path] == live


async def test_a_constraint_that_is_null_for_a_row_is_broken() -> None:
    table = await new_table(StructField("id", LONG), StructField("n", LONG), positive="n > 0")
    with pytest.raises(InvariantViolationError, match="n = None"):
        await write_table(table, pa.table({"id": [1]}))


async def test_every_batch_is_checked() -> None:
    table = await new_table(StructField("n", LONG), positive="n > 0")
    batches = [pa.record_batch({"n": [1]}), pa.record_batch({"n": [0]})]
    with pytest.raises(InvariantViolationError):
        await write_table(table, batches)
    assert await contents(table) == []


async def test_a_constraint_sees_the_rows_in_the_types_of_the_table() -> None:
    table = await new_table(StructField("n", STRING), short="length(n) < 3")
    await write_table(table, pa.table({"N": pa.array([12], pa.int64())}))
    with pytest.raises(InvariantViolationError):
        await write_table(table, pa.table({"N": pa.array([123], pa.int64())}))


async def test_a_constraint_that_cannot_be_evaluated_stops_writing_by_its_name() -> None:
    table = await new_table(StructField("n", LONG), odd="my_udf(n)", fine="n > 0")
    with pytest.raises(InvalidExpressionError, match=r"constraint 'odd' \(my_udf\(n\)\).*my_udf"):
        await write_table(table, pa.table({"n": [1]}))
    table = await new_table(StructField("n", LONG), gone="m > 0")
    with pytest.raises(InvalidExpressionError, match=r"constraint 'gone' .*m"):
        await write_table(table, pa.table({"n": [1]}))


async def test_an_overwrite_is_checked_and_a_condition_beside_it() -> None:
    table = await new_table(StructField("n", LONG), positive="n > 0")
    await write_table(table, pa.table({"n": [1]}))
    for where in (None, "n < 10"):
        with pytest.raises(InvariantViolationError, match="positive"):
            await write_table(table, pa.table({"n": [0]}), mode="overwrite", replace_where=where)
    assert await contents(table) == [{"n": 1}]


async def test_column_invariants_are_enforced_at_any_depth() -> None:
    inner = StructType((StructField("x", LONG, True, invariant("s.x > 3")),))
    table = await new_table(StructField("s", inner), StructField("n", LONG, True, invariant("n<9")))
    await write_table(table, pa.table({"s": [{"x": 4}], "n": [8]}))
    for broken in ({"s": [{"x": 3}], "n": [8]}, {"s": [{"x": 4}], "n": [9]}, {"s": [None]}):
        with pytest.raises(InvariantViolationError, match="invariant of column"):
            await write_table(table, pa.table(broken))


def test_a_damaged_invariant_is_named() -> None:
    schema = StructType((StructField("n", LONG, True, {"delta.invariants": "n > 3"}),))
    with pytest.raises(InvalidTableError, match="column 'n' has the invariant n > 3"):
        RowRules.of(schema, {}, generates=True, has_defaults=True)


async def test_nulls_are_refused_wherever_the_schema_forbids_them() -> None:
    inner = StructType((StructField("x", LONG, False),))
    table = await new_table(
        StructField("id", LONG, False),
        StructField("s", inner),
        StructField("l", ArrayType(LONG, False)),
    )
    await write_table(table, pa.table({"id": [1, 2], "s": [None, {"x": 1}], "l": [None, [1]]}))
    with pytest.raises(InvariantViolationError, match="column 'id' may not be null"):
        await write_table(table, pa.table({"id": pa.array([None], pa.int64())}))
    with pytest.raises(InvariantViolationError, match=r"column 's\.x' may not be null"):
        await write_table(table, pa.table({"id": [3], "s": [{"x": None}]}))
    with pytest.raises(InvariantViolationError, match=r"column 'l\.element' may not be null"):
        await write_table(table, pa.table({"id": [3], "l": [[1, None]]}))
    with pytest.raises(SchemaMismatchError, match="no column 'id'"):
        await write_table(table, pa.table({"s": [{"x": 1}]}))


# --------------------------------------------------------------------------------- computed columns


async def test_a_generated_column_is_computed_where_it_is_left_out() -> None:
    table = await create_table(
        f"memory://{uuid.uuid4()}/table",
        StructType(
            (
                StructField("day", DATE, False, {GENERATION: "CAST(at AS DATE)"}),
                StructField("at", TIMESTAMP),
                StructField("twice", INTEGER, True, {GENERATION: "n * 2"}),
                StructField("n", INTEGER),
            )
        ),
        partition_by=["day"],
    )
    at = datetime(2024, 5, 6, 23, 30, tzinfo=UTC)
    await write_table(table, pa.table({"at": [at], "n": pa.array([4], pa.int8())}))
    expected = {"day": date(2024, 5, 6), "at": at, "twice": 8, "n": 4}
    assert await contents(table) == [expected]
    files = (await (await table.snapshot()).files()).to_pylist()
    assert files[0]["partition_values"] == [("day", "2024-05-06")]
    with pytest.raises(InvariantViolationError, match="'day' may not be null"):
        await write_table(table, pa.table({"n": [1]}))


async def test_a_generated_column_that_is_given_has_to_agree() -> None:
    table = await new_table(
        StructField("n", LONG), StructField("twice", LONG, True, {GENERATION: "n * 2"})
    )
    await write_table(table, pa.table({"n": [1, None], "TWICE": [2, None]}))
    for wrong in ([3], [None]):
        with pytest.raises(
            InvariantViolationError, match="generation expression of column 'twice'"
        ):
            await write_table(table, pa.table({"n": [1], "twice": pa.array(wrong, pa.int64())}))


async def test_an_overflow_in_a_generated_column_is_an_error() -> None:
    table = await new_table(
        StructField("n", LONG), StructField("twice", LONG, True, {GENERATION: "n * 2"})
    )
    with pytest.raises(InvalidExpressionError, match="generated column 'twice'"):
        await write_table(table, pa.table({"n": [1 << 62]}))


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("nope + 1", INTEGER, "generated_by_unknown_column"),
        ("twice + 1", INTEGER, "generated_by_unknown_column"),
        ("id + 1", DATE, "generated_of_other_type"),
        ("id + rand()", INTEGER, "generated_at_random"),
        ("CAST(Uuid ( ) AS INT)", INTEGER, "generated_at_random"),
        ("max(id) + 1", INTEGER, "generated_by_aggregate"),
        ("row_number() OVER (ORDER BY id)", INTEGER, "generated_by_other_rows"),
        ("(SELECT 1)", INTEGER, "generated_by_other_rows"),
        ("explode(array(id))", INTEGER, "generated_by_other_rows"),
        ("current_date", DATE, "generated_by_statement"),
        ("id + day(current_timestamp())", INTEGER, "generated_by_statement"),
    ],
)
async def test_a_column_that_could_never_be_generated_is_refused(text, kind, reason) -> None:
    twice = StructField("twice", INTEGER, metadata={GENERATION: "id * 2"})
    wrong = StructField("wrong", kind, metadata={GENERATION: text})
    with pytest.raises(SchemaMismatchError, match="column 'wrong' is generated by") as caught:
        await new_table(StructField("id", INTEGER), twice, wrong)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "text",
    ["`rand`(id)", "hash_it('uuid()')", "hash_it(max)", "hash_it(current_date)", "my.max(id)"],
)
async def test_a_column_may_be_generated_by_what_only_others_evaluate(text) -> None:
    names = ("id", "max", "current_date")
    columns = [StructField(name, INTEGER) for name in names]
    await new_table(*columns, StructField("n", INTEGER, metadata={GENERATION: text}))


async def test_a_generation_expression_that_cannot_be_evaluated_stops_writing() -> None:
    table = await new_table(
        StructField("n", LONG), StructField("h", LONG, True, {GENERATION: "hash_it(n)"})
    )
    with pytest.raises(InvalidExpressionError, match=r"column 'h' \(hash_it\(n\)\)"):
        await write_table(table, pa.table({"n": [1]}))


async def test_columns_that_are_left_out_get_their_defaults() -> None:
    table = await new_table(
        StructField("id", LONG),
        StructField("state", STRING, False, {"CURRENT_DEFAULT": "'new'"}),
        StructField("n", LONG, True, {"CURRENT_DEFAULT": "1 + 1"}),
        StructField("odd", STRING, True, {"CURRENT_DEFAULT": "session_user()"}),
        StructField("none", STRING, True, {"CURRENT_DEFAULT": "NULL"}),
    )
    await write_table(table, pa.table({"id": [1], "odd": ["o"]}))
    await write_table(table, pa.table({"id": [2], "odd": ["o"], "N": [None], "state": ["given"]}))
    assert sorted(tuple(row.values()) for row in await contents(table)) == [
        (1, "new", 2, "o", None),
        (2, "given", None, "o", None),
    ]
    with pytest.raises(InvalidExpressionError, match=r"default of column 'odd' \(session_user"):
        await write_table(table, pa.table({"id": [3]}))


async def test_constraints_and_generated_columns_see_defaults() -> None:
    table = await create_table(
        f"memory://{uuid.uuid4()}/table",
        StructType(
            (
                StructField("id", LONG),
                StructField("n", LONG, True, {"CURRENT_DEFAULT": "3"}),
                StructField("m", LONG, True, {GENERATION: "n + 1"}),
            )
        ),
        properties={"delta.constraints.small": "m < 10"},
    )
    await write_table(table, pa.table({"id": [1]}))
    assert await contents(table) == [{"id": 1, "n": 3, "m": 4}]
    with pytest.raises(InvariantViolationError, match="small"):
        await write_table(table, pa.table({"id": [1], "n": [9]}))


def test_metadata_of_features_that_the_table_does_not_support_computes_nothing() -> None:
    schema = StructType(
        (
            StructField("n", LONG, True, {"CURRENT_DEFAULT": "3"}),
            StructField("m", LONG, True, {GENERATION: "n + 1"}),
        )
    )
    rules = RowRules.of(schema, {}, generates=False, has_defaults=False)
    assert rules.defaults == ()
    assert rules.generated == ()


# ---------------------------------------------------------------------------------------- lengths


async def test_texts_of_sparks_char_and_varchar_columns_have_their_length() -> None:
    key = "__CHAR_VARCHAR_TYPE_STRING"
    table = await new_table(
        StructField("a`b", STRING, metadata={key: "char(3)"}),
        StructField("v", STRING, metadata={key: "varchar(2)"}),
        StructField("free", STRING),
    )
    await write_table(
        table, pa.table({"a`b": ["äöü", None], "v": ["", "12"], "free": ["long"] * 2})
    )
    with pytest.raises(InvariantViolationError, match=r"varchar\(2\).*first with v = '123'"):
        await write_table(table, pa.table({"v": ["1", "123"]}))
    with pytest.raises(InvariantViolationError, match=r"char\(3\)"):
        await write_table(table, pa.table({"a`b": ["1234"]}))


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [
        ("array<varchar(3)>", ["abc", None], ["", "abcd"]),
        ("map<varchar(3),array<char(2)>>", [("abc", ["äö"])], [("a", ["12", "123"])]),
        ("map<varchar(3),array<char(2)>>", [("abc", ["äö"])], [("abcd", None)]),
        ("struct<a:decimal(5,2),`b``c`:varchar(3)>", {"b`c": "abc"}, {"b`c": "abcd"}),
    ],
)
async def test_texts_inside_of_lists_maps_and_structs_have_their_length(declared, good, bad):
    kinds = {
        "array": ArrayType(STRING),
        "map": MapType(STRING, ArrayType(STRING)),
        "struct": StructType((StructField("a", DecimalType(5, 2)), StructField("b`c", STRING))),
    }
    kind = kinds[declared.partition("<")[0]]
    metadata = {"__CHAR_VARCHAR_TYPE_STRING": declared}
    table = await new_table(StructField("v", kind, metadata=metadata))
    column = to_arrow_type(kind)
    await write_table(table, pa.table({"v": pa.array([None, good], column)}))
    with pytest.raises(InvariantViolationError, match="texts of at most"):
        await write_table(table, pa.table({"v": pa.array([good, None, bad], column)}).slice(1))
