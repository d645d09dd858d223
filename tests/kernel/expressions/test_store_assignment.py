"""Dates and times that become times of the other kind, by the clocks of a zone."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from adelta.errors import SchemaMismatchError
from adelta.kernel.expressions.store_assignment import times_in_zone
from adelta.kernel.schema.cast import cast_to_schema

ZONE = "America/New_York"
FIVE, MIDNIGHT = datetime(2024, 1, 1, 5, tzinfo=UTC), datetime(2024, 1, 1)
ZONED, PLAIN, DATE = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()


def stored(values: list[Any], source: Any, target: Any, zone: str = ZONE) -> list[Any]:
    """The values as a column of a table holds them."""
    rows = pa.record_batch({"V": pa.array(values, source)})
    schema = pa.schema({"v": target})
    return cast_to_schema(times_in_zone(rows, schema, zone), schema).column(0).to_pylist()


@pytest.mark.parametrize("zone", ["UTC", ZONE])
def test_times_with_and_without_zones_become_each_other_by_the_sessions(zone: str) -> None:
    zoned = pa.timestamp("us", zone)
    assert stored([FIVE, None], zoned, PLAIN) == [MIDNIGHT, None]
    assert stored([FIVE], zoned, ZONED) == [FIVE]
    assert stored([MIDNIGHT, None], PLAIN, ZONED) == [FIVE, None]
    assert stored([MIDNIGHT], pa.timestamp("s"), ZONED) == [FIVE]
    assert stored([MIDNIGHT], PLAIN, PLAIN) == [MIDNIGHT]
    assert stored([MIDNIGHT.date(), None], DATE, ZONED) == [FIVE, None]
    assert stored([MIDNIGHT.date()], DATE, PLAIN) == [MIDNIGHT]
    assert stored([MIDNIGHT.date()], DATE, DATE) == [MIDNIGHT.date()]


def test_without_a_zone_they_are_those_of_utc() -> None:
    assert stored([FIVE], ZONED, PLAIN, "UTC") == [datetime(2024, 1, 1, 5)]
    assert stored([date(2024, 1, 1)], DATE, ZONED, "UTC") == [MIDNIGHT.replace(tzinfo=UTC)]


def test_times_inside_of_columns_do_so_too() -> None:
    day = MIDNIGHT.date()
    given = pa.struct({"B": pa.list_(PLAIN), "a": pa.map_(pa.string(), DATE), "n": pa.int32()})
    wanted = pa.struct({"a": pa.map_(pa.string(), ZONED), "b": pa.list_(ZONED), "n": pa.int64()})
    rows = [{"B": [MIDNIGHT, None], "a": {"k": day}, "n": 1}, None, {"B": None, "a": {}, "n": None}]
    array = pa.array([{**r, "a": list(r["a"].items())} if r else None for r in rows], given)
    batch = pa.record_batch({"v": array.slice(0)})
    schema = pa.schema({"v": wanted})
    found = cast_to_schema(times_in_zone(batch, schema, ZONE), schema).column(0).to_pylist()
    assert found == [
        {"a": [("k", FIVE)], "b": [FIVE, None], "n": 1},
        None,
        {"a": [], "b": None, "n": None},
    ]
    sliced = pa.record_batch({"v": pa.array([[], [FIVE], None, [FIVE]], pa.list_(ZONED)).slice(1)})
    schema = pa.schema({"v": pa.list_(PLAIN)})
    assert times_in_zone(sliced, schema, ZONE).column(0).to_pylist() == [
        [MIDNIGHT], None, [MIDNIGHT]
    ]  # fmt: skip


def test_times_that_delta_does_not_keep_are_refused() -> None:
    values = pa.array([1], pa.int64()).cast(pa.timestamp("ns"))
    with pytest.raises(SchemaMismatchError, match="'v' has times that Delta does not keep"):
        times_in_zone(pa.record_batch({"v": values}), pa.schema({"v": ZONED}), ZONE)
