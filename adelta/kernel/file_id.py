"""FileId: which logical file an action is about (PROTOCOL.md, "Action Reconciliation").

That is the file's path, together with its deletion vector. Logs spell one path in several ways:
percent-encoded or not, relative to the table's root or absolute. So ids are made from actions
together with the root, here alone, and nothing else compares paths.
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from adelta import _compute as pc
from adelta._arrow_values import array_of, scalar_of
from adelta._dataclasses import dataclass
from adelta._lazy_arrow import pa
from adelta.kernel.actions.file_actions import AddFile, RemoveFile, decode_path

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "FileId",
    "FileIds",
    "canonical_path",
    "canonical_paths",
    "file_ids",
    "paths_of",
    "places_of_data",
    "suspect_paths",
]

_pa: Any = pa  # the stubs know these functions for fewer types than Arrow does
_pc: Any = pc
_SEPARATOR = "\x00"  # between path and vector; it cannot stand in a path
_FEW = 100


class FileId(NamedTuple):
    """The identity of one logical file: its canonical path, and its vector's unique id."""

    path: str
    deletion_vector: str | None = None

    @classmethod
    def of(cls, file: AddFile | RemoveFile, root: str) -> FileId:
        """The id of the file that an action of the table at `root` is about."""
        vector = file.deletion_vector
        return cls(canonical_path(file.path, root), vector.unique_id if vector else None)

    @property
    def text(self) -> str:
        """The id as `file_ids` has it."""
        return _SEPARATOR.join(part for part in self if part is not None)


@dataclass(frozen=True, slots=True, eq=False)
class FileIds:
    """A set of files of one table. `texts` are their ids as `file_ids` makes them, each once."""

    texts: pa.Array[Any] = field(default_factory=lambda: _pa.nulls(0, pa.string()))

    @classmethod
    def of(cls, files: Iterable[AddFile | RemoveFile], root: str) -> FileIds:
        """The files that some actions of the table at `root` are about."""
        return cls(array_of({FileId.of(file, root).text: None for file in files}, pa.string()))

    @classmethod
    def of_table(cls, files: pa.Table, root: str) -> FileIds:
        """The files of a table with the columns `path` and `deletion_vector`."""
        return cls(_pc.unique(file_ids(files, root))) if files.num_rows else cls()

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"<FileIds {len(self)}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileIds):
            return NotImplemented
        return set(self.texts.to_pylist()) == set(other.texts.to_pylist())

    def __hash__(self) -> int:
        return hash(frozenset(self.texts.to_pylist()))

    def __or__(self, other: FileIds) -> FileIds:
        """The files of both.

        Example: ``{a, b} | {b, c}`` is ``{a, b, c}``.
        """
        if not len(self) or not len(other):
            return self if len(self) else other
        return FileIds(pc.unique(_pa.concat_arrays([self.texts, other.texts])))

    def __and__(self, other: FileIds) -> FileIds:
        """The files that are in both.

        Example: ``{a, b} & {b, c}`` is ``{b}``.
        """
        if not len(self) or not len(other):
            return FileIds()
        return FileIds(self.texts.filter(pc.is_in(self.texts, value_set=other.texts)))

    def without(self, other: FileIds) -> FileIds:
        """The files that are not in `other`.

        Example: ``{a, b}.without({b, c})`` is ``{a}``.
        """
        if not len(self) or not len(other):
            return self
        mask = pc.invert(pc.is_in(self.texts, value_set=other.texts))
        return FileIds(self.texts.filter(mask))

    def few_paths(self) -> frozenset[str] | None:
        """The canonical paths of the data files, where they are few enough for a set of Python's.

        Example: for ``{a, b with a vector}`` it is ``a`` and ``b``.
        """
        if len(self) > _FEW:
            return None
        return frozenset(str(text).partition(_SEPARATOR)[0] for text in self.texts.to_pylist())

    def first(self) -> FileId:
        """One of the files, for a message."""
        path, _, vector = str(self.texts[0]).partition(_SEPARATOR)
        return FileId(path, vector or None)

    def sharing_data(self, files: pa.Table, root: str) -> pa.Table:
        """Those of `files` that have the data file of one of these, under whatever vector.

        Example: for ``{a}`` and the files a, a with a vector, and b, it is the first two.
        """
        if not len(self) or not files.num_rows:
            return files.slice(0, 0)
        mine = paths_of(self.texts)
        return files.filter(pc.is_in(canonical_paths(files.column("path"), root), value_set=mine))


