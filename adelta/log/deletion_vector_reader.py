"""Deletion vectors, read over the storage port and checked against what the log says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta._memory import check_memory, memory_limit_of
from adelta.errors import InvalidTableError, MissingDataFileError, ObjectNotFoundError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.deletion_vector.blob import decode_bitmap, framed_range, unframe
from adelta.kernel.deletion_vector.descriptor import inline_bytes, vector_path
from adelta.storage.distrust import sound

if TYPE_CHECKING:
    from pyroaring import BitMap64

    from adelta.kernel.actions.file_actions import DeletionVectorDescriptor
    from adelta.storage.roots import StoreRoots

__all__ = ["read_deletion_vector"]

_INLINE = 16 * 1024  # a bitmap of fewer bytes is decoded in less time than a thread's hop takes


async def read_deletion_vector(
    roots: StoreRoots, descriptor: DeletionVectorDescriptor, source: str
) -> BitMap64:
    """The rows that the vector names; `source` names its data file in messages.

    Raises:
        MissingDataFileError: the file that holds the vector is not there.
        InvalidTableError: the vector is damaged.
        OutOfMemoryError: the vector is larger than `memory_limit`.
    """
    size = descriptor.size_in_bytes
    if descriptor.storage_type == "i":
        data = inline_bytes(descriptor)
    else:
        if size < 0 or (descriptor.offset or 0) < 0:
            raise InvalidTableError(f"{source}: its deletion vector has a negative size or offset")
        path = vector_path(descriptor)
        store, below = roots.locate(path, decode_path(path))
        check_memory(size, memory_limit_of(store), f"{source}: its deletion vector")
        start, end = framed_range(descriptor.offset, size)
        try:
            frame = await store.get_range(below, start, end)
        except ObjectNotFoundError as error:
            raise MissingDataFileError(
                f"{source}: its deletion vector {store.uri}/{below} is not there; without it "
                "deleted rows would come back, so restore the file, or the table to an earlier "
                "version"
            ) from error
        async with sound(store, below):
            return await _decoded(unframe(frame, size, f"{store.uri}/{below}"), source)
    return await _decoded(data, source)


async def _decoded(data: bytes, source: str) -> BitMap64:
    if len(data) < _INLINE:
        return decode_bitmap(data, source)
    return await in_thread(decode_bitmap, data, source)
