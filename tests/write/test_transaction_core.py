"""Each guard of a transaction by itself: in its core, too, which operations use without a face."""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
import threading
from dataclasses import replace

import orjson
import pyarrow as pa
import pytest

from adelta.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidPropertyError,
    InvalidUseError,
    InvariantViolationError,
    PermissionDeniedError,
    UnsupportedFeatureError,
)
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.log_path import commit_path
from adelta.operations import write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table, begin
from adelta.write.spec import engine_info
from adelta.write.transaction_request import TransactionRequest
from tests.support.created import create_in
from tests.support.stores import Request, WrappedStore

SCHEMA = pa.schema([("id", pa.int64())])
ROWS = pa.table({"id": [1]}, schema=SCHEMA)
DOMAINS = {"delta.feature.domainMetadata": "supported"}


async def table_in(store: WrappedStore | MemoryStore, properties=None) -> Table:  # type: ignore[no-untyped-def]
    table = Table(store.uri, store=store)
    await create_in(table, SCHEMA, properties)
    return table


@pytest.mark.parametrize(
    ("verb", "arguments", "name"),
    [
        ("read_set", (), "read"),
        ("read", (), "read"),
        ("live_files", (), "live_files"),
        ("read_domains", (), "read_domains"),
        ("read_domain", ("mine",), "read_domain"),
        ("write", (ROWS,), "append"),
    ],
)
async def test_a_verb_of_the_core_is_refused_after_the_end(
    verb: str, arguments: tuple[object, ...], name: str
) -> None:
    table = await table_in(MemoryStore(), DOMAINS)
    async with begin(table, TransactionRequest(operation="WRITE")) as core:
        await core.write(ROWS)
    with pytest.raises(InvalidUseError, match=rf"{name}\(\) is not possible: this transaction"):
        await getattr(core, verb)(*arguments)
    assert (await table.snapshot()).version == 1


@pytest.mark.parametrize("value", ["false", 0, None])
async def test_a_flag_that_is_none_is_refused_and_nothing_is_staged(value: object) -> None:
    table = await table_in(MemoryStore())
    await write_table(table, ROWS)
    async with table.transaction() as tx:
        (file,) = await tx.read()
        with pytest.raises(InvalidOptionError, match="data_change"):
            tx.remove_files([file], data_change=value)  # type: ignore[arg-type]
    async with table.transaction() as tx:
        with pytest.raises(InvalidOptionError, match="data_change"):
            await tx.append(ROWS, data_change=value)  # type: ignore[arg-type]
    assert (await table.snapshot()).version == 1


async def test_a_transaction_checks_what_a_user_stages() -> None:
    table = await table_in(MemoryStore(), {**DOMAINS, "delta.appendOnly": "true"})
    await write_table(table, ROWS)
    async with table.transaction() as tx:
        files = await tx.read()
        with pytest.raises(InvariantViolationError):
            tx.remove_files(files)
        with pytest.raises(InvalidOptionError, match="configuration"):
            tx.set_domain_metadata("mine", {"a": 1})  # type: ignore[arg-type]
        with pytest.raises(InvalidOptionError, match="Metadata"):
            tx.update_metadata({"id": "x"})  # type: ignore[arg-type]
        with pytest.raises(InvalidOptionError, match="id"):
            tx.update_metadata(replace(tx.metadata, id="another table's"))
    assert (await table.snapshot()).version == 1


@pytest.mark.parametrize("domain", ["", "delta.clustering", "DELTA.mine"])
async def test_a_domain_of_deltas_own_is_not_set(domain: str) -> None:
    table = await table_in(MemoryStore(), DOMAINS)
    async with table.transaction() as tx:
        with pytest.raises(InvalidOptionError, match="Delta's own"):
            tx.set_domain_metadata(domain, "{}")
    assert (await table.snapshot()).version == 0


async def test_a_domain_needs_its_feature() -> None:
    table = await table_in(MemoryStore())
    async with table.transaction() as tx:
        with pytest.raises(UnsupportedFeatureError, match="domainMetadata first"):
            tx.set_domain_metadata("mine", "{}")
    assert (await table.snapshot()).version == 0


async def test_the_core_overwrites_before_anything_else() -> None:
    table = await table_in(MemoryStore())
    async with begin(table, TransactionRequest(operation="WRITE")) as core:
        await core.write(ROWS)
        with pytest.raises(InvalidUseError, match="comes first"):
            await core.overwrite(ROWS)


async def test_the_core_removes_nothing_from_a_table_that_only_takes_appends() -> None:
    table = await table_in(MemoryStore(), {"delta.appendOnly": "true"})
    await write_table(table, ROWS)
    with pytest.raises(InvariantViolationError):
        async with begin(table, TransactionRequest(operation="WRITE")) as core:
            core.remove(await core.read_set())
    assert (await table.snapshot()).version == 1


@pytest.mark.parametrize("by_hand", [True, False])
async def test_a_feed_of_changes_lets_nobody_replace_files_by_hand(by_hand: bool) -> None:
    table = await table_in(MemoryStore(), {"delta.enableChangeDataFeed": "true"})
    await write_table(table, ROWS)

    async def replace_file() -> None:
        async with table.transaction() as tx:
            tx.remove_files(await tx.read(), data_change=by_hand)
            await tx.append(ROWS, data_change=by_hand)

    if by_hand:
        with pytest.raises(UnsupportedFeatureError, match="change data feed"):
            await replace_file()
    else:
        await replace_file()
    assert (await table.snapshot()).version == (1 if by_hand else 2)


