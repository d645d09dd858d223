"""Functions of variants: values at a path, and variants from JSON."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of
from adelta.errors import InvalidExpressionError, SchemaMismatchError
from adelta.kernel.expressions.casts import can_cast, cast_values
from adelta.kernel.expressions.library._function import STRING, Function, Parameter, Values
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import from_arrow_type, to_arrow_type
from adelta.kernel.schema.type_text import parse_type
from adelta.kernel.schema.variant.binary import (
    NULL,
    Metadata,
    Number,
    NumberKind,
    array_items,
    decode,
    is_array,
    is_object,
    object_fields,
)
from adelta.kernel.schema.variant.from_json import variants_from_json
from adelta.kernel.schema.variant.shredding import METADATA, VALUE, Dictionaries, bytes_by_row
from adelta.kernel.schema.variant.text import to_json

__all__ = ["VARIANTS"]

_VARIANT = Parameter((t.VARIANT,))
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]""")
_TIMES: dict[NumberKind, tuple[pa.DataType, pa.DataType]] = {
    NumberKind.DATE: (pa.int32(), pa.date32()),
    NumberKind.TIMESTAMP: (pa.int64(), pa.timestamp("us", "UTC")),
    NumberKind.TIMESTAMP_NTZ: (pa.int64(), pa.timestamp("us")),
}


def _path(text: str) -> tuple[str | int, ...]:
    """The steps of a path: names of fields, and indices of array items, from 0.

    Example: ``$.a[0]['b c']`` is ``("a", 0, "b c")``.
    """
    at, steps = 1, []
    while text[:1] == "$" and at < len(text) and (step := _STEP.match(text, at)):
        name, place, *quoted = step.groups()
        steps.append(int(place) if place else next(x for x in (name, *quoted) if x is not None))
        at = step.end()
    if at != len(text) or text[:1] != "$":
        raise InvalidExpressionError(
            f"{text!r} is not a path into a variant; write it as in $.name[0]['other name']"
        )
    return tuple(steps)


def _followed(metadata: Metadata, value: bytes, path: tuple[str | int, ...]) -> bytes | None:
    """The encoded value at the end of a path; None where there is none."""
    for step in path:
        if isinstance(step, str):
            found = object_fields(metadata, value).get(step) if is_object(value) else None
        else:
            items = array_items(metadata, value) if is_array(value) else []
            found = items[step] if step < len(items) else None
        if found is None:
            return None
        value = found
    return value


def _get(*, strict: bool) -> Any:
    def compute(
        variants: Values, path: str, type_name: str = "variant", *, zone: str = "UTC"
    ) -> Values:
        steps, kind = _path(path), _target(type_name)
        dictionaries = Dictionaries()
        metadata = bytes_by_row(pc.struct_field(variants, METADATA))
        value = bytes_by_row(pc.struct_field(variants, VALUE))
        parts: list[tuple[bytes, bytes] | None] = []
        for row, is_valid in enumerate(variants.is_valid().to_pylist()):
            names, data = metadata(row), value(row)
            if names is None or data is None or not is_valid:
                parts.append(None)
                continue
            part = _followed(dictionaries.of(names), data, steps)
            parts.append(None if part is None else (names, part))
        if kind == t.VARIANT:
            return _variants(parts)
        decoded = [p if p is None else decode(dictionaries.of(p[0]), p[1]) for p in parts]
        return _cast(decoded, kind, zone, path, strict=strict)

    return compute


def _variants(parts: list[tuple[bytes, bytes] | None]) -> Values:
    """Variants of their metadata and values; NULL for None."""
    kind: Any = to_arrow_type(t.VARIANT)
    columns = {METADATA: [p and p[0] for p in parts], VALUE: [p and p[1] for p in parts]}
    children = [column_of(columns[field.name], field.type) for field in kind]
    missing = column_of([part is None for part in parts], pa.bool_())
    made: Any = pa.StructArray.from_arrays
    return made(children, fields=list(kind), mask=missing)


