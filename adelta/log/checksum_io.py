"""Reads version checksums: to open a table by one, and to hold a table to one when asked to.

For opening, whatever is wrong with a checksum file means doing without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta import _compute as pc
from adelta._concurrency import in_thread
from adelta.errors import ChecksumMismatchError, InvalidTableError, ObjectNotFoundError
from adelta.kernel.checksum.json import decode, decode_counts
from adelta.kernel.checksum.version_checksum import FileCounts, differences
from adelta.kernel.log_path import checksum_path
from adelta.storage.distrust import sound

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.kernel.checksum.version_checksum import VersionChecksum
    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

__all__ = ["read_checksum", "usable_checksum", "verify_checksum"]

_COUNTED = ["size", "deletion_vector"]
_INLINE_BYTES = 64 * 1024  # decoding less than this costs less than a thread's hop


async def read_checksum(store: ObjectStore, version: int) -> VersionChecksum | None:
    """The checksum of `version`, or None where it has none.

    Raises:
        InvalidTableError: the file is damaged.
    """
    path = checksum_path(version)
    try:
        data = await store.get(path)
    except ObjectNotFoundError:
        return None
    async with sound(store, path):
        if len(data) < _INLINE_BYTES:
            return decode(data, path)
        return await in_thread(decode, data, path)


async def usable_checksum(store: ObjectStore, version: int) -> VersionChecksum | None:
    """The checksum of `version`, or None where there is none that can be read."""
    try:
        return await read_checksum(store, version)
    except InvalidTableError:
        return None


async def verify_checksum(state: LogState) -> bool:
    """Hold a state to the checksum of its version: whether there is one; they agree.

    Raises:
        ChecksumMismatchError: they do not agree.
        InvalidTableError: the checksum, or a checkpoint, is damaged.
    """
    from adelta.kernel.checksum.summary import summarize
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.listed_files import listed_files_difference

    path = checksum_path(state.version)
    try:
        data = await state.store.get(path)
    except ObjectNotFoundError:
        return False
    counts = await in_thread(decode_counts, data)
    if counts is not None:
        files = (await state.files_matching(columns=_COUNTED)).table
        found_counts = FileCounts(files.num_rows, _sum(files.column("size")))
        _compare(state, differences(counts, found_counts))
        return True
    async with sound(state.store, path):
        stated = await in_thread(decode, data, path)
    columns = _COUNTED if stated.all_files is None else None
    files = (await state.files_matching(columns=columns)).table
    protocol, metadata = await state.logged()
    transactions = (await state.set_transactions()).values()
    domains = (await state.domain_metadata()).values()
    found = await in_thread(
        summarize,
        files.select(_COUNTED),
        protocol,
        metadata,
        set_transactions=transactions,
        domain_metadata=domains,
        in_commit_timestamp=state.in_commit_timestamp_ms,
        size_boundaries=stated.file_sizes.boundaries if stated.file_sizes else (),
    )
    differing = differences(stated, found)
    if stated.all_files is not None:
        configuration = TableConfiguration(protocol, metadata)
        listed = await in_thread(
            listed_files_difference, stated.all_files, files, state.root, configuration
        )
        differing += () if listed is None else (listed,)
    _compare(state, differing)
    return True


def _sum(sizes: pa.ChunkedArray[Any]) -> int:
    total: int = pc.sum(sizes).as_py() or 0
    return total


def _compare(state: LogState, differing: tuple[str, ...]) -> None:
    if differing:
        raise ChecksumMismatchError(
            f"{state.root}/{checksum_path(state.version)} does not agree with the log in "
            f"{'; '.join(differing)}. The log counts: delete the checksum, and look for what wrote "
            "it"
        )
