"""Sweep: one look at all tables of a lake, and for new ones, a few requests at once.

A folder is a table where its `_delta_log` has a version, which the same request tells that tells
the version. Other folders are looked into, down to a depth; tables are not, nor are folders whose
name begins with ``_`` or ``.``. Of a table that is known its log alone is listed, from its version
on. What there is does not depend on what was known: a table below one that is new is none any more,
and where a table was, others may be. What one table, or one folder, fails with is told of that, and
does not end the rest.
"""

from __future__ import annotations

from collections import deque
from contextlib import aclosing
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar

import anyio

from adelta._concurrency import map_stream
from adelta._dataclasses import dataclass
from adelta.errors import AdeltaError, InvalidOptionError, InvalidUseError, StorageError
from adelta.kernel.log_path import LOG_DIR
from adelta.storage.object_path import check_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from adelta.log.tip import LogTip
    from adelta.storage.object_store import ObjectStore

__all__ = ["Sweep", "Swept"]

T = TypeVar("T")

_LONGEST_LOOK = 120.0  # seconds for one table, or for one page of folders


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep has found: the end of each table's log, and what could not be looked at."""

    tips: Mapping[str, LogTip] = field(default_factory=dict)
    failures: Mapping[str, AdeltaError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Work:
    """A folder to look at, `depth` levels below the root."""

    path: str
    depth: int = 0


class Sweep:
    """A look at all tables of `store` with what was `known` of them; `limit` requests at once.

    `look` finds the end of a table's log, from what was known on.
    """

    def __init__(
        self,
        store: ObjectStore,
        known: Mapping[str, LogTip],
        look: Callable[[str, LogTip | None], Awaitable[LogTip | None]],
        *,
        max_depth: int,
        limit: int,
    ) -> None:
        self._store = store
        self._known = known
        self._look = look
        self._max_depth = max_depth
        self._limit = limit
        self._tips: dict[str, LogTip] = dict(known)
        self._failures: dict[str, AdeltaError] = {}
        self._todo = deque([_Work(""), *(_Work(name, name.count("/") + 1) for name in known)])
        self._under_way = 0
        self._changed = anyio.Event()

    async def run(self) -> Swept:
        """All that is found.

        Raises:
            InvalidUseError: the root is a table itself.
            StorageError: the root cannot be listed.
        """
        await map_stream(self._run, self._items(), limit=self._limit)
        tips, failures = self._tips, self._failures
        return Swept(_outermost(tips, tips), _outermost(failures, tips))

    async def _items(self) -> AsyncIterator[_Work]:
        """All that is to be done, as it comes to be known."""
        while self._todo or self._under_way:
            if not self._todo:
                await self._changed.wait()
                self._changed = anyio.Event()
                continue
            self._under_way += 1
            yield self._todo.popleft()

    async def _run(self, work: _Work) -> None:
        try:
            await self._try(work)
        except AdeltaError as error:
            if not work.path:
                raise
            self._failures[work.path] = error
        finally:
            self._under_way -= 1
            self._changed.set()

    async def _try(self, work: _Work) -> None:
        if work.path:
            before = self._known.get(work.path)
            try:
                with anyio.fail_after(_LONGEST_LOOK):
                    tip = await self._look(work.path, before)
            except TimeoutError as error:
                raise StorageError(
                    f"{self._store.uri}/{work.path}: no answer within {_LONGEST_LOOK:.0f} s; it is "
                    "looked at again with the next look at the lake"
                ) from error
            if tip is not None:
                self._tips[work.path] = tip
                return
            self._tips.pop(work.path, None)
        if work.depth < self._max_depth:
            await self._look_into(work)

    async def _look_into(self, work: _Work) -> None:
        """Have the folders in a folder looked at."""
        prefix = f"{work.path}/" if work.path else ""
        async with aclosing(self._store.list_folder(prefix)) as pages:
            async for page in pages:
                for folder in page.folders:
                    if folder == LOG_DIR:
                        raise InvalidUseError(
                            f"{self._store.uri} is a table, not a folder of tables: open it with "
                            "open_table, or pass the folder that it is in"
                        )
                    path = folder.rstrip("/")
                    if path not in self._known and _may_be_table(path):
                        self._todo.append(_Work(path, work.depth + 1))
                        self._changed.set()


def _outermost(found: Mapping[str, T], tables: Mapping[str, LogTip]) -> dict[str, T]:
    """What was found, but for what lies below a table."""
    return {
        path: what
        for path, what in found.items()
        if not any(path[:at] in tables for at, letter in enumerate(path) if letter == "/")
    }


def _may_be_table(path: str) -> bool:
    """Whether a folder may be a table, or have some in it, and can be named."""
    try:
        check_path(path)
    except InvalidOptionError:  # "a//b" in a bucket
        return False
    return path.rpartition("/")[2][:1] not in ("_", ".")
