"""A commit whose answer is lost between the owner and its client is neither lost nor made twice."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
from aiohttp import web

import adelta
from adelta.commit.choose import owned_of
from adelta.commit.owner_client import AdeltaOwnerClient
from adelta.errors import CommitOutcomeUnknownError, StorageError
from adelta.write import commit_loop
from tests.owner.test_several_tables import files, ids
from tests.support.owned_lake import SCHEMA, lake_of, owned_by, rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    import pytest


class Gateway:
    """What stands before an owner, and answers the next commit, which it passes on, by itself."""

    def __init__(self, endpoint: str) -> None:
        self.before = endpoint
        self.endpoint = ""
        self.answer: tuple[int, object] | None = None

    async def handle(self, request: web.Request) -> web.Response:
        headers = {"Authorization": request.headers["Authorization"]}
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method,
                self.before + request.path_qs,
                data=await request.read(),
                headers=headers,
            ) as response,
        ):
            status, body = response.status, await response.read()
        if self.answer is not None and request.path.endswith("/commit"):
            (status, said), self.answer = self.answer, None
            body = orjson.dumps(said)
        return web.Response(status=status, body=body, content_type="application/json")


@asynccontextmanager
async def gateway_to(endpoint: str) -> AsyncIterator[Gateway]:
    gateway, app = Gateway(endpoint), web.Application()
    app.router.add_route("*", "/{rest:.*}", gateway.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        gateway.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield gateway
    finally:
        await runner.cleanup()


async def test_what_something_between_says_in_the_owners_place_is_no_answer(tmp_path: Path) -> None:
    said = [
        (504, {"error": {"type": "GatewayTimeout", "message": "upstream"}}),
        (500, {"error": {"type": "InternalServerError"}}),
        (502, {}),
        (408, {"error": "timeout"}),
        (499, {}),
        (200, {"ratified": True, "latest": {"latest_version": "a"}}),
        (200, {"ok": True}),
    ]
    async with lake_of(tmp_path) as lake, gateway_to(lake.owner.endpoint) as gateway:
        options = {**lake.options, "adelta_owner_endpoint": gateway.endpoint}
        async with await adelta.create_table(
            tmp_path / "orders",
            SCHEMA,
            properties=owned_by(gateway.endpoint),
            storage_options=options,
        ) as table:
            for number, answer in enumerate(said, start=1):
                gateway.answer = answer
                assert (await adelta.write_table(table, rows(number))).version == number, answer
        async with adelta.open_table(tmp_path / "orders", options) as other:
            assert await ids(other) == [*range(1, len(said) + 1)]


async def test_a_long_commit_that_the_owner_has_staged_is_known_as_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted, lost = AdeltaOwnerClient.posted, ["commit-together"]

    async def lose(
        self: AdeltaOwnerClient, path: str, body: Mapping[str, Any], **how: Any
    ) -> Mapping[str, Any]:
        answer = await posted(self, path, body, **how)
        if path in lost:
            lost.clear()
            raise CommitOutcomeUnknownError("the answer got lost")
        return answer

    async def refused(*_: object, **__: object) -> None:
        raise StorageError("the winners cannot be read")

    monkeypatch.setattr(AdeltaOwnerClient, "posted", lose)
    monkeypatch.setattr(commit_loop, "read_winners", refused)
    async with lake_of(tmp_path) as lake:
        tables = await lake.make("orders", "stock")
        note = "x" * 300_000  # more than an owner keeps in its database
        async with adelta.transaction_over(*tables, user_metadata=note) as parts:
            for part in parts:
                await part.append(rows(1))
        assert not lost
        assert [part.version for part in parts] == [1, 1]
        for name in ("orders", "stock"):
            assert await ids(lake.table(name)) == [1]
            assert len(files(tmp_path / name)) == 1


async def test_what_is_committed_during_a_backfill_is_not_taken_for_backfilled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lake_of(tmp_path, sweep_seconds=1000.0) as lake:
        (table,) = await lake.make("orders")
        await adelta.write_table(table, rows(1))
        backfilled = AdeltaOwnerClient.backfill_to_version

        async def and_another(self: AdeltaOwnerClient, version: int | None = None) -> None:
            await backfilled(self, version)
            backfiller = lake.owner.service.parts.backfiller
            monkeypatch.setattr(backfiller, "wake", lambda *_, **__: None)
            await adelta.write_table(table, rows(2))

        with monkeypatch.context() as patch:
            patch.setattr(AdeltaOwnerClient, "backfill_to_version", and_another)
            await adelta.checkpoint(table)
        assert [*lake.owner.log("orders")] == [0, 1]
        owned = owned_of(table.store)
        assert owned is not None
        assert owned.log.published == 1
        assert [commit.version async for commit in _listed(table)] == [0, 1, 2]


async def _listed(table: adelta.Table) -> AsyncIterator[Any]:
    async for commit in adelta.tail(table, 0):
        yield commit
        if commit.version == 2:
            return
