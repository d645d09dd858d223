"""Bodies of file actions, as JSON has them, as Arrow tables, and which of them does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import orjson
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of, empty_table
from adelta.errors import InvalidTableError
from adelta.kernel.actions.columnar import OF_EVERY_VECTOR
from adelta.kernel.actions.file_schemas import DELETION_VECTOR, STRING_MAP, VERSION_FIELD

if TYPE_CHECKING:
    from collections.abc import Mapping

_pa: Any = pa  # the stubs know neither nulls() nor array() of a type that varies
_pc: Any = pc  # nor struct_field() of one

__all__ = ["table_of_bodies"]

_UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)
"""What Arrow raises of a value that is not of the column's type."""


def table_of_bodies(
    bodies: list[dict[str, Any]], versions: list[int], schema: pa.Schema, names: Mapping[str, str]
) -> pa.Table:
    """Bodies as a table of `schema` with the version behind."""
    whole = schema.append(VERSION_FIELD)
    if not bodies:
        return empty_table(whole)
    columns: list[pa.Array[Any]] = []
    for column in schema:
        name = names[column.name]
        values = [body.get(name) for body in bodies]
        try:
            columns.append(_array(values, column.type))
        except _UNFIT as error:
            _name_the_culprit(bodies, versions, name, column.type, error)
    columns.append(array_of(versions, pa.int64()))
    return pa.Table.from_arrays(columns, schema=whole)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array[Any]:
    if kind.equals(STRING_MAP):
        return array_of([None if v is None else _text_map(v) for v in values], kind)
    if kind.equals(DELETION_VECTOR):
        return _vectors(values, kind)
    return array_of(values, kind)


def _vectors(values: list[Any], kind: pa.DataType) -> pa.Array[Any]:
    if all(value is None for value in values):
        return cast("pa.Array[Any]", _pa.nulls(len(values), kind))
    if not all(value is None or isinstance(value, dict) for value in values):
        raise pa.ArrowTypeError("not an object")
    fields: list[Any] = [*cast("Any", kind)]
    children = [
        array_of([None if value is None else value.get(field.name) for value in values], field.type)
        for field in fields
    ]
    missing = array_of([value is None for value in values], pa.bool_())
    vectors = _pa.StructArray.from_arrays(children, fields=fields, mask=missing)
    for name in OF_EVERY_VECTOR:  # without one of these a file has no identity
        if _pc.struct_field(vectors, name).null_count > vectors.null_count:
            raise pa.ArrowInvalid(f"a deletion vector without {name}")
    return cast("pa.Array[Any]", vectors)


def _text_map(value: object) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise pa.ArrowTypeError("not an object")
    return {key: _text(item) for key, item in value.items()}


def _text(value: object) -> str | None:
    """A map value as text: some writers put numbers where the protocol wants strings."""
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


def _name_the_culprit(
    bodies: list[dict[str, Any]],
    versions: list[int],
    name: str,
    kind: pa.DataType,
    cause: Exception,
) -> None:
    for body, version in zip(bodies, versions, strict=True):
        try:
            _array([body.get(name)], kind)
        except _UNFIT as error:
            raise InvalidTableError(
                f"the commit of version {version} has a file action for {body['path'][:200]!r} "
                f"whose {name} is {str(body.get(name))[:100]!r}, where a {_named(kind)} belongs; "
                "restore the file from a backup, or the table to an earlier version"
            ) from error
    raise InvalidTableError(f"a file action's {name} cannot be read: {cause}") from cause


def _named(kind: pa.DataType) -> str:
    if kind.equals(DELETION_VECTOR):
        return "deletion vector's descriptor"
    return "map of texts" if kind.equals(STRING_MAP) else str(kind)
