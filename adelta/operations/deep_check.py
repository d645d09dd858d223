"""Every byte that a table relies on, read: the part of FSCK that takes as long as a scan of it all.

Of Parquet files every page is held to its checksum, where it has one, and decoded. Of the log every
commit and version checksum is decoded, also those that opening the table passes over. A few files
are read at once, each row group in shares of its columns, so that memory holds some of these alone.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from adelta._concurrency import CPU_THREADS, in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.errors import (
    InvalidTableError,
    ObjectNotFoundError,
    OutOfMemoryError,
    RootNotAllowedError,
    UnsupportedFeatureError,
)
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.log_path import LogFileKind, sidecar_path
from adelta.kernel.statistics import num_records
from adelta.log.checkpoint_reader import CheckpointReader
from adelta.log.checksum_io import read_checksum
from adelta.log.commit_reader import read_commits
from adelta.parquet.guard.page_checks import check_pages
from adelta.parquet.reader import ParquetFile
from adelta.progress import Meter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.log_path import LogPath
    from adelta.kernel.log_segment import CheckpointFiles
    from adelta.parquet.fetch import FetchedColumns
    from adelta.progress import OnProgress
    from adelta.storage.object_store import ObjectStore
    from adelta.storage.roots import StoreRoots

__all__ = ["NOT_TO_BE_READ", "DeepCheck", "check_all"]

T = TypeVar("T")

_FILES_AT_ONCE = CPU_THREADS + 1
_SHARE = 16 << 20  # bytes of a row group that are read and decoded at once, a column at least
NOT_TO_BE_READ = (
    InvalidTableError,
    OutOfMemoryError,
    RootNotAllowedError,
    UnsupportedFeatureError,
)
"""What a check reports of one file, and goes on."""

_ROWS = 65_536  # decoded at once


@dataclass(slots=True)
class DeepCheck:
    """What has been found so far: kind, path and what is wrong, and the numbers of pages."""

    problems: list[tuple[str, str, str]]
    pages: int = 0
    without_checksum: int = 0


async def check_all(
    roots: StoreRoots,
    listing: Sequence[LogPath],
    checkpoints: Iterable[CheckpointFiles],
    files: Sequence[AddFile],
    on_progress: OnProgress | None = None,
) -> DeepCheck:
    """Read every live file, every checkpoint, and every commit and version checksum of `listing`.

    What is not there is passed over. `on_progress` is told how far it is. Raises: StorageError.
    """
    check = DeepCheck([])
    store = roots.store

    async def look(kind: str, path: str, read: Callable[[], Awaitable[object]]) -> None:
        try:
            await read()
        except ObjectNotFoundError:
            return
        except NOT_TO_BE_READ as error:
            check.problems.append((kind, path, str(error)))

    async def each(
        phase: str, items: Sequence[T], work: Callable[[T], Awaitable[None]], limit: int
    ) -> None:
        meter = Meter(on_progress, phase, total=len(items), unit="objects")

        async def one(item: T) -> None:
            await work(item)
            meter.advance()

        await map_concurrent(one, items, limit=limit)

    async def look_at_data(file: AddFile) -> None:
        async def read() -> None:
            where = roots.locate(file.path, decode_path(file.path))
            rows = await _read_pages(*where, file.size or None, check)
            stated = num_records(file.stats)
            if stated is not None and stated != rows:
                raise InvalidTableError(f"has {rows:,} rows where the log says {stated:,}")

        await look("file", file.path, read)

    async def look_at_checkpoint(path: str) -> None:
        await look("checkpoint", path, lambda: _read_pages(store, path, None, check))

    async def look_at_log(file: LogPath) -> None:
        if file.kind is LogFileKind.COMMIT:
            await look("commit", file.path, lambda: read_commits(store, [file]))
        elif file.kind is LogFileKind.CHECKSUM:
            await look("checksum", file.path, lambda: read_checksum(store, file.version))

    await each("reading the log", listing, look_at_log, store.concurrency)
    parts = [path for each in checkpoints for path in await _parquet_files(store, each)]
    await each("reading checkpoints", parts, look_at_checkpoint, _FILES_AT_ONCE)
    await each("reading files", files, look_at_data, _FILES_AT_ONCE)
    return check


async def _parquet_files(store: ObjectStore, checkpoint: CheckpointFiles) -> list[str]:
    """The Parquet files of a checkpoint, as far as they are known."""
    paths = [file.path for file in checkpoint.files]
    try:
        reader = await CheckpointReader.open(store, checkpoint)
    except InvalidTableError:
        pass  # which is a problem by itself, and has been told
    else:
        paths += [sidecar_path(decode_path(sidecar.path)) for sidecar in reader.sidecars]
    return [path for path in paths if path.endswith(".parquet")]


async def _read_pages(store: ObjectStore, path: str, size: int | None, check: DeepCheck) -> int:
    """Read and decode every page of the object: how many rows it has.

    Raises:
        InvalidTableError: it is damaged.
        ObjectNotFoundError: it is not there.
    """
    file = await ParquetFile.open(store, path, size=size)
    columns = file.layout.select(None)
    for group in range(file.layout.num_row_groups):
        size = await in_thread(file.layout.column_bytes, columns, group)
        for share in file.layout.shares(columns, (group,), max(1, size // _SHARE)):
            fetched = await file.fetch(share, row_groups=(group,))
            pages, summed = await in_thread(_decode, file, fetched)
            del fetched
            check.pages += pages
            check.without_checksum += pages - summed
    return file.layout.num_rows


def _decode(file: ParquetFile, fetched: FetchedColumns) -> tuple[int, int]:
    """Hold the pages to their checksums, and decode them: how many there are, and have one."""
    (group,) = fetched.row_groups
    leaves = fetched.columns.leaves
    pages = summed = 0
    layout = file.layout
    with file.bytes.source(fetched) as source:
        for leaf, place in zip(leaves, layout.places(leaves, (group,)), strict=True):
            found = check_pages(layout.path, source, layout.metadata, (group, leaf), place)
            pages += found.pages
            summed += found.summed
    with closing(file.slices(fetched, _ROWS)) as tables:
        for table in tables:
            del table
    return pages, summed
