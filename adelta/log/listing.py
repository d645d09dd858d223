"""Listing the log: from the `_last_checkpoint` hint on, with the hint's read overlapped.

The first page of the whole log is asked for together with the hint. Where the hint points past that
page, the listing starts again at the hinted version; otherwise the page is the start of the answer.
Whatever is wrong with a hint costs a listing and is never an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adelta._concurrency import map_concurrent
from adelta.errors import ObjectNotFoundError
from adelta.kernel import last_checkpoint
from adelta.kernel.log_path import (
    LAST_CHECKPOINT_PATH,
    LOG_DIR,
    LogPath,
    parse_log_path,
    version_prefix,
)
from adelta.kernel.log_segment import complete_checkpoints

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from adelta.kernel.last_checkpoint import LastCheckpoint
    from adelta.storage.object_store import ObjectMeta, ObjectStore

__all__ = ["LogListing", "list_log", "list_log_from_hint", "read_hint"]


@dataclass(frozen=True, slots=True)
class LogListing:
    """The log's files from `start` on, in the order of their names; `hint` is what started it."""

    files: tuple[LogPath, ...]
    start: int = 0
    hint: LastCheckpoint | None = None


async def read_hint(store: ObjectStore) -> LastCheckpoint | None:
    """The `_last_checkpoint` hint, or None where there is none that can be trusted."""
    try:
        return last_checkpoint.decode(await store.get(LAST_CHECKPOINT_PATH))
    except ObjectNotFoundError:
        return None


async def list_log(
    store: ObjectStore, start: int = 0, *, end: int | None = None
) -> tuple[LogPath, ...]:
    """The log's files of the versions `start` to `end` (to the last one by default), in order."""
    return await _collect(_pages(store, start), end)


async def list_log_from_hint(store: ObjectStore) -> LogListing:
    """The log's files from the last checkpoint on, or all of them where there is no usable hint."""
    pages = _pages(store, 0)
    hint: list[LastCheckpoint | None] = [None]
    first: list[list[ObjectMeta]] = [[]]

    async def fetch_hint() -> None:
        hint[0] = await read_hint(store)

    async def fetch_page() -> None:
        first[0] = await anext(pages, [])

    await map_concurrent(_call, (fetch_hint, fetch_page), limit=2)
    found, page = hint[0], first[0]
    if found is None or not page or page[-1].path >= version_prefix(found.version):
        return LogListing(await _collect(pages, None, page), 0, found)
    await pages.aclose()  # type: ignore[attr-defined]  # the adapters' listings are generators
    files = await list_log(store, found.version)
    if complete_checkpoints(files):
        return LogListing(files, found.version, found)
    return LogListing(await list_log(store), 0, None)


async def _call(fetch: Callable[[], Awaitable[None]]) -> None:
    await fetch()


def _pages(store: ObjectStore, start: int) -> AsyncIterator[list[ObjectMeta]]:
    after = version_prefix(start) if start else None
    return store.list(LOG_DIR, start_after=after, recursive=False)


async def _collect(
    pages: AsyncIterator[list[ObjectMeta]], end: int | None, first: list[ObjectMeta] | None = None
) -> tuple[LogPath, ...]:
    beyond = None if end is None else version_prefix(end + 1)
    files: list[LogPath] = []
    page = first
    while True:
        for meta in page or ():
            if beyond is not None and meta.path >= beyond:
                return tuple(files)
            parsed = parse_log_path(meta.path, meta.size, meta.last_modified_ms)
            if parsed is not None:
                files.append(parsed)
        page = await anext(pages, None)
        if page is None:
            return tuple(files)
