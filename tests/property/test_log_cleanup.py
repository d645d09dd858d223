"""Whatever a log looks like: after a clean-up every version still promised reads as before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from adelta.errors import AdeltaError, StorageError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.log_path import (
    LogFileKind,
    checkpoint_part_path,
    checkpoint_path,
    checksum_path,
    compaction_path,
    parse_log_path,
)
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.cleanup import clean_log
from adelta.log.load import load_state
from adelta.log.time_travel import version_at_timestamp
from adelta.storage.memory import MemoryStore
from tests.support.builders import TableBuilder
from tests.support.clock import ManualClock
from tests.support.depth import cases
from tests.support.stores import Request, WrappedStore, copy_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

DAY = 86_400_000
START = 19_000 * DAY + 5
SCHEMA = pa.schema([("id", pa.int64())])
V2 = Protocol(3, 7, ("v2Checkpoint",), ("v2Checkpoint",))
KINDS: dict[str, dict[str, str]] = {
    "classic": {},
    "parts": {"adelta.checkpoint.partSize": "2"},
    "v2": {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "2"},
}


@dataclass(frozen=True)
class Step:
    """One commit, and what is done after it."""

    adds: int
    removes: int
    wait: int  # ms before it; less than 0 is a clock that runs backwards
    then: frozenset[str]


WAITS = st.sampled_from([0, 1, -2, DAY // 3, DAY, DAY, 2 * DAY, -DAY // 3, -DAY])
MORE = ["checksum", "compaction", "half", "empty", "damage"]
STEPS = st.lists(
    st.builds(
        Step,
        adds=st.integers(0, 2),
        removes=st.integers(0, 2),
        wait=WAITS,
        then=st.builds(
            lambda checkpointed, more: frozenset([*checkpointed, *more]),
            st.sampled_from([["checkpoint"], ["checkpoint"], []]),
            st.lists(st.sampled_from(MORE), max_size=2),
        ),
    ),
    min_size=4,
    max_size=9,
)


class Dying(WrappedStore):
    """Does nothing more after so many deletes of single files."""

    def __init__(self, inner: ObjectStore, lives: int) -> None:
        super().__init__(inner)
        self.lives = lives

    async def request(self, request: Request, run: Callable[[], Awaitable[Any]]) -> Any:
        if self.lives < 0:
            raise StorageError("the process is gone")
        return await run()

    async def delete(self, paths: Any) -> None:
        for path in paths:
            self.lives -= 1
            await super().delete([path])


async def make_log(kind: str, steps: list[Step], clock: ManualClock) -> MemoryStore:
    store = MemoryStore(clock=clock)
    protocol = V2 if kind == "v2" else None
    builder = await TableBuilder.create(
        SCHEMA, store=store, properties=KINDS[kind], protocol=protocol
    )
    live: list[str] = []
    for number, step in enumerate(steps, 1):
        clock.advance(ms=step.wait)
        gone, live = live[: step.removes], live[step.removes :]
        new = [f"f{number}-{n}" for n in range(step.adds)]
        live = [*live, *new]
        await builder.commit(
            *(builder.remove(path, at=START * 2) for path in gone),
            *(builder.add(path, rows=number) for path in new),
            SetTransaction(f"app{number % 3}", number),
            DomainMetadata(f"d{number % 2}", str(number), removed=number % 5 == 0),
        )
        await after(store, number, step.then)
    return store


async def after(store: MemoryStore, version: int, what: frozenset[str]) -> None:
    if "checkpoint" in what:
        await write_checkpoint(await load_state(store), ManualClock(START))
    if "checksum" in what:
        await store.put(checksum_path(version), b"{}")
    if "compaction" in what and version > 1:
        await store.put(compaction_path(version - 1, version), b"")
    if "half" in what:
        await store.put(checkpoint_part_path(version, 1, 3), b"PAR1")
    if "empty" in what:
        await store.put(checkpoint_path(version), b"")
    if "damage" in what:
        pages = [meta.path async for page in store.list("_delta_log/") for meta in page]
        parsed = [p for p in map(parse_log_path, pages) if p is not None and p.is_checkpoint]
        mine = [p.path for p in parsed if p.version == version]
        if mine:
            await store.put(mine[-1], b"no checkpoint")


async def reads(store: ObjectStore, version: int) -> Any:
    try:
        state = await load_state(store, version=version)
        files = sorted((f.path, f.stats) for f in (await state.files()).rows())
        removed = sorted((await state.tombstones()).column("path").to_pylist())
        applications, domains = await state.set_transactions(), await state.domain_metadata()
    except AdeltaError as error:
        return type(error)
    return files, removed, dict(applications), dict(domains), state.protocol, state.metadata


def adjusted(times: list[int]) -> list[int]:
    found: list[int] = []
    for time in times:
        found.append(time if not found or time > found[-1] else found[-1] + 1)
    return found


@pytest.mark.parametrize("kind", list(KINDS))
@given(
    steps=STEPS,
    later=st.integers(0, 4 * DAY),
    retention=st.integers(0, 2),
    lives=st.integers(0, 12),
)
@settings(max_examples=cases(20, 6))
def test_every_version_still_promised_reads_as_before(
    kind: str, steps: list[Step], later: int, retention: int, lives: int
) -> None:
    anyio.run(run, kind, steps, later, retention * DAY, lives)


async def run(kind: str, steps: list[Step], later: int, retention: int, lives: int) -> None:
    clock = ManualClock(START)
    store = await make_log(kind, steps, clock)
    pages = [meta async for page in store.list("_delta_log/") for meta in page]
    parsed = [parse_log_path(meta.path, 0, meta.last_modified_ms) for meta in pages]
    commits = [p for p in parsed if p is not None and p.kind is LogFileKind.COMMIT]
    times = adjusted([commit.last_modified_ms for commit in commits])
    now = max(clock.ms, START) + later
    cutoff = min((now - retention) // DAY * DAY, now - 3_600_000)
    oldest = max((v for v, time in enumerate(times) if time <= cutoff), default=0)
    promised = range(oldest, len(times))
    before = {version: await reads(store, version) for version in promised}
    state = await load_state(store)
    named = {t: await version_at_timestamp(state, t) for t in times[oldest:]}

    async def check(store: MemoryStore) -> None:
        for version, content in before.items():
            assert await reads(store, version) == content, version
        state = await load_state(store)
        for time, version in named.items():
            assert await version_at_timestamp(state, time) == version

    broken = copy_of(store)
    try:
        await clean_log(
            state_of(await load_state(broken), Dying(broken, lives)), now, retention_ms=retention
        )
    except StorageError:
        event("broken off")
    await check(broken)

    cleaned = await clean_log(await load_state(store), now, retention_ms=retention)
    event(f"deleted: {'something' if cleaned.objects else 'nothing'}")
    await check(store)
    again = await clean_log(await load_state(store), now, retention_ms=retention)
    assert again.objects == ()
    await clean_log(await load_state(broken), now, retention_ms=retention)
    await check(broken)


def state_of(state: LogState, store: ObjectStore) -> LogState:
    return replace(state, store=store)