def _cast(decoded: list[Any], to: t.DataType, zone: str, path: str, *, strict: bool) -> Values:
    """Decoded values cast to the type `to`, each from its own type; NULL for None.

    Raises:
        InvalidExpressionError: with `strict`, a value cannot be cast.
    """
    groups: dict[pa.DataType, list[int]] = {}
    plain = list(decoded)
    for row, value in enumerate(decoded):
        if isinstance(value, dict | list):
            if to == t.STRING:
                plain[row] = to_json(value)
                groups.setdefault(pa.string(), []).append(row)
                continue
            kind = None
        elif value is None:
            continue
        else:
            kind, plain[row] = _typed(value)
        if kind is None:
            if strict:
                raise _misfit(value, to, path)
            plain[row] = None
        else:
            groups.setdefault(kind, []).append(row)
    pieces: list[Values] = []
    order: list[int] = []
    for kind, rows in groups.items():
        values = _array([plain[row] for row in rows], kind)
        if can_cast(from_arrow_type(kind), to):
            cast = cast_values(values, to, zone=zone, is_try=True)
        else:
            cast = cast_values(pa.nulls(len(rows)), to)
        if strict and cast.null_count:
            raise _misfit(decoded[rows[pc.index(cast.is_null(), True).as_py()]], to, path)
        pieces.append(cast)
        order.extend(rows)
    places: list[int | None] = [None] * len(decoded)
    for at, row in enumerate(order):
        places[row] = at
    if not pieces:
        return cast_values(pa.nulls(len(decoded)), to)
    return pa.concat_arrays(pieces).take(column_of(places, pa.int64()))


def _typed(value: Any) -> tuple[pa.DataType | None, Any]:
    """The Arrow type that a decoded scalar is cast from, or None, and its value in that type."""
    match value:
        case bool():
            return pa.bool_(), value
        case int():
            return pa.int64(), value
        case float():
            return pa.float64(), value
        case Decimal():
            shown = value.normalize()
            exponent = shown.as_tuple().exponent
            scale = max(0, -int(exponent))
            return pa.decimal128(38, scale), shown
        case str():
            return pa.string(), value
        case bytes():
            return pa.binary(), value
        case Number(kind, number) if kind in _TIMES:
            return _TIMES[kind][1], number
    return None, value


def _array(values: list[Any], kind: pa.DataType) -> Values:
    carrier = next((stored for stored, shown in _TIMES.values() if shown == kind), None)
    return column_of(values, kind) if carrier is None else column_of(values, carrier).cast(kind)


def _misfit(value: Any, to: t.DataType, path: str) -> InvalidExpressionError:
    shown = str(value)[:80]
    return InvalidExpressionError(
        f"the value {shown} at {path} of a variant cannot be cast to {to}; take it by "
        "try_variant_get, which gives NULL"
    )


def _target(name: str) -> t.DataType:
    return t.VARIANT if name.strip().lower() == "variant" else parse_type(name)


def _named_type(name: str) -> t.DataType | str:
    """The type that a constant names, or a message that says why it is not supported."""
    kind = _target(name)
    if isinstance(kind, t.StructType | t.ArrayType | t.MapType):
        return f"a {kind} is taken out of a variant by the Spark engine alone: take its parts"
    return kind


def _parse_json(texts: Values) -> Values:
    try:
        return variants_from_json(texts, to_arrow_type(t.VARIANT))
    except SchemaMismatchError as error:
        raise InvalidExpressionError(str(error)) from error


def _is_null(variants: Values) -> Values:
    """Whether a variant holds the value null; false for SQL NULL."""
    values = pc.struct_field(variants, VALUE)
    equal = pc.equal(values.cast(pa.binary()), pa.scalar(NULL, pa.binary()))
    there = variants.is_valid()
    return pc.and_(pc.fill_null(equal, False), there)


def _getter(name: str, *, strict: bool) -> Function:
    return Function(
        group="variants",
        example=f"{name}(parse_json('{{\"a\": [1]}}'), '$.a[0]', 'int')",
        parameters=(_VARIANT, STRING, STRING),
        optional=1,
        constants=(1, 2),
        result=t.VARIANT,
        named_type=(2, _named_type),
        compute=_get(strict=strict),
        zoned=True,
        safe=False,
    )


VARIANTS = {
    "is_variant_null": Function(
        group="variants",
        example="is_variant_null(parse_json('null'))",
        parameters=(_VARIANT,),
        result=t.BOOLEAN,
        compute=_is_null,
        tolerant=True,
    ),
    "parse_json": Function(
        group="variants",
        example="variant_get(parse_json('{\"a\": 1.5}'), '$.a', 'string')",
        parameters=(STRING,),
        result=t.VARIANT,
        compute=_parse_json,
        safe=False,
    ),
    "try_variant_get": _getter("try_variant_get", strict=False),
    "variant_get": _getter("variant_get", strict=True),
}
