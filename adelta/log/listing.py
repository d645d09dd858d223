"""Listing the log: from the `_last_checkpoint` hint on, with the hint's read overlapped.

The first page of the whole log is asked for together with the hint. Where the hint points past
that page, the listing starts again at the hinted version, and the footers of the hinted checkpoint
are read meanwhile; otherwise the page is the start of the answer. Whatever is wrong with a hint
costs a listing and is never an error.

Where a store cannot list from some path on, the listing that has begun goes on, and what comes
before the hinted version is dropped as it comes. Its pages may be in no order; files are put in
order here, so that as many are held as are wanted.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread, together
from adelta._dataclasses import dataclass
from adelta._memory import check_memory, memory_limit_of
from adelta.errors import (
    InvalidTableError,
    ObjectNotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from adelta.kernel import last_checkpoint
from adelta.kernel.log_path import (
    LAST_CHECKPOINT_PATH,
    LOG_DIR,
    LogFileKind,
    LogPath,
    checkpoint_part_path,
    checkpoint_path,
    commit_path,
    parse_log_path,
    version_prefix,
)
from adelta.kernel.log_segment import complete_checkpoints
from adelta.log.checkpoint_file import CheckpointFile

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Mapping,
    )

    from adelta.kernel.last_checkpoint import LastCheckpoint
    from adelta.storage.object_store import ObjectMeta, ObjectStore

__all__ = [
    "LogListing",
    "find_commit",
    "list_commits",
    "list_log",
    "list_log_back",
    "list_log_from_hint",
    "list_log_until",
    "list_whole_log",
    "read_hint",
    "with_unlisted",
]

_STEPS_BACK = (99, 999)  # versions; checkpoints are mostly some ten or a hundred of them apart
_OPENED_AHEAD = 64
_ENTRY_SIZE = 400  # bytes of memory of one file of a listing
_MOST_KEYS = 20_000_000
_DECODED_INLINE = 16 * 1024  # bytes of a hint; those of a longer one would hold up the loop
_LISTED_AGAIN = 20  # times, while it is another commit each time that is missing


@dataclass(frozen=True, slots=True)
class LogListing:
    """The log's files from `start` on, in the order of their names; `hint` is what started it.

    `opened` are files of the hinted checkpoint, by path, that were opened while the log was listed.
    """

    files: tuple[LogPath, ...]
    start: int = 0
    hint: LastCheckpoint | None = None
    opened: Mapping[str, CheckpointFile] = field(default_factory=dict, hash=False)


async def read_hint(store: ObjectStore) -> LastCheckpoint | None:
    """The `_last_checkpoint` hint, or None where there is none that can be trusted."""
    try:
        data = await store.get_range(LAST_CHECKPOINT_PATH, 0, last_checkpoint.MAX_BYTES + 1)
    except ObjectNotFoundError:
        return None
    if len(data) < _DECODED_INLINE:
        return last_checkpoint.decode(data)
    return await in_thread(last_checkpoint.decode, data)


async def list_log(
    store: ObjectStore, start: int = 0, *, end: int | None = None
) -> tuple[LogPath, ...]:
    """The log's files of the versions `start` to `end` (to the last one by default), in order.

    Of a folder that others write to meanwhile, the operating system may leave a new file out and
    show a newer one. So a listing in which a commit is missing is made again, until it is whole or
    the same commit is missing twice.
    """
    files = await _collect(store, _pages(store, start), start, end)
    missing = _missing_commit(files)
    for _ in range(_LISTED_AGAIN):
        if missing is None:
            break
        files = await _collect(store, _pages(store, start), start, end)
        before, missing = missing, _missing_commit(files)
        if missing is not None and missing <= before:
            break
    return files


async def find_commit(store: ObjectStore, version: int) -> LogPath | None:
    """The commit of `version`, asked for by name; None where it is not there."""
    path = commit_path(version)
    try:
        meta = await store.head(path)
    except ObjectNotFoundError:
        return None
    return LogPath(path, LogFileKind.COMMIT, version, meta.size, meta.last_modified_ms)


async def list_commits(store: ObjectStore, start: int, end: int) -> list[LogPath]:
    """The commits of the versions `start` to `end` that are there, in order."""
    return await with_unlisted(store, await list_log(store, start, end=end), start, end)


async def with_unlisted(
    store: ObjectStore, files: Iterable[LogPath], start: int, end: int
) -> list[LogPath]:
    """The commits among `files`, and those of `start` to `end` that the listing left out, in order.

    They are asked for by name, from the newest version of each gap back: of a gap that has been
    cleaned up that costs one request.
    """
    listed = [file for file in files if file.kind is LogFileKind.COMMIT]
    commits: list[LogPath] = []
    after = end + 1
    for file in (*reversed(listed), None):
        before = start - 1 if file is None else file.version
        for version in range(after - 1, before, -1):
            found = await find_commit(store, version)
            if found is None:
                break
            commits.append(found)
        if file is not None:
            commits.append(file)
            after = file.version
    commits.reverse()
    return commits


async def list_whole_log(store: ObjectStore, latest: int) -> tuple[LogPath, ...]:
    """The log's files in order, with the commits up to `latest` that a listing leaves out."""
    files = await list_log(store)
    oldest = min((f.version for f in files if f.kind is LogFileKind.COMMIT), default=latest)
    there = await with_unlisted(store, files, oldest, latest)
    return tuple(sorted({*files, *there}, key=_path))


