"""The loop that makes requests again, run over attempts that end as a test says."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from adelta.errors import PermissionDeniedError, StorageError
from adelta.storage.request_runner import Ended, run_request
from adelta.storage.retry import Outcome, RetryPolicy
from tests.storage.scripted_server import Server, told

TIME = "Wed, 01 Jan 2020 00:00:00 GMT"
QUICK = RetryPolicy(max_retries=2, init_backoff=0.001, max_backoff=0.001)
BUSY = Outcome("busy", transient=True)
LOST = Outcome("lost", transient=True, maybe_applied=True)
EXPIRED = Outcome("expired", expired=True)
ELSEWHERE = Outcome("elsewhere", region="eu-north-1")
OTHERWISE = Outcome("not so", otherwise=True)


class Story:
    """Attempts that end one after the other as told, and what was done in between."""

    def __init__(self, *outcomes: Outcome | StorageError | None, renewable: bool = True) -> None:
        self.left = list(outcomes)
        self.renewable = renewable
        self.done: list[str] = []

    async def attempt(self) -> tuple[Outcome | None, int]:
        self.done.append("attempt")
        outcome = self.left.pop(0)
        if isinstance(outcome, StorageError):
            raise outcome
        return outcome, len(self.left)

    async def renew(self) -> bool:
        self.done.append("renew")
        return self.renewable

    def move(self, region: str) -> None:
        self.done.append(region)

    async def run(self) -> Ended[int]:
        return await run_request(
            self.attempt, QUICK, name="a test", renew=self.renew, move=self.move
        )


@pytest.mark.parametrize(
    ("outcomes", "attempts", "repeated"),
    [
        ([None], 1, False),
        ([Outcome("refused")], 1, False),
        ([BUSY, None], 2, False),
        ([BUSY] * 3, 3, False),
        ([LOST, None], 2, True),
        ([LOST, BUSY, Outcome("refused")], 3, True),
        ([Outcome("lost for good", maybe_applied=True)], 1, False),
        ([OTHERWISE, BUSY, OTHERWISE, BUSY, None], 5, False),
        ([OTHERWISE] * 3, 3, False),  # it ends, whatever is said
    ],
)
async def test_how_often_a_request_is_made_and_whether_that_leaves_a_doubt(
    outcomes: list[Outcome | None], attempts: int, repeated: bool
) -> None:
    story = Story(*outcomes)
    assert await story.run() == Ended(0, attempts, repeated)
    assert story.done == ["attempt"] * attempts


async def test_credentials_are_renewed_once_and_the_region_is_changed_once() -> None:
    story = Story(EXPIRED, ELSEWHERE, EXPIRED)
    assert (await story.run()).attempts == 3
    assert story.done == ["attempt", "renew", "attempt", "eu-north-1", "attempt"]
    story = Story(ELSEWHERE, ELSEWHERE)
    assert (await story.run()).attempts == 2


async def test_without_newer_credentials_the_outcome_stands() -> None:
    story = Story(EXPIRED, renewable=False)
    assert (await story.run()).attempts == 1
    assert story.done == ["attempt", "renew"]
    story = Story(EXPIRED)
    assert (await run_request(story.attempt, QUICK, name="a test")).attempts == 1


async def test_what_cannot_go_on_is_no_error_where_an_attempt_may_have_taken_effect() -> None:
    refused = PermissionDeniedError("no token")
    assert await Story(LOST, refused).run() == Ended(1, 1, repeated=True, stopped=refused)
    with pytest.raises(PermissionDeniedError, match="no token"):
        await Story(BUSY, refused).run()


async def test_the_log_tells_what_is_tried_again_and_why(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "adelta.storage")
    story = Story(Outcome("it was throttled", transient=True), None)
    await story.run()
    (record,) = caplog.records
    assert re.fullmatch(r"a test: again in 0\.\d+ s, because it was throttled", record.getMessage())


async def test_requests_that_are_under_way_together_all_follow_the_bucket_to_its_region() -> None:
    together = asyncio.Event()

    class Elsewhere(Server):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            if self.requests == 4:
                together.set()
            await together.wait()
            moved = b"/eu-west-1/s3/" in head
            wrong = "x-amz-bucket-region: eu-west-1\r\nconnection: close\r\n"
            right = f"connection: close\r\nlast-modified: {TIME}\r\n"
            answer = told("", "200 OK", right) if moved else told("", "400 Bad", wrong)
            writer.write(b"".join(answer))
            writer.close()

    async with Elsewhere(lambda *_: told("")) as server:
        store = server.store(
            aws_skip_signature="false", aws_access_key_id="a", aws_secret_access_key="b"
        )
        await asyncio.gather(*(store.head(str(number)) for number in range(4)))
        assert server.requests == 8
        await store.head("4")
        assert server.requests == 9
        await store.aclose()
