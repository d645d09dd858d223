"""`stats` texts of files made of others' rows, without looking at a row: merged, or in part new.

Every number stays as it is written, digit for digit.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from adelta.kernel.schema import types as t
from adelta.kernel.statistics import (
    INFINITY,
    INT64_LIMITS,
    NEGATIVE_INFINITY,
    OLD_TIE_BREAKER,
    json_members,
    json_object,
    num_records,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["merged_stats", "stats_with_columns"]

_NUMBERS: Final = (t.BYTE, t.SHORT, t.INTEGER, t.LONG, t.FLOAT, t.DOUBLE)
_TIMES: Final = (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ)
_BOUNDS: Final = (("minValues", min), ("maxValues", max))
_BOOLEANS: Final = {"false": False, "true": True}
_PARTS: Final = ("minValues", "maxValues", "nullCount")

_Path: TypeAlias = tuple[str, ...]
_Leaves: TypeAlias = dict[_Path, str]


def merged_stats(
    stats: Sequence[str | None],
    types: Mapping[_Path, t.DataType],
    wanted: Collection[_Path],
) -> str | None:
    """The `stats` of a file that has the rows of files with these; None where they do not say it.

    They say it where each has tight bounds, a number of rows, and a number of nulls of every one of
    the columns `wanted`. `types` are those of all columns, by their paths.

    Raises:
        InvalidTableError: statistics are not a JSON object.
    """
    counts = [num_records(text) for text in stats]
    members = [json_members(text or "{}") for text in stats]
    if None in counts or any(each.get("tightBounds", "true") != "true" for each in members):
        return None
    parts = {name: [_leaves(each.get(name, "{}")) for each in members] for name in _PARTS}
    nulls = _summed(parts["nullCount"])
    if not set(wanted) <= set(nulls):
        return None
    empty = [
        {path for path, count in found.items() if count == str(rows)}
        for found, rows in zip(parts["nullCount"], counts, strict=True)
    ]
    bounds = {name: _extreme(parts[name], empty, types, choose) for name, choose in _BOUNDS}
    return (
        f'{{"numRecords":{sum(count or 0 for count in counts)},'
        f'"minValues":{_tree_text(bounds["minValues"])},'
        f'"maxValues":{_tree_text(bounds["maxValues"])},'
        f'"nullCount":{_tree_text(nulls)}}}'
    )


def stats_with_columns(stats: str, new: str, names: Collection[str]) -> str:
    """`stats` of a file, with what `new` ones say of the columns of these names.

    Raises:
        InvalidTableError: statistics are not a JSON object.
    """
    before, after = json_members(stats), json_members(new)
    for part in _PARTS:
        kept = {k: v for k, v in json_members(before.get(part, "{}")).items() if k not in names}
        own = json_members(after.get(part, "{}"))
        before[part] = json_object({**kept, **{k: v for k, v in own.items() if k in names}})
    return json_object(before)


def _leaves(text: str, parent: _Path = ()) -> _Leaves:
    """The leaves of a part of statistics, each as the text that it was."""
    found: _Leaves = {}
    for name, value in json_members(text).items():
        path = (*parent, name)
        if value.startswith("{"):
            found |= _leaves(value, path)
        else:
            found[path] = value
    return found


def _summed(counts: Sequence[_Leaves]) -> _Leaves:
    """The sums of what all say."""
    common = [path for path in counts[0] if all(path in each for each in counts)]
    whole = [path for path in common if all(each[path].isdecimal() for each in counts)]
    return {path: str(sum(int(each[path]) for each in counts)) for path in whole}


def _extreme(
    bounds: Sequence[_Leaves],
    empty: Sequence[Collection[_Path]],
    types: Mapping[_Path, t.DataType],
    choose: Any,
) -> _Leaves:
    """Of each column the least or the greatest bound, if all files with values tell theirs."""
    found: _Leaves = {}
    for path in dict.fromkeys(path for each in bounds for path in each):
        told = [
            each.get(path) for each, nulls in zip(bounds, empty, strict=True) if path not in nulls
        ]
        keys = [None if text is None else _key(text, types.get(path)) for text in told]
        if not told or None in keys or len({_form(key) for key in keys}) > 1:
            continue
        found[path] = str(choose(zip(keys, told, strict=True))[1])
    return found


def _key(text: str, data_type: t.DataType | None) -> Any:
    """What a bound is compared by; None where it is not known to be one of its type."""
    if data_type == t.BOOLEAN:
        return _BOOLEANS.get(text)
    if data_type in (t.FLOAT, t.DOUBLE) and text in (INFINITY, NEGATIVE_INFINITY):
        return Decimal(json.loads(text))
    is_text = text.startswith('"')
    if is_text and data_type == t.STRING:
        value = json.loads(text)
        # A maximum that was cut and closed with the old tie-breaker may be below the true maximum.
        return None if value.endswith(OLD_TIE_BREAKER) else value
    if is_text and data_type in _TIMES:
        return _Time(json.loads(text))
    if not is_text and (data_type in _NUMBERS or isinstance(data_type, t.DecimalType)):
        try:
            number = Decimal(text)
        except ArithmeticError:
            return None
        if isinstance(data_type, t.DecimalType) and number in INT64_LIMITS:
            return None  # The true bound may be far beyond it, and beyond those of other files.
        return number if number.is_finite() else None
    return None


class _Time(str):
    """A date or a time: in the order of its text among those of the same form."""

    __slots__ = ()


def _form(key: object) -> object:
    """What all bounds of a column have in common that are compared."""
    if not isinstance(key, _Time):
        return None
    return len(key), "".join(mark for mark in key if not mark.isdecimal())


def _tree_text(leaves: _Leaves) -> str:
    tree: dict[str, Any] = {}
    for path, text in leaves.items():
        here = tree
        for step in path[:-1]:
            here = here.setdefault(step, {})
        here[path[-1]] = text
    return json_object(tree)
