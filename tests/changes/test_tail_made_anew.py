"""Tailing the log of a table that is dropped and made anew, while commits of it are read."""

from __future__ import annotations

from contextlib import aclosing
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import pytest

from adelta import tail
from adelta.errors import ChangesNotAvailableError, ObjectNotFoundError
from adelta.kernel.log_path import commit_path
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.changes.test_tail import take, write
from tests.support.clock import ManualClock
from tests.support.logs import metadata, put_commit
from tests.support.stores import WrappedStore

if TYPE_CHECKING:
    from collections.abc import Sequence


async def test_commits_of_a_table_that_is_made_anew_while_they_are_read_are_not_given_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of those that were listed one is read when another table has it in its place."""
    monkeypatch.setattr(import_module("adelta.changes.tail"), "LOOK_HOLDS", 0.0)
    clock = ManualClock(tick_ms=1)
    inner = MemoryStore(clock=clock)
    await write(inner, *range(4))

    class Slow(WrappedStore):
        async def get_many(self, paths: Sequence[str]) -> list[bytes]:
            read = [await self.inner.get(path) for path in paths]
            for version in range(3):
                await self.inner.delete([commit_path(version)])
                told = {"commitInfo": {"timestamp": version, "operation": "MERGE"}}
                await put_commit(self.inner, version, told, metadata(id="another"))
            read[2] = await self.inner.get(paths[2])
            return read

    with pytest.raises(ChangesNotAvailableError, match="made anew"):
        await take(Table("memory://anew", store=Slow(inner)), 4)


async def test_a_commit_that_is_waited_for_is_not_taken_from_a_table_that_was_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was listed is gone when it is read, and there again, of another table."""
    monkeypatch.setattr(import_module("adelta.changes.tail"), "LOOK_HOLDS", 0.1)
    inner = MemoryStore(clock=ManualClock(tick_ms=1))
    await write(inner, 0)

    class Remade(WrappedStore):
        denials = 0

        async def get(self, path: str) -> bytes:
            if not self.denials:
                return await super().get(path)
            self.denials -= 1
            await anyio.sleep(0.2)
            for version in range(2 * self.denials):
                await self.inner.delete([commit_path(version)])
                told = {"commitInfo": {"timestamp": version, "operation": "MERGE"}}
                await put_commit(self.inner, version, told, metadata(id="another"))
            raise ObjectNotFoundError(f"there is no object {path!r}")

        async def get_many(self, paths: Sequence[str]) -> list[bytes]:
            return [await self.get(path) for path in paths]

    store = Remade(inner)
    async with aclosing(tail(Table("memory://anew", store=store), 0, poll=0.02)) as commits:
        assert (await anext(commits)).version == 0
        await write(inner, 1)
        store.denials = 2
        with anyio.fail_after(60), pytest.raises(ChangesNotAvailableError, match="made anew"):
            await anext(commits)
