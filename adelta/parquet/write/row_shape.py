"""Rows in the exact Arrow schema of the file that they go to.

Two schemas of the same shape differ only in what Arrow counts as part of a type and Parquet does
not: metadata, nullability, and the names of list elements and map entries.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from adelta._dictionaries import TEXTS
from adelta.errors import NullNotAllowedError, SchemaMismatchError

__all__ = ["check_shape", "conform"]


def check_shape(path: str, given: pa.Schema, wanted: pa.Schema) -> None:
    """Do nothing where both schemas have the same shape; texts may be given as dictionaries.

    Raises:
        SchemaMismatchError: they have not; says which column differs.
    """
    if given.equals(wanted):
        return
    if given.names != wanted.names:
        raise SchemaMismatchError(
            f"{path}: is written with the columns {wanted.names}, and a batch has {given.names}"
        )
    for have, want in zip(given, wanted, strict=True):
        if have.type.equals(TEXTS) and want.type.equals(pa.string()):
            continue
        if not have.type.equals(want.type) and not _shape(have.type).equals(_shape(want.type)):
            raise SchemaMismatchError(
                f"{path}: column {want.name!r} is written as {want.type}, and a batch has "
                f"{have.type}: cast it first"
            )


def conform(path: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows of `table`, which has the shape of `schema`, in exactly that schema.

    Raises:
        InvariantViolationError: a field that `schema` declares not null holds a null.
    """
    if table.schema.equals(schema):
        return table
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, ValueError) as error:
        raise NullNotAllowedError(
            f"{path}: a column that must not be null holds a null: {error}"
        ) from error


def _shape(data_type: pa.DataType) -> pa.DataType:
    """The type without nullability, metadata and the names that Parquet fixes itself."""
    if pa.types.is_struct(data_type):
        fields = [data_type.field(index) for index in range(data_type.num_fields)]
        return pa.struct([pa.field(field.name, _shape(field.type)) for field in fields])
    if pa.types.is_map(data_type):
        return pa.map_(_shape(data_type.key_type), _shape(data_type.item_type))
    if pa.types.is_list(data_type):
        return pa.list_(_element(data_type))
    if pa.types.is_large_list(data_type):
        return pa.large_list(_element(data_type))
    if pa.types.is_fixed_size_list(data_type):
        fixed: pa.DataType = pa.list_(_element(data_type), data_type.list_size)
        return fixed
    return data_type


def _element(data_type: Any) -> pa.Field[Any]:
    return pa.field("element", _shape(data_type.value_type))
