"""B13: whatever happens to a table that a catalog manages, every reader sees all of it, once.

Writers stage, ratify and publish, or only ratify; answers get lost; the catalog forgets what it has
been told is published, or keeps it; the log is checkpointed, compacted and cleaned up; staged files
of published commits are deleted. After each step a reader that has been there all the time and one
that comes anew read the rows that were acknowledged, and the published log has no gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

import adelta
from adelta._clock import SYSTEM_CLOCK
from adelta.errors import InvalidOptionError
from adelta.kernel.log_path import (
    LOG_DIR,
    STAGED_DIR,
    LogFileKind,
    LogPath,
    commit_path,
    parse_log_path,
)
from adelta.table import Table
from tests.support.catalogs import SqliteCatalog
from tests.support.clock import ManualClock
from tests.support.managed_tables import NeverPublishing, created, handle, ids, rows

if TYPE_CHECKING:
    from adelta.storage.object_store import ObjectStore

STEPS = (
    "append",
    "append anew",
    "append anew",
    "append inline",
    "append unpublished",
    "append unpublished",
    "append unheard",
    "append lost",
    "delete",
    "checkpoint",
    "compact",
    "clean up",
    "clean up",
    "delete staged",
    "read",
)
_YEAR_MS = 366 * 24 * 3600 * 1000


@dataclass
class _World:
    """A table, its catalog, who uses it, and the ids that ought to be in it."""

    store: ObjectStore
    catalog: SqliteCatalog
    writer: Table
    reader: Table
    expected: list[int] = field(default_factory=list)
    number: int = 0

    async def take(self, step: str) -> None:
        match step.split():
            case ["append", *how]:
                await self.append(*how)
            case ["delete"] if self.expected:
                await adelta.delete(self.writer, f"id = {self.expected.pop(0)}")
            case ["checkpoint"]:
                await adelta.checkpoint(self.writer)
            case ["compact"]:
                with contextlib.suppress(InvalidOptionError):  # nothing to compact
                    await adelta.compact_log(self.writer)
            case ["clean", "up"]:
                await adelta.checkpoint(self.writer)
                later = ManualClock(SYSTEM_CLOCK.now_ms() + _YEAR_MS)
                await adelta.cleanup_log(
                    Table(self.store.uri, store=self.store, catalog=self.catalog, clock=later)
                )
            case ["delete", "staged"]:
                await self.delete_staged()

    async def append(self, how: str = "") -> None:
        self.number += 1
        self.catalog.inline = how == "inline"
        self.catalog.lost, self.catalog.unheard = int(how == "lost"), int(how == "unheard")
        table = self.writer
        if how == "anew":
            table = handle(self.store, self.catalog)
        elif how == "unpublished":
            table = handle(NeverPublishing(self.store), self.catalog)
        version = (await adelta.write_table(table, rows(self.number))).version
        assert version is not None
        if how != "unpublished":
            await self.store.head(commit_path(version))
        self.catalog.inline = False
        self.expected.append(self.number)

    async def delete_staged(self) -> None:
        """Delete the staged files of published commits, but those that the catalog still keeps."""
        kept = {c.staged_file for c in (await self.catalog.get_ratified_commits()).commits}
        paths = [meta.path async for page in self.store.list(STAGED_DIR) for meta in page]
        await self.store.delete([p for p in paths if p.removeprefix(STAGED_DIR) not in kept])

    async def check(self) -> None:
        for table in (self.reader, handle(self.store, self.catalog)):
            assert await ids(table) == sorted(self.expected)
        latest = (await self.catalog.get_ratified_commits()).latest_version
        assert (await self.reader.snapshot()).version == latest
        versions = [entry.version for entry in await adelta.history(self.reader)]
        assert versions == list(range(latest, versions[-1] - 1, -1))
        files = await self.files(self.store)
        published = [file.version for file in files if file.kind is LogFileKind.COMMIT]
        assert published == list(range(published[0], published[-1] + 1))
        seen = await self.files(self.reader.store)
        commits = [file.version for file in seen if file.kind is LogFileKind.COMMIT]
        assert commits == list(range(published[0], latest + 1))
        checkpoints = [file.version for file in files if file.is_checkpoint]
        assert max(checkpoints, default=0) <= published[-1]

    @staticmethod
    async def files(store: ObjectStore) -> list[LogPath]:
        """The log as a store lists it."""
        paths = [meta.path async for page in store.list(LOG_DIR, recursive=False) for meta in page]
        return [file for file in map(parse_log_path, paths) if file is not None]


async def _run(database: str, forgets: bool, tells: bool, steps: list[str]) -> None:
    catalog = SqliteCatalog(database, forgets=forgets, tells=tells, permits=True)
    store = await created(catalog, checkpointInterval="3")
    world = _World(store, catalog, handle(store, catalog), handle(store, catalog))
    for step in steps:
        await world.take(step)
        await world.check()


@settings(max_examples=30)
@given(
    forgets=st.booleans(),
    tells=st.booleans(),
    steps=st.lists(st.sampled_from(STEPS), min_size=4, max_size=12),
)
def test_every_reader_sees_what_was_acknowledged(
    forgets: bool, tells: bool, steps: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_run(str(Path(folder) / "catalog.db"), forgets, tells, steps))
