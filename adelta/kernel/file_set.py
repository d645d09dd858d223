"""FileSet: the live files of a version as one immutable Arrow table, with verbs.

A file's identity is its path, decoded, together with its deletion vector (PROTOCOL.md, "Action
Reconciliation"); `file_keys` makes it, once, as a column of text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from adelta.errors import InvalidTableError
from adelta.kernel.actions.file_actions import (
    ADD_SCHEMA,
    REMOVE_SCHEMA,
    AddFile,
    DeletionVectorDescriptor,
    RemoveFile,
    decode_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "SEPARATOR",
    "FileSet",
    "add_files",
    "canonical_path",
    "canonical_paths",
    "file_keys",
    "not_canonical",
    "remove_files",
]

_pa: Any = pa  # the stubs know these functions for fewer types than Arrow does
_pc: Any = pc
_IDENTITY = ["path", "deletion_vector"]
_ROWS_AT_ONCE = 1_000
SEPARATOR = "\x00"
"""What stands between the path and the deletion vector of a key, and cannot stand in a path."""


def canonical_paths(paths: pa.ChunkedArray[Any], root: str | None = None) -> pa.ChunkedArray[Any]:
    """Paths percent-decoded, and relative to `root`, the table's URI, where they lie below it.

    Example: ``a%20b`` becomes ``a b``; ``file:/t/a`` becomes ``a`` below the root ``file:///t``.
    """
    chunks = []
    for chunk in paths.chunks:
        odd = not_canonical(chunk)
        if pc.any(odd).as_py():
            changed = [canonical_path(str(path), root) for path in chunk.filter(odd).to_pylist()]
            chunk = pc.replace_with_mask(chunk, odd, pa.array(changed, pa.string()))
        chunks.append(chunk)
    return pa.chunked_array(chunks, pa.string())


def not_canonical(paths: Any) -> Any:
    """Which paths of file actions may not be canonical as they stand."""
    return pc.match_substring_regex(paths, r"%|^/|^[A-Za-z][A-Za-z0-9+.-]*:")


def canonical_path(path: str, root: str | None = None) -> str:
    """One path of a file action, decoded, and relative to `root` where it lies below it."""
    decoded = decode_path(path)
    if not decoded.startswith("/") and ":" not in decoded:
        return decoded
    bare = _bare(decoded)
    return bare if root is None else bare.removeprefix(_bare(root).rstrip("/") + "/")


def _bare(uri: str) -> str:
    """A URI without what writers spell differently, such as ``s3a:`` for ``s3:``."""
    scheme, colon, rest = uri.partition(":")
    if not colon or "/" in scheme:
        return uri
    if scheme == "file":
        return "/" + rest.lstrip("/")
    return ("s3" if scheme in ("s3a", "s3n") else scheme) + ":" + rest


def file_keys(files: pa.Table, root: str | None = None) -> pa.ChunkedArray[Any]:
    """The identity of every file action in `files`, as text that is equal just for equal files."""
    if files.column("deletion_vector").null_count == files.num_rows:
        return canonical_paths(files.column("path"), root)
    keys = [_keys(batch, root) for batch in files.select(_IDENTITY).to_batches()]
    found: pa.ChunkedArray[Any] = _pa.chunked_array(keys, pa.string())
    return found


def _keys(files: pa.RecordBatch, root: str | None) -> pa.Array[Any]:
    paths = canonical_paths(_pa.chunked_array([files.column("path")]), root).chunk(0)
    vectors = files.column("deletion_vector")
    offset = pc.struct_field(vectors, "offset").cast(pa.string())
    unique = _pc.binary_join_element_wise(
        pc.struct_field(vectors, "storageType"),
        pc.struct_field(vectors, "pathOrInlineDv"),
        _pc.coalesce(_pc.binary_join_element_wise("@", offset, ""), ""),
        "",
    )
    joined = _pc.binary_join_element_wise(paths, unique, SEPARATOR)
    keys: pa.Array[Any] = _pc.if_else(vectors.is_valid(), joined, paths)
    return keys


@dataclass(frozen=True, slots=True)
class FileSet:
    """Live files: `table` has the columns of `ADD_SCHEMA`, and perhaps more."""

    table: pa.Table
    root: str | None = None

    @classmethod
    def empty(cls, root: str | None = None) -> FileSet:
        """A set of no files."""
        return cls(ADD_SCHEMA.empty_table(), root)

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
        return FileSet(self.table.filter(mask), self.root)

    def without(self, keys: pa.Array[Any]) -> FileSet:
        """The files whose key is not among `keys`.

        Example: ``{a, b}.without(["a"])`` is ``{b}``.
        """
        if len(keys) == 0 or self.num_files == 0:
            return self
        mask = pc.invert(pc.is_in(file_keys(self.table, self.root), value_set=keys))
        return FileSet(self.table.filter(mask), self.root)

    def union(self, other: FileSet) -> FileSet:
        """The files of both, which must have none in common."""
        if not other.num_files:
            return self
        if not self.num_files:
            return other
        return FileSet(
            pa.concat_tables([self.table, other.table], promote_options="default"), self.root
        )

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
            yield from table.slice(start, _ROWS_AT_ONCE).to_pylist()
    except UnicodeDecodeError as error:
        raise InvalidTableError(
            f"the log names files by bytes that are not UTF-8 ({error}); a checkpoint is damaged: "
            "delete it, and the log is read without it"
        ) from error


def _vector(raw: dict[str, object] | None) -> DeletionVectorDescriptor | None:
    return None if raw is None else DeletionVectorDescriptor.from_json(raw)
