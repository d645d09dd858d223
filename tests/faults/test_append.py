"""A writer dies at each request of its append in turn: the table is as before or as after."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pytest

from adelta.errors import AdeltaError, CommitOutcomeUnknownError, StorageError
from adelta.kernel.log_path import LAST_CHECKPOINT_PATH, checkpoint_path, commit_path
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.stores import CountingStore, FailingStore, Fault, Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.storage.object_store import ObjectMeta, ObjectStore

R = TypeVar("R")

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
BEFORE = [1, 2]
AFTER = [1, 2, 3, 4]


class DyingStore(WrappedStore):
    """Answers `lives` requests, and then nothing any more; the last one may still take effect."""

    def __init__(self, inner: ObjectStore, lives: int, *, last_takes_effect: bool) -> None:
        super().__init__(inner)
        self.lives = lives
        self.last_takes_effect = last_takes_effect

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        self.lives -= 1
        if self.lives >= 0:
            return await run()
        if self.lives == -1 and self.last_takes_effect:
            await run()
        raise StorageError("the connection is gone")

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        try:
            return await super().put_if_absent(path, data)
        except StorageError as error:
            raise CommitOutcomeUnknownError("no answer came") from error


async def table_with_rows() -> MemoryStore:
    store = MemoryStore()
    builder = await TableBuilder.create(SCHEMA, store=store, partition_by=["p"])
    rows = pa.table({"id": BEFORE})
    await builder.append(rows, p="x")
    return store


async def append(store: ObjectStore) -> None:
    table = Table(store.uri, store=store)
    async with table.transaction() as tx:
        tx.set_transaction("app", 1)
        await tx.append(pa.table({"id": [3, 4], "p": ["x", "y"]}))


async def ids(store: ObjectStore) -> list[int]:
    snapshot = await Table(store.uri, store=store).snapshot()
    return sorted((await snapshot.scan(columns=["id"]).to_arrow()).column("id").to_pylist())


async def requests_of_an_append() -> int:
    store = CountingStore(await table_with_rows())
    await append(store)
    return store.count


@pytest.mark.parametrize("takes_effect", [False, True])
async def test_a_writer_that_dies_at_any_request_leaves_the_table_as_before_or_as_after(
    takes_effect: bool,
) -> None:
    seen: list[list[int]] = []
    unknown: list[CommitOutcomeUnknownError] = []
    for lives in range(await requests_of_an_append() + 1):
        inner = await table_with_rows()
        store = DyingStore(inner, lives, last_takes_effect=takes_effect)
        expected = AFTER
        try:
            await append(store)
        except CommitOutcomeUnknownError as error:
            unknown.append(error)  # at the look for the base, and at the put
            expected = AFTER if takes_effect and len(unknown) == 2 else BEFORE
        except StorageError:
            expected = BEFORE
        assert await ids(inner) == expected
        seen.append(expected)
        await append(inner)  # a second try with the same application id makes it whole, and no more
        assert await ids(inner) == AFTER
    assert seen[0] == BEFORE
    assert seen[-1] == AFTER
    assert [error.version for error in unknown] == [2, 2]
    assert unknown[0].transaction_id


@pytest.mark.parametrize("takes_effect", [False, True])
async def test_one_fault_at_any_request_is_either_overcome_or_reported(takes_effect: bool) -> None:
    for number in range(await requests_of_an_append()):
        inner = await table_with_rows()
        store = FailingStore(inner, {number: Fault(after=takes_effect)})
        try:
            await append(store)
        except AdeltaError:
            found = await ids(inner)
            assert found in (BEFORE, AFTER)
            if found == BEFORE:
                live = {meta.path async for page in inner.list() for meta in page}
                assert len([path for path in live if path.endswith(".parquet")]) <= 2
        else:
            assert await ids(inner) == AFTER


async def test_a_lost_answer_to_the_commit_is_cleared_up_without_the_caller_noticing() -> None:
    for takes_effect in (False, True):
        inner = await table_with_rows()

        class LosesOneAnswer(WrappedStore):
            lost = False

            async def put_if_absent(
                self, path: str, data: bytes, takes_effect: bool = takes_effect
            ) -> ObjectMeta:
                if not self.lost:
                    self.lost = True
                    if takes_effect:
                        await self.inner.put_if_absent(path, data)
                    raise CommitOutcomeUnknownError("no answer came")
                return await self.inner.put_if_absent(path, data)

        await append(LosesOneAnswer(inner))
        assert await ids(inner) == AFTER
        assert (await Table(inner.uri, store=inner).snapshot()).version == 2


async def test_a_checkpoint_that_fails_does_not_make_the_commit_look_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = MemoryStore()
    await TableBuilder.create(
        SCHEMA, store=inner, partition_by=["p"], properties={"delta.checkpointInterval": "1"}
    )

    class NoCheckpoints(WrappedStore):
        refused = "checkpoint.parquet"

        async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
            if request.kind == "put" and request.path.endswith(self.refused):
                raise StorageError("no room for this")
            return await run()

    with caplog.at_level(logging.WARNING, "adelta.transaction"):
        await append(NoCheckpoints(inner))
    assert await ids(inner) == [3, 4]
    assert "version 1 is committed, but its checkpoint failed" in caplog.text
    paths = {meta.path async for page in inner.list("_delta_log/") for meta in page}
    assert checkpoint_path(1) not in paths
    assert LAST_CHECKPOINT_PATH not in paths


async def test_data_files_stay_where_they_may_have_been_committed() -> None:
    inner = await table_with_rows()

    class LosesSight(WrappedStore):
        """The commit takes effect, its answer is lost, and the log can no longer be read."""

        async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
            await self.inner.put_if_absent(path, data)
            raise CommitOutcomeUnknownError("no answer came")

        async def get(self, path: str) -> bytes:
            if path == commit_path(2):
                raise StorageError("the connection is gone")
            return await super().get(path)

    with pytest.raises(CommitOutcomeUnknownError, match="nobody can say whether version 2"):
        await append(LosesSight(inner))
    assert await ids(inner) == AFTER
