"""FileSet: the live files of a version as one immutable Arrow table, with verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of, empty_table
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor, RemoveFile
from adelta.kernel.actions.file_schemas import ADD_SCHEMA, REMOVE_SCHEMA
from adelta.kernel.partition import with_known_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["FileSet", "add_files", "remove_files"]

_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class FileSet:
    """Live files: `table` has the columns of `ADD_SCHEMA`, and perhaps more."""

    table: pa.Table

    @classmethod
    def empty(cls) -> FileSet:
        """A set of no files."""
        return cls(empty_table(ADD_SCHEMA))

    @classmethod
    def of(cls, files: Iterable[AddFile]) -> FileSet:
        """A set of single files."""
        rows = tuple(files)
        columns = [
            array_of([_cell(getattr(row, f.name), f.type) for row in rows], f.type)
            for f in ADD_SCHEMA
        ]
        return cls(pa.Table.from_arrays(columns, schema=ADD_SCHEMA))

    @property
    def num_files(self) -> int:
        """How many files there are."""
        return int(self.table.num_rows)

    @property
    def total_bytes(self) -> int:
        """The summed size of the data files, in bytes."""
        return int(pc.sum(self.table.column("size")).as_py() or 0)

    def filter(self, mask: pa.ChunkedArray[Any] | pa.Array[Any]) -> FileSet:
        """The files where `mask` is true."""
        return FileSet(pc.filter(self.table, mask))

    def union(self, other: FileSet) -> FileSet:
        """The files of both, which must have none in common."""
        if not other.num_files:
            return self
        if not self.num_files:
            return other
        return FileSet(pa.concat_tables([self.table, other.table], promote_options="default"))

    def rows(self) -> Iterator[AddFile]:
        """Frozen views, one a file: for small numbers of files."""
        return add_files(self.table)


def add_files(table: pa.Table) -> Iterator[AddFile]:
    """Rows of a table with the columns of `ADD_SCHEMA`."""
    for row in _rows(table.select(ADD_SCHEMA.names)):
        row["partition_values"] = dict(row["partition_values"] or ())
        row["tags"] = None if row["tags"] is None else dict(row["tags"])
        row["deletion_vector"] = _vector(row["deletion_vector"])
        row["size"] = row["size"] or 0
        row["modification_time"] = row["modification_time"] or 0
        row["data_change"] = bool(row["data_change"])
        yield AddFile(**row)


def remove_files(table: pa.Table) -> Iterator[RemoveFile]:
    """Rows of a table with the columns of `REMOVE_SCHEMA`."""
    for row in _rows(table.select(REMOVE_SCHEMA.names)):
        for name in ("partition_values", "tags"):
            row[name] = None if row[name] is None else dict(row[name])
        row["deletion_vector"] = _vector(row["deletion_vector"])
        row["data_change"] = bool(row["data_change"])
        yield RemoveFile(**row)


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows, a few at a time: Arrow keeps the interpreter to itself while it makes them."""
    try:
        for start in range(0, table.num_rows, _ROWS_AT_ONCE):
            yield from with_known_values(table.slice(start, _ROWS_AT_ONCE)).to_pylist()
    except UnicodeDecodeError as error:
        raise InvalidTableError(
            f"the log names files by bytes that are not UTF-8 ({error}); a checkpoint is damaged: "
            "delete it, and the log is read without it"
        ) from error


def _cell(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, DeletionVectorDescriptor):
        return value.to_json()
    return list(value.items()) if value is not None and pa.types.is_map(kind) else value


def _vector(raw: dict[str, object] | None) -> DeletionVectorDescriptor | None:
    return None if raw is None else DeletionVectorDescriptor.from_json(raw)
