"""A footer that a shape reads says what Arrow makes of it, or the shape leaves it alone."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adelta.parquet.arrow_reader import open_footer
from adelta.parquet.footer.file_statistics import (
    footer_statistics,
    orders_bytes,
    plan_leaf,
    shape_statistics,
)
from adelta.parquet.footer.footer_shape import FooterShape
from adelta.parquet.footer.layout import FileLayout
from adelta.parquet.thrift import ThriftError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.parquet.footer.file_statistics import LeafPlan

FIELDS: dict[str, Any] = {
    "tiny": pa.int8(),
    "whole": pa.int32(),
    "long": pa.int64(),
    "small": pa.float32(),
    "wide": pa.float64(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("ms"),
    "price": pa.decimal128(38, 3),
    "cheap": pa.decimal128(7, 2),
    "text": pa.string(),
    "raw": pa.binary(),
    "inside": pa.struct([("x", pa.int64()), ("y", pa.string())]),
    "many": pa.list_(pa.int64()),
}
SCHEMA = pa.schema(FIELDS)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def written(rows: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, **options)
    return footer_of(sink.getvalue())


def footer_of(data: bytes) -> bytes:
    return data[-8 - int.from_bytes(data[-8:-4], "little") :]


def table(numbers: Sequence[int | None], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows that follow the numbers, one of each type; None is a row of nothing."""

    def value(kind: Any, number: int) -> Any:
        if pa.types.is_decimal(kind):
            return Decimal(number % 100_000).scaleb(-kind.scale)
        if pa.types.is_struct(kind):
            return {"x": number, "y": f"é{number}"}
        if pa.types.is_list(kind):
            return [number] * (number % 3)
        made = {
            pa.int8(): number % 100 - 50,
            pa.float32(): float(number % 1000),
            pa.float64(): number / 7,
            pa.bool_(): bool(number % 2),
            pa.date32(): date(1970, 1, 1) + timedelta(days=number % 100_000),
            pa.timestamp("us", "UTC"): EPOCH + timedelta(microseconds=number),
            pa.timestamp("ms"): (EPOCH + timedelta(milliseconds=number)).replace(tzinfo=None),
            pa.string(): "ü" * (number % 200) + str(number),
            pa.binary(): bytes([number % 256]) * (number % 5),
        }
        return made.get(kind, number % 2**31)

    columns = [
        pa.array([None if n is None else value(field.type, n) for n in numbers], field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def plans_of(footer: bytes) -> list[LeafPlan]:
    reader = open_footer("a", memoryview(footer))
    layout = FileLayout.of("a", 1 << 40, reader.metadata, reader.schema_arrow, memoryview(footer))
    plans = []
    for node in layout.tree.columns:
        steps = [(node.name,)] if node.is_leaf else []
        if not node.is_leaf and node.name == "inside":
            plans += [
                plan_leaf(child, layout.physical_types((node.name, child.name)), bounded=True)
                for child in node.children
            ]
        elif not node.is_leaf:
            plans.append(plan_leaf(node, layout.physical_types((node.name,)), bounded=False))
        for step in steps:
            bounded = node.name not in ("flag", "raw")
            plans.append(plan_leaf(node, layout.physical_types(step), bounded=bounded))
    return plans


def shape_of(footer: bytes) -> FooterShape:
    metadata = pq.read_metadata(io.BytesIO(b"PAR1" + footer))
    assert orders_bytes(metadata)
    return FooterShape(footer, metadata.num_columns).learn(footer, metadata)


def by_arrow(footer: bytes, plans: Sequence[LeafPlan]) -> Any:
    metadata = open_footer("a", memoryview(footer)).metadata
    return metadata.num_rows, footer_statistics("a", metadata, plans)


def by_shape(shape: FooterShape, footer: bytes, plans: Sequence[LeafPlan]) -> Any:
    facts = shape.read(footer)
    return None if facts is None else (facts.num_rows, shape_statistics(facts, plans))


NUMBERS = st.lists(st.none() | st.integers(0, 2**31), max_size=12)


@settings(max_examples=25)
@given(NUMBERS, NUMBERS, st.integers(1, 5), st.booleans())
def test_a_shape_says_of_another_footer_what_arrow_says_or_nothing(
    first: list[int | None], second: list[int | None], group_rows: int, as_numbers: bool
) -> None:
    options = {"store_decimal_as_integer": as_numbers}
    one = written(table(first), **options)
    other = written(table(second), row_group_size=group_rows, **options)
    plans = plans_of(one)
    shape = shape_of(one)
    assert by_shape(shape, one, plans) == by_arrow(one, plans)
    assert by_shape(shape, other, plans) in (None, by_arrow(other, plans))
    shape = shape.learn(other, open_footer("a", memoryview(other)).metadata)
    assert by_shape(shape, other, plans) == by_arrow(other, plans)
    assert by_shape(shape, one, plans) == by_arrow(one, plans)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False, "compression": "zstd"},
        {"write_page_index": True, "data_page_version": "2.0"},
        {"write_statistics": False},
        {"sorting_columns": [pq.SortingColumn(1)]},
        {"store_decimal_as_integer": True, "row_group_size": 20},
    ],
    ids=str,
)
def test_footers_of_one_writer_with_other_numbers_fit_the_first_ones_shape(
    options: dict[str, Any],
) -> None:
    first = written(table(range(50)), **options)
    plans = plans_of(first)
    shape = shape_of(first)
    for start in (5, 300, 100_000, 10**9):
        other = written(table(range(start, start + start % 90 + 60)), **options)
        found = by_shape(shape, other, plans)
        assert found is not None
        assert found == by_arrow(other, plans)