async def list_log_until(store: ObjectStore, time_ms: int) -> tuple[LogPath, ...]:
    """The log's files from the start on, up to the page with a commit that is newer than a time."""
    files: list[LogPath] = []
    pages = _ordered_pages(store)
    async for page in pages:
        parsed = (parse_log_path(m.path, m.size, m.last_modified_ms) for m in page)
        found = [file for file in parsed if file is not None]
        files += found
        if any(f.kind is LogFileKind.COMMIT and f.last_modified_ms > time_ms for f in found):
            await pages.aclose()  # type: ignore[attr-defined]  # as below
            break
    return tuple(files)


async def list_log_pages(store: ObjectStore) -> AsyncGenerator[tuple[LogPath, ...], None]:
    """The log's files from the first version on, as far as they are asked for."""
    async for page in _ordered_pages(store):
        parsed = (parse_log_path(meta.path, meta.size, meta.last_modified_ms) for meta in page)
        yield tuple(file for file in parsed if file is not None)


async def list_log_back(store: ObjectStore, version: int) -> tuple[LogPath, ...]:
    """The log's files up to `version`, back to a complete checkpoint where there is one.

    The listing goes back step by step, so that it costs what lies between the two. Where `version`
    is not there at all, it is the whole log, for its range to be told.
    """
    for back in _STEPS_BACK if store.lists_from_anywhere else ():
        start = version - back
        if start <= 0:
            break
        files = await list_log(store, start, end=version)
        if complete_checkpoints(files) and files[-1].version >= version:
            return files
    files = await list_log(store, end=version)
    if any(f.version == version and f.kind is LogFileKind.COMMIT for f in files):
        return files
    return await list_log(store)


