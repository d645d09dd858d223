"""Rows as a caller gives them → rows as the table's schema has them.

The rules are stricter than those for values that a statement assigns
(`adelta.kernel.expressions.store_assignment`): no value is changed silently. Numbers go into any
numeric type that holds them, dates into timestamps, whole numbers, decimals, booleans and dates
into strings, and nothing else changes its kind. A value that does not fit, digits that would be
lost and a text where a number belongs are errors that name the column. Only numbers that become or
were floats are rounded.

Columns, and the fields of structs at any depth, are matched by name: as written, else ignoring
case. A column that is missing is null. Timestamps without a zone are taken as UTC, and timestamps
of any zone are the same instant in UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of, column_of
from adelta.errors import InvariantViolationError, NullNotAllowedError, SchemaMismatchError
from adelta.kernel.schema.arrow import (
    is_list,
    is_variant_field,
    storage_type,
    to_arrow_schema,
)
from adelta.kernel.schema.geospatial import check_same_system, check_wkb, is_shape_field
from adelta.kernel.schema.types import StructType
from adelta.kernel.schema.variant.from_json import variants_from_json
from adelta.kernel.schema.variant.shredding import METADATA, VALUE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["cast_to_schema", "decoded", "rebuild", "relabel"]

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_Array: TypeAlias = "pa.Array[Any]"
_Field: TypeAlias = "pa.Field[Any]"
_Inner: TypeAlias = "Callable[[_Array, _Field, str], _Array]"

arrow: Any = pa  # the stubs do not know `arange`


def cast_to_schema(data: Rows, schema: StructType | pa.Schema) -> Rows:
    """`data` with exactly the columns of `schema`, in its order and its types.

    Example: ``{"B": int32, "a": null}`` for ``a string, b long`` is ``{"a": string, "b": int64}``.

    Raises:
        SchemaMismatchError: a column is not in the schema, is missing though it may not be null, or
            holds a value that the schema's type cannot hold.
        InvariantViolationError: a column that may not be null holds a null.
    """
    target = to_arrow_schema(schema) if isinstance(schema, StructType) else schema
    places = _match(data.schema.names, target, "")
    for field, place in zip(target, places, strict=True):
        if place is not None and _holds_shapes(field):
            check_same_system(data.schema.field(place), field, field.name)
    columns = [
        _missing(field, data.num_rows, "")
        if place is None
        else _each_chunk(data.column(place), field, _assign)
        for field, place in zip(target, places, strict=True)
    ]
    return _rows(data, columns, target)


def relabel(data: Rows, schema: pa.Schema) -> Rows:
    """The same values under another schema of the same shape.

    Columns and fields go by position; their names, nullability and metadata become those of
    `schema`. No value is copied or looked at.

    Raises:
        SchemaMismatchError: the shapes differ.
    """
    if data.num_columns != len(schema):
        raise SchemaMismatchError(
            f"{data.num_columns} columns cannot be relabelled as {len(schema)}: "
            f"{data.schema.names} and {schema.names}"
        )
    columns = [
        _each_chunk(column, field, _relabel)
        for column, field in zip(data.columns, schema, strict=True)
    ]
    return _rows(data, columns, schema)


def rebuild(
    values: _Array, field: _Field, part: Callable[[_Array, _Field], _Array | None]
) -> _Array:
    """`values` in the type of `field`, nested as they are but for the parts that `part` makes.

    `part` is asked about the whole first, and about what is inside where it answers None. Values
    that it leaves keep their type.
    """

    def inner(values: _Array, field: _Field, path: str) -> _Array:
        made = part(values, field)
        if made is not None or not pa.types.is_nested(field.type):
            return values if made is None else made
        return _rebuild(values, field.type, path, struct, inner)

    def struct(values: Any, target: pa.DataType, path: str) -> list[_Array]:
        fields: list[_Field] = list(target.fields)  # type: ignore[attr-defined]  # a struct
        # The fields of a null struct may hold any values; `flatten` makes them null.
        parts = values.flatten() if values.null_count else map(values.field, range(len(fields)))
        return [inner(part, field, path) for part, field in zip(parts, fields, strict=True)]

    return inner(values, field, field.name)


def _rows(data: Rows, columns: Sequence[Any], schema: pa.Schema) -> Rows:
    if not columns:  # a table without columns still has rows
        return data.select([])
    return type(data).from_arrays(list(columns), schema=schema)


def _each_chunk(column: Any, field: _Field, convert: _Inner) -> Any:
    if isinstance(column, pa.ChunkedArray):
        chunks = [convert(chunk, field, field.name) for chunk in column.chunks]
        return pa.chunked_array(chunks, field.type)
    return convert(column, field, field.name)


def _match(
    names: Sequence[str], target: Sequence[_Field] | pa.Schema, path: str
) -> list[int | None]:
    """For each target field, the place of the column that is for it."""
    exact = {name: place for place, name in enumerate(names)}
    folded: dict[str, int] = {}
    for place, name in enumerate(names):
        other = folded.setdefault(name.lower(), place)
        if other != place:
            raise SchemaMismatchError(
                f"the data has two columns {_join(path, names[other])!r} and "
                f"{_join(path, name)!r}, which Delta cannot tell apart; rename one of them"
            )
    places = [exact.get(f.name, folded.get(f.name.lower())) for f in target]
    extra = set(range(len(names))).difference(places)
    if extra:
        shown = ", ".join(repr(_join(path, names[place])) for place in sorted(extra))
        known = ", ".join(f.name for f in target)
        raise SchemaMismatchError(
            f"the data has columns that the table does not have: {shown}; the table's are {known}; "
            'leave them out, take them in by schema_mode="merge", or add them (add_columns)'
        )
    return places


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _nulls(rows: int, data_type: pa.DataType) -> _Array:
    made: _Array = pa.nulls(rows, data_type)  # type: ignore[call-overload]  # takes any type
    return made


def _missing(field: _Field, rows: int, path: str) -> _Array:
    if not field.nullable and rows:
        raise SchemaMismatchError(
            f"the data has no column {_join(path, field.name)!r}, which may not be null; add it"
        )
    return _nulls(rows, field.type)


# ------------------------------------------------------------------------------------- assignment


def _assign(values: _Array, field: _Field, path: str) -> _Array:
    """`values` in the type of `field`, which is known by `path` in messages."""
    if not field.nullable and values.null_count:
        raise NullNotAllowedError(
            f"column {path!r} may not be null, and {values.null_count} of {len(values)} values "
            "given for it are null"
        )
    target = field.type
    if _holds_shapes(field):
        return _assign_shapes(values, field, path)
    if not pa.types.is_nested(target) and values.type == target:
        return values
    if is_variant_field(field):
        return _assign_variant(values, target, path)
    return _assign_plain(values, target, path)


def _assign_plain(values: _Array, target: pa.DataType, path: str) -> _Array:
    try:
        values = decoded(values)
        if pa.types.is_null(values.type):
            return _nulls(len(values), target)
        if not pa.types.is_nested(target):
            return _assign_primitive(values, target)
        rebuilt = _rebuild(values, target, path, _assign_struct, _assign)
    except pa.ArrowException as error:
        raise SchemaMismatchError(
            f"column {path!r}: values of type {values.type} cannot be stored as {target}: {error}"
            f"{_remedy(values.type, target)}"
        ) from error
    return rebuilt


def _remedy(given: pa.DataType, target: pa.DataType) -> str:
    """What can be done about values that the table's type cannot hold."""
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(target):
        return (
            "; Delta keeps microseconds: round the column first, such as by "
            'pyarrow.compute.floor_temporal(column, unit="microsecond")'
        )
    return ""


