"""Maps of texts as checkpoints have them: Parquet maps, or lists of pairs under any names.

Some writers leave a map unmarked, or mark it as a list: it then arrives as a list of structs of two
texts. A field called ``key`` is the key of a pair, else its first one is.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from adelta import _compute as pc
from adelta._lazy_arrow import pa

__all__ = ["as_maps", "pairs_of"]

arrow: Any = pa  # the stubs refuse types that are known at run time only

Values: TypeAlias = Any
"""A pa.Array or a pa.ChunkedArray, of a type that is known at run time only."""


def as_maps(values: Values) -> Values:
    """Lists of pairs of texts as maps, anything else as it is."""
    kind = values.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return values
    from adelta.kernel.actions.file_schemas import STRING_MAP

    fields = _key_and_value(kind.value_type)
    if fields is None:
        return values
    if isinstance(values, pa.ChunkedArray):
        chunks = [_maps(chunk, *fields) for chunk in values.chunks]
        return (
            values
            if any(one is None for one in chunks)
            else arrow.chunked_array(chunks, STRING_MAP)
        )
    maps = _maps(values, *fields)
    return values if maps is None else maps


def pairs_of(value: object) -> object:
    """A Python list of pairs, as Arrow hands out maps and lists of structs, as a dictionary."""
    if not isinstance(value, list):
        return value
    if all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    if all(isinstance(pair, dict) and len(pair) == 2 for pair in value):
        key, item = _ordered(list(value[0]))
        if all(set(pair) == {key, item} for pair in value):
            return {pair[key]: pair[item] for pair in value}
    return value


def _ordered(names: list[str]) -> tuple[str, str]:
    first, second = names
    return (second, first) if second.lower() == "key" else (first, second)


def _key_and_value(kind: Any) -> tuple[str, str] | None:
    if not pa.types.is_struct(kind) or kind.num_fields != 2:
        return None
    if not all(pa.types.is_string(field.type) for field in kind):
        return None
    return _ordered([field.name for field in kind])


def _maps(lists: Values, key: str, item: str) -> Values | None:
    """None where a pair has no key."""
    lists = lists.take(arrow.arange(0, len(lists))) if lists.offset else lists
    pairs = lists.values
    keys, items = pc.struct_field(pairs, key), pc.struct_field(pairs, item)
    if keys.null_count:
        return None
    from adelta.kernel.actions.file_schemas import STRING_MAP

    mask = lists.is_null() if lists.null_count else None
    offsets = lists.offsets.cast(pa.int32())
    return arrow.MapArray.from_arrays(offsets, keys, items, type=STRING_MAP, mask=mask)
