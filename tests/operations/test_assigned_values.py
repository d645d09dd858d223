"""Values of streams, cast to what columns of a table hold."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from adelta.errors import InvalidExpressionError
from adelta.kernel.schema import types as t
from adelta.operations.assigned_values import in_types_of

ZONE = "America/New_York"
FIVE = datetime(2024, 1, 1, 5, tzinfo=UTC)


def assigned(values: list[object], source: pa.DataType, target: t.DataType) -> list[object]:
    rows = pa.record_batch({"v": pa.array(values, source)})
    schema = t.StructType((t.StructField("v", target),))
    return in_types_of(rows, schema, ZONE).column(0).to_pylist()


@pytest.mark.parametrize("zone", ["UTC", ZONE])
def test_times_become_the_dates_of_the_sessions_zone(zone):
    assert assigned([FIVE, None], pa.timestamp("us", zone), t.DATE) == [FIVE.date(), None]
    early = datetime(2024, 1, 1, 4, tzinfo=UTC)
    assert str(assigned([early], pa.timestamp("us", zone), t.DATE)[0]) == "2023-12-31"


def test_decimals_are_rounded_to_those_of_the_column():
    source, target = pa.decimal128(10, 2), t.DecimalType(5, 1)
    values = [Decimal("1.25"), None, Decimal("-1.25")]
    assert assigned(values, source, target) == [Decimal("1.3"), None, Decimal("-1.3")]
    assert assigned([Decimal("-1.95")], source, t.INTEGER) == [-1]
    with pytest.raises(InvalidExpressionError, match="cannot be cast to decimal"):
        assigned([Decimal("123456.70")], source, target)
