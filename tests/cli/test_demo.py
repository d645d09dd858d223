"""The demo, whole, on little data: on the local disk and on S3."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta.sync
from tests.support.depth import DEEP
from tests.support.spark_startup import quick_spark

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.s3_server import S3Location


pytestmark = pytest.mark.timeout(1800)  # one process does much


def run_demo(folder: Path, lake: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "adelta", "demo", lake, "--scale", "0.001", *arguments],
        cwd=folder,
        env={name: value for name, value in quick_spark().items() if not name.startswith("AWS_")},
        capture_output=True,
        text=True,
        check=False,
        timeout=1700,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commits(out: str) -> dict[str, str]:
    """The commits of each table, by the summary."""
    rows = [line.split() for line in out.splitlines() if line.startswith("  bronze/")]
    return {row[0]: row[-1] for row in rows}


def test_the_demo_fills_a_lake_on_the_local_disk_that_was_filled_before(tmp_path: Path) -> None:
    earlier = tmp_path / "lake" / "bronze" / "lineitem"
    adelta.sync.write_table(earlier, pa.table({"of": ["another run"]}))
    out = run_demo(tmp_path, "lake")
    assert commits(out) == {"bronze/orders": "5", "bronze/lineitem": "5"}
    for said in (
        "1,500 orders, 6,005 lines of raw Parquet",
        "rows equal the same query's on the raw files",
        "the consumer met 5 commits of bronze/lineitem, each once and in order",
        " order lines of silver, and took out ",
        "one customer's order lines take",
        "files that no version needs",
        "bronze/lineitem version 5: STREAMING UPDATE added",  # 0 was there, 1 is empty
    ):
        assert said in out


if DEEP:  # a second run

    def test_the_demo_fills_a_lake_on_s3(tmp_path: Path, s3_location: S3Location) -> None:
        options = [f"--option={key}={value}" for key, value in s3_location.storage_options.items()]
        out = run_demo(tmp_path, f"{s3_location.uri}/lake", *options)
        assert "rows equal the same query's on the raw files" in out
        assert list(tmp_path.iterdir()) == []
