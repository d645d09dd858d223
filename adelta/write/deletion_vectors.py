"""Deletion vectors, written: rows taken out of files that stay as they are.

PROTOCOL.md, "Deletion Vectors". Each file gets one vector, of the rows that it has lost before and
those that it loses now. Small vectors go into the log itself, which saves a reader the request;
others are packed, several into one object at the table's root. The log then takes the file out
under its old vector and puts it in under the new one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from adelta._chance import new_uuid
from adelta._concurrency import in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor
from adelta.kernel.deletion_vector import z85
from adelta.kernel.deletion_vector.blob import encode_bitmap, encode_file
from adelta.kernel.deletion_vector.descriptor import encode_relative, vector_path
from adelta.kernel.statistics import with_wide_bounds
from adelta.log.deletion_vector_reader import read_deletion_vector
from adelta.write.discarding import discard_data_files

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator, Sequence

    from adelta.storage.roots import StoreRoots

__all__ = ["RowRemoval", "VectorsWritten", "write_deletion_vectors"]

_INLINE_BYTES = 128  # a bitmap up to this size is kept in the log
_OBJECT_BYTES = 2 * 1024 * 1024  # bitmaps are packed until an object has this size
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class RowRemoval:
    """Rows to take out of one live file, by their places in it; it has `num_rows` in all."""

    file: AddFile
    rows: BitMap64
    num_rows: int


@dataclass(frozen=True, slots=True)
class VectorsWritten:
    """What takes the rows out: `replaced` files leave the table, and come back as `replacements`.

    A file that has lost its last row is not among the replacements. `paths` are the objects that
    were written, by their paths in the store.
    """

    replaced: tuple[AddFile, ...]
    replacements: tuple[AddFile, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Merged:
    """One file with the bytes of its new vector; None where no row is left."""

    removal: RowRemoval
    cardinality: int
    data: bytes | None


async def write_deletion_vectors(
    roots: StoreRoots, removals: Iterable[RowRemoval]
) -> VectorsWritten:
    """Write the vectors that take rows out of files; nothing of that is committed.

    Files that would lose no row are passed over. If anything fails, what was written is deleted.

    Raises:
        InvalidOptionError: a row is not in its file, or a file is named twice.
        InvalidTableError: a file's vector or its statistics are damaged.
        MissingDataFileError: a file's vector is not there.
        StorageError: the store refused or failed.
    """
    asked = tuple(removals)
    if len({removal.file.path for removal in asked}) != len(asked):
        raise InvalidOptionError("rows are taken out of one file twice; name each file once")

    async def merge(removal: RowRemoval) -> _Merged | None:
        return await _merge(roots, removal)

    merged = [m for m in await map_concurrent(merge, asked, limit=_AT_ONCE) if m is not None]
    small = [m for m in merged if m.data is not None and len(m.data) <= _INLINE_BYTES]
    packs = list(_packs([m for m in merged if m.data is not None and len(m.data) > _INLINE_BYTES]))
    named = [(new_uuid(), pack) for pack in packs]
    paths = [vector_path(_at(unique, 0, 0, 0)) for unique, _ in named]

    async def put(numbered: tuple[str, tuple[uuid.UUID, list[_Merged]]]) -> list[AddFile]:
        path, (unique, pack) = numbered
        content, offsets = await in_thread(encode_file, [m.data or b"" for m in pack])
        await roots.store.put(path, content)
        pairs = zip(pack, offsets, strict=True)
        return [
            _with(m, _at(unique, offset, len(m.data or b""), m.cardinality)) for m, offset in pairs
        ]

    try:
        packed = await map_concurrent(put, list(zip(paths, named, strict=True)), limit=_AT_ONCE)
        inline = await in_thread(lambda: [_with(m, _inline(m)) for m in small])
    except BaseException:
        await discard_data_files(roots.store, paths)
        raise
    return VectorsWritten(
        tuple(m.removal.file for m in merged),
        (*inline, *(add for adds in packed for add in adds)),
        tuple(paths),
    )


async def _merge(roots: StoreRoots, removal: RowRemoval) -> _Merged | None:
    file, rows = removal.file, removal.rows
    if rows and rows.max() >= removal.num_rows:
        raise InvalidOptionError(
            f"row {rows.max()} cannot be taken out of {file.path!r}, which has {removal.num_rows}"
        )
    before = BitMap64()
    if file.deletion_vector is not None:
        source = f"{roots.store.uri}: {file.path}"
        before = await read_deletion_vector(roots, file.deletion_vector, source)

    def encode() -> _Merged | None:
        after = before | rows
        if len(after) == len(before):
            return None
        after.run_optimize()
        left = removal.num_rows - len(after)
        return _Merged(removal, len(after), encode_bitmap(after) if left else None)

    return await in_thread(encode)


def _packs(merged: Sequence[_Merged]) -> Iterator[list[_Merged]]:
    pack: list[_Merged] = []
    size = 0
    for one in merged:
        if pack and size + len(one.data or b"") > _OBJECT_BYTES:
            yield pack
            pack, size = [], 0
        pack.append(one)
        size += len(one.data or b"")
    if pack:
        yield pack


def _at(unique: uuid.UUID, offset: int, size: int, cardinality: int) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor("u", encode_relative(unique), size, cardinality, offset)


def _inline(merged: _Merged) -> DeletionVectorDescriptor:
    data = merged.data or b""
    return DeletionVectorDescriptor("i", z85.encode(data), len(data), merged.cardinality)


def _with(merged: _Merged, vector: DeletionVectorDescriptor) -> AddFile:
    """The file under its new vector: rows, ids and everything else of it stay."""
    file = merged.removal.file
    stats = with_wide_bounds(file.stats, merged.removal.num_rows)
    return replace(file, deletion_vector=vector, stats=stats, data_change=True)