def _holds_shapes(field: _Field) -> bool:
    return pa.types.is_binary(field.type) and is_shape_field(field)


def _assign_shapes(values: _Array, field: _Field, path: str) -> _Array:
    """Shapes in their binary form, of the system that the column has."""
    check_same_system(values.type, field, path)
    made = _assign_plain(values, field.type, path)
    check_wkb(made, path)
    return made


def _assign_variant(values: _Array, target: pa.DataType, path: str) -> _Array:
    """Variants in their binary form as they are, and the variants that JSON text describes."""
    if isinstance(values.type, pa.JsonType):
        return variants_from_json(decoded(values), target)
    values = decoded(values)
    if pa.types.is_null(values.type):
        return _nulls(len(values), target)
    if not pa.types.is_struct(values.type):
        raise SchemaMismatchError(
            f"column {path!r} holds variants, and values of type {values.type} are none; give "
            "structs of their binary value and metadata, or JSON text of Arrow's type json"
        )
    made: Any = _rebuild(values, target, path, _assign_struct, _assign)
    whole = pc.and_(made.field(VALUE).is_valid(), _is_metadata(made.field(METADATA)))
    damaged = pc.and_(made.is_valid(), pc.invert(pc.fill_null(whole, False)))
    if pc.any(damaged).as_py():
        raise InvariantViolationError(
            f"column {path!r} holds variants, and {pc.sum(damaged).as_py()} of {len(made)} values "
            "given for it lack their value, or have no metadata of version 1"
        )
    checked: _Array = made
    return checked


