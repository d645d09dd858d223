from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pytest

import adelta.errors
from adelta._concurrency import map_concurrent
from adelta.commit.check_then_put import check_then_put
from adelta.commit.coordinator import Committed, Lost, Unknown
from adelta.commit.filesystem import FilesystemCoordinator
from adelta.errors import CommitOutcomeUnknownError, PermissionDeniedError, StorageError
from adelta.kernel.log_path import commit_path
from adelta.storage.memory import MemoryStore
from tests.support.stores import (
    CountingStore,
    DenyingStore,
    FailingStore,
    Fault,
    OverlookingStore,
    Request,
    WrappedStore,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.storage.object_store import ObjectMeta

R = TypeVar("R")


def body(transaction_id: str) -> bytes:
    return b'{"commitInfo":{"operation":"WRITE","txnId":"%s"}}\n' % transaction_id.encode()


class LossyStore(WrappedStore):
    """Loses the answers of the first puts, before or after they took effect; perhaps all gets."""

    def __init__(self, inner: MemoryStore, *, lost: str, puts: int = 1, gets_fail: bool = False):
        super().__init__(inner)
        self.lost = lost
        self.puts = puts
        self.gets_fail = gets_fail
        self.attempts = 0

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if request.kind == "get" and self.gets_fail:
            raise StorageError("the network is gone")
        return await run()

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        self.attempts += 1
        if self.attempts > self.puts:
            return await self.inner.put_if_absent(path, data)
        if self.lost == "answer":
            await self.inner.put_if_absent(path, data)
        raise CommitOutcomeUnknownError("the connection was cut")


async def test_a_free_version_is_claimed_with_one_request() -> None:
    store = CountingStore(MemoryStore())
    outcome = await FilesystemCoordinator(store).commit(3, body("a"), "a")
    assert isinstance(outcome, Committed)
    assert store.requests == [Request("put", commit_path(3))]
    assert outcome.timestamp_ms == (await store.head(commit_path(3))).last_modified_ms


async def test_a_taken_version_is_lost_with_one_request_and_left_as_it_is() -> None:
    store = CountingStore(MemoryStore())
    coordinator = FilesystemCoordinator(store)
    await coordinator.commit(3, body("a"), "a")
    store.clear()
    assert await coordinator.commit(3, body("b"), "b") == Lost(3)
    assert store.count == 1
    assert await store.get(commit_path(3)) == body("a")


async def test_of_many_racing_attempts_exactly_one_is_told_that_it_won() -> None:
    store = MemoryStore()
    names = [f"t{i}" for i in range(50)]

    async def attempt(name: str) -> str | None:
        outcome = await FilesystemCoordinator(store).commit(0, body(name), name)
        return name if isinstance(outcome, Committed) else None

    winners = [name for name in await map_concurrent(attempt, names, limit=50) if name]
    assert len(winners) == 1
    assert await store.get(commit_path(0)) == body(winners[0])


async def test_a_put_that_took_effect_and_lost_its_answer_is_recognised_as_ours() -> None:
    store = LossyStore(MemoryStore(), lost="answer")
    assert isinstance(await FilesystemCoordinator(store).commit(0, body("a"), "a"), Committed)
    assert store.attempts == 1


async def test_a_put_that_got_lost_on_its_way_is_made_again() -> None:
    store = LossyStore(MemoryStore(), lost="request")
    assert isinstance(await FilesystemCoordinator(store).commit(0, body("a"), "a"), Committed)
    assert store.attempts == 2
    assert await store.inner.get(commit_path(0)) == body("a")


async def test_a_lost_put_that_found_the_version_taken_is_lost() -> None:
    inner = MemoryStore()
    await inner.put(commit_path(0), body("theirs"))
    store = LossyStore(inner, lost="request")
    assert await FilesystemCoordinator(store).commit(0, body("a"), "a") == Lost(0)


async def test_the_version_being_taken_between_two_puts_is_told_apart_by_the_transaction() -> None:
    inner = MemoryStore()

    class TakenMeanwhile(LossyStore):
        async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
            if self.attempts == 1:
                await inner.put(path, body("theirs"))
            return await super().put_if_absent(path, data)

    store = TakenMeanwhile(inner, lost="request")
    assert await FilesystemCoordinator(store).commit(0, body("a"), "a") == Lost(0)


async def test_the_outcome_is_unknown_where_the_store_cannot_be_asked() -> None:
    for lost in ("answer", "request"):
        store = LossyStore(MemoryStore(), lost=lost, gets_fail=True)
        outcome = await FilesystemCoordinator(store).commit(0, body("a"), "a")
        assert isinstance(outcome, Unknown)
        assert "network is gone" in str(outcome.cause)


async def test_the_outcome_is_unknown_where_no_put_gets_an_answer() -> None:
    store = LossyStore(MemoryStore(), lost="request", puts=100)
    assert isinstance(await FilesystemCoordinator(store).commit(0, body("a"), "a"), Unknown)
    assert 1 < store.attempts < 10


async def test_a_refusal_is_no_doubt() -> None:
    class Refusing(WrappedStore):
        async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
            raise PermissionDeniedError("you may not write here")

    with pytest.raises(PermissionDeniedError):
        await FilesystemCoordinator(Refusing(MemoryStore())).commit(0, body("a"), "a")


async def test_a_refusal_after_a_lost_answer_does_not_remove_the_doubt() -> None:
    class ThenRefusing(LossyStore):
        async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
            if self.attempts:
                raise PermissionDeniedError("you may no longer write here")
            return await super().put_if_absent(path, data)

    store = ThenRefusing(MemoryStore(), lost="request")
    assert isinstance(await FilesystemCoordinator(store).commit(0, body("a"), "a"), Unknown)


async def test_another_commit_that_mentions_the_transaction_is_not_taken_for_it() -> None:
    inner = MemoryStore()
    text = (
        b'{"commitInfo":{"txnId":"b","userMetadata":"txnId a"}}\n{"txn":{"appId":"a"}}\nno json a'
    )
    await inner.put(commit_path(0), text)
    store = LossyStore(inner, lost="request")
    assert await FilesystemCoordinator(store).commit(0, body("a"), "a") == Lost(0)


async def test_a_lost_answer_of_a_put_that_took_place_is_committed() -> None:
    store = FailingStore(MemoryStore(), {0: Fault(after=True)})
    assert isinstance(await FilesystemCoordinator(store).commit(0, body("a"), "a"), Committed)


async def test_a_failure_that_left_no_file_is_raised_as_it_is() -> None:
    store = FailingStore(MemoryStore(), {0: Fault()})
    with pytest.raises(StorageError, match="an injected fault"):
        await FilesystemCoordinator(store).commit(0, body("a"), "a")


async def test_a_failure_that_is_certain_is_not_looked_into() -> None:
    store = FailingStore(MemoryStore(), {number: Fault() for number in range(9)})
    with pytest.raises(StorageError, match="an injected fault"):
        await FilesystemCoordinator(store).commit(0, body("a"), "a")
    assert store.made == 1


EVERY_ERROR = [
    error("whatever it is")
    for name in adelta.errors.__all__
    if isinstance(error := getattr(adelta.errors, name), type) and issubclass(error, Exception)
] + [MemoryError(), ValueError("a bug")]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["the base", "reading back", "taking back"])
async def test_whatever_fails_once_a_put_was_sent_off_never_says_that_it_was_not(
    error: Exception, where: str
) -> None:
    """Else its data files would be deleted, and the commit may stand."""
    inner = MemoryStore()
    await inner.put(commit_path(0), body("base"))

    class Failing(LossyStore):
        async def get(self, path: str) -> bytes:
            if path == commit_path(1):
                raise error
            return await super().get(path)

    async def has_base() -> bool:
        if where == "the base":
            raise error
        return where == "reading back"

    puts = 1 if where == "reading back" else 0
    coordinator = FilesystemCoordinator(Failing(inner, lost="answer", puts=puts))
    outcome = await coordinator.commit(1, body("a"), "a", has_base)
    assert isinstance(outcome, Unknown)
    assert await inner.get(commit_path(1)) == body("a")


