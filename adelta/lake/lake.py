"""Lake: the tables below one root, with one budget of connections and memory for all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import anyio

from adelta._arguments import (
    address,
    check_count,
    check_mapping,
    check_seconds,
    check_text,
)
from adelta._async_handle import AsyncHandle
from adelta._clock import monotonic
from adelta._shared_work import SharedWork
from adelta._streams import stream
from adelta.commit.choose import check_client, owned_of
from adelta.errors import InvalidUseError, ObjectNotFoundError, TableNotFoundError
from adelta.lake.handles import TableHandles
from adelta.lake.sweep import Sweep, Swept
from adelta.lake.values import LakeTable, TableChange
from adelta.log.tip import LogTip, read_tip
from adelta.storage.allowed_roots import ALLOWED_ROOTS, given_roots
from adelta.storage.caching_store import CachingStore
from adelta.storage.resolve import open_store
from adelta.table import latest_state

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Iterator, Mapping

    from adelta.commit.catalog import CatalogClient
    from adelta.errors import AdeltaError
    from adelta.storage.allowed_roots import AllowedRoots
    from adelta.storage.object_store import ObjectStore
    from adelta.storage.stats import StoreStats
    from adelta.table import Table

__all__ = ["Lake"]

_MOST_AT_ONCE = 32


class Lake(AsyncHandle):
    """The tables below `root`, a local folder or a URI. No I/O until first awaited.

    Used as an asynchronous context manager, or closed by `aclose`. All tables share the lake's
    connections: at most half of the requests that these allow at once are the lake's own. It
    belongs to one event loop, whose tasks may share it.

    Tables are found by listing folders, down to `max_depth` levels below the root; no folder below
    a table is listed, so that a table below a folder that becomes one is dropped, and none whose
    name begins with ``_`` or ``.``. `state_memory` bounds, in bytes, what is kept in memory of the
    tables' logs: what was used longest ago goes first, and is read again when it is asked for.
    `storage_options` and `allowed_roots` are as for `open_table`, for every table. `catalogs` are
    catalogs' clients, by the names of the tables that they are for.

    Raises:
        InvalidOptionError: the scheme or an option is unknown, or an argument has a value that is
            not allowed.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        max_depth: int = 3,
        state_memory: int = 256 * 1024 * 1024,
        catalogs: Mapping[str, CatalogClient] | None = None,
        allowed_roots: AllowedRoots | None = None,
    ) -> None:
        self._options = _options_of(storage_options, allowed_roots)
        self._max_depth = check_count("max_depth", max_depth, least=1, optional=False)
        self._state_memory = check_count("state_memory", state_memory, optional=False)
        self._catalogs = dict(catalogs or {})
        for client in self._catalogs.values():
            check_client(client)
        self._root = address(root)
        self._store = open_store(self._root, self._options)
        self._listed = _uncached(self._store)
        self._handles = TableHandles(
            self._store, self._options, self._catalogs, self._state_memory or 0
        )
        self._swept = Swept()
        self._told = Swept()
        self._owned: set[str] = set()
        self._sweep: SharedWork[Swept] = SharedWork(anyio.Lock(), ahead=False)
        self._closed = False
        self._is_there = False  # the root has been seen

    def __repr__(self) -> str:
        return f"<Lake {self.uri}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """The recipe that opens the same lake elsewhere."""
        return (
            _opened,
            (self._root, self._options, self._max_depth, self._state_memory, self._catalogs),
        )

    @property
    def uri(self) -> str:
        """The root, as an absolute URI."""
        return self._store.uri

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The options that the lake was opened with."""
        return self._options

    @property
    def store_stats(self) -> StoreStats:
        """What has been asked of the store so far, by the lake and by all of its tables."""
        return self._store.stats

    def table(self, name: str) -> Table:
        """A handle on the table at `name`, a path below the root. No I/O; it need not be there.

        It has the lake's connections, and need not be closed. Handles on one table share what is
        known of it.

        Raises:
            InvalidOptionError: no table can have that name.
            InvalidUseError: the lake is closed.
        """
        self._check_open()
        return self._handles.lend(check_text("name", name))

    def tables(self) -> AsyncGenerator[LakeTable, None]:
        """The tables that are there now, in the order of their names, by a look at all of them.

        Of a table that is known already, its log is listed from its last known version on: one
        request. What `refresh` tells next is not touched by that.

        Raises:
            InvalidUseError: the root is a table itself, or the lake is closed.
            AdeltaError: a table or a folder could not be looked at, when all others have come; or
                the root is a local folder that is not there.
        """
        return _tables(self)

    async def refresh(self) -> tuple[TableChange, ...]:
        """What has become of the tables since the refresh before, in the order of their names.

        The first one tells of all tables that are there. A table costs one request, a few more
        where it is gone or its log was cleaned up, a folder that is none two, and tables that a
        commit owner or a catalog decides on cost what their handles need. Of an owner that keeps
        commits to itself, so that no file in the log shows that there is one, they are told when it
        has published them. What one table fails
        with is told of it, at each refresh, and does not end the rest. Calls at one moment share
        one look, and each is told everything that is new since the last refresh that had ended
        when it was called; one that is cancelled loses nothing that the next one would tell.

        Raises:
            InvalidUseError: the root is a table itself, or the lake is closed, before or meanwhile.
            StorageError: the root cannot be listed, or is a local folder that is not there.
        """
        told = self._told
        now = await self._look()
        self._told = now
        return tuple(_changes(told, now))

    def changes(self, *, poll: float = 10.0) -> AsyncGenerator[TableChange, None]:
        """What becomes of the tables, from all that are there now on, until it is left.

        Each iteration has a memory of its own, so that several may go on at once. `poll` is the
        time between the beginnings of two looks, in seconds. A failure is told when it begins, or
        is another one.

        Raises:
            InvalidOptionError: `poll` is no number of seconds.
            InvalidUseError: the root is a table itself, or the lake is closed, before or meanwhile.
            StorageError: the root cannot be listed, or is a local folder that is not there.
        """
        return _followed(self, check_seconds("poll", poll))

    async def aclose(self) -> None:
        """Give back connections, of the lake and of all of its tables. Again it does nothing."""
        if self._closed:
            return
        self._closed = True
        with anyio.CancelScope(shield=True):
            await self._sweep.stop(
                InvalidUseError(
                    f"{self.uri}: the lake was closed while it was looked at; await what is under "
                    "way before you close it"
                )
            )
            await self._handles.aclose()
            await self._store.aclose()

    async def __aenter__(self) -> Lake:
        """The lake itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the lake."""
        await self.aclose()

    # ------------------------------------------------------------------------------- one look

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidUseError(f"{self.uri}: this lake is closed; make another one")

    async def _look(self) -> Swept:
        """What all tables are now, by a look that begins after this was called."""
        self._check_open()
        return await self._sweep.result(self._look_at_all)

    async def _look_at_all(self) -> Swept:
        sweep = Sweep(
            self._listed,
            self._swept.tips,
            self._tip,
            max_depth=self._max_depth or 0,
            limit=max(1, min(_MOST_AT_ONCE, self._store.concurrency // 2)),
        )
        self._swept = await sweep.run()
        is_there = bool(self._swept.tips) or self._is_there
        if not is_there and not await self._listed.has_root():
            raise ObjectNotFoundError(
                f"{self.uri}: there is no such folder; check the path, or make the folder"
            )
        self._is_there = True
        self._handles.states.weigh()
        return self._swept

    async def _tip(self, name: str, before: LogTip | None) -> LogTip | None:
        """The end of a table's log, as the one who decides on its commits has it."""
        if name in self._catalogs or name in self._owned:
            return await self._tip_by_owner(name, before)
        tip = await read_tip(self._listed, name, before)
        if tip is None or tip is before or not tip.may_be_owned:
            return tip
        return await self._tip_by_owner(name, tip)

    async def _tip_by_owner(self, name: str, before: LogTip | None) -> LogTip | None:
        """The end of a log that others than the filesystem may know more of."""
        table = self._handles.lend(name)
        try:
            state = await latest_state(table)
        except TableNotFoundError:
            self._owned.discard(name)
            return None
        id, by_owner = state.metadata.id, before is not None and before.size < 0
        if owned_of(table.store) is None:
            self._owned.discard(name)
            tip = await read_tip(self._listed, name, None) if by_owner else before
            if tip is not None and by_owner and before is not None and before.etag == id:
                tip = replace(tip, generation=before.generation)
            return tip
        self._owned.add(name)
        tip = LogTip(
            state.version,
            is_commit=True,
            size=-1,  # no file's
            modified_ms=state.timestamp_ms,
            etag=id,
            checkpoint=None if before is None else before.checkpoint,
            may_be_owned=True,
        )
        if before is None or (by_owner and before.etag != id):
            return tip
        if by_owner and before.version == tip.version:
            return before
        return replace(tip, generation=before.generation)


def _options_of(
    storage_options: Mapping[str, str] | None, allowed_roots: AllowedRoots | None
) -> dict[str, str]:
    given = check_mapping("storage_options", storage_options)
    return given if allowed_roots is None else {**given, ALLOWED_ROOTS: given_roots(allowed_roots)}


def _uncached(store: ObjectStore) -> ObjectStore:
    """The store past the disk cache, which would remember what each listing tells."""
    return store.inner if isinstance(store, CachingStore) else store


def _opened(
    root: str,
    options: Mapping[str, str],
    max_depth: int,
    state_memory: int,
    catalogs: Mapping[str, CatalogClient],
) -> Lake:
    return Lake(root, options, max_depth=max_depth, state_memory=state_memory, catalogs=catalogs)


@stream
async def _tables(lake: Lake) -> AsyncGenerator[LakeTable, None]:
    found = await lake._look()
    for name in sorted(found.tips):
        if name not in found.failures:
            tip = found.tips[name]
            yield LakeTable(
                name,
                lake._store.below(name).uri,
                tip.version,
                _moment(tip),
                tip.checkpoint,
            )
    for name in sorted(found.failures):
        raise found.failures[name]


@stream
async def _followed(lake: Lake, poll: float) -> AsyncGenerator[TableChange, None]:
    told = Swept()
    while True:
        began = monotonic()
        now = await lake._look()
        for change in _changes(told, now):
            if change.kind != "failed" or _is_new(told.failures.get(change.name), change.error):
                yield change
        told = now
        await anyio.sleep(max(0.0, began + poll - monotonic()))


def _is_new(before: AdeltaError | None, now: AdeltaError | None) -> bool:
    return before is None or (type(before), str(before)) != (type(now), str(now))


def _changes(told: Swept, now: Swept) -> Iterator[TableChange]:
    """What is to be told of now, where so much has been told before."""
    for name in sorted({*told.tips, *now.tips, *now.failures}):
        before, tip = told.tips.get(name), now.tips.get(name)
        previous = None if before is None else before.version
        if (error := now.failures.get(name)) is not None:
            version = None if tip is None else tip.version
            yield TableChange("failed", name, version, previous, error=error)
        elif tip is before:
            continue
        elif tip is None:
            yield TableChange("dropped", name, None, previous)
        elif before is None:
            yield TableChange("added", name, tip.version, None, _moment(tip))
        elif before.generation != tip.generation:
            yield TableChange("replaced", name, tip.version, previous, _moment(tip))
        elif before.version != tip.version:
            yield TableChange("updated", name, tip.version, previous, _moment(tip))


def _moment(tip: LogTip) -> datetime:
    try:
        return datetime.fromtimestamp(tip.modified_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # a clock far off
        return datetime.max.replace(tzinfo=UTC)
