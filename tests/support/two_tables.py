"""Are all changes of two tables there, once, and those of both never in half?

A change is a file, named after it, that one commit adds to one table, or a transaction to both.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import adelta
from adelta.kernel.log_path import LOG_DIR, LogFileKind, parse_log_path
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from adelta.storage.object_store import ObjectStore

__all__ = ["OF_BOTH", "Watch", "path_of", "published"]

OF_BOTH = ".both"
"""What the name of a change of both tables ends with."""

_EXTENSION = ".parquet"


def path_of(change: str) -> str:
    """The path of the file that stands for a change."""
    return change + _EXTENSION


@dataclass
class Watch:
    """What was seen of two tables, and said of changes.

    Attributes:
        committed: the versions of changes that were acknowledged, by the table's number.
        uncertain: changes of which their writers could not say what became.
        dead: processes that died, each perhaps in the middle of a change.
        outcomes: how often changes ended how.
        reads: how often both tables were looked at.
        violations: what must not be.
    """

    committed: dict[str, dict[int, int]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    violations: list[str] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _acknowledged: list[int] = field(default_factory=lambda: [0, 0])

    def hear(self, said: Mapping[str, Any]) -> None:
        """Take in what became of a change."""
        change, outcome = said["change"], said["outcome"]
        self.outcomes[outcome] += 1
        self._news.set()
        if outcome == "committed":
            self.committed[change] = {int(at): version for at, version in said["versions"].items()}
            for at, version in self.committed[change].items():
                self._acknowledged[at] = max(self._acknowledged[at], version)
        elif outcome == "unknown":
            self.uncertain.add(change)
        else:
            self.refused.add(change)

    async def reaches(self, commits: int) -> None:
        """Wait until so many changes have been acknowledged."""
        while len(self.committed) < commits:
            self._news.clear()
            await self._news.wait()

    async def look(self, *tables: adelta.Table) -> None:
        """Look at both tables, which are to be as they are at one moment."""
        least = [*self._acknowledged]
        found = await adelta.snapshots(*tables)
        self.reads += 1
        versions = [one.version for one in found]
        if any(version < known for version, known in zip(versions, least, strict=True)):
            self.violations.append(f"{versions} were read when {least} had been acknowledged")
        listed = [(await one.files(columns=["path"]))["path"].to_pylist() for one in found]
        left, right = ({path.removesuffix(_EXTENSION) for path in paths} for paths in listed)
        halves = sorted(change for change in left ^ right if change.endswith(OF_BOTH))
        self.violations += [f"{change} was seen in half at {versions}" for change in halves]

    async def compare(self, uris: Sequence[str], options: Mapping[str, str]) -> list[int]:
        """Compare what was said with what the tables' stores have; the latest versions there."""
        read = [await self._log(uri, options) for uri in uris]
        logs = [log for log, _ in read]
        for change, versions in self.committed.items():
            there = {at: log[change] for at, log in enumerate(logs) if change in log}
            if there != versions:
                self.violations.append(f"{change} was acknowledged as {versions}, and is {there}")
        for at, log in enumerate(logs):
            for change, version in log.items():
                if change in self.refused:
                    self.violations.append(f"{change} was refused, and is {version} of table {at}")
                elif not self._may_be_there(change):
                    self.violations.append(f"{change}, {version} of table {at}, is nobody's")
        left, right = ([change for change in log if change.endswith(OF_BOTH)] for log in logs)
        if left != right:
            halves = sorted({*left} ^ {*right})
            self.violations.append(f"changes of both are in half, or in another order: {halves}")
        return [last for _, last in read]

    def _may_be_there(self, change: str) -> bool:
        last_of_dead = change.partition(".")[0] in self.dead
        return change in self.committed or change in self.uncertain or last_of_dead

    async def _log(self, uri: str, options: Mapping[str, str]) -> tuple[dict[str, int], int]:
        """The version of each change, in order, and the last one, by the published commits alone.

        A commit that adds no file gives the table to another owner.
        """
        found: dict[str, int] = {}
        versions = []
        store = open_store(uri, options)
        async for version, path in _commits(store):
            versions.append(version)
            if not version:
                continue
            lines = (await store.get(path)).splitlines()
            adds = [json.loads(line)["add"] for line in lines if b'"add"' in line]
            if not adds and any(b'"metaData"' in line for line in lines):
                continue
            (add,) = adds
            change = add["path"].removesuffix(_EXTENSION)
            if change in found:
                again = f"versions {found[change]} and {version} of {uri}"
                self.violations.append(f"{change} is there twice: {again}")
            found[change] = version
        await store.aclose()
        if versions != list(range(len(versions))):
            self.violations.append(f"the versions of {uri} are not contiguous: {versions}")
        return found, versions[-1]


async def published(uris: Sequence[str], options: Mapping[str, str]) -> list[int]:
    """The latest versions that the tables' stores have."""
    found = []
    for uri in uris:
        store = open_store(uri, options)
        found.append(max([version async for version, _ in _commits(store)]))
        await store.aclose()
    return found


async def _commits(store: ObjectStore) -> AsyncIterator[tuple[int, str]]:
    """The published commits: versions and paths."""
    async for page in store.list(LOG_DIR):
        for meta in page:
            file = parse_log_path(meta.path)
            if file is not None and file.kind is LogFileKind.COMMIT:
                yield file.version, meta.path