async def test_a_lost_answer_that_cannot_be_looked_into_is_unknown() -> None:
    store = FailingStore(MemoryStore(), {0: Fault(after=True), 1: Fault()})
    assert isinstance(await FilesystemCoordinator(store).commit(0, body("a"), "a"), Unknown)


async def test_without_conditional_puts_a_commit_that_the_store_denies_is_not_replaced() -> None:
    inner = MemoryStore()
    await inner.put(commit_path(3), body("a"))
    overlooking = OverlookingStore(inner)
    overlooking.always = {3}
    for store in (DenyingStore(inner, commit_path(3)), overlooking):
        coordinator = FilesystemCoordinator(store, partial(check_then_put, store))
        assert await coordinator.commit(3, body("b"), "b") == Lost(3)
        assert await inner.get(commit_path(3)) == body("a")


async def test_nor_where_the_store_refuses_to_say_whether_it_is_there() -> None:
    inner = MemoryStore()
    await inner.put(commit_path(3), body("a"))

    class Refusing(WrappedStore):
        async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
            if request.kind in ("head", "list"):
                raise PermissionDeniedError(f"{request.kind} is not allowed")
            return await run()

    store = Refusing(inner)
    with pytest.raises(PermissionDeniedError, match="is not allowed"):
        await FilesystemCoordinator(store, partial(check_then_put, store)).commit(3, body("b"), "b")
    assert await inner.get(commit_path(3)) == body("a")
