"""All operations, raced, cancelled and broken off: the table is as some order of them makes it.

A table with any features takes some steps, and a model the same. Then two handles take a step each
at once, or one does and is cancelled wherever it may wait, or loses its store. What is left is what
the model becomes by those steps that were done, in some order.

`ADELTA_TEST_SEEDS` says how many tables are tried.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING, TypeVar

import pytest

import adelta
from adelta.errors import (
    AdeltaError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    StorageError,
)
from tests.faults.test_append import DyingStore
from tests.support.cancellation import PausingStore, Steps, all_but, run_to_its_end
from tests.support.depth import cases
from tests.support.model.checks import check_feed, check_files, contents, ids_of
from tests.support.model.row_steps import Delete, Merge, Update
from tests.support.model.run import Run, may_refuse
from tests.support.model.table import ModelTable, Refused
from tests.support.model.upkeep_steps import ReplaceTable, Restore, Vacuum
from tests.support.model.write_steps import Append
from tests.support.stores import Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.snapshot import Snapshot
    from adelta.storage.object_store import ObjectStore
    from tests.support.model.step import Step

R = TypeVar("R")
SEEDS = range(int(os.environ.get("ADELTA_TEST_SEEDS", cases(60, 3))))


class JostlingStore(WrappedStore):
    """A store whose requests take some turns of the event loop each, by chance."""

    def __init__(self, inner: ObjectStore, source: random.Random) -> None:
        super().__init__(inner)
        self.source = source

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        for _ in range(self.source.choice([0, 0, 1, 2, 5, 20])):
            await asyncio.sleep(0)
        return await run()


async def grown(source: random.Random) -> Run:
    """A table that has taken some steps."""
    run = await Run.begin(source)
    for kinds in ((Append,), (Append,), (), (Append, Delete, Update, Merge), ()):
        step = run.drawn(source, *kinds)
        if step is not None and not isinstance(step, ReplaceTable):
            await run.take(step, source)
    return run


def another(run: Run, source: random.Random) -> Step:
    """A step that may be disturbed: a VACUUM of what was needed a moment ago may not."""
    while True:
        step = run.drawn(source)
        if step is not None and not (isinstance(step, Vacuum) and step.at_once):
            return step


async def attempt(run: Run, step: Step, store: ObjectStore) -> AdeltaError | None:
    """What a handle of its own makes of a step."""
    async with run.place.open(store) as table:
        try:
            await step.run(table)
        except AdeltaError as error:
            return error
    return None


def after(model: ModelTable, *steps: Step) -> ModelTable | None:
    """What the model becomes by the steps one after the other; None where one is refused."""
    made = model.copy()
    try:
        for step in steps:
            step.apply(made)
    except Refused:
        return None
    return made


def which(
    snapshot: Snapshot,
    found: dict[str, dict[int, dict[str, object]]],
    models: list[ModelTable | None],
) -> ModelTable:
    """The one of the models that the table agrees with."""
    reasons = []
    names = [field.name for field in snapshot.delta_schema.fields]
    for model in models:
        if model is None:
            reasons.append("refused")
        elif names != model.names:
            reasons.append(f"columns {names}, and not {model.names}")
        elif (wrong := model.difference(found[model.key.name])) is None:
            return model
        else:
            reasons.append(wrong)
    raise AssertionError(f"the table is none of the possible ones: {reasons}")


async def whole(run: Run, models: list[ModelTable | None], steps: list[Step]) -> None:
    """A new reader sees one of the models, and nothing is missing; the next writer can go on."""
    async with run.place.open() as table:
        snapshot = await table.snapshot()
        keys = {m.key.name for m in models if m is not None} & set(snapshot.schema.names)
        found = {key: await contents(snapshot, key) for key in keys}
        model = which(snapshot, found, models)
        await snapshot.verify()
        await check_files(run.place, snapshot)
        before = run.model.past[run.version]
        ids = await ids_of(snapshot, model.key.name)
        if ids is not None and before.ids is not None and not _anew(steps):
            assert all(ids[key][0] == before.ids[key][0] for key in ids.keys() & before.ids.keys())
        told = snapshot.properties.get("delta.enableChangeDataFeed") == "true"
        if snapshot.version > run.version and told and run.fed_from is not None:
            await check_feed(table, before.table, model, run.version + 1, snapshot.version)
        row = {c.name: 10**6 if c.uid == 0 else None for c in model.columns if c.given}
        try:
            model.store(row)
        except Refused:
            return
        await adelta.write_table(table, model.data([row], row))
        wrong = model.difference(await contents(await table.snapshot(), model.key.name))
        assert wrong is None, wrong


def _anew(steps: list[Step]) -> bool:
    return any(isinstance(step, Restore | ReplaceTable) for step in steps)


@pytest.mark.parametrize("seed", SEEDS)
async def test_two_that_race_come_one_after_the_other_or_conflict(seed: int) -> None:
    source = random.Random(seed)
    run = await grown(source)
    steps = [another(run, source), another(run, source)]
    errors = await asyncio.gather(
        *(attempt(run, step, JostlingStore(run.place.store, source)) for step in steps)
    )
    done = [step for step, error in zip(steps, errors, strict=True) if error is None]
    for step, other, error in zip(steps, steps[::-1], errors, strict=True):
        if error is None or isinstance(error, CommitConflictError):
            continue
        if not (may_refuse(step, run.properties) or isinstance(step, Restore)):
            alone, second = after(run.model, step), after(run.model, other, step)
            assert alone is None or second is None, f"{step}: {error!r}"
    models = [after(run.model, *done), after(run.model, *done[::-1])]
    try:
        await whole(run, models, steps)
    except AssertionError as error:
        raise AssertionError(f"{steps} gave {errors}") from error
    await run.aclose()


@pytest.mark.parametrize("seed", SEEDS)
async def test_whoever_is_cancelled_has_done_all_or_nothing(seed: int) -> None:
    source = random.Random(seed)
    run = await grown(source)
    step = another(run, source)
    at = source.choice([1, 3, 8, 15, 25, 40, 60, 90, 130, 200])
    with Steps(at=at) as counter:
        before = asyncio.all_tasks()
        table = run.place.open(PausingStore(run.place.store))
        counter.victim = asyncio.ensure_future(step.run(table))
        error = await run_to_its_end(counter.victim)
        counter.counting = False
        await all_but(before)
    await table.aclose()
    done = after(run.model, step)
    if isinstance(error, AdeltaError):
        assert may_refuse(step, run.properties) or done is None, error
    elif error is not None:
        assert isinstance(error, asyncio.CancelledError), error
    await whole(run, [run.model.copy(), done] if error is not None else [done], [step])
    await run.aclose()


@pytest.mark.parametrize("seed", SEEDS)
async def test_whoever_loses_the_store_has_done_all_or_nothing(seed: int) -> None:
    source = random.Random(seed)
    run = await grown(source)
    step = another(run, source)
    effect = source.random() < 0.5
    lives = source.randrange(40) if source.random() < 0.5 else source.randrange(12)
    error = await attempt(run, step, DyingStore(run.place.store, lives, last_takes_effect=effect))
    done = after(run.model, step)
    if error is not None and not isinstance(error, StorageError | CommitOutcomeUnknownError):
        assert may_refuse(step, run.properties) or done is None, repr(error)
    await whole(run, [run.model.copy(), done] if error is not None else [done], [step])
    await run.aclose()