def places_of_data(files: pa.Table, others: pa.Table, root: str) -> pa.ChunkedArray[Any]:
    """For each of `files` the place in `others` of the first one with its data file, or null.

    Example: for the files a and b, and the others b, c and b, it is null and 0.
    """
    mine, theirs = (canonical_paths(each.column("path"), root) for each in (files, others))
    found: pa.ChunkedArray[Any] = _pc.index_in(mine, value_set=theirs.combine_chunks())
    return found


def paths_of(texts: pa.Array[Any]) -> pa.Array[Any]:
    """The canonical paths of ids, each once."""
    with_vector = pc.match_substring(texts, _SEPARATOR)
    if not pc.any(with_vector).as_py():
        return texts
    found: pa.Array[Any] = pc.unique(
        _pc.list_element(
            _pc.split_pattern(texts, _SEPARATOR, max_splits=1), scalar_of(0, pa.int32())
        )
    )
    return found


def canonical_path(path: str, root: str) -> str:
    """A path of a file action, decoded, and relative to `root` where it lies below it.

    Example: ``a%20b`` becomes ``a b``; ``file:/t/a`` becomes ``a`` below the root ``file:///t``.
    """
    decoded = decode_path(path)
    if not decoded.startswith("/") and ":" not in decoded:
        return decoded
    return _bare(decoded).removeprefix(_prefix(root))


def suspect_paths(paths: Any) -> Any:
    """Which paths of file actions may not be canonical as they stand."""
    return pc.match_substring_regex(paths, r"%|^/|^[A-Za-z][A-Za-z0-9+.-]*:")


def file_ids(files: pa.Table, root: str) -> pa.ChunkedArray[Any]:
    """The id of every file action in `files`, as text that is equal just for equal ids."""
    if files.column("deletion_vector").null_count == files.num_rows:
        return canonical_paths(files.column("path"), root)
    columns = files.select(["path", "deletion_vector"])
    found: pa.ChunkedArray[Any] = _pa.chunked_array(
        [_with_vectors(batch, root) for batch in columns.to_batches()], pa.string()
    )
    return found


def canonical_paths(paths: pa.ChunkedArray[Any], root: str) -> pa.ChunkedArray[Any]:
    """Paths of file actions as `canonical_path` has each."""
    chunks = []
    for chunk in paths.chunks:
        odd = suspect_paths(chunk)
        if pc.any(odd).as_py():
            changed = [canonical_path(str(path), root) for path in chunk.filter(odd).to_pylist()]
            chunk = pc.replace_with_mask(chunk, odd, array_of(changed, pa.string()))
        chunks.append(chunk)
    return pa.chunked_array(chunks, pa.string())


def _text(constant: str) -> Any:
    return scalar_of(constant, pa.string())


def _with_vectors(files: pa.RecordBatch, root: str) -> pa.Array[Any]:
    paths = canonical_paths(_pa.chunked_array([files.column("path")]), root).chunk(0)
    vectors = files.column("deletion_vector")
    offset = pc.struct_field(vectors, "offset").cast(pa.string())
    unique = _pc.binary_join_element_wise(
        pc.struct_field(vectors, "storageType"),
        pc.struct_field(vectors, "pathOrInlineDv"),
        _pc.coalesce(_pc.binary_join_element_wise(_text("@"), offset, _text("")), _text("")),
        _text(""),
    )
    joined = _pc.binary_join_element_wise(paths, unique, _text(_SEPARATOR))
    ids: pa.Array[Any] = _pc.if_else(vectors.is_valid(), joined, paths)
    return ids


@lru_cache(maxsize=64)
def _prefix(root: str) -> str:
    """What absolute paths below a root begin with: the addresses of local tables are encoded."""
    decoded = decode_path(root) if root.startswith("file:") else root
    return _bare(decoded).rstrip("/") + "/"


def _bare(uri: str) -> str:
    """A URI without what writers spell differently, such as ``s3a:`` for ``s3:``."""
    scheme, colon, rest = uri.partition(":")
    if not colon or "/" in scheme:
        return uri
    if scheme == "file":
        return "/" + rest.lstrip("/")
    return ("s3" if scheme in ("s3a", "s3n") else scheme) + ":" + rest
