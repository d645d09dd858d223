"""Writers and a reader of one table on S3, and between them and the store one kind of fault.

Afterwards the history is that of one table changed step by step: what was acknowledged is there,
once, nothing is there of what was said to have failed, and nobody has read what never was. The
follower of the log has seen each commit once. Every operation has ended in time, in success or in
an error of adelta's own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from adelta.changes import tail
from adelta.errors import AdeltaError
from adelta.operations import create_table
from adelta.table import Table, open_table
from tests.storage.faulty_proxy import FaultyProxy
from tests.support.depth import cases
from tests.support.linearizability import History, violations
from tests.support.network_faults import LOSES_PATIENCE, NETWORK_FAULTS, NetworkFault, Weather
from tests.support.workload import SCHEMA, Worker

if TYPE_CHECKING:
    from tests.support.s3_server import S3Location

WRITERS = 4
COMMITS = 3  # of each
FLIPPED = "a flipped bit in a put"  # which a store notices that holds bodies to their checksums
LONGEST = 20.0  # seconds of an operation
IMPATIENT = {
    "aws_read_timeout": f"{LOSES_PATIENCE} s",
    "aws_max_retries": "3",
    "aws_init_backoff": "10 ms",
    "aws_max_backoff": "100 ms",
}


class Follower:
    """Follows the log, and begins again behind the last commit where it fails."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        self.uri = uri
        self.options = options
        self.seen: list[int] = []

    async def follow(self) -> None:
        while True:
            try:
                async for commit in tail(
                    self.uri, len(self.seen), poll=0.1, storage_options=self.options
                ):
                    self.seen.append(commit.version)
            except AdeltaError:
                await asyncio.sleep(0.02)

    async def reach(self, version: int) -> None:
        while not self.seen or self.seen[-1] < version:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.02)


async def live_through(location: S3Location, faults: list[NetworkFault]) -> Weather:
    uri, options = f"{location.uri}/table", location.storage_options
    await (await create_table(uri, SCHEMA, partition_by=["p"], storage_options=options)).aclose()
    said: list[dict[str, Any]] = []
    weather = Weather(faults)
    async with (
        FaultyProxy(location.server.endpoint) as proxy,
        open_table(uri, storage_options=options) as table,
    ):
        proxy.choose = weather
        broken = {**options, **IMPATIENT, "aws_endpoint_url": proxy.endpoint}
        follower = Follower(uri, broken)

        async def write(number: int) -> None:
            async with Table(uri, broken) as own:
                await Worker(own, f"w{number}", number + 1, COMMITS, said.append).work()

        async with anyio.create_task_group() as following:
            following.start_soon(follower.follow)
            with anyio.fail_after(90):
                async with anyio.create_task_group() as writing:
                    for number in range(WRITERS):
                        writing.start_soon(write, number)
            proxy.choose = lambda _method, _target: None
            last = (await table.snapshot()).version
            with anyio.fail_after(60):
                await follower.reach(last)
            following.cancel_scope.cancel()
        history = History(said, aged=any(fault.ages for fault in faults))
        assert await violations(table, history) == []
    assert follower.seen == list(range(last + 1))
    assert max(each["ended"] - each["begun"] for each in said if "ended" in each) < LONGEST
    assert sum(each["outcome"] == "committed" for each in history.operations) == WRITERS * COMMITS
    return weather


@pytest.mark.parametrize("fault", list(NETWORK_FAULTS)[:: cases(1, 2)])
async def test_commits_are_neither_lost_nor_doubled_nor_misreported(
    s3_location: S3Location, fault: str
) -> None:
    if fault == FLIPPED:
        s3_location.server.skip_moto("holds nothing to its checksum")
    weather = await live_through(s3_location, [NETWORK_FAULTS[fault]])
    assert weather.met


async def test_nor_are_they_where_everything_goes_wrong(s3_location: S3Location) -> None:
    unchecked = {FLIPPED} if s3_location.server.kind == "moto" else set()
    faults = [
        fault for name, fault in NETWORK_FAULTS.items() if name not in unchecked and not fault.ages
    ]
    weather = await live_through(s3_location, faults)
    assert weather.met > 8  # about 25; with one kind of weather one is enough