async def test_the_core_takes_no_metadata_that_a_feature_refuses() -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    table = await table_in(MemoryStore(), mapped)
    async with begin(table, TransactionRequest(operation="WRITE")) as core:
        changed = {**core.metadata.configuration, "delta.columnMapping.mode": "id"}
        with pytest.raises(InvalidPropertyError, match=r"delta\.columnMapping\.mode"):
            core.update_metadata(replace(core.metadata, configuration=changed))
        unknown = Protocol(3, 7, frozenset({"columnMapping"}), frozenset({"columnMapping", "new"}))
        with pytest.raises(UnsupportedFeatureError, match="new"):
            core.update_metadata(core.metadata, unknown)
    assert (await table.snapshot()).version == 0


async def test_a_table_that_cannot_be_written_is_refused_before_anything_is_done() -> None:
    store = MemoryStore()
    table = await table_in(store)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["new"]}
    await store.put(commit_path(1), orjson.dumps({"protocol": protocol}))
    await table.snapshot()
    with pytest.raises(UnsupportedFeatureError, match="new"):
        await begin(table, TransactionRequest(operation="WRITE")).__aenter__()


async def test_what_is_staged_after_the_end_is_refused() -> None:
    table = await table_in(MemoryStore())
    async with begin(table, TransactionRequest(operation="WRITE")) as core:
        (file,) = await core.write(ROWS)
    with pytest.raises(InvalidUseError, match=r"staging\(\) is not possible"):
        core.stage_written(adds=[file])


class GatedStore(WrappedStore):
    """Where requests wait while it is not open."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.open, self.asked = asyncio.Event(), asyncio.Event()
        self.open.set()

    async def request(self, request: Request, run):  # type: ignore[no-untyped-def]
        if not self.open.is_set():
            self.asked.set()
            await self.open.wait()
        return await run()


async def test_a_read_that_ends_after_the_transaction_says_so() -> None:
    store = MemoryStore()
    await write_table(await table_in(store), ROWS)
    gated = GatedStore(store)
    tx = Table(store.uri, store=gated).transaction()
    await tx.__aenter__()
    gated.open.clear()
    reading = asyncio.ensure_future(tx.read("id = 1"))
    await gated.asked.wait()
    await tx.__aexit__(KeyError, KeyError(), None)
    gated.open.set()
    with pytest.raises(InvalidUseError, match=r"read\(\) is not possible"):
        await reading


class Racing(WrappedStore):
    """Another one commits right before each put of a commit of ours."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.other = Table(inner.uri, store=inner)
        self.races = 0

    async def request(self, request: Request, run):  # type: ignore[no-untyped-def]
        if request.kind == "put" and request.path.endswith(".json") and self.races:
            self.races -= 1
            await write_table(self.other, ROWS)
        return await run()


async def test_a_commit_that_has_lost_and_has_no_more_time_is_given_up() -> None:
    store = Racing(MemoryStore())
    table = await table_in(store)
    store.races = 1
    with pytest.raises(CommitConflictError, match="1 attempts within 0 s") as caught:
        async with begin(table, TransactionRequest(operation="WRITE", timeout=0.0)) as core:
            await core.write(ROWS)
    assert caught.value.winning_version == 1
    assert (await table.snapshot()).version == 1


class CleanedUp(Racing):
    """What the other one has committed is gone by the time at which it is read."""

    async def request(self, request: Request, run):  # type: ignore[no-untyped-def]
        if request.kind == "get" and request.path == commit_path(1):
            await self.inner.delete([commit_path(1)])
        return await super().request(request, run)


async def test_where_the_winners_have_been_cleaned_up_nobody_can_say_who_won() -> None:
    store = CleanedUp(MemoryStore())
    table = await table_in(store)
    store.races = 1
    with pytest.raises(CommitOutcomeUnknownError, match="have been cleaned up"):
        async with begin(table, TransactionRequest(operation="WRITE")) as core:
            await core.write(ROWS)


class Refusing(WrappedStore):
    """Nothing may be put to the place of version 1."""

    puts = 0

    async def request(self, request: Request, run):  # type: ignore[no-untyped-def]
        if request.kind == "put" and request.path == commit_path(1):
            self.puts += 1
            raise PermissionDeniedError("no")
        return await run()


async def test_a_commit_that_is_refused_is_put_once() -> None:
    store = Refusing(MemoryStore())
    table = await table_in(store)
    with pytest.raises(PermissionDeniedError):
        await write_table(table, ROWS)
    assert store.puts == 1


async def test_the_loop_does_not_wait_while_the_engines_version_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = await table_in(MemoryStore())
    asked: list[threading.Thread] = []

    def version(name: str) -> str:
        asked.append(threading.current_thread())
        return "1"

    engine_info.cache_clear()
    monkeypatch.delitem(sys.modules, "adelta._version", raising=False)
    monkeypatch.setattr(importlib.metadata, "version", version)
    try:
        async with begin(table, TransactionRequest(operation="WRITE")) as core:
            await core.write(ROWS)
    finally:
        engine_info.cache_clear()
        sys.modules.pop("adelta._version", None)
    assert asked
    assert threading.main_thread() not in asked