def test_a_damaged_footer_that_a_shape_reads_is_one_that_arrow_reads_alike() -> None:
    schema = pa.schema([SCHEMA.field(name) for name in ("long", "cheap", "text", "many")])
    footer = written(table([1, 2, None, 70_000], schema), row_group_size=3)
    plans = plans_of(footer)
    shape = shape_of(footer)
    read = 0
    for at in range(len(footer) - 8):
        for bit in (1, 2, 0x40, 0x80):
            damaged = bytearray(footer)
            damaged[at] ^= bit
            found = by_shape(shape, bytes(damaged), plans)
            if found is not None:
                read += 1
                assert found == by_arrow(bytes(damaged), plans)
    assert read > 100


def test_a_footer_cut_short_or_with_rows_that_its_groups_lack_is_not_read() -> None:
    footer = written(table(range(10)), row_group_size=4)
    shape = shape_of(footer)
    assert shape.read(footer) is not None
    assert all(shape.read(footer[:end]) is None for end in range(len(footer) - 1))
    before = shape._before  # behind which the number of rows is
    assert footer[len(before)] == 20
    assert shape.read(before + b"\x16" + footer[len(before) + 1 :]) is None


def test_footers_of_another_schema_writer_or_text_are_not_read() -> None:
    shape = shape_of(written(table(range(10))))
    others = [
        written(table(range(10), SCHEMA.remove(3))),
        written(table(range(10), SCHEMA.with_metadata({"a": "b"}))),
        written(table(range(10)), version="1.0"),
    ]
    assert [shape.read(other) for other in others] == [None] * 3


def test_chunks_in_other_files_are_left_to_arrow() -> None:
    sink = io.BytesIO()
    pq.write_table(table(range(10)), sink)
    metadata = pq.read_metadata(sink)
    metadata.set_file_path("elsewhere.parquet")
    written_alone = io.BytesIO()
    metadata.write_metadata_file(written_alone)
    footer = footer_of(written_alone.getvalue())
    with pytest.raises(ThriftError):
        FooterShape(footer, metadata.num_columns).learn(footer, metadata)
