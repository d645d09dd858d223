"""Where consumers keep how far they have got: the port, and a folder of small files.

A position is saved under the consumer's name with a revision, each one more than the one before. A
store takes a revision only after the one before it: of two processes that consume under one name by
mistake, one is told.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

import orjson

from adelta._arguments import address, check_mapping
from adelta._dataclasses import dataclass
from adelta.errors import (
    ConsumerTakenOverError,
    InvalidOptionError,
    InvalidTableError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from adelta.kernel.position import Position
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

__all__ = ["FilePositions", "PositionStore", "StoredPosition", "check_consumer_name", "taken_over"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_LOOKS = 5


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """A position as it is kept. `revision` counts the saves, from 1 on."""

    position: Position
    revision: int


class PositionStore(Protocol):
    """Keeps positions by the names of consumers. Any object with these methods is one."""

    async def load(self, name: str) -> StoredPosition | None:
        """What was saved last; None where nothing was."""
        ...

    async def save(self, name: str, stored: StoredPosition) -> None:
        """Keep `stored` instead of what was saved before it; when it returns, a crash leaves it.

        Raises:
            ConsumerTakenOverError: what was saved last is not the revision before that of `stored`.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...


def check_consumer_name(name: object) -> str:
    """The name of a consumer, which names files and applications.

    Raises:
        InvalidOptionError: it cannot.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidOptionError(
            f"{name!r:.100} is no name of a consumer: pass up to 100 letters, digits, dots, dashes "
            "and underscores, of which the first is a letter or a digit"
        )
    return name


def taken_over(name: str, where: str) -> ConsumerTakenOverError:
    """What is raised where somebody else has moved the position of the consumer `name`."""
    return ConsumerTakenOverError(
        f"the position of the consumer {name!r} in {where} was moved by another process, which "
        "consumes under this name, too; stop one of them, or give each its own name and share the "
        "rows between them (share)"
    )


class FilePositions(PositionStore):
    """Positions in a folder, local or of any store that adelta writes to: a file a consumer.

    `uri` is the folder's address, and `storage_options` open it. Of each consumer there is the
    folder ``NAME``, and in it a file whose name is the revision.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        if storage_options is not None:
            check_mapping("storage_options", storage_options)
        self._store = open_store(address(uri), storage_options)
        self._older: dict[str, list[str]] = {}

    def __repr__(self) -> str:
        return f"FilePositions({self._store.uri!r})"

    async def load(self, name: str) -> StoredPosition | None:
        """What was saved last; None where nothing was.

        Raises:
            InvalidTableError: the file is damaged.
            StorageError: the store refused or failed.
        """
        folder = f"{check_consumer_name(name)}/"
        for look in range(_LOOKS):
            found = [meta.path async for page in self._store.list(folder) for meta in page]
            paths = sorted(path for path in found if path.endswith(".json"))
            if not paths:
                return None
            try:
                data = await self._store.get(paths[-1])
            except ObjectNotFoundError:
                if look + 1 < _LOOKS:
                    continue  # another process has saved since
                raise
            self._older[name] = paths[:-1]
            return _parsed(data, f"{self._store.uri}/{paths[-1]}")
        return None

    async def save(self, name: str, stored: StoredPosition) -> None:
        """Keep `stored` instead of what was saved before it.

        Raises:
            ConsumerTakenOverError: another process has saved since.
            StorageError: the store refused or failed.
        """
        path = _path(check_consumer_name(name), stored.revision)
        if not await self._follows(name, stored.revision):
            raise taken_over(name, self._store.uri)
        data = orjson.dumps({"position": str(stored.position), "revision": stored.revision})
        try:
            await self._store.put_if_absent(path, data)
        except ObjectExistsError as error:
            raise taken_over(name, self._store.uri) from error
        older = self._older.pop(name, [])
        if stored.revision > 1:
            older = [*older, _path(name, stored.revision - 1)]
        if older:
            await self._store.delete(older)

    async def _follows(self, name: str, revision: int) -> bool:
        """Whether what was saved last is the revision before: else that has been deleted."""
        if revision == 1:
            return not [meta async for page in self._store.list(f"{name}/") for meta in page]
        try:
            await self._store.head(_path(name, revision - 1))
        except ObjectNotFoundError:
            return False
        return True

    async def aclose(self) -> None:
        """Give back connections."""
        await self._store.aclose()


def _path(name: str, revision: int) -> str:
    return f"{name}/{revision:020d}.json"


def _parsed(data: bytes, where: str) -> StoredPosition:
    try:
        said = orjson.loads(data)
        return StoredPosition(Position.parse(said["position"]), int(said["revision"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidTableError(
            f"{where} holds no position of a consumer ({error}); restore it, or delete the "
            "consumer's folder to begin anew"
        ) from error
