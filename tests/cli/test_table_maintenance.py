"""`adelta vacuum`, `restore`, `clone` and `drop`, over tables on the local disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import orjson

import adelta.sync

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run


def test_files_that_nothing_needs_are_shown_and_deleted(run: Run, trips: Path) -> None:
    orphan = trips / "orphan.parquet"
    orphan.write_bytes(b"12")
    os.utime(orphan, (1, 1))
    status, out, _ = run("vacuum", trips, "--dry-run")
    assert (status, "orphan.parquet" in out, "Would delete 1 file of 2 B" in out) == (0, True, True)
    told = orjson.loads(run("vacuum", trips, "--dry-run", "--json")[1])
    assert (told["files"], told["numFilesToDelete"]) == (["orphan.parquet"], 1)
    status, _, err = run("vacuum", trips, "--retention", "1 hour")
    assert (status, "enforce" in err) == (2, True)
    assert "Deleted 0 files" in run("vacuum", trips, "--lite")[1]
    assert "Deleted 1 file of 2 B" in run("vacuum", trips)[1]
    assert not orphan.exists()
    assert run("read", trips)[0] == 0


def test_a_version_is_restored(run: Run, trips: Path) -> None:
    assert "Would restore version 1" in run("restore", trips, "--version", "1", "--dry-run")[1]
    told = orjson.loads(run("restore", trips, "--version", "1", "--json")[1])
    assert (told["version"], told["restoredVersion"]) == (3, 1)
    assert run("restore", trips)[0] == 2
    assert run("restore", trips, "--version", "9")[0] == 1


def test_a_table_is_cloned_and_dropped(run: Run, trips: Path, tmp_path: Path) -> None:
    deep, shallow = tmp_path / "deep", tmp_path / "shallow"
    assert "Would clone version 2, 4 files" in run("clone", trips, deep, "--dry-run")[1]
    assert "copied 4 files" in run("clone", trips, deep)[1]
    assert run("clone", trips, deep)[0] == 1
    assert "copied 0 files" in run("clone", trips, deep, "--replace")[1]
    assert "allowed_roots=" in run("clone", trips, shallow, "--shallow")[1]
    assert run("read", deep)[1] == run("read", trips)[1]
    assert run("read", shallow, "--option", f"allowed_roots={trips}")[0] == 0
    assert "Would delete" in run("drop", deep, "--dry-run")[1]
    assert run("drop", deep)[0] == 0
    assert run("drop", deep)[0] == 1
    assert run("read", trips)[0] == 0


def test_commands_take_what_the_operations_do(run: Run, trips: Path, tmp_path: Path) -> None:
    properties = {"delta.enableInCommitTimestamps": "true"}
    adelta.sync.set_properties(str(trips), properties)
    clone = tmp_path / "clone"
    assert (
        run("clone", trips, clone, "--property", "delta.appendOnly=true", "--property", "a=b")[0]
        == 0
    )
    with adelta.sync.open_table(str(clone)) as table:
        assert table.snapshot().properties.items() >= {"delta.appendOnly": "true", "a": "b"}.items()
    lowered = ("restore", trips, "--version", "2", "--allow-protocol-downgrade")
    assert run(*lowered)[0] == 0
    with adelta.sync.open_table(str(trips)) as table:
        assert table.snapshot().protocol.writer_features is None
    told = orjson.loads(run("optimize", trips, "--max-commit-interval", "0 seconds", "--json")[1])
    assert told["numFilesRemoved"] == 2
    everything = ("vacuum", trips, "--retention", "0 hours", "--no-enforce-retention")
    dry = (*everything, "--dry-run", "--json")
    assert orjson.loads(run(*dry)[1])["numFilesToDelete"] == 2
    assert orjson.loads(run(*dry, "--keep-version", "2", "--keep-version", "1")[1])["files"] == []
