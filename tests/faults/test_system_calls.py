"""Each system call that an operation makes about a table on local disk fails, one after the other.

Afterwards the operation has succeeded, or has raised an error of adelta's own, and that error was
true: where it is not said to be unknown, nothing was committed. The table is as before or as after,
its log and files are whole, nothing is left open or lying about, and the next writer succeeds.
Spark has written the table before, and can read every file: none is beside the checksum of another.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from adelta.operations import fsck, write_table
from adelta.table import Table
from tests.support.depth import DEEP, cases
from tests.support.disk import Disk, memory_folder, restore
from tests.support.hadoop_checksums import contradictions, share_with_spark
from tests.support.supervised import Case, Fault, is_commit
from tests.support.victim import AFTER, base_of, before, ids, put_objects, rows

if TYPE_CHECKING:
    from tests.support.disk import Image
    from tests.support.supervised import Report, Supervised

MOST = 400  # calls of an operation
UPKEEP = ("checkpoint", "checkpoint again", "clean-up", "manifests")
HIDDEN = "/.adelta-tmp-"
MAKES = frozenset({"create", "write", "fsync", "linkat", "renameat", "mkdirat", "ftruncate"})
OPENS = frozenset({"openat"})


class Faults:
    """One kind of fault: the n-th, and how many calls one goes on from one fault to the next."""

    def __init__(self, error: int, *names: str, step: int = 1, **how: bool) -> None:
        self.error = error
        self.names = frozenset(names)
        self.step = step
        self.how = how

    def at(self, number: int) -> Fault:
        return Fault(number * self.step, self.error, self.names, **self.how)


KINDS = {
    "a failing call": Faults(errno.EIO, step=cases(1, 17)),
    "a failure after the effect": Faults(errno.EIO, step=cases(1, 11), applied=True),
    "a failing disk": Faults(errno.EIO, lasting=True, step=cases(3, 23)),
    "a full disk": Faults(errno.ENOSPC, *MAKES, lasting=True, step=cases(1, 7)),
    "no descriptors": Faults(errno.EMFILE, *OPENS, lasting=True, step=cases(1, 7)),
    "a disk that becomes read-only": Faults(
        errno.EROFS, *MAKES, "unlinkat", lasting=True, step=cases(2, 9)
    ),
}


# Each of their requests fails elsewhere; some others are like the ones that stay.
LEFT_OUT = (
    ("restore", "vacuum")
    if DEEP
    else ("restore", "vacuum", "merge", "optimize", "overwrite", "update", "clone", "replace")
)
ONCE = ("a failing call", "a failure after the effect")
CASES = [
    (operation, kind)
    for operation in AFTER
    if operation not in LEFT_OUT
    for kind in KINDS
    if kind in ONCE or operation in ("create", "append", "clean-up")
]


@dataclass(frozen=True)
class Left:
    """What a case has left: the ids, how many commits it has made, and files that nobody needs."""

    ids: list[int] | None
    commits: int
    lost_files: frozenset[str]


class Checker:
    """Holds what is in a folder after an operation against what was said of it."""

    def __init__(self, operation: str, base: Image) -> None:
        self.operation = operation
        self.base = base
        self.before = before(operation) if operation != "create" else None
        self._seen: dict[int, Left] = {}

    async def check(self, folder: str, report: Report, fault: Fault) -> bool:
        """Whether the operation was done, after all."""
        assert report.expected
        assert not report.descriptors
        left = await self.look(folder)
        assert left.ids in (self.before, AFTER[self.operation])
        if report.unknown:
            assert report.committed_at is not None
            assert report.failed[-1] >= report.committed_at
        elif self.operation not in UPKEEP:
            assert left.ids == (self.before if report.error else AFTER[self.operation])
            assert left.commits == (not report.error)
        if not fault.lasting and not any("unlinkat" in report.calls[n] for n in report.failed):
            may_stay = report.unknown and left.commits == 0
            assert {f for f in left.lost_files if not may_stay or HIDDEN in f} == set()
        return left.ids != self.before

    async def look(self, folder: str) -> Left:
        """What is there; where it is whole, and the next writer succeeds."""
        image = Disk.of(folder).image()
        key = hash(frozenset(image.items()))
        if key not in self._seen:
            self._seen[key] = await self._look(folder, image)
        return self._seen[key]

    async def _look(self, folder: str, image: Image) -> Left:
        commits = {path: data for path, data in image.items() if is_commit(path) and data}
        made = len([path for path in commits if path not in self.base])
        log = b"".join(data for data in commits.values() if data)
        new = {path for path in image if path not in self.base}
        lost = {path for path in new if HIDDEN in path}
        lost |= {
            path
            for path in new
            if path.endswith(".parquet")
            and "/_delta_log/" not in path
            and os.path.basename(path).encode() not in log
        }
        assert not contradictions(Path(folder))
        async with Table(f"{folder}/table") as table:
            found = await ids(table) if commits else None
            await write_table(table, rows(99), partition_by=None if commits else ["p"])
            assert await ids(table) == [*(found or []), 99]
            report = await fsck(table)
            assert not report.problems, report.problems
        assert not contradictions(Path(folder))
        return Left(found, made, frozenset(lost))


@pytest.mark.parametrize(("operation", "kind"), CASES)
async def test_whatever_call_fails_the_table_is_whole_and_the_error_true(
    victims: Supervised, operation: str, kind: str
) -> None:
    faults = KINDS[kind]
    wrong: list[str] = []
    done: list[bool] = []
    with TemporaryDirectory(dir=memory_folder()) as root:
        os.mkdir(f"{root}/base")
        await put_objects(await base_of(operation), f"{root}/base/table", {})
        share_with_spark(Path(root, "base", "table"))
        base = Disk.of(f"{root}/base").image()
        checker = Checker(operation, base)
        for number in count():
            assert number < MOST
            folder = f"{root}/{number}"
            restore(base, folder)
            fault = faults.at(number)
            report = victims.run(Case(folder, [operation], fault))
            try:
                done.append(await checker.check(folder, report, fault))
            except Exception as error:
                failed = [report.calls[n] for n in report.failed[:3]]
                wrong.append(f"{number}: {failed}, {report.error} {report.message}: {error}")
            rmtree(folder)
            if not report.failed:
                break
    assert not wrong, "\n".join(wrong)
    assert kind != "a failing call" or not done[0]
    assert done[-1] is (AFTER[operation] != checker.before)
