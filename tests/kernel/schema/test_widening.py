from __future__ import annotations

import pytest

from adelta.errors import InvalidTableError, UnsupportedFeatureError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.widening import can_widen, check_type_changes, loses_nothing
from tests.kernel.schema.test_conform import LOSSLESS, WIDENINGS


@pytest.mark.parametrize(("have", "want", "value", "found"), WIDENINGS)
def test_the_protocols_widenings_are_allowed_and_none_goes_back(have, want, value, found):
    assert can_widen(have, want)
    assert not can_widen(want, have)
    assert loses_nothing(have, want)
    assert not loses_nothing(want, have)


@pytest.mark.parametrize(("have", "want", "value", "found"), LOSSLESS)
def test_what_loses_nothing_besides_is_read_and_not_written(have, want, value, found):
    assert loses_nothing(have, want)
    assert not loses_nothing(want, have)
    assert not can_widen(have, want)


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (t.LONG, t.DOUBLE),
        (t.INTEGER, t.FLOAT),
        (t.INTEGER, t.DecimalType(9, 0)),
        (t.DecimalType(5, 2), t.DecimalType(6, 4)),
        (t.LONG, t.DecimalType(18, 0)),
        (t.BYTE, t.DecimalType(4, 2)),
        (t.SHORT, t.DecimalType(4, 0)),
        (t.DATE, t.TIMESTAMP),
        (t.STRING, t.BINARY),
        (t.BOOLEAN, t.DecimalType(38, 0)),
        (t.ArrayType(t.BYTE), t.ArrayType(t.LONG)),
    ],
)
def test_nothing_else_is(have, want):
    assert not can_widen(have, want)
    assert not loses_nothing(have, want)


def changed(*changes: object, kind: t.DataType = t.LONG) -> list[t.StructField]:
    inner = t.StructField("x", kind, metadata={"delta.typeChanges": list(changes)})
    return [t.StructField("s", t.ArrayType(t.StructType((inner,))))]


def test_a_history_of_widenings_is_read():
    """B10-02: with the place inside an array or a map, and with what early writers noted beside."""
    check_type_changes(
        changed(
            {"fromType": "byte", "toType": "short", "tableVersion": 2},
            {"fromType": "short", "toType": "long", "fieldPath": "element.value"},
            {"fromType": "decimal(4,2)", "toType": "decimal(6,3)", "fieldPath": "key"},
            {"fromType": "varchar(3)", "toType": "string"},
            {"fromType": "byte", "toType": "decimal(4,1)"},
        )
    )


@pytest.mark.parametrize(
    "change",
    [
        {"fromType": "string", "toType": "long"},
        {"fromType": "decimal(6,2)", "toType": "decimal(5,2)"},
        {"fromType": "a_type_of_tomorrow", "toType": "long"},
    ],
)
def test_a_change_that_is_no_widening_is_refused(change):
    """B10-03."""
    with pytest.raises(UnsupportedFeatureError, match=r"s\.element\.x was changed from"):
        check_type_changes(changed(change))


@pytest.mark.parametrize("change", ["text", {"fromType": "byte"}, {"toType": 5, "fromType": 6}])
def test_damaged_notes_are_refused(change):
    with pytest.raises(InvalidTableError):
        check_type_changes(changed(change))
    with pytest.raises(InvalidTableError):
        check_type_changes([t.StructField("x", t.LONG, metadata={"delta.typeChanges": change})])
