"""The power fails after each system call of a table's life on local disk; unsynced data is lost.

Whatever the disk has kept of it: every commit that was acknowledged is there with its rows, none is
there by half, the table and its files are whole, and the next writer succeeds. Where Spark has
written the table before, it can read every file: none is beside the checksum of another.
"""

from __future__ import annotations

import os
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from adelta.errors import TableNotFoundError
from adelta.operations import fsck, write_table
from adelta.table import Table
from tests.support.depth import cases
from tests.support.disk import Disk, memory_folder, restore
from tests.support.hadoop_checksums import contradictions_in, share_with_spark
from tests.support.supervised import Case
from tests.support.victim import OPERATIONS, base_of, ids, put_objects, rows

if TYPE_CHECKING:
    from tests.support.supervised import Supervised

LIVES: dict[str, list[tuple[str, list[int]]]] = {  # operations, and the ids after each
    "a new table": [("create", []), ("append", [5, 6]), ("overwrite", [7])],
    "an old table": [
        ("", [1, 2, 3, 4]),
        ("append", [1, 2, 3, 4, 5, 6]),
        ("delete", [2, 3, 4, 5, 6]),
        ("update", [3, 4, 5, 6, 12]),
        ("checkpoint", [3, 4, 5, 6, 12]),
        ("clean-up", [3, 4, 5, 6, 12]),
        ("overwrite", [7]),
        ("append", [5, 6, 7]),
    ],
    "a table shared with Spark": [
        ("", [1, 2, 3, 4, 5, 6]),
        ("checkpoint again", [1, 2, 3, 4, 5, 6]),
        ("manifests", [1, 2, 3, 4, 5, 6]),
        ("delete", [2, 3, 4, 5, 6]),
        ("manifests", [2, 3, 4, 5, 6]),
        ("checkpoint", [2, 3, 4, 5, 6]),
        ("clean-up", [2, 3, 4, 5, 6]),
        ("vacuum", [2, 3, 4, 5, 6]),
    ],
}


async def fault_of(folder: str, expected: list[list[int] | None], *, cleaned: bool) -> str:
    """What is wrong with the table that is left; empty where nothing is."""
    async with Table(f"{folder}/table") as table:
        try:
            found = await ids(table)
        except TableNotFoundError:
            found = None
        if found not in expected:
            return f"it has {found}"
        await write_table(table, rows(99), partition_by=None if found is not None else ["p"])
        if await ids(table) != [*(found or []), 99]:
            return "the next append is not there"
        problems = (await fsck(table)).problems
        if cleaned and {problem.kind for problem in problems} == {"missing commit"}:
            await OPERATIONS["clean-up"](table)  # only some of what it had deleted is gone
            problems = (await fsck(table)).problems
        return f"{problems}" if problems else ""


@pytest.mark.parametrize("life", LIVES)
async def test_what_was_acknowledged_outlives_a_loss_of_power(
    victims: Supervised, life: str
) -> None:
    operations = [operation for operation, _ in LIVES[life] if operation]
    known: list[list[int] | None] = [found for _, found in LIVES[life]]
    if len(known) == len(operations):
        known.insert(0, None)
    seen: set[int] = set()
    wrong: list[str] = []
    with TemporaryDirectory(dir=memory_folder()) as root:
        folder, left = f"{root}/life", f"{root}/left"
        os.mkdir(folder)
        shared = life == "a table shared with Spark"
        base = await base_of("checkpoint again" if shared else "append" if known[0] else "create")
        await put_objects(base, f"{folder}/table", {})
        if shared:
            share_with_spark(Path(folder, "table"))
        disk = Disk.of(folder)
        report = victims.run(Case(folder, operations, journal=True))
        assert report.error == ""
        ended = 0
        for number, change in enumerate(report.journal):
            if change.kind == "ended":
                ended += 1
            disk.apply(change)
            for what, image in disk.images():
                key = hash((ended, frozenset(image.items())))
                if key in seen:
                    continue
                seen.add(key)
                if refused := contradictions_in(image):
                    wrong.append(f"{number}: {change.path}, {what}: Spark cannot read {refused}")
                if len(seen) % cases(1, 3):
                    continue
                restore(image, left)
                cleaned = "clean-up" in operations[: ended + 1]
                try:
                    fault = await fault_of(left, known[ended : ended + 2], cleaned=cleaned)
                except Exception as error:
                    fault = repr(error)
                if fault:
                    done = f"{number}: {change.kind} {change.path.removeprefix(folder)}"
                    wrong.append(f"{done} {change.other.removeprefix(folder)}, {what}: {fault}")
                rmtree(left)
        assert disk.image() == Disk.of(folder).image()
    assert not wrong, "\n".join(wrong)
    assert ended == len(operations)
    assert len(seen) > len(report.journal)
