"""A1-18: with coordination instead of put-if-absent, many processes still change one table.

The workload and its checker are those of ``tests/stateful``, on a store without conditional puts.
"""

from __future__ import annotations

import os
import random
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from adelta.errors import ChecksumMismatchError
from adelta.operations import create_table
from adelta.table import open_table
from tests.stateful.test_linearizability import check, run
from tests.storage.faulty_proxy import Fate, FaultyProxy
from tests.support.depth import cases
from tests.support.linearizability import violations
from tests.support.workload import SCHEMA

if TYPE_CHECKING:
    from tests.support.s3_server import S3Location

COMMITS = int(os.environ.get("ADELTA_TEST_COMMITS", cases(24, 12)))
RESETS = 0.03  # of all requests to S3 and DynamoDB
WITHOUT_PUT = {"aws_conditional_put": "disabled"}

pytestmark = pytest.mark.timeout(600 if COMMITS < 100 else 24 * 3600)


@pytest.mark.parametrize("lock", ["dynamo_server", "postgres_server"])
async def test_with_coordination_changes_are_linearizable_though_connections_break(
    s3_location: S3Location, lock: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(lock)
    said = server.storage_options
    locked = said if isinstance(said, dict) else said()
    uri, options = f"{s3_location.uri}/table", {**s3_location.storage_options, **WITHOUT_PUT}
    options |= locked
    await (await create_table(uri, SCHEMA, partition_by=["p"], storage_options=options)).aclose()
    chance = random.Random(7)
    fates = [Fate.cut_before(), Fate.cut_after(), Fate.cut_inside()]

    def choose(_method: str, _target: str) -> Fate | None:
        return chance.choice(fates) if chance.random() < RESETS else None

    async with AsyncExitStack() as stack:
        broken = dict(options)
        for key in ("aws_endpoint_url", "aws_endpoint_url_dynamodb"):
            if key in options:
                proxy = await stack.enter_async_context(FaultyProxy(options[key]))
                proxy.choose = choose
                broken[key] = proxy.endpoint
        history = await run(uri, COMMITS, broken)
    await check(uri, options, history, COMMITS)


async def test_without_coordination_they_are_not(s3_location: S3Location) -> None:
    """The negative control."""
    uri = f"{s3_location.uri}/table"
    options = {**s3_location.storage_options, **WITHOUT_PUT, "unsafe_single_writer": "true"}
    await (await create_table(uri, SCHEMA, partition_by=["p"], storage_options=options)).aclose()
    history = await run(uri, 40, options)
    try:
        async with open_table(uri, options) as table:
            found = await violations(table, history)
    except ChecksumMismatchError:  # overwritten commits may also disagree with their checksums
        return
    assert any("is not in the log at its version" in each for each in found)
