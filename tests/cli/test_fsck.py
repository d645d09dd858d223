"""`adelta fsck`, over tables on the local disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from tests.support.hadoop_checksums import sums

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run


@pytest.fixture
def broken(trips: Path) -> Path:
    """The trips without their last file."""
    (gone,) = trips.glob("city=Rome/*.parquet")
    gone.unlink()
    return trips


def test_a_sound_table_is_status_0(run: Run, trips: Path) -> None:
    status, out, err = run("fsck", trips)
    assert (status, err) == (0, "")
    assert "3 commits" in out
    assert "4 files" in out
    assert "0 problems" in out


def test_a_missing_file_is_shown_and_status_1(run: Run, broken: Path) -> None:
    status, out, err = run("fsck", broken)
    assert status == 1
    assert "missing file" in out
    assert "city=Rome" in out
    assert "--repair" in err
    assert len(err.splitlines()) == 1


def test_a_program_is_told_the_same(run: Run, broken: Path) -> None:
    status, out, _ = run("fsck", broken, "--json")
    report = orjson.loads(out)
    assert status == 1
    assert (report["numFiles"], report["repairedVersion"]) == (4, None)
    assert [problem["kind"] for problem in report["problems"]] == ["missing file"]


def test_a_repair_takes_the_file_out_of_the_table(run: Run, broken: Path) -> None:
    status, out, _ = run("fsck", broken, "--repair")
    assert status == 0
    assert "Version 3 takes 1 missing file out of the table" in out
    assert run("fsck", broken)[0] == 0
    assert len(run("read", broken, "--json")[1].splitlines()) == 3


def test_a_deep_check_says_how_many_pages_it_has_read(run: Run, trips: Path) -> None:
    status, out, _ = run("fsck", trips, "--deep")
    assert status == 0
    assert "0 of them have no checksum" in out
    report = orjson.loads(run("fsck", trips, "--deep", "--json")[1])
    assert report["numPages"] > 0
    assert report["numPagesUnchecked"] == 0


def test_a_deep_check_names_the_file_with_a_damaged_page(run: Run, trips: Path) -> None:
    (damaged,) = trips.glob("city=Rome/*.parquet")
    data = bytearray(damaged.read_bytes())
    data[30] ^= 1
    damaged.write_bytes(data)
    assert run("fsck", trips)[0] == 0
    status, out, _ = run("fsck", trips, "--deep", "--json")
    assert status == 1
    (problem,) = orjson.loads(out)["problems"]
    assert problem["kind"] == "file"
    assert damaged.name in problem["path"]


def test_an_outdated_checksum_of_hadoops_is_shown_and_deleted_by_a_repair(
    run: Run, trips: Path
) -> None:
    log = trips / "_delta_log"
    (log / ".00000000000000000000.json.crc").write_bytes(sums(b"an earlier version"))
    status, out, err = run("fsck", trips)
    assert status == 1
    assert "hadoop checksum" in out
    assert "--repair deletes outdated checksum files" in err
    status, out, _ = run("fsck", trips, "--repair")
    assert status == 0
    assert "Deleted 1 outdated checksum file." in out
    assert orjson.loads(run("fsck", trips, "--json")[1])["deletedChecksums"] == []
    assert not list(log.glob(".*.json.crc"))


def test_a_repair_is_not_advised_for_the_checksum_of_a_data_file(run: Run, trips: Path) -> None:
    (data,) = trips.glob("city=Rome/*.parquet")
    hidden = data.with_name(f".{data.name}.crc")
    hidden.write_bytes(sums(b"other bytes"))
    status, out, err = run("fsck", trips, "--deep")
    assert status == 1
    assert "one of the two is damaged" in out
    assert "--repair" not in err
    assert run("fsck", trips, "--deep", "--repair")[0] == 1
    assert hidden.exists()
