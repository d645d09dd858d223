"""JSON text → variants, with the types that Spark's `parse_json` chooses.

Whole numbers and numbers with a point keep every digit, as integers and decimals, as long as a
decimal holds them; numbers with an exponent, and longer ones, are doubles.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa

from adelta._arrow_values import column_of
from adelta.errors import SchemaMismatchError
from adelta.kernel.schema.variant.binary import MAX_DEPTH
from adelta.kernel.schema.variant.encoding import encode
from adelta.kernel.schema.variant.shredding import METADATA, VALUE

__all__ = ["variants_from_json"]

_MOST_DIGITS = 38
_SHOWN = 80


def variants_from_json(texts: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """The variants that JSON texts describe, in `kind`, the Arrow type of variants.

    Raises:
        SchemaMismatchError: a text is not JSON, or nests too deep.
    """
    pairs = [None if text is None else _encoded(text) for text in texts.to_pylist()]
    parts = {
        METADATA: [None if pair is None else pair[0] for pair in pairs],
        VALUE: [None if pair is None else pair[1] for pair in pairs],
    }
    fields: list[pa.Field[Any]] = list(kind.fields)  # type: ignore[attr-defined]  # a struct
    children = [column_of(parts[field.name], field.type) for field in fields]
    from_parts: Any = pa.StructArray.from_arrays  # the stubs do not know the mask
    made: pa.Array[Any] = from_parts(
        children, fields=fields, mask=column_of([pair is None for pair in pairs], pa.bool_())
    )
    return made


def _encoded(text: str) -> tuple[bytes, bytes]:
    try:
        value = json.loads(
            text,
            parse_int=_whole,
            parse_float=_fraction,
            parse_constant=_no_number,
            object_pairs_hook=_distinct,
        )
        if _depth(value) > MAX_DEPTH:
            raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")
    except (ValueError, RecursionError) as error:
        raise SchemaMismatchError(
            f"{text[:_SHOWN]!r} is not JSON ({error}), so it cannot become a variant; correct it"
        ) from error
    return encode(value)


def _depth(value: object) -> int:
    """How deep a value nests: 0 for one without parts."""
    depth, level = 0, [value]
    while level := [
        item
        for each in level
        if isinstance(each, (dict, list))
        for item in (each.values() if isinstance(each, dict) else each)
    ]:
        depth += 1
    return depth


def _whole(text: str) -> int | float:
    return int(text) if len(text.lstrip("-")) <= _MOST_DIGITS else float(text)


def _fraction(text: str) -> Decimal | float:
    _, point, after = text.partition(".")
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    if point and after.isdigit() and max(len(digits), len(after)) <= _MOST_DIGITS:
        return Decimal(text)
    return float(text)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has two fields of one name")
    return found