def _is_metadata(values: _Array) -> _Array:
    """Whether each value begins as metadata of the first version of the encoding do."""
    heads = [bytes([high << 4 | 1]) for high in range(16)]
    found: _Array = pc.is_in(pc.binary_slice(values, 0, 1), value_set=array_of(heads, pa.binary()))
    return found


def decoded(values: _Array) -> _Array:
    """The values themselves, without dictionary, run-end or extension encoding."""
    while storage_type(values.type) != values.type:
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        elif isinstance(values, pa.RunEndEncodedArray):
            values = _taken(values.values, _runs(values))
        elif isinstance(values, pa.DictionaryArray):
            values = _taken(values.dictionary, values.indices)
    return values


def _taken(distinct: _Array, places: _Array) -> _Array:
    """The values at these places of the `distinct` ones; Arrow takes none out of views."""
    if pa.types.is_string_view(distinct.type):
        distinct = distinct.cast(pa.large_string())
    elif pa.types.is_binary_view(distinct.type):
        distinct = distinct.cast(pa.large_binary())
    return distinct.take(places)


def _runs(values: Any) -> _Array:
    """Which run each value is in."""
    numbers = arrow.arange(0, len(values.values))
    runs = pa.RunEndEncodedArray.from_arrays(values.run_ends, numbers)
    found: _Array = pc.run_end_decode(runs.slice(values.offset, len(values)))
    return found


def _assign_struct(values: Any, target: pa.DataType, path: str) -> list[_Array]:
    fields: list[_Field] = list(target.fields)  # type: ignore[attr-defined]  # a struct
    places = _match([f.name for f in values.type.fields], fields, path)
    children = []
    for field, place in zip(fields, places, strict=True):
        inner = _join(path, field.name)
        if place is None:
            _missing(field, len(values) - values.null_count, path)
            children.append(_nulls(len(values), field.type))
            continue
        child = values.field(place)
        if _holds_shapes(field):
            check_same_system(values.type.field(place), field, inner)
        if values.null_count and (is_variant_field(field) or _holds_shapes(field)):
            child = values.flatten()[place]  # where there is no struct, there is no value either
        if not field.nullable and child.null_count:
            # A null struct has null fields, whatever they are declared to be.
            nulls = pc.sum(pc.and_(child.is_null(), values.is_valid())).as_py()
            if nulls:
                raise NullNotAllowedError(
                    f"column {inner!r} may not be null, and {nulls} of {len(values)} values given "
                    "for it are null"
                )
            field = field.with_nullable(True)
        children.append(_assign(child, field, inner))
    return children


def _assign_primitive(values: _Array, target: pa.DataType) -> _Array:
    source = values.type
    if pa.types.is_null(target):
        if values.null_count == len(values):
            return pa.nulls(len(values))
        raise pa.ArrowInvalid("the table's column is of type void, which holds nulls alone")
    for accepts, convert in _CONVERSIONS:
        if accepts(target):
            converted = convert(values, target)
            if converted is not None:
                return converted
    raise pa.ArrowInvalid(f"there is no implicit conversion from {source}; cast the column first")


def _to_integer(values: _Array, target: pa.DataType) -> _Array | None:
    return values.cast(target) if _is_number(values.type) else None


def _to_float(values: _Array, target: pa.DataType) -> _Array | None:
    if not _is_number(values.type):
        return None
    converted = values.cast(target, safe=False)
    if pa.types.is_floating(values.type):
        overflown = pc.and_(pc.is_inf(converted), pc.invert(pc.is_inf(values)))
        if pc.any(overflown).as_py():
            raise pa.ArrowInvalid("a value is out of range")
    return converted


def _to_decimal(values: _Array, target: pa.DataType) -> _Array | None:
    if pa.types.is_integer(values.type):
        digits = 20 if pa.types.is_uint64(values.type) else 19
        values = values.cast(pa.decimal128(digits, 0))
    elif not _is_number(values.type):
        return None
    return values.cast(target)


def _to_string(values: _Array, target: pa.DataType) -> _Array | None:
    source = values.type
    if (
        _is_text(source)
        or pa.types.is_integer(source)
        or pa.types.is_boolean(source)
        or pa.types.is_date(source)
    ):
        return values.cast(target)
    if pa.types.is_decimal(source):
        texts = values.cast(target)
        if pc.any(pc.match_substring(texts, "E")).as_py():
            texts = column_of([None if v is None else f"{v:f}" for v in values.to_pylist()], target)
        return texts
    return None


def _to_binary(values: _Array, target: pa.DataType) -> _Array | None:
    source = values.type
    binary = (
        pa.types.is_binary(source)
        or pa.types.is_large_binary(source)
        or pa.types.is_binary_view(source)
        or pa.types.is_fixed_size_binary(source)
    )
    return values.cast(target) if binary else None


