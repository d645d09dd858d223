"""What is said of files that are alike: nothing sure is made of bounds that mean nothing."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest

from adelta.operations.convert_stats import alike_stats
from adelta.parquet.footer.encoded_bounds import bound_decoder
from adelta.parquet.footer.file_statistics import LeafPlan
from adelta.parquet.footer.footer_form import AlikeFooters, ChunkColumn

DOUBLES = LeafPlan(
    range(1), ("DOUBLE",), True, True, False, False, bound_decoder("DOUBLE", pa.float64())
)
LONGS = LeafPlan(range(1), ("INT64",), True, True, True, False, bound_decoder("INT64", pa.int64()))


def doubles(*values: float) -> list[bytes]:
    return [struct.pack("<d", value) for value in values]


def longs(*values: int) -> list[bytes]:
    return [struct.pack("<q", value) for value in values]


def test_the_least_zero_may_be_a_negative_one() -> None:
    chunks = ChunkColumn([2, 2], [0, 1], doubles(0.0, 1.5), doubles(0.0, 2.5))
    assert alike_stats(AlikeFooters([2, 2], [chunks]), [("a",)], [DOUBLES], 32) == [
        '{"numRecords":2,"minValues":{"a":-0.0},"maxValues":{},"nullCount":{"a":0}}',
        '{"numRecords":2,"minValues":{"a":1.5},"maxValues":{},"nullCount":{"a":1}}',
    ]


@pytest.mark.parametrize(
    "chunks",
    [
        ChunkColumn([2, 2], [0, 0], longs(1, 9), longs(2, 8)),
        ChunkColumn([2, 2], [0, 2], longs(1, 1), longs(2, 2)),
        ChunkColumn([2, 2], [0, 0], [*longs(1), b"1"], longs(2, 2)),
    ],
    ids=["least above greatest", "nothing but nulls", "bytes that are no number"],
)
def test_a_file_of_which_bounds_mean_nothing_is_left_to_a_closer_look(chunks: ChunkColumn) -> None:
    assert alike_stats(AlikeFooters([2, 2], [chunks]), [("a",)], [LONGS], 32) is None


def test_footers_with_nan_as_a_bound_are_not_converted_together() -> None:
    chunks = ChunkColumn([2], [0], doubles(math.nan), doubles(math.nan))
    assert alike_stats(AlikeFooters([2], [chunks]), [("a",)], [DOUBLES], 32) is None


def test_every_value_stands_at_its_column_whatever_their_order_is() -> None:
    columns = [ChunkColumn([9], [n], longs(10 + n), longs(20 + n)) for n in range(3)]
    names = [("s", "x%"), ("%s",), ("s", "y")]
    facts = AlikeFooters([9], [*columns, None])
    assert alike_stats(facts, [*names, ("z",)], [LONGS] * 4, 32) == [
        '{"numRecords":9,"minValues":{"s":{"x%":10,"y":12},"%s":11},'
        '"maxValues":{"s":{"x%":20,"y":22},"%s":21},"nullCount":{"s":{"x%":0,"y":2},"%s":1}}'
    ]
