"""Objects of one table copied into another by independent tasks, in bounded memory.

Bytes go from object to object, a piece at a time, whatever the two stores are.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from adelta._chance import new_bits
from adelta._concurrency import map_concurrent
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError, MissingDataFileError, ObjectNotFoundError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.transaction.cloning import drawn_path, mark_of
from adelta.storage.pin import Pin, pinned
from adelta.table import roots_of
from adelta.write.discarding import discard_data_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from adelta.kernel.transaction.cloning import Copy
    from adelta.storage.object_store import ObjectStore
    from adelta.storage.roots import StoreRoots
    from adelta.table import Table

__all__ = ["CopiedObjects", "CopyObjects", "plan_copies"]

_PIECE = 8 << 20
_SMALL_AT_ONCE = 8
_LARGE_AT_ONCE = 2
_TASK_BYTES = 256 << 20
_TASK_OBJECTS = 256


@dataclass(frozen=True, slots=True)
class CopiedObjects:
    """What a task has copied: objects by their paths in the target's store, and bytes of data."""

    paths: tuple[str, ...]
    num_data_bytes: int

    @property
    def by_mark(self) -> dict[str, str]:
        """The paths by the marks of what was copied."""
        return {mark_of(path): path for path in self.paths}


@dataclass(frozen=True, slots=True)
class CopyObjects:
    """Objects that the log of `source` names, to be copied into another table's store."""

    source: Table
    copies: tuple[Copy, ...]

    async def run(self, roots: StoreRoots) -> CopiedObjects:
        """Copy them; where one fails, nothing of them is left.

        Raises:
            MissingDataFileError: one is not there.
            RootNotAllowedError: one is outside the source, and in no root that is allowed.
            InvalidTableError: one has another size than the log says.
            StorageError: a store refused or failed.
        """
        written: list[str] = []

        async def copy(each: Copy) -> None:
            target = drawn_path(each.mark, new_bits(63))
            written.append(target)
            await _copy(roots_of(self.source), each, roots.store, target)

        small = [c for c in self.copies if c.size is not None and c.size <= _PIECE]
        large = [c for c in self.copies if c.size is None or c.size > _PIECE]
        try:
            await map_concurrent(copy, small, limit=_SMALL_AT_ONCE)
            await map_concurrent(copy, large, limit=_LARGE_AT_ONCE)
        except BaseException:
            await discard_data_files(roots.store, written)
            raise
        return CopiedObjects(tuple(written), sum(each.size or 0 for each in self.copies))


def plan_copies(source: Table, copies: Sequence[Copy]) -> list[CopyObjects]:
    """The tasks for objects to copy, each of about as many bytes."""
    tasks: list[CopyObjects] = []
    group: list[Copy] = []
    size = 0
    for each in copies:
        if group and (size >= _TASK_BYTES or len(group) >= _TASK_OBJECTS):
            tasks.append(CopyObjects(source, tuple(group)))
            group, size = [], 0
        group.append(each)
        size += each.size or 0
    if group:
        tasks.append(CopyObjects(source, tuple(group)))
    return tasks


async def _copy(source: StoreRoots, copy: Copy, target: ObjectStore, path_there: str) -> None:
    store, path = source.locate(copy.source, decode_path(copy.source))
    try:
        copied = await target.copy_from(path_there, store, path)
        if copied is not None:
            _check_size(copy, copied.size)
            return
        if copy.size is not None and copy.size <= _PIECE:
            data = await store.get(path)
            _check_size(copy, len(data))
            await target.put(path_there, data)
            return
        size = (await store.head(path)).size
        _check_size(copy, size)
        async with aclosing(_pieces(store, path, size)) as pieces:
            await target.put_stream(path_there, pieces)
    except ObjectNotFoundError as error:
        raise MissingDataFileError(
            f"{store.uri}: the file {copy.source!r}, which is to be copied, is not there; a VACUUM "
            "may have deleted it meanwhile: clone a later version, or restore the file"
        ) from error


def _check_size(copy: Copy, size: int) -> None:
    if copy.size is not None and size != copy.size:
        raise InvalidTableError(
            f"the file {copy.source!r} has {size:,} bytes where the log says {copy.size:,}; it is "
            "damaged: restore the file, and clone again"
        )


async def _pieces(store: ObjectStore, path: str, size: int) -> AsyncGenerator[bytes, None]:
    pin = Pin()
    for start in range(0, size, _PIECE):
        with pinned(pin):
            piece = await store.get_range(path, start, min(start + _PIECE, size))
        yield piece
