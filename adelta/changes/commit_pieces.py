"""Which rows of which data files a commit changed.

A commit with `cdc` actions is read from these alone; any other one from its adds, as inserts, and
its removes, as deletes. Where a commit puts another deletion vector on a file, the rows that the
two vectors differ in have changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.changes.change_rows import Change
from adelta.errors import InvalidTableError
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor, RemoveFile
from adelta.kernel.file_id import FileId, canonical_path
from adelta.kernel.file_set import FileSet, add_files, remove_files
from adelta.log.deletion_vector_reader import read_deletion_vector
from adelta.log.load import load_state
from adelta.read.data_files import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from adelta.kernel.commit import Commit
    from adelta.storage.roots import StoreRoots

__all__ = ["DELETE", "INSERT", "changed_pieces", "changes_nothing"]

INSERT, DELETE = "insert", "delete"
_COUNTS_OF_MERGE = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


async def changed_pieces(
    roots: StoreRoots, commit: Commit, time_ms: int, *, partitioned: bool
) -> list[Piece]:
    """What to read of the rows that a commit changed, each piece tagged with its `Change`.

    `time_ms` is when it was made; with `partitioned` partition values are read.

    Raises:
        InvalidTableError: the log is damaged.
        MissingDataFileError: a deletion vector is not there.
    """
    said = Change(commit.version, time_ms, None)
    found = await in_thread(_found, commit, said, roots.store.uri)
    pieces = found.pieces
    for add, remove in found.replaced:
        before = await _vector(roots, remove.deletion_vector, add.path)
        after = await _vector(roots, add.deletion_vector, add.path)
        for rows, kind in ((after - before, DELETE), (before - after, INSERT)):
            if rows:
                pieces.append(Piece(add, only=rows, tag=replace(said, kind=kind)))
    if not found.removed:
        return pieces
    deleted = replace(said, kind=DELETE)
    gone = await _gone(roots, commit, found.removed, partitioned)
    return [Piece(f, tag=deleted) for f in gone] + pieces


async def _vector(
    roots: StoreRoots, descriptor: DeletionVectorDescriptor | None, path: str
) -> BitMap64:
    if descriptor is None:
        return BitMap64()
    return await read_deletion_vector(roots, descriptor, f"{roots.store.uri}: {path}")


async def _gone(
    roots: StoreRoots, commit: Commit, removes: Sequence[RemoveFile], partitioned: bool
) -> list[AddFile]:
    """Removed files as they were, from the version before where removes say too little."""
    if not partitioned:
        return [_as_add(remove, {}) for remove in removes]
    bare = [r for r in removes if r.partition_values is None]
    known = [_as_add(r, r.partition_values) for r in removes if r.partition_values is not None]
    if not bare:
        return known
    before = await load_state(roots.store, version=commit.version - 1)
    root = roots.store.uri
    files = {FileId.of(f, root): f for f in FileSet((await before.files()).table).rows()}
    for remove in bare:
        found = files.get(FileId.of(remove, root))
        if found is None:
            raise InvalidTableError(
                f"{roots.store.uri}: version {commit.version} removes {remove.path}, "
                "which was not in the table; the log is damaged: fsck says in what"
            )
        known.append(found)
    return known


@dataclass(frozen=True, slots=True)
class _Found:
    """What a commit changes: rows of whole files, files under another vector, files removed."""

    pieces: list[Piece]
    replaced: Sequence[tuple[AddFile, RemoveFile]] = ()
    removed: Sequence[RemoveFile] = ()


def _found(commit: Commit, said: Change, root: str) -> _Found:
    """The changes of a commit. CPU-heavy: there may be very many files."""
    if commit.cdc.num_rows:
        return _Found([Piece(file, tag=said) for file in _cdc_files(commit.cdc)])
    if changes_nothing(commit):
        return _Found([])
    inserted = replace(said, kind=INSERT)
    removes = {canonical_path(r.path, root): r for r in remove_files(commit.removes)}
    removes = {path: r for path, r in removes.items() if r.data_change}
    pieces: list[Piece] = []
    replaced: list[tuple[AddFile, RemoveFile]] = []
    for add in add_files(commit.adds):
        if not add.data_change:
            continue
        remove = removes.pop(canonical_path(add.path, root), None)
        if remove is None:
            pieces.append(Piece(add, tag=inserted))
        else:
            replaced.append((add, remove))
    return _Found(pieces, replaced, tuple(removes.values()))


def changes_nothing(commit: Commit) -> bool:
    """Whether a commit is a MERGE that wrote files again and says that it changed no row."""
    metrics = commit.info.operation_metrics
    return commit.info.operation == "MERGE" and all(
        str(metrics.get(name)) == "0" for name in _COUNTS_OF_MERGE
    )


def _cdc_files(table: pa.Table) -> list[AddFile]:
    return [
        AddFile(row["path"], dict(row["partition_values"] or ()), row["size"] or 0, 0)
        for row in table.to_pylist()
    ]


def _as_add(remove: RemoveFile, partition_values: object) -> AddFile:
    return AddFile(
        path=remove.path,
        partition_values=dict(partition_values or {}),  # type: ignore[call-overload]
        size=remove.size or 0,
        modification_time=0,
        deletion_vector=remove.deletion_vector,
    )
