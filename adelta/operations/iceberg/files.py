"""The data files of an Iceberg table as a Delta log names them: partition values and statistics.

A column is a partition column where every live file belongs to one of its values, as the partition
specs say that files were written by: Iceberg's other transforms hide the columns that they make,
which Delta cannot; statistics skip files by those instead.
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._arrow_values import array_of
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError, MissingDataFileError
from adelta.kernel.actions.file_actions import AddFile, encode_path
from adelta.kernel.partition import can_partition, serialise_partition_values
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.names import COLUMN_ID_KEY, leaf_fields
from adelta.kernel.statistics import has_bounds, stats_json, stats_leaves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.table_properties import TableProperties
    from adelta.operations.iceberg.metadata import IcebergFile, IcebergTable
    from adelta.storage.object_store import ObjectMeta

__all__ = ["FilesOfTable", "check_there"]

_EPOCH_DATE = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)


def check_there(root: str, files: Sequence[IcebergFile], listed: Mapping[str, ObjectMeta]) -> None:
    """Prove that the files are where the table is to name them.

    Raises:
        MissingDataFileError: some are not.
        InvalidTableError: one is of another size.
    """
    missing = [file.path for file in files if file.path not in listed]
    if missing:
        raise MissingDataFileError(
            f"{root} lacks {len(missing)} of the {len(files)} files that its Iceberg metadata "
            f"name, {missing[0]} among them; look whether these are the current metadata"
        )
    for file in files:
        if listed[file.path].size != file.size:
            raise InvalidTableError(
                f"{root}: {file.path} has {listed[file.path].size} bytes, and its Iceberg metadata "
                f"say {file.size}"
            )


@dataclass(frozen=True)
class FilesOfTable:
    """The files of `table`, whose columns are those of `schema`.

    Raises:
        InvalidTableError: a partition value is not of its column's type.
    """

    table: IcebergTable
    schema: t.StructType

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns of which every live file has one value that the log can hold."""
        specs = {spec.spec_id: spec for spec in self.table.metadata.partition_specs}
        used = {file.spec for file in self.table.files} or {self.table.metadata.default_spec_id}
        columns = {field.metadata[COLUMN_ID_KEY]: field for field in self.schema}
        found = []
        for number, place in self._identities(specs[min(used)]).items():
            column = columns.get(number)
            if column is None or not can_partition(column.type):
                continue
            if any(number not in self._identities(specs[spec]) for spec in used):
                continue
            if not _can_be_told(column.type, self._values(number)):
                continue
            found.append((place, column.name))
        names = tuple(name for _, name in sorted(found))
        return names if len(names) < len(self.schema) else ()

    def adds(
        self, listed: Mapping[str, ObjectMeta], properties: TableProperties, *, statistics: bool
    ) -> list[AddFile]:
        """An `add` for each file, whose partition values go by the columns' names."""
        columns = [self._partition_texts(name) for name in self.partition_columns]
        wanted = self._wanted(properties) if statistics else ()
        prefix = properties.data_skipping_string_prefix_length
        return [
            AddFile(
                path=encode_path(file.path),
                partition_values={
                    name: texts[at]
                    for name, texts in zip(self.partition_columns, columns, strict=True)
                },
                size=file.size,
                modification_time=listed[file.path].last_modified_ms,
                stats=stats_json(_Statistics(file, wanted), prefix) if statistics else None,
            )
            for at, file in enumerate(self.table.files)
        ]

    # ------------------------------------------------------------------------------- partitions

    def _identities(self, spec: Any) -> dict[int, int]:
        """The places, in the partition, of values that are a column's own, by the column's id."""
        return {
            int(field.source_id): place
            for place, field in enumerate(spec.fields)
            if str(field.transform) == "identity"
        }

    def _values(self, number: int) -> list[Any]:
        """What each file says of a column by which all are partitioned."""
        specs = {spec.spec_id: spec for spec in self.table.metadata.partition_specs}
        places = {number_: self._identities(spec).get(number) for number_, spec in specs.items()}
        found = []
        for file in self.table.files:
            place = places[file.spec]
            found.append(None if place is None else file.partition[place])
        return found

    def _partition_texts(self, name: str) -> list[str | None]:
        field = self.schema.field(name)
        assert field is not None
        values = self._values(field.metadata[COLUMN_ID_KEY])
        try:
            if field.type == t.DATE:
                typed: pa.Array[Any] = array_of(values, pa.int32()).cast(pa.date32())
            elif field.type in (t.TIMESTAMP, t.TIMESTAMP_NTZ):
                typed = array_of(values, pa.int64()).cast(to_arrow_type(field.type))
            else:
                typed = array_of(values, to_arrow_type(field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise InvalidTableError(
                f"the Iceberg metadata hold a value of the partition column {name!r} that is not "
                f"of its type {field.type}: {error}"
            ) from error
        texts: list[str | None] = serialise_partition_values(typed, field.type).to_pylist()
        return texts

    # ------------------------------------------------------------------------------- statistics

    def _wanted(self, properties: TableProperties) -> tuple[_Leaf, ...]:
        wanted = set(stats_leaves(self.schema, properties, self.partition_columns))
        kinds = {
            field.field_id: field.field_type
            for field in _all_fields(self.table.metadata.schema().fields)
        }
        return tuple(
            _Leaf(path, field.type, field.metadata[COLUMN_ID_KEY], kinds)
            for path, field in leaf_fields(self.schema)
            if path in wanted
        )


def _can_be_told(data_type: t.DataType, values: Sequence[Any]) -> bool:
    """Whether a log can hold the values, which has texts of them, and takes an empty one for null.

    Values of other types than `data_type` are told of elsewhere.
    """
    if data_type == t.STRING:
        return "" not in values
    return data_type != t.BINARY or all(
        value is None or (isinstance(value, bytes) and value and _is_text(value))
        for value in values
    )


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Leaf:
    """A column without parts of which statistics are wanted."""

    def __init__(
        self, path: tuple[str, ...], data_type: t.DataType, number: int, kinds: Mapping[int, Any]
    ) -> None:
        self.path = path
        self.type = data_type
        self.number = number
        self._kind = kinds[number]

    def bound(self, bounds: Mapping[int, bytes]) -> Any:
        """One of a file's bounds as a value; None where there is none, or none that is known."""
        from pyiceberg.conversions import from_bytes

        data = bounds.get(self.number)
        if data is None or not has_bounds(self.type):
            return None
        try:
            value: Any = from_bytes(self._kind, data)
            if self.type == t.DATE:
                return _EPOCH_DATE + timedelta(days=value)
            if self.type in (t.TIMESTAMP, t.TIMESTAMP_NTZ):
                moment = _EPOCH + timedelta(microseconds=value)
                return moment if self.type == t.TIMESTAMP_NTZ else moment.replace(tzinfo=UTC)
        except (struct.error, OverflowError, ValueError):  # of another type, or beyond Python's
            return None
        return value


def _all_fields(fields: Sequence[Any]) -> list[Any]:
    """Fields with those of structs in them, at any depth."""
    found = []
    for field in fields:
        found.append(field)
        found += _all_fields(getattr(field.field_type, "fields", ()))
    return found


@dataclass(frozen=True, slots=True)
class _Column:
    """What is surely known of one column of a file.

    Iceberg leaves NaN out of bounds, and Delta orders it last: floats have a greatest value only
    where there is no NaN.
    """

    min: Any
    max: Any
    null_count: int | None
    has_nan: bool = False


class _Statistics:
    """What Iceberg's metadata say of one file."""

    def __init__(self, file: IcebergFile, leaves: Sequence[_Leaf]) -> None:
        self.num_rows = file.num_rows
        self.columns: dict[str, Any] = {}
        for leaf in leaves:
            column = _column(file, leaf)
            target = self.columns
            for step in leaf.path[:-1]:
                target = target.setdefault(step, {})
            target[leaf.path[-1]] = column


def _column(file: IcebergFile, leaf: _Leaf) -> _Column:
    greatest = leaf.bound(file.upper)
    if leaf.type in (t.FLOAT, t.DOUBLE) and file.nan_counts.get(leaf.number) != 0:
        greatest = None
    counts = file.null_counts.get(leaf.number)
    whole = isinstance(leaf.type, (t.ArrayType, t.MapType))
    return _Column(leaf.bound(file.lower), greatest, None if whole else counts)
