"""A server that answers in JSON: what is asked again, and what may have been done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from adelta.errors import CommitOutcomeUnknownError, StorageError
from adelta.storage import json_http
from adelta.storage.json_http import JsonAnswer, JsonServer
from adelta.storage.retry import RetryPolicy
from tests.storage.scripted_server import Server, told
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_http, "_RETRY", RetryPolicy(max_retries=2, init_backoff=0.001))


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("failures", [2, 9])
async def test_a_question_is_asked_again_while_the_server_fails(status: int, failures: int) -> None:
    def answer(number: int, head: str) -> Iterator[bytes]:
        return told("{}", f"{status} Fault") if number < failures else told('{"a": 1}')

    async with Server(answer) as server:
        asked = JsonServer(server.endpoint)
        last = JsonAnswer(200, {"a": 1}) if failures == 2 else JsonAnswer(status, {})
        assert await asked.get("x") == last
        assert server.requests == 3
        await asked.aclose()


async def test_connections_are_closed_when_a_request_has_ended_with_all_its_attempts() -> None:
    async with Server(lambda *_: told("{}", "503 Busy")) as server:
        asked = JsonServer(server.endpoint)
        request = asyncio.ensure_future(asked.get("x"))
        await until(lambda: server.requests)
        await asked.aclose()
        await request
        assert server.requests == 3
        pool = asked._pool
    assert pool._bound is None


async def test_a_change_is_asked_for_once() -> None:
    async with Server(lambda *_: told("{}", "503 Busy")) as server:
        asked = JsonServer(server.endpoint)
        assert await asked.post("x", {}) == JsonAnswer(503, {})
        assert server.requests == 1
        await asked.aclose()


async def test_an_answer_without_end_is_given_up_at_once_and_the_change_may_have_been_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_http, "_LONGEST", 10)
    async with Server(lambda *_: told('{"a": "0123456789"}')) as server:
        asked = JsonServer(server.endpoint)
        with pytest.raises(StorageError, match="more than 10 bytes"):
            await asked.get("x")
        with pytest.raises(CommitOutcomeUnknownError, match="more than 10 bytes"):
            await asked.post("x", {})
        assert server.requests == 2
        await asked.aclose()


async def test_a_server_that_is_not_there_got_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_http, "_UNREACHED", RetryPolicy(max_retries=2))
    asked = JsonServer("http://127.0.0.1:9")
    for request in (asked.get("x"), asked.post("x", {})):
        with pytest.raises(StorageError, match="cannot be reached") as raised:
            await request
        assert not isinstance(raised.value, CommitOutcomeUnknownError)
    await asked.aclose()
