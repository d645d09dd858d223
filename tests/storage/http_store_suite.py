"""What every store behind HTTP does where requests fail, beyond what S3's own tests show of it.

A test class of an adapter derives from `HttpStoreSuite` and has async fixtures: `store`, `proxy`
before its server, and `shaky`, a store through that proxy that tries three times again, at once.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

from adelta.errors import (
    CommitOutcomeUnknownError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
    ThrottledError,
)
from adelta.storage.pin import Pin, pinned
from tests.storage.faulty_proxy import Exchange, Fate, FaultyProxy
from tests.storage.object_store_suite import paths_of

if TYPE_CHECKING:
    from adelta.storage.http_store import HttpObjectStore

__all__ = ["LOST", "PASSES", "SHAKY", "HttpStoreSuite"]

SHAKY = {"max_retries": "3", "init_backoff": "1ms", "max_backoff": "2ms", "read_timeout": "60s"}
PASSES = [
    Fate.answer(503),
    Fate.answer(429),
    Fate.answer(500),
    Fate.cut_before(),
    Fate.cut_after(),
    Fate.cut_inside(),
]
LOST = [
    Fate.cut_after(),
    Fate.cut_inside(),
    Fate.answer(500, applied=True),
    Fate.answer(503, applied=True),
]


class HttpStoreSuite:
    makes_objects_by = ""
    """What the address of the request has by which a put takes effect."""

    @pytest.mark.parametrize("fate", PASSES, ids=str)
    async def test_what_may_pass_is_tried_again(
        self, shaky: HttpObjectStore, proxy: FaultyProxy, fate: Fate
    ) -> None:
        await shaky.put("x", b"0123456789")
        proxy.fates = [fate, fate]
        assert await shaky.get("x") == b"0123456789"
        assert len(proxy.seen) == 4
        proxy.fates = [fate]
        assert await paths_of(shaky) == ["x"]
        proxy.fates = [fate]
        await shaky.put("x", b"new")
        assert await shaky.get("x") == b"new"
        proxy.fates = [fate]
        await shaky.delete(["x"])
        assert await paths_of(shaky) == []

    @pytest.mark.parametrize(
        ("status", "error"),
        [(400, StorageError), (403, PermissionDeniedError), (404, ObjectNotFoundError)],
    )
    async def test_what_cannot_pass_is_not_tried_again(
        self, shaky: HttpObjectStore, proxy: FaultyProxy, status: int, error: type[StorageError]
    ) -> None:
        proxy.fates = [Fate.answer(status)]
        with pytest.raises(error, match=f"GET .*/x failed: HTTP {status}"):
            await shaky.get("x")
        assert len(proxy.seen) == 1

    async def test_throttling_that_lasts_is_raised_as_such(
        self, shaky: HttpObjectStore, proxy: FaultyProxy
    ) -> None:
        proxy.fates = [Fate.answer(503)] * 9
        with pytest.raises(ThrottledError, match="after 4 attempts"):
            await shaky.get("x")
        assert len(proxy.seen) == 4

    @pytest.mark.parametrize("fate", LOST, ids=str)
    async def test_a_put_whose_answer_was_lost_is_found_to_be_ours(
        self, shaky: HttpObjectStore, proxy: FaultyProxy, fate: Fate
    ) -> None:
        proxy.fates = [fate]
        made = await shaky.put_if_absent("log/0.json", b"ours")
        assert (made.size, made.repeated) == (4, True)
        assert len(proxy.seen) == 3  # twice the put, and what is there
        assert made.etag == (await shaky.head("log/0.json")).etag
        assert await shaky.get("log/0.json") == b"ours"

    @pytest.mark.parametrize("fate", [*LOST, Fate.cut_before(), Fate.answer(500)], ids=str)
    async def test_a_put_in_doubt_that_another_won_is_found_to_be_lost(
        self, shaky: HttpObjectStore, store: HttpObjectStore, proxy: FaultyProxy, fate: Fate
    ) -> None:
        await store.put_if_absent("log/0.json", b"theirs")
        proxy.fates = [fate]
        with pytest.raises(ObjectExistsError):
            await shaky.put_if_absent("log/0.json", b"ours")
        assert await store.get("log/0.json") == b"theirs"

    async def test_a_lost_race_without_doubt_costs_one_request(
        self, shaky: HttpObjectStore, store: HttpObjectStore, proxy: FaultyProxy
    ) -> None:
        await store.put_if_absent("log/0.json", b"theirs")
        with pytest.raises(ObjectExistsError):
            await shaky.put_if_absent("log/0.json", b"theirs")  # even with the same bytes
        assert len(proxy.seen) == 1

    async def test_a_put_in_doubt_that_cannot_be_decided_says_so(
        self, shaky: HttpObjectStore, proxy: FaultyProxy
    ) -> None:
        proxy.fates = [Fate.answer(500, applied=True)] * 20
        with pytest.raises(CommitOutcomeUnknownError, match=r"log/0\.json may or may not"):
            await shaky.put_if_absent("log/0.json", b"ours")

    async def test_a_put_in_doubt_stays_so_where_the_credentials_end_meanwhile(
        self, shaky: HttpObjectStore, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lost: list[str] = []
        aim = shaky._client.aim

        def lose(method: str, target: str) -> Fate | None:
            if method in ("PUT", "POST") and self.makes_objects_by in target:
                lost.append(target)
            return Fate.answer(500, applied=True) if lost else None

        async def aim_once() -> object:
            if lost:
                raise PermissionDeniedError("the token cannot be renewed")
            return await aim()

        proxy.choose = lose
        monkeypatch.setattr(shaky._client, "aim", aim_once)
        with pytest.raises(CommitOutcomeUnknownError, match="could not be tried again: the token"):
            await shaky.put_if_absent("log/0.json", b"ours")

    async def test_an_object_that_is_written_again_is_not_read_as_two(
        self, store: HttpObjectStore
    ) -> None:
        await store.put("x", b"old bytes")
        pin = Pin()
        with pinned(pin):
            assert (await store.get_suffix("x", 5)).data == b"bytes"
            assert await store.get_range("x", 0, 3) == b"old"
        await store.put("x", b"new bytes")
        with pinned(pin), pytest.raises(ObjectChangedError, match="written again"):
            await store.get_range("x", 0, 3)
        with pinned(pin), pytest.raises(ObjectChangedError, match="written again"):
            await store.get_ranges("x", [(0, 3)])

    async def test_an_answer_that_comes_twice_is_not_taken_for_the_next_ones(
        self, shaky: HttpObjectStore, proxy: FaultyProxy
    ) -> None:
        await shaky.put("x", b"of x")
        await shaky.put("y", b"of y")
        again = asyncio.Event()

        async def twice(exchange: Exchange) -> bool:
            answer = await exchange.forward()

            async def repeat() -> None:
                exchange.send(answer)
                again.set()

            exchange.send(answer)
            exchange.later(repeat, 0.01)
            return True

        proxy.choose = lambda method, _: twice if method == "GET" and not again.is_set() else None
        assert await shaky.get("x") == b"of x"
        await again.wait()
        await asyncio.sleep(0.02)  # until it has come
        assert await shaky.get("y") == b"of y"

    async def test_a_stream_in_pieces_outlives_failures(
        self, shaky: HttpObjectStore, proxy: FaultyProxy
    ) -> None:
        data = bytes(range(256)) * (20 << 12)
        # No more than a request is tried again, for one and the same may meet them all.
        faults = [Fate.answer(503), Fate.cut_after(), Fate.cut_before()]
        every_second = itertools.cycle((True, False))
        proxy.choose = lambda *_: faults.pop() if faults and next(every_second) else None

        async def source():
            for at in range(0, len(data), 3 << 20):
                yield data[at : at + (3 << 20)]

        made = await shaky.put_stream("big", source())
        assert made.size == len(data)
        assert not faults
        proxy.choose = lambda *_: None
        assert await shaky.get("big") == data
        assert (await shaky.head("big")).etag == made.etag
