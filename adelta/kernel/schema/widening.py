"""Which types columns may have been widened to (PROTOCOL.md, "Type Widening").

Files written before a change hold the narrower type; `conform` converts their values. What is
changed keeps to the protocol, `can_widen`; what is read may be any change that loses nothing, as
previews of the feature have recorded more than the protocol came to allow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import InvalidTableError, UnsupportedFeatureError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.json import data_type_from_json, type_to_json
from adelta.kernel.schema.names import walk_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "TYPE_CHANGES_KEY",
    "can_widen",
    "check_type_changes",
    "is_text",
    "loses_nothing",
    "with_type_changes",
]

TYPE_CHANGES_KEY = "delta.typeChanges"
"""Field metadata: the changes of its type, each with `fromType`, `toType` and maybe `fieldPath`."""

_INTEGERS = (t.BYTE, t.SHORT, t.INTEGER, t.LONG)
_DIGITS = {t.BYTE: 10, t.SHORT: 10, t.INTEGER: 10, t.LONG: 20}
_OWN_DIGITS = {t.BYTE: 3, t.SHORT: 5, t.INTEGER: 10, t.LONG: 19}


def can_widen(before: t.DataType, after: t.DataType) -> bool:
    """Whether the protocol lets a column of the one type become one of the other.

    Example: ``integer`` may become ``double``, and ``long`` may not.
    """
    if before == after:
        return True
    if isinstance(after, t.DecimalType):
        whole = after.precision - after.scale
        if isinstance(before, t.DecimalType):
            return after.scale >= before.scale and whole >= before.precision - before.scale
        return isinstance(before, t.PrimitiveType) and whole >= _DIGITS.get(before, 99)
    if before in _INTEGERS:
        if after in _INTEGERS:
            return _INTEGERS.index(after) > _INTEGERS.index(before)
        return after == t.DOUBLE and before != t.LONG
    return (before, after) in ((t.FLOAT, t.DOUBLE), (t.DATE, t.TIMESTAMP_NTZ))


def loses_nothing(before: t.DataType, after: t.DataType) -> bool:
    """Whether every value of the one type is one of the other.

    Example: ``byte`` has three digits and fits ``decimal(4,1)``, which the protocol does not allow
    it to become.
    """
    if can_widen(before, after):
        return True
    if isinstance(after, t.DecimalType) and isinstance(before, t.PrimitiveType):
        return after.precision - after.scale >= _OWN_DIGITS.get(before, 99)
    return after == t.FLOAT and before in (t.BYTE, t.SHORT)


def is_text(data_type: t.DataType) -> bool:
    """Whether a type is of texts, of any length: ``string``, ``char(n)`` or ``varchar(n)``."""
    return str(data_type).partition("(")[0] in ("string", "char", "varchar")


def with_type_changes(before: t.StructType, after: t.StructType) -> t.StructType:
    """`after`, whose fields tell how their types changed since `before`, behind what they told.

    A change inside an array or a map is told by the nearest field above it. From ``void`` there is
    nothing to tell, since no file holds it.
    """
    return t.StructType(tuple(_told(before.field(field.name), field) for field in after))


def _told(before: t.StructField | None, field: t.StructField) -> t.StructField:
    if before is None:
        return field
    changes: list[dict[str, object]] = []
    made = _compared(before.type, field.type, (), changes)
    metadata = field.metadata
    if changes:
        recorded = metadata.get(TYPE_CHANGES_KEY, [])
        metadata = {**metadata, TYPE_CHANGES_KEY: [*recorded, *changes]}
    return replace(field, type=made, metadata=metadata)


def _compared(
    before: t.DataType, after: t.DataType, path: tuple[str, ...], changes: list[dict[str, object]]
) -> t.DataType:
    match before, after:
        case t.StructType(), t.StructType():
            return with_type_changes(before, after)
        case t.ArrayType(element), t.ArrayType(other):
            inner = _compared(element, other, (*path, "element"), changes)
            return replace(after, element_type=inner)
        case t.MapType(key, value), t.MapType(other_key, other_value):
            return replace(
                after,
                key_type=_compared(key, other_key, (*path, "key"), changes),
                value_type=_compared(value, other_value, (*path, "value"), changes),
            )
    if before not in (after, t.VOID):
        change: dict[str, object] = {
            "fromType": type_to_json(before),
            "toType": type_to_json(after),
        }
        changes.append({**change, "fieldPath": ".".join(path)} if path else change)
    return after


def check_type_changes(fields: Iterable[t.StructField]) -> None:
    """Refuse columns whose type was once changed in a way that adelta cannot follow.

    A change between texts of any length is none. Columns that are of an unknown type today are for
    whoever wants their Arrow type to refuse.

    Raises:
        UnsupportedFeatureError: there is such a column.
        InvalidTableError: the metadata that tells of changes is damaged.
    """
    for path, field in walk_fields(t.StructType(tuple(fields))):
        changes = field.metadata.get(TYPE_CHANGES_KEY)
        if changes is None:
            continue
        if not isinstance(changes, list):
            raise _damaged(path, changes)
        for change in changes:
            _check(path, change)


def _check(path: tuple[str, ...], change: object) -> None:
    if not isinstance(change, dict) or not {"fromType", "toType"} <= change.keys():
        raise _damaged(path, change)
    before, after = (data_type_from_json(change[key]) for key in ("fromType", "toType"))
    if not _is_known(after):
        # The column is of a known type now, so no file of it needs this change: either a later one
        # leads away from the unknown type, and is refused, or this one never took place.
        return
    if not loses_nothing(before, after) and not (is_text(before) and is_text(after)):
        raise UnsupportedFeatureError(
            f"column {'.'.join(path)} was changed from {before} to {after}, a change of type that "
            "this adelta cannot read, and so no part of the table; upgrade adelta, or rewrite the "
            "table with the engine that made the change"
        )


def _is_known(data_type: t.DataType) -> bool:
    from adelta.kernel.schema.arrow import to_arrow_type

    try:
        to_arrow_type(data_type)
    except UnsupportedFeatureError:
        return False
    return True


def _damaged(path: tuple[str, ...], change: object) -> InvalidTableError:
    return InvalidTableError(
        f"column {'.'.join(path)} has the {TYPE_CHANGES_KEY} {str(change)[:100]}, which says no "
        "change of type; the table's metadata is damaged: restore an earlier version"
    )