def _to_date(values: _Array, target: pa.DataType) -> _Array | None:
    if pa.types.is_date(values.type):
        return values.cast(target)
    if not pa.types.is_timestamp(values.type):
        return None
    local = values.cast(pa.timestamp(values.type.unit))
    days = local.cast(target)
    if pc.any(pc.not_equal(days.cast(local.type), local)).as_py():
        raise pa.ArrowInvalid("a timestamp has a time of day, which a date would lose")
    return days


def _to_timestamp(values: _Array, target: pa.DataType) -> _Array | None:
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us")).cast(target)
    return None


def _to_boolean(values: _Array, target: pa.DataType) -> _Array | None:
    return values.cast(target) if pa.types.is_boolean(values.type) else None


_CONVERSIONS: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[_Array, pa.DataType], _Array | None]], ...
] = (
    (pa.types.is_integer, _to_integer),
    (pa.types.is_floating, _to_float),
    (pa.types.is_decimal, _to_decimal),
    (pa.types.is_string, _to_string),
    (pa.types.is_binary, _to_binary),
    (pa.types.is_date, _to_date),
    (pa.types.is_timestamp, _to_timestamp),
    (pa.types.is_boolean, _to_boolean),
)


def _is_number(data_type: pa.DataType) -> bool:
    return (
        pa.types.is_integer(data_type)
        or pa.types.is_decimal(data_type)
        or pa.types.is_floating(data_type)
    )


def _is_text(data_type: pa.DataType) -> bool:
    return (
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_string_view(data_type)
    )


# --------------------------------------------------------------------------------------- structure


def _relabel(values: _Array, field: _Field, path: str) -> _Array:
    target = field.type
    if values.type == target:
        return values
    if not pa.types.is_nested(target):
        raise SchemaMismatchError(
            f"column {path!r} is of type {values.type} and cannot be relabelled as {target}"
        )
    return _rebuild(values, target, path, _relabel_struct, _relabel)


def _relabel_struct(values: Any, target: pa.DataType, path: str) -> list[_Array]:
    fields: list[_Field] = list(target.fields)  # type: ignore[attr-defined]  # a struct
    if len(fields) != values.type.num_fields:
        raise SchemaMismatchError(
            f"column {path!r} is of type {values.type} and cannot be relabelled as {target}"
        )
    return [
        _relabel(values.field(place), field, _join(path, field.name))
        for place, field in enumerate(fields)
    ]


def _rebuild(
    values: Any,
    target: Any,
    path: str,
    struct: Callable[[Any, pa.DataType, str], list[_Array]],
    inner: _Inner,
) -> _Array:
    """The nested `values` as `target`, their parts made by `struct` and `inner`."""
    made: _Array
    from_parts: Any  # the stubs do not know the mask
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(target) and pa.types.is_struct(values.type):
        children = struct(values, target, path)
        from_parts = pa.StructArray.from_arrays
        made = from_parts(children, fields=list(target.fields), mask=mask) if children else values
        return made
    if pa.types.is_map(target) and pa.types.is_map(values.type):
        from_parts = pa.MapArray.from_arrays
        offsets, start, length = _offsets(values)
        keys = inner(values.keys.slice(start, length), target.key_field, f"{path}.key")
        items = inner(values.items.slice(start, length), target.item_field, f"{path}.value")
        made = from_parts(offsets, keys, items, type=target, mask=mask)
        return made
    if pa.types.is_list(target) and is_list(values.type):
        from_parts = pa.ListArray.from_arrays
        offsets, elements = _elements(values)
        elements = inner(elements, target.value_field, f"{path}.element")
        made = from_parts(offsets, elements, type=target, mask=mask)
        return made
    raise SchemaMismatchError(
        f"column {path!r}: values of type {values.type} cannot be stored as {target}; "
        "give the column another type"
    )


def _elements(values: Any) -> tuple[_Array, _Array]:
    """The offsets, from 0, of the lists in any of Arrow's layouts, and the elements one by one."""
    if pa.types.is_list_view(values.type) or pa.types.is_large_list_view(values.type):
        # Arrow 26 casts views to lists with wrong offsets.
        ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(values), 0).cast(pa.int32()))
        return pa.concat_arrays([array_of([0], pa.int32()), ends]), values.flatten()
    if not pa.types.is_list(values.type):
        values = values.cast(pa.list_(values.type.value_field))
    offsets, start, length = _offsets(values)
    return offsets, values.values.slice(start, length)


def _offsets(values: Any) -> tuple[_Array, int, int]:
    """Offsets counted from 0, and where the elements that they refer to begin and how many."""
    if not len(values):
        return array_of([0], pa.int32()), 0, 0
    offsets = values.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    return pc.subtract(offsets, offsets[0]), start, end - start
