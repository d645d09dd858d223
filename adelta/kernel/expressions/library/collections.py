"""Functions of arrays and maps. Places in `element_at` count from 1, in `[ ]` and `get` from 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.coercion import INTEGERS, is_atomic, widest
from adelta.kernel.expressions.library._function import (
    ARRAY,
    MAP,
    STRING,
    Function,
    Parameter,
    Values,
)
from adelta.kernel.schema import types as t

__all__ = ["COLLECTIONS", "ELEMENT"]


ELEMENT = "[]"
"""The name of element access, which is written ``a[i]``."""

_Types = tuple[t.DataType, ...]
_ANY = Parameter(kind=object)
_INTS = (t.BYTE, t.SHORT, t.INTEGER)


def _key_type(kinds: _Types) -> _Types | str:
    """An array with the place as an integer, or a map with the key as its keys are."""
    of, at = kinds
    if isinstance(of, t.ArrayType):
        if at in (*_INTS, t.VOID):
            return (of, t.INTEGER)
        return f"an array's element is named by a whole number, not by a {at}"
    if isinstance(of, t.MapType):
        wider = of.key_type in INTEGERS and at in INTEGERS
        narrow = wider and INTEGERS.index(at) <= INTEGERS.index(of.key_type)
        if at in (of.key_type, t.VOID) or narrow:
            return (of, of.key_type)
        return f"the map's keys are {of.key_type}, not {at}: cast the key"
    return f"a {of} has no elements"


def _value_type(kinds: _Types) -> t.DataType:
    of: Any = kinds[0]
    found: t.DataType = of.element_type if isinstance(of, t.ArrayType) else of.value_type
    return found


def _like_element(kinds: _Types) -> _Types | str:
    of, other = kinds
    if not isinstance(of, t.ArrayType):
        return f"a {of} is no array"
    element = of.element_type
    wider = element in INTEGERS and other in INTEGERS
    narrow = wider and INTEGERS.index(other) <= INTEGERS.index(element)
    if not is_atomic(element):
        return f"elements of type {element} cannot be compared"
    if other == element or narrow:
        return (of, element)
    return f"the elements are {element}, not {other}: cast the value"


def _made(of: Values, at: Values, choose: Any) -> Values:
    """What `choose` takes of each collection; NULL where it, or the place, is."""
    kind: Any = of.type
    rows = zip(of.to_pylist(), at.to_pylist(), strict=True)
    made = [None if c is None or p is None else choose(c, p) for c, p in rows]
    return pa.array(made, kind.item_type if pa.types.is_map(kind) else kind.value_type)


def _in_map(pairs: list[tuple[Any, Any]], key: Any) -> Any:
    return next((value for known, value in pairs if _same(known, key)), None)


def _same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))


def _by_place(first: int, *, strict: bool) -> Any:
    """The element at a place that counts from `first`, backwards where it is below zero and 1."""

    def choose(items: list[Any], place: int) -> Any:
        at = place - first if place >= first or not first else len(items) + place
        if first and place == 0:
            raise InvalidExpressionError("elements are counted from 1, or from -1 backwards")
        if 0 <= at < len(items):
            return items[at]
        if strict:
            raise InvalidExpressionError(
                f"the array has {len(items)} elements, and none at {place}: ask for it by "
                f"{'try_element_at' if first else 'get'}"
            )
        return None

    return choose


def _access(first: int, *, strict: bool) -> Any:
    def compute(of: Values, at: Values) -> Values:
        choose = _in_map if pa.types.is_map(of.type) else _by_place(first, strict=strict)
        return _made(of, at, choose)

    return compute


def _met(kinds: _Types) -> _Types | str:
    """The type of each element: the one that all of them meet in."""
    met = kinds[0] if len(set(kinds)) == 1 else widest(kinds)
    if met is None:
        return f"an array's elements are of one type, not {', '.join(map(str, kinds))}: cast them"
    return (met,) * len(kinds)


def _array(*columns: Values, count: int) -> Values:
    width = len(columns)
    places = np.arange(width * count).reshape(width, count).T.reshape(-1)  # row by row
    offsets = pa.array(np.arange(count + 1) * width, pa.int32())
    elements = pa.concat_arrays(columns).take(pa.array(places)) if columns else pa.nulls(0)
    kind = pa.list_(pa.field("element", elements.type))
    return pa.ListArray.from_arrays(offsets, elements, type=kind)


def _size(values: Values) -> Values:
    lengths = [None if v is None else len(v) for v in values.to_pylist()]
    return pa.array(lengths, pa.int32())


def _contains(items: list[Any], wanted: Any) -> bool | None:
    if any(each is not None and _same(each, wanted) for each in items):
        return True
    return None if None in items else False


def _array_contains(of: Values, wanted: Values) -> Values:
    rows = zip(of.to_pylist(), wanted.to_pylist(), strict=True)
    made = [None if c is None or w is None else _contains(c, w) for c, w in rows]
    return pa.array(made, pa.bool_())


def _array_position(of: Values, wanted: Values) -> Values:
    def one(items: list[Any], value: Any) -> int:
        places = (n for n, x in enumerate(items, 1) if x is not None and _same(x, value))
        return next(places, 0)

    rows = zip(of.to_pylist(), wanted.to_pylist(), strict=True)
    made = [None if c is None or w is None else one(c, w) for c, w in rows]
    return pa.array(made, pa.int64())


def _part(field: str) -> Any:
    def compute(values: Values) -> Values:
        kind: Any = values.type
        nullable = field == "keys" or kind.item_field.nullable
        inner = kind.item_type if field == "items" else kind.key_type
        place = 1 if field == "items" else 0
        made = [None if v is None else [pair[place] for pair in v] for v in values.to_pylist()]
        return pa.array(made, pa.list_(pa.field("element", inner, nullable=nullable)))

    return compute


def _keys(kinds: _Types) -> t.DataType:
    of: Any = kinds[0]
    return t.ArrayType(of.key_type)


def _values(kinds: _Types) -> t.DataType:
    of: Any = kinds[0]
    return t.ArrayType(of.value_type, contains_null=of.value_contains_null)


def _map_contains(of: Values, key: Values) -> Values:
    rows = zip(of.to_pylist(), key.to_pylist(), strict=True)
    made = [
        None if c is None or k is None else any(_same(known, k) for known, _ in c) for c, k in rows
    ]
    return pa.array(made, pa.bool_())


def _array_join(of: Values, between: Values, missing: Values | None = None) -> Values:
    others = [None] * len(of) if missing is None else missing.to_pylist()
    made: list[str | None] = []
    for items, separator, other in zip(of.to_pylist(), between.to_pylist(), others, strict=True):
        if items is None or separator is None or (missing is not None and other is None):
            made.append(None)
        else:
            filled = (other if text is None else text for text in items)
            made.append(separator.join(text for text in filled if text is not None))
    return pa.array(made, pa.string())


def _joins(kinds: _Types) -> t.DataType | str:
    of: Any = kinds[0]
    return t.STRING if of.element_type == t.STRING else f"it joins strings, not {of.element_type}"


def _access_function(example: str, first: int, *, strict: bool, arrays: bool = False) -> Function:
    return Function(
        group="arrays and maps",
        example=example,
        parameters=(ARRAY if arrays else _ANY, _ANY),
        fits=_key_type,
        result=_value_type,
        compute=_access(first, strict=strict),
        safe=False,
    )


COLLECTIONS = {
    "array": Function(
        group="arrays and maps",
        example="array(1, 2L, NULL)",
        parameters=(_ANY,),
        variadic=True,
        fits=_met,
        result=lambda kinds: t.ArrayType(kinds[0] if kinds else t.VOID),
        compute=_array,
        tolerant=True,
        counted=True,
    ),
    "array_contains": Function(
        group="arrays and maps",
        example="array_contains(split('a,b', ','), 'b')",
        parameters=(ARRAY, _ANY),
        fits=_like_element,
        result=t.BOOLEAN,
        compute=_array_contains,
    ),
    "array_join": Function(
        group="arrays and maps",
        example="array_join(split('a,b', ','), '-')",
        parameters=(ARRAY, STRING, STRING),
        optional=1,
        result=_joins,
        compute=_array_join,
    ),
    "array_position": Function(
        group="arrays and maps",
        example="array_position(split('a,b', ','), 'b')",
        parameters=(ARRAY, _ANY),
        fits=_like_element,
        result=t.LONG,
        compute=_array_position,
    ),
    "array_size": Function(
        group="arrays and maps",
        example="array_size(split('a,b', ','))",
        parameters=(ARRAY,),
        result=t.INTEGER,
        compute=_size,
    ),
    "element_at": _access_function("element_at(split('a,b', ','), -1)", 1, strict=True),
    "get": _access_function("get(split('a,b', ','), 5)", 0, strict=False, arrays=True),
    "map_contains_key": Function(
        group="arrays and maps",
        example="map_contains_key(tags, 'a')",
        parameters=(MAP, _ANY),
        fits=_key_type,
        result=t.BOOLEAN,
        compute=_map_contains,
    ),
    "map_keys": Function(
        group="arrays and maps",
        example="map_keys(tags)",
        parameters=(MAP,),
        result=_keys,
        compute=_part("keys"),
    ),
    "map_values": Function(
        group="arrays and maps",
        example="map_values(tags)",
        parameters=(MAP,),
        result=_values,
        compute=_part("items"),
    ),
    "size": Function(
        group="arrays and maps",
        example="size(split('a,b', ','))",
        parameters=(_ANY,),
        result=lambda kinds: (
            t.INTEGER
            if isinstance(kinds[0], t.ArrayType | t.MapType)
            else f"a {kinds[0]} has no elements to count"
        ),
        compute=_size,
    ),
    "try_element_at": _access_function("try_element_at(split('a,b', ','), 5)", 1, strict=False),
    ELEMENT: _access_function("split('a,b', ',')[1]", 0, strict=True),
}
