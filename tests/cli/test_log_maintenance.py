"""`adelta checkpoint`, `compact-log` and `cleanup-log`, over tables on the local disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run


def log(table: Path) -> list[str]:
    return sorted(path.name for path in (table / "_delta_log").iterdir())


def test_a_checkpoint_is_written(run: Run, trips: Path) -> None:
    status, out, err = run("checkpoint", trips)
    assert (status, err) == (0, "")
    assert "Version 2: wrote a checkpoint of 4 files, 6 actions in" in out
    assert f"{2:020d}.checkpoint.parquet" in log(trips)
    told = orjson.loads(run("checkpoint", trips, "--json")[1])
    assert (told["version"], told["numFiles"]) == (2, 4)


def test_the_log_is_compacted(run: Run, trips: Path) -> None:
    status, out, _ = run("compact-log", trips)
    assert status == 0
    assert "Compacted 3 commits, versions 0 to 2, into" in out
    assert f"{0:020d}.{2:020d}.compacted.json" in log(trips)
    assert run("compact-log", trips, "--start", "2", "--end", "2")[0] == 2
    run("checkpoint", trips)
    assert "nothing to compact" in run("compact-log", trips)[1]


def test_expired_history_is_deleted_and_shown_before(run: Run, trips: Path) -> None:
    run("checkpoint", trips)
    for day, path in enumerate(sorted((trips / "_delta_log").iterdir())):
        os.utime(path, (1_600_000_000 + 86_400 * day,) * 2)
    status, out, _ = run("cleanup-log", trips, "--dry-run")
    assert status == 0
    assert f"{0:020d}.json" in out
    assert f"{0:020d}.json" in log(trips)
    status, out, _ = run("cleanup-log", trips, "--retention", "1 day")
    assert status == 0
    assert "History begins with" in out
    assert f"{2:020d}.json" in log(trips)
    assert run("read", trips)[0] == 0


def test_a_retention_that_is_none_is_bad_usage(run: Run, trips: Path) -> None:
    status, _, err = run("cleanup-log", trips, "--retention", "soon")
    assert status == 2
    assert "interval" in err


def test_small_files_become_large_ones(run: Run, trips: Path) -> None:
    status, out, err = run("optimize", trips, "--dry-run")
    assert (status, err) == (0, "")
    assert "Would write 2 files of" in out
    told = orjson.loads(run("optimize", trips, "--json")[1])
    assert (told["numFilesRemoved"], told["filesRemoved"]["totalFiles"]) == (2, 2)
    assert "Nothing to do" in run("optimize", trips)[1]
    assert run("optimize", trips, "--where", "nonsense = 1")[0] != 0


def test_nothing_is_purged_where_nothing_is_gone(run: Run, trips: Path) -> None:
    assert "Nothing to do" in run("reorg", trips)[1]
    assert orjson.loads(run("reorg", trips, "--dry-run", "--json")[1])["dryRun"] is True
