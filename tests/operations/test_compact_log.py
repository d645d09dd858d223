"""Log compactions as they are written: what is in them, who reads them, and when (B7-01, B7-02)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adelta
from adelta.errors import InvalidOptionError, MissingCommitError, ObjectNotFoundError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import DeletionVectorDescriptor
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.log_path import commit_path, compaction_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.load import load_state
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.clock import ManualClock
from tests.support.minimal_reader import MinimalLog, log_objects
from tests.support.stores import CountingStore, DenyingStore, Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.kernel.actions.json import Action
    from adelta.storage.object_store import ObjectStore

R = TypeVar("R")
SCHEMA = pa.schema([("id", pa.int64())])
KINDS: dict[str, Callable[[TableBuilder, int], Action]] = {
    "add": lambda builder, n: builder.add(f"new{n}"),
    "remove": lambda builder, n: builder.remove(f"old{n}"),
    "txn": lambda _, n: SetTransaction("application", n),
    "domainMetadata": lambda _, n: DomainMetadata("domain", str(n)),
    "protocol": lambda *_: Protocol(1, 2),
}
ONCE = ("txn", "domainMetadata", "protocol")


def opened(store: ObjectStore) -> Table:
    return Table(store.uri, store=store)


def kind_of(line: dict[str, Any]) -> str:
    (kind,) = line
    return kind


async def lines(store: ObjectStore, first: int, last: int) -> list[dict[str, Any]]:
    data = await store.get(compaction_path(first, last))
    return [orjson.loads(line) for line in data.splitlines()]


async def test_the_example_of_the_protocol() -> None:
    """B7-01."""
    builder = await TableBuilder.create(SCHEMA)
    for name in ("f0", "f1", "x"):
        await builder.commit(builder.add(name))
    await builder.commit(builder.add("f2"), builder.remove("f1", at=5))
    await builder.commit(builder.add("f3"), builder.add("f4"), SetTransaction("app", 4389))
    await builder.commit(builder.remove("f3", at=6), SetTransaction("app", 4390))
    done = await adelta.compact_log(opened(builder.store), start_version=4, end_version=6)
    assert (done.start_version, done.end_version, done.num_commits, done.num_actions) == (
        4,
        6,
        3,
        5,
    )
    assert done.path == compaction_path(4, 6)
    assert done.num_bytes == len(await builder.store.get(done.path))
    found = [
        (kind, body.get("path") or body["version"])
        for line in await lines(builder.store, 4, 6)
        for kind, body in line.items()
    ]
    assert sorted(found, key=str) == [
        ("add", "f2"),
        ("add", "f4"),
        ("remove", "f1"),
        ("remove", "f3"),
        ("txn", 4390),
    ]


async def test_removed_domains_are_kept_lest_they_come_back() -> None:
    """B7-02."""
    builder = await TableBuilder.create(SCHEMA)
    await builder.commit(DomainMetadata("gone", "{}"), DomainMetadata("stays", "1"))
    await write_checkpoint(await load_state(builder.store))
    await builder.commit(DomainMetadata("gone", "{}", removed=True))
    await builder.commit(builder.add("a"))
    await adelta.compact_log(opened(builder.store))
    store = CountingStore(builder.store)
    state = await load_state(store)
    assert set(await state.domain_metadata()) == {"stays"}
    assert compaction_path(2, 3) in store.paths("get")
    assert commit_path(2) not in store.paths("get")


@pytest.mark.parametrize("kinds", [k for n in (1, 2, 3, 5) for k in combinations(KINDS, n)])
async def test_whatever_kinds_of_actions_the_commits_have_none_is_left_out(
    kinds: tuple[str, ...],
) -> None:
    builder = await TableBuilder.create(SCHEMA)
    await builder.commit(*(builder.add(f"old{n}") for n in range(600)))
    await builder.commit()
    for n in range(600 if kinds == ("add",) else 2):  # also of more than one piece
        await builder.commit(*(KINDS[kind](builder, n) for kind in kinds))
    start, end = 2, builder.version
    done = await adelta.compact_log(opened(builder.store), start_version=start, end_version=end)
    expected = [
        orjson.loads(line)
        for version in range(start, end + 1)
        for line in (await builder.store.get(commit_path(version))).splitlines()
        if b"commitInfo" not in line
    ]
    found = await lines(builder.store, start, end)
    assert done.num_actions == len(found)
    assert Counter(map(kind_of, found)) == Counter(
        {kind: 1 if kind in ONCE else sum(kind in line for line in expected) for kind in kinds}
    )
    assert (
        MinimalLog(await log_objects(builder.store)).read(compacted=True)
        == MinimalLog(await log_objects(builder.store)).read()
    )


async def test_commits_that_leave_nothing_are_not_compacted() -> None:
    builder = await TableBuilder.create(SCHEMA)
    for _ in range(3):
        await builder.commit()
    done = await adelta.compact_log(opened(builder.store), start_version=1, end_version=3)
    assert (done.path, done.num_actions) == (None, 0)
    with pytest.raises(ObjectNotFoundError):
        await builder.store.head(compaction_path(1, 3))


async def test_an_empty_compaction_is_not_believed_and_is_replaced() -> None:
    builder = await TableBuilder.create(SCHEMA)
    for n in range(4):
        await builder.commit(builder.add(f"f{n}"))
    await builder.store.put(compaction_path(1, 4), b"")
    assert (await (await opened(builder.store).snapshot()).files()).num_rows == 4
    done = await adelta.compact_log(opened(builder.store), start_version=1, end_version=4)
    assert done.num_actions == 4
    assert len(await lines(builder.store, 1, 4)) == 4
    store = CountingStore(builder.store)
    assert (await (await opened(store).snapshot()).files()).num_rows == 4
    assert compaction_path(1, 4) in store.paths("get")
    assert commit_path(1) not in store.paths("get"), "the compaction is believed now"


async def test_by_default_all_commits_after_the_checkpoint_are_compacted() -> None:
    builder = await TableBuilder.create(SCHEMA)
    table = opened(builder.store)
    assert (await adelta.compact_log(table)).path is None, "one commit is nothing to compact"
    for n in range(4):
        await builder.commit(builder.add(f"f{n}"))
    assert (await adelta.compact_log(table)).path == compaction_path(0, 4)
    await write_checkpoint(await load_state(builder.store, version=2))
    assert (await adelta.compact_log(table)).path == compaction_path(3, 4)
    again = await adelta.compact_log(table)
    assert again.path == compaction_path(3, 4), "writing it again is writing the same"


class _CleanedUp(WrappedStore):
    """Once it `begins`, as version 3 is read, there is a checkpoint of version 4 in its place."""

    begins = False

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if self.begins and request.path == commit_path(3):
            self.begins = False
            await write_checkpoint(await load_state(self.inner, version=4))
            await self.inner.delete([commit_path(version) for version in range(5)])
        return await run()


async def test_commits_that_are_cleaned_up_meanwhile_are_left_to_the_checkpoint() -> None:
    builder = await TableBuilder.create(SCHEMA)
    for n in range(1, 7):
        await builder.commit(builder.add(f"f{n}"))
    store = _CleanedUp(builder.store)
    table = opened(store)
    await table.snapshot()
    store.begins = True
    done = await adelta.compact_log(table)
    assert (done.start_version, done.end_version) == (5, 6)
    with pytest.raises(MissingCommitError):
        await adelta.compact_log(table, start_version=1)


@pytest.mark.parametrize("span", [(0, 3), (2, 2), (2, 1)])
async def test_a_range_that_is_none_is_refused(span: tuple[int, int]) -> None:
    builder = await TableBuilder.create(SCHEMA)
    for n in range(2):
        await builder.commit(builder.add(f"f{n}"))
    with pytest.raises(InvalidOptionError, match="no range to compact"):
        await adelta.compact_log(opened(builder.store), start_version=span[0], end_version=span[1])


async def test_commits_compact_the_log_where_the_table_asks_for_it() -> None:
    builder = await TableBuilder.create(
        SCHEMA,
        properties={"adelta.logCompactionInterval": "3", "delta.checkpointInterval": "6"},
    )
    table = opened(builder.store)
    for n in range(10):
        async with table.transaction() as tx:
            await tx.append(pa.table({"id": [n]}))
    paths = [meta.path async for page in builder.store.list("_delta_log/") for meta in page]
    written = [path for path in paths if "compacted" in path]
    assert written == [compaction_path(1, 3), compaction_path(7, 9)], "6 has a checkpoint"
    assert (await (await opened(builder.store).snapshot()).files()).num_rows == 10


async def test_commits_that_a_checkpoint_covers_are_not_compacted_and_may_be_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    often = {"adelta.logCompactionInterval": "5", "delta.checkpointInterval": "3"}
    builder = await TableBuilder.create(SCHEMA, store=store, properties=often)
    table = Table(store.uri, store=store, clock=clock)
    for n in range(5):
        async with table.transaction() as tx:
            await tx.append(pa.table({"id": [n]}))
        clock.advance(days=40)
        await adelta.cleanup_log(table)
    paths = [meta.path async for page in builder.store.list("_delta_log/") for meta in page]
    assert commit_path(0) not in paths
    assert [path for path in paths if "compacted" in path] == [compaction_path(4, 5)]
    assert not caplog.records


async def test_tables_without_the_property_have_no_compactions() -> None:
    builder = await TableBuilder.create(SCHEMA)
    table = opened(builder.store)
    for n in range(9):
        async with table.transaction() as tx:
            await tx.append(pa.table({"id": [n]}))
    paths = [meta.path async for page in builder.store.list("_delta_log/") for meta in page]
    assert not [path for path in paths if "compacted" in path]


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans(), st.booleans(), st.booleans()),
    min_size=3,
    max_size=7,
)


@given(STEPS, st.data())
@settings(max_examples=30)
def test_reading_compactions_is_reading_commits(
    steps: list[tuple[int, int, bool, bool, bool]], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(steps) - 1), label="first")
    last = data.draw(st.integers(first + 1, len(steps)), label="last")
    anyio.run(_compare, steps, first, last)


async def _compare(steps: list[tuple[int, int, bool, bool, bool]], first: int, last: int) -> None:
    builder = await TableBuilder.create(SCHEMA)
    live = []
    for number, (adds, removes, again, masked, singletons) in enumerate(steps):
        gone, live = live[:removes], live[removes:]
        new = [builder.add(f"{number}-{n}", rows=n) for n in range(adds)]
        actions: list[Action] = [file.remove(number) for file in gone]
        if gone and masked:
            vector = DeletionVectorDescriptor("u", f"v{number}", 1, 1, number)
            new.append(replace(gone[0], deletion_vector=vector))
        actions += new
        if singletons:
            actions.append(SetTransaction(f"app{number % 2}", number))
            actions.append(DomainMetadata(f"d{number % 2}", str(number), removed=again))
        live += new
        await builder.commit(*actions)
    before = MinimalLog(await log_objects(builder.store)).read()
    plain = await load_state(builder.store)
    done = await adelta.compact_log(opened(builder.store), start_version=first, end_version=last)
    after = MinimalLog(await log_objects(builder.store)).read(compacted=True)
    assert after == before
    store = CountingStore(builder.store)
    compacted = await load_state(store)
    assert done.path is None or done.path in store.paths("get")
    for one, other in (
        (await compacted.files(), await plain.files()),
        (await compacted.tombstones(), await plain.tombstones()),
    ):
        tables = [t if isinstance(t, pa.Table) else t.table for t in (one, other)]
        rows = [sorted(map(repr, table.to_pylist())) for table in tables]
        assert rows[0] == rows[1]
    assert await compacted.set_transactions() == await plain.set_transactions()
    assert await compacted.domain_metadata() == await plain.domain_metadata()


@pytest.mark.parametrize("times", [1, 3])
async def test_a_commit_that_the_store_lists_and_denies_is_asked_for_again(times: int) -> None:
    store = DenyingStore(MemoryStore())
    async with opened(store) as table:
        for n in range(3):
            await adelta.write_table(table, pa.table({"id": [n]}, SCHEMA))
        store.denied, store.left = commit_path(1), times
        compacted = await adelta.compact_log(table, start_version=0, end_version=2)
        assert compacted.num_commits == 3
    assert store.left == 0


async def test_one_that_it_goes_on_to_deny_is_an_error() -> None:
    store = DenyingStore(MemoryStore())
    async with opened(store) as table:
        for n in range(3):
            await adelta.write_table(table, pa.table({"id": [n]}, SCHEMA))
        store.denied = commit_path(1)
        with pytest.raises(MissingCommitError):
            await adelta.compact_log(table, start_version=0, end_version=2)