async def list_log_from_hint(store: ObjectStore) -> LogListing:
    """The log's files from the last checkpoint on, or all of them where there is no usable hint."""
    pages = _pages(store, 0)

    async def fetch_page() -> list[ObjectMeta]:
        return await anext(pages, [])

    found, page = await together(partial(read_hint, store), fetch_page)
    if found is None or not page or _is_listed(store, page, found.version):
        listed = await _collect(store, pages, first=page)
        if _missing_commit(listed) is not None:
            listed = await list_log(store)
        return LogListing(listed, 0, found)
    if store.lists_from_anywhere:
        await pages.aclose()  # type: ignore[attr-defined]  # the adapters' listings are generators
    files: tuple[LogPath, ...] = ()
    opened: dict[str, CheckpointFile] = {}

    async def list_on() -> None:
        nonlocal files
        if not store.lists_from_anywhere:
            files = await _collect(store, pages, found.version, first=page)
        if store.lists_from_anywhere or _missing_commit(files) is not None:
            files = await list_log(store, found.version)

    async def open_hinted(path: str) -> None:
        # Before the listing proves that it is there: whatever fails here is for the opener to say.
        with suppress(InvalidTableError, StorageError, UnsupportedFeatureError):
            opened[path] = await CheckpointFile.open(store, path, size)

    paths, size = _hinted_files(found)
    work: list[Callable[[], Awaitable[None]]] = [list_on]
    work += [partial(open_hinted, path) for path in paths]
    await together(*work, limit=store.concurrency)
    if complete_checkpoints(files):
        return LogListing(files, found.version, found, opened)
    return LogListing(await list_log(store), 0, None)


def _is_listed(store: ObjectStore, page: list[ObjectMeta], version: int) -> bool:
    """Whether the first page of the log reaches a version, so that what follows is wanted."""
    return store.lists_in_order and page[-1].path >= version_prefix(version)


def _hinted_files(hint: LastCheckpoint) -> tuple[list[str], int | None]:
    """Where the Parquet files of the checkpoint should be, and about how many bytes each has."""
    if hint.v2_path is not None:
        path = LOG_DIR + hint.v2_path.rpartition("/")[2]
        parsed = parse_log_path(path)
        right = parsed is not None and parsed.is_checkpoint and path.endswith(".parquet")
        return ([path] if right else []), None
    parts = hint.parts or 1
    size = hint.size_in_bytes // parts if hint.size_in_bytes else None
    if hint.parts is None:
        return [checkpoint_path(hint.version)], size
    ahead = range(1, min(parts, _OPENED_AHEAD) + 1)
    return [checkpoint_part_path(hint.version, part, parts) for part in ahead], size


def _missing_commit(files: Iterable[LogPath]) -> int | None:
    """The first version between two commits that has none."""
    last: int | None = None
    for file in files:
        if file.kind is LogFileKind.COMMIT:
            if last is not None and file.version > last + 1:
                return last + 1
            last = file.version
    return None


def _path(file: LogPath) -> str:
    return file.path


def _pages(store: ObjectStore, start: int) -> AsyncIterator[list[ObjectMeta]]:
    """Pages of the log from a version on, as the store has them."""
    after = version_prefix(start) if start else None
    return store.list_unordered(LOG_DIR, start_after=after, recursive=False)


def _ordered_pages(store: ObjectStore) -> AsyncIterator[list[ObjectMeta]]:
    return store.list(LOG_DIR, recursive=False)


async def _collect(
    store: ObjectStore,
    pages: AsyncIterator[list[ObjectMeta]],
    start: int = 0,
    end: int | None = None,
    *,
    first: list[ObjectMeta] | None = None,
) -> tuple[LogPath, ...]:
    """The files of the versions `start` to `end` in the rest of the pages, in order."""
    limit, seen = memory_limit_of(store), 0
    before = version_prefix(start) if start else ""
    beyond = None if end is None else version_prefix(end + 1)
    files: list[LogPath] = []
    page = first
    while True:
        for meta in page or ():
            if beyond is not None and meta.path >= beyond:
                if store.lists_in_order:
                    return tuple(files)
                continue
            if meta.path <= before:
                continue
            parsed = parse_log_path(meta.path, meta.size, meta.last_modified_ms)
            if parsed is not None:
                files.append(parsed)
        seen += len(page or ())
        check_memory(_ENTRY_SIZE * len(files), limit, f"{store.uri}: the listing of its log")
        if seen > _MOST_KEYS:
            raise StorageError(f"{store.uri}: its log has more than {_MOST_KEYS:,} objects")
        page = await anext(pages, None)
        if page is None:
            return tuple(files if store.lists_in_order else sorted(files, key=_path))
