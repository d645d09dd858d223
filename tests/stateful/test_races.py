"""Several processes append to one table at once: every row is there, and once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.appender import race

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.s3_server import S3Location


async def test_processes_that_race_on_local_disk_lose_no_row_and_double_none(
    tmp_path: Path,
) -> None:
    result = await race(str(tmp_path / "table"), writers=8, commits=4)
    result.check([f"w{number}" for number in range(8)], 4)


async def test_processes_that_race_on_s3_lose_no_row_and_double_none(
    s3_location: S3Location,
) -> None:
    uri = f"{s3_location.uri}/race"
    result = await race(uri, writers=3, commits=4, options=s3_location.storage_options)
    result.check([f"w{number}" for number in range(3)], 4)
