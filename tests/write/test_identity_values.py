"""Values for identity columns, batch by batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from adelta.errors import InvalidTableError, InvariantViolationError, SchemaMismatchError
from adelta.kernel.schema.types import LONG, StructField, StructType
from adelta.kernel.table_features import IdentityColumn
from adelta.write.identity_values import IdentityValues


def values(**metadata: Any) -> IdentityValues:
    keys = {f"delta.identity.{key}": value for key, value in metadata.items()}
    return IdentityValues(StructType((StructField("id", LONG, metadata=keys),)))


def batch(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": range(rows)})


def test_batches_are_numbered_through() -> None:
    made = values(start=5, step=2)
    assert made.high_water_marks == {}
    filled = [made.fill(batch(rows))["id"].to_pylist() for rows in (2, 0, 3)]
    assert filled == [[5, 7], [], [9, 11, 13]]
    assert made.high_water_marks == {"id": 13}


@pytest.mark.parametrize(
    ("start", "step", "mark", "following"),
    [
        (1, 1, None, 1),
        (1, 1, 7, 8),
        (1, 3, 8, 10),  # a mark that is none of the column's own values
        (10, 3, 4, 10),  # one before the start
        (0, -5, -10, -15),
        (0, -5, -11, -15),
        (0, -5, 3, 0),
    ],
)
def test_the_next_value_lies_on_the_grid_and_beyond_the_mark(
    start: int, step: int, mark: int | None, following: int
) -> None:
    assert IdentityColumn("id", start, step, mark, False).next_value == following


def test_the_last_value_is_the_last_of_64_bits() -> None:
    top = 2**63 - 1
    made = values(start=top - 1, step=1)
    assert made.fill(batch(2))["id"].to_pylist() == [top - 1, top]
    with pytest.raises(InvariantViolationError, match="run out"):
        made.fill(batch(1))
    wide = values(start=-(2**63), step=2**63 - 1)
    assert wide.fill(batch(3))["id"].to_pylist() == [-(2**63), -1, 2**63 - 2]
    with pytest.raises(InvariantViolationError, match="run out"):
        values(start=0, step=2**62).fill(batch(3))


def test_rows_bring_their_own_values_only_where_they_may() -> None:
    own = pa.record_batch({"ID": [7]})
    with pytest.raises(SchemaMismatchError, match="GENERATED ALWAYS"):
        values(start=1, step=1).fill(own)
    allowed = values(start=1, step=1, allowExplicitInsert=True)
    assert allowed.fill(own) is own
    assert allowed.high_water_marks == {}


@pytest.mark.parametrize(
    "metadata",
    [
        {"start": 1},
        {"step": 1},
        {"start": 1, "step": 0},
        {"start": "x", "step": 1},
        {"start": 1.5, "step": 1},
        {"start": 2**63, "step": 1},
        {"start": True, "step": 1},
    ],
)
def test_damaged_metadata_are_refused(metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidTableError, match="identity column"):
        values(**metadata)
