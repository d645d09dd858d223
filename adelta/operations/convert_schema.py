"""The schema of a table that is made of Parquet files which are there: pure functions.

Files may lack columns, and read as null where they do; so every column and field is nullable. A
column is spelt alike and of one type in all files, but for whole numbers of up to 32 bits, which
Parquet stores alike: those become the widest of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from adelta._arrow_values import array_of
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, InvalidTableError, SchemaMismatchError
from adelta.kernel.partition import (
    can_partition,
    parse_partition_values,
    partition_texts,
    serialise_partition_values,
)
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.names import as_nullable
from adelta.operations.create import ArrowSchema, delta_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.parquet.footer.layout import FileLayout

__all__ = [
    "FolderNames",
    "FoundSchema",
    "file_schema",
    "partition_fields",
    "partition_values",
    "table_schema",
]

FolderNames = Literal["hive", "directory"]
"""Whether folders say of which column they are (``year=2024``), or are values alone (``2024``)."""

_WHOLE = (t.BYTE, t.SHORT, t.INTEGER)


@dataclass(frozen=True, slots=True)
class FoundSchema:
    """The columns that some of the files have, and the path of the first one of them."""

    schema: t.StructType
    path: str


# ------------------------------------------------------------------------------------ data columns


def file_schema(layout: FileLayout) -> t.StructType:
    """The columns of a file, as those of a table.

    Raises:
        SchemaMismatchError: Delta, or Spark, has no such type.
    """
    physical: list[str] = []
    for column in layout.tree.columns:
        physical += layout.physical_types((column.name,))
    try:
        fields = []
        leaf = 0
        for field in layout.schema:
            typed, leaf = _as_spark_reads(field.type, field.name, physical, leaf)
            fields.append(field.with_type(typed))
        return _merged(t.StructType(()), as_nullable(from_arrow_schema(pa.schema(fields))), "")
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"{layout.path}: {error}") from error
    except _Conflict as twice:
        raise SchemaMismatchError(
            f"{layout.path}: has two columns {twice.path!r} that differ in case alone, which Delta "
            "cannot tell apart; write the file again"
        ) from twice


def _as_spark_reads(
    data_type: Any, path: str, physical: Sequence[str], leaf: int
) -> tuple[pa.DataType, int]:
    """The type with INT96 as instants, which Arrow has without a zone; and the leaf after it."""
    if pa.types.is_struct(data_type):
        fields = []
        for field in data_type.fields:
            typed, leaf = _as_spark_reads(field.type, f"{path}.{field.name}", physical, leaf)
            fields.append(field.with_type(typed))
        return pa.struct(fields), leaf
    if pa.types.is_map(data_type):
        parts: list[Any] = []  # the stubs take types only
        for field, step in ((data_type.key_field, "key"), (data_type.item_field, "value")):
            typed, leaf = _as_spark_reads(field.type, f"{path}.{step}", physical, leaf)
            parts.append(field.with_type(typed))
        return pa.map_(parts[0], parts[1]), leaf
    if pa.types.is_list(data_type):
        field = data_type.value_field
        typed, leaf = _as_spark_reads(field.type, f"{path}.element", physical, leaf)
        return pa.list_(field.with_type(typed)), leaf
    if pa.types.is_timestamp(data_type):
        if physical[leaf] == "INT96":
            return pa.timestamp("us", "UTC"), leaf + 1
        if data_type.unit == "ns":
            raise SchemaMismatchError(
                f"column {path!r} holds nanoseconds, which Delta does not have and Spark does not "
                "read; write the file again with microseconds"
            )
    return data_type, leaf + 1


def table_schema(found: Sequence[FoundSchema], partitions: Sequence[t.StructField]) -> t.StructType:
    """The schema of a table over files of several schemas; partition columns come last.

    A column that is both in the files and in the folders' names is of the folders' type, at its
    place in the files.

    Raises:
        SchemaMismatchError: a column is of different types in two files, which are named.
    """
    by_name = {field.name.lower(): field for field in partitions}
    merged = t.StructType(())
    for place, each in enumerate(found):
        fields = tuple(f for f in each.schema if f.name.lower() not in by_name)
        try:
            merged = _merged(merged, t.StructType(fields), "")
        except _Conflict as conflict:
            raise SchemaMismatchError(_told(conflict, each, found[:place])) from conflict
    named = {field.name.lower() for each in found for field in each.schema}
    if not set(by_name) & named:
        return t.StructType((*merged.fields, *partitions))
    first = found[0].schema
    in_files = [by_name.get(f.name.lower(), merged.field(f.name)) for f in first]
    order = {f.name.lower(): f for f in in_files if f is not None}
    for field in (*merged.fields, *partitions):
        order.setdefault(field.name.lower(), field)
    return t.StructType(tuple(order.values()))


class _Conflict(Exception):
    """Two files have a column by different types, or spell its name in different cases."""

    def __init__(self, path: str, one: object, other: object, *, spelling: bool = False) -> None:
        super().__init__(path)
        self.path = path
        self.one = one
        self.other = other
        self.spelling = spelling


def _told(conflict: _Conflict, later: FoundSchema, earlier: Sequence[FoundSchema]) -> str:
    first = earlier[0] if earlier else later
    for each in earlier:
        try:
            _merged(each.schema, later.schema, "")
        except _Conflict as found:
            if found.path.lower() == conflict.path.lower():
                first = each
                break
    if conflict.spelling:
        return (
            f"column {conflict.path!r} is spelt {str(conflict.one)!r} in {first.path} and "
            f"{str(conflict.other)!r} in {later.path}, which some engines take for two; write one "
            "of the files again"
        )
    return (
        f"column {conflict.path!r} is of type {conflict.one} in {first.path} and of type "
        f"{conflict.other} in {later.path}; a table has one type for a column: write one of the "
        "files again"
    )


def _merged(one: t.StructType, other: t.StructType, path: str) -> t.StructType:
    fields = {field.name.lower(): field for field in one}
    seen: set[str] = set()
    for field in other:
        folded, below = field.name.lower(), f"{path}.{field.name}" if path else field.name
        if folded in seen:
            raise _Conflict(below, field.name, field.name)
        seen.add(folded)
        known = fields.get(folded)
        if known is not None and known.name != field.name:
            raise _Conflict(below, known.name, field.name, spelling=True)
        if known is None:
            fields[folded] = field
        else:
            fields[folded] = replace(known, type=_merged_types(known.type, field.type, below))
    return t.StructType(tuple(fields.values()))


def _merged_types(one: t.DataType, other: t.DataType, path: str) -> t.DataType:
    match one, other:
        case t.StructType(), t.StructType():
            return _merged(one, other, path)
        case t.ArrayType(), t.ArrayType():
            element = _merged_types(one.element_type, other.element_type, f"{path}.element")
            return t.ArrayType(element)
        case t.MapType(), t.MapType():
            key = _merged_types(one.key_type, other.key_type, f"{path}.key")
            return t.MapType(key, _merged_types(one.value_type, other.value_type, f"{path}.value"))
    if one == other or other == t.VOID:
        return one
    if one == t.VOID:
        return other
    if one in _WHOLE and other in _WHOLE:
        return max(one, other, key=_WHOLE.index)
    raise _Conflict(path, one, other)


# -------------------------------------------------------------------------------------- partitions


def partition_fields(
    schema: ArrowSchema | t.StructType | str | None,
) -> tuple[t.StructField, ...]:
    """The partition columns that a caller names: a text, an Arrow schema, or Delta's own types.

    Raises:
        InvalidOptionError: it is none of these, or a table cannot be partitioned so.
        SchemaMismatchError: Delta has no such type.
    """
    if schema is None:
        return ()
    found = delta_schema(schema)
    for field in found:
        if not can_partition(field.type):
            raise InvalidOptionError(
                f"column {field.name!r} of partition_schema is a {field.type}, by which a table "
                "cannot be partitioned"
            )
    names = [field.name.lower() for field in found]
    if len(set(names)) < len(names):
        raise InvalidOptionError("partition_schema names a column twice; name each once")
    return as_nullable(found).fields


def partition_values(
    directory: str, columns: Sequence[t.StructField], path: str, folder_names: FolderNames = "hive"
) -> dict[str, str | None]:
    """The log's partition values of the files in a folder; `path` is one of them.

    Example: ``year=2024/month=01`` with ``month int`` has ``{"year": "2024", "month": "1"}``.

    Raises:
        InvalidOptionError: the folder does not name these columns, in this order.
        SchemaMismatchError: a text is no value of its column's type.
    """
    if folder_names == "directory":
        found = _texts_alone(directory, columns, path)
    else:
        found = list(partition_texts(directory))
    if [name.lower() for name, _ in found] != [field.name.lower() for field in columns]:
        reason = "columns" if len(found) == len(columns) else "number"
        raise InvalidOptionError(
            _other_columns(path, [name for name, _ in found], columns),
            reason=f"folders_of_other_{reason}",
        )
    values: dict[str, str | None] = {}
    for (_, text), field in zip(found, columns, strict=True):
        try:
            typed = parse_partition_values(array_of([text], pa.string()), field.type)
        except InvalidTableError as error:
            raise SchemaMismatchError(
                f"{path}: its folder says {field.name}={text!r}, which is not a {field.type}; give "
                "another type in partition_schema, or rename the folder"
            ) from error
        values[field.name] = serialise_partition_values(typed, field.type)[0].as_py()
    return values


def _texts_alone(
    directory: str, columns: Sequence[t.StructField], path: str
) -> list[tuple[str, str | None]]:
    """The partition texts of folders that do not say of which columns they are.

    Raises:
        InvalidOptionError: there are more folders than columns, or fewer.
    """
    texts = directory.split("/") if directory else []
    if len(texts) != len(columns):
        raise InvalidOptionError(
            f"{path}: it lies in {len(texts)} folders, where partition_schema has {len(columns)} "
            f"columns ({', '.join(field.name for field in columns)}); every file has to lie in a "
            "folder of each, in this order"
        )
    named = "/".join(f"x={text}" for text in texts)
    read = partition_texts(named)
    return [(field.name, text) for field, (_, text) in zip(columns, read, strict=True)]


def _other_columns(path: str, names: Sequence[str], columns: Sequence[t.StructField]) -> str:
    if not columns:
        example = ", ".join(f"{name} STRING" for name in names)
        return (
            f"{path}: its folders are partitions by ({', '.join(names)}); say of which types, by "
            f"partition_schema, for example {example!r}"
        )
    asked = ", ".join(field.name for field in columns)
    return (
        f"{path}: its folders name the partition columns ({', '.join(names)}), where "
        f"partition_schema has ({asked}); every file has to lie in folders of all of these, in "
        "this order"
    )
