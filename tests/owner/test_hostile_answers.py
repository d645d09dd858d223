"""What a client makes of an owner that answers anything at all: an error, and never harm."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

import adelta
from adelta.commit.owner import ManagedTable, RatifiedCommits
from adelta.commit.owner_client import AdeltaOwner, AdeltaOwnerClient
from adelta.commit.owner_wire import ratified_from
from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidTableError,
    StorageError,
)
from tests.support.owned_lake import lake_of, rows
from tests.support.owners import proposal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from adelta.commit.owner import ProposedCommit


@dataclass
class Liar:
    """A server that answers every request alike."""

    body: bytes = b"{}"
    endpoint: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=self.body, content_type="application/json")


@asynccontextmanager
async def liar() -> AsyncIterator[tuple[Liar, AdeltaOwnerClient]]:
    lies, app = Liar(), web.Application()
    app.router.add_route("*", "/{rest:.*}", lies.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    lies.endpoint = f"http://{host}:{port}"
    client = AdeltaOwnerClient(ManagedTable("file:///lake/orders", "id"), lies.endpoint, "token")
    try:
        yield lies, client
    finally:
        await client.aclose()
        await runner.cleanup()


TOLD = [
    b"null",
    b"[]",
    b"no JSON",
    b"{}",
    b'{"latest_version":"3","commits":[]}',
    b'{"latest_version":true,"commits":[]}',
    b'{"latest_version":1.5,"commits":[]}',
    b'{"latest_version":1e300,"commits":[]}',
    b'{"latest_version":-2,"commits":[]}',
    b'{"latest_version":9223372036854775808,"commits":[]}',
    b'{"latest_version":3,"commits":{}}',
    b'{"latest_version":3,"commits":[3]}',
    b'{"latest_version":3,"commits":null}',
    b'{"latest_version":3,"commits":[{"version":3,"size":1,"content":{"a":1}}]}',
    b'{"latest_version":3,"commits":[{"version":3,"size":1,"content":7}]}',
    b'{"latest_version":3,"commits":[{"version":3,"size":-1,"content":"{}"}]}',
    b'{"latest_version":3,"commits":[{"version":3,"size":"1","content":"{}"}]}',
    b'{"latest_version":3,"commits":[{"version":"3","size":1,"content":"{}"}]}',
    b'{"latest_version":3,"commits":[{"version":3,"size":1}]}',
    b'{"latest_version":3,"commits":[{"version":3,"size":1,"staged_file":3}]}',
    b'{"latest_version":3,"commits":[{"version":3,"size":1,"staged_file":"../../x.json"}]}',
    b'{"latest_version":2,"commits":[{"version":3,"size":1,"content":"{}"}]}',
]


async def test_what_is_no_answer_is_an_error_that_says_so() -> None:
    async with liar() as (lies, client):
        for body in TOLD:
            lies.body = body
            with pytest.raises((InvalidTableError, StorageError)):
                await client.get_commits()
            with pytest.raises((InvalidTableError, StorageError)):
                await AdeltaOwner(lies.endpoint, "token").get_commits_together([(client, None)])
            lies.body = b'{"ratified":false,"latest":' + body + b"}"
            if body != b"null":  # then it does not say to what the commit has lost
                with pytest.raises(CommitOutcomeUnknownError):
                    await client.commit(proposal(3, "x"))
            lies.body = b'{"answers":[' + body + b"]}"
            both: list[tuple[AdeltaOwnerClient, ProposedCommit]] = [(client, proposal(3, "x"))]
            with pytest.raises(CommitOutcomeUnknownError):
                await client.owner.commit_together(both)


@pytest.mark.parametrize("told", [b"2", b'"9"', b"true", b"7.5", b"[]", b"1e300"])
async def test_nobody_is_woken_by_a_version_that_is_none(told: bytes) -> None:
    async with liar() as (lies, client):
        lies.body = b'{"latest_version":' + told + b"}"
        with pytest.raises(StorageError, match="does not answer as a commit owner"):
            await client.wait_for_commit(2, 5.0)


def test_what_owners_tell_is_taken_as_it_is() -> None:
    one = {"version": 3, "size": 2, "content": "{}"}
    told = ratified_from({"latest_version": 3, "commits": [one]})
    assert told.commits[0].content == b"{}"
    assert ratified_from({"latest_version": -1, "commits": []}) == RatifiedCommits(-1)


async def test_as_many_commits_as_an_owner_makes_believe_are_not_read_ahead(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        (table,) = await lake.make("orders")
        await table.snapshot()
        await adelta.write_table(lake.table("orders"), rows(1))
        owned = table.store.owned  # type: ignore[attr-defined]
        owned.log.learn(RatifiedCommits(10**15), None)
        assert (await adelta.write_table(table, rows(2))).version == 2
