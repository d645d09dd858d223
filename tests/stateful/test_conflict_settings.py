"""C3-03: every operation against every commit that came first, in tables and logs of many kinds.

An operation that lost its race either meets the conflict that the matrix says, and leaves nothing
behind, or it commits. Then all that is to be seen of the table, row by row, is what the operations
make of it one after the other: in the order of the log, and where the transaction was to be
`WriteSerializable` also with blind appends that came first put after it.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adelta._concurrency import map_concurrent
from adelta.errors import CommitConflictError, ConcurrentAppendError, ConcurrentDeleteReadError
from adelta.table import Table
from tests.support.conflict_settings import (
    CONFLICTS,
    LOSERS,
    SERIALIZABLE,
    SETTINGS,
    VECTORS_TWICE,
    VERSION,
    WINNERS,
    Place,
    histories_of,
)
from tests.support.depth import cases
from tests.support.races import (
    OPERATIONS,
    NeighbourStore,
    OvertakenStore,
    base_objects,
    by_hand,
    is_commit,
    is_data,
    outcome_of,
    rows,
    store_with,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adelta.storage.object_store import ObjectStore
    from tests.support.conflict_settings import Setting
    from tests.support.races import Act, Objects


def ways(setting: Setting, winner: str, loser: str) -> dict[str, Act]:
    """How the loser is staged: by adelta's own operation, by hand, or both."""
    operation = OPERATIONS[setting.operation(loser)]
    found = {}
    if operation.real is not None and (operation.levels or setting.level == "Serializable"):
        found["real"] = operation.real
    if operation.stage is not None:
        found["hand"] = by_hand(operation.stage)
    elif not found:
        found["real"] = operation.real
    if not setting.all_ways and len(found) > 1:
        even = (WINNERS.index(winner) + LOSERS.index(loser)) % 2 == 0
        found.pop("real" if even else "hand")
    return found


RACES = 4
"""Races at a time, each on a table of its own."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not `tmp_path`, whose tables other readers look at, which do not read clones."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name).resolve()


@pytest.mark.parametrize(
    ("name", "winner"),
    [(name, winner) for name, setting in SETTINGS.items() for winner in setting.winners],
)
async def test_a_lost_race_is_the_right_conflict_or_one_of_the_serial_orders(
    name: str, winner: str, folder: Path
) -> None:
    setting = SETTINGS[name]
    histories, place = histories_of(setting), Place(setting, folder)
    winners = (*setting.before, winner, *setting.after)
    base = await histories.after()
    commits = place.commits(base, await histories.after(*winners))

    async def race(contender: tuple[str, str, Act]) -> str | None:
        """What is wrong with the outcome, if anything."""
        loser, way, act = contender
        expected = setting.expected(winner, loser)
        if setting.vectors and way == "real" and (winner, loser) in VECTORS_TWICE:
            expected = "CA"
        inner = await place.put(base)
        try:
            if setting.shared:
                await beside(setting, inner, winners, loser, way)
            else:
                won = place.named(commits, inner)
                await behind(inner, won, act, setting.level, place.options)
        except CommitConflictError as error:
            found = CONFLICTS[type(error)]
            if not VERSION < error.winning_version <= VERSION + 2 + len(winners):
                found += f" with version {error.winning_version}"
        else:
            seen = await outcome_of(inner, place.options)
            allowed = await histories.allowed(winners, loser, setting.level)
            found = "ok" if seen in allowed else f"{seen} of no serial order {allowed}"
        return None if found == expected else f"{loser} ({way}): {found} instead of {expected}"

    contenders = [
        (loser, way, act)
        for loser in setting.losers
        for way, act in ways(setting, winner, loser).items()
    ]
    step = cases(1, 7)
    some = contenders[(len(name) + len(winner)) % step :: step]
    wrong = [each for each in await map_concurrent(race, some, limit=RACES) if each]
    assert not wrong, "\n".join(wrong)


async def behind(
    inner: ObjectStore, winners: Objects, act: Act, level: str, options: Mapping[str, str]
) -> None:
    """The winners commit right before the loser does, whose conflict leaves nothing behind."""

    async def win() -> None:
        for path, data in winners.items():
            await inner.put(path, data)

    store = OvertakenStore(inner, win)
    before = await _paths(inner)
    try:
        await act(Table(inner.uri, options, store=store), level)
    except CommitConflictError:
        assert {path for path in await _paths(inner) if is_data(path) or is_commit(path)} == {
            path for path in {*before, *winners} if is_data(path) or is_commit(path)
        }
        raise
    finally:
        assert store.before <= 0, "there was a race"


async def _paths(store: ObjectStore) -> set[str]:
    return {meta.path async for page in store.list() for meta in page}


async def beside(
    setting: Setting, inner: ObjectStore, winners: Sequence[str], loser: str, way: str
) -> None:
    """Both on one handle: the winners commit while the loser is on its way."""
    store = NeighbourStore(inner)
    table = Table(inner.uri, store=store)
    await table.snapshot()

    async def win() -> None:
        for name in winners:
            await OPERATIONS[setting.operation(name)](table)

    operation = OPERATIONS[setting.operation(loser)]
    if way == "hand" or loser not in TOUCHES_FILES:
        await by_hand(operation.stage, win)(table, setting.level)
        return
    assert operation.real is not None
    store.neighbour = win
    await operation.real(table, setting.level)
    assert store.neighbour is None, "there was a race"


TOUCHES_FILES = frozenset(
    {"append_a", "overwrite", "replace_pa", "dynamic_pb", "delete_id1", "update_pa", "txn"}
)


@pytest.mark.parametrize("gone", ["delete_pa", "delete_all", "replace_pa", "update_pa"])
@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
async def test_files_marked_as_read_stay_read_through_a_compaction(level: str, gone: str) -> None:
    store = await store_with(await base_objects())
    mine, theirs = (Table(store.uri, store=store) for _ in range(2))
    async with mine.transaction() as look:
        files = await look.read("id = 1")
    tx = mine.transaction(isolation=level)
    await tx.__aenter__()
    tx.mark_read(files)
    await tx.append(rows(20, p="b"))
    for name in ("compact", "append_c", gone):
        await OPERATIONS[name](theirs)
    with pytest.raises(ConcurrentDeleteReadError):
        await tx.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("winner", "error"),
    [
        ("append_a", ConcurrentAppendError),
        ("delete_pa", ConcurrentDeleteReadError),
        ("compact", None),
        ("note", None),
    ],
)
async def test_what_was_read_counts_where_nothing_but_a_note_is_committed(
    winner: str, error: type[CommitConflictError] | None
) -> None:
    store = await store_with(await base_objects())
    mine, theirs = (Table(store.uri, store=store) for _ in range(2))
    tx = mine.transaction("AUDIT")
    await tx.__aenter__()
    await tx.read()
    tx.add_files([])
    await OPERATIONS[winner](theirs)
    with nullcontext() if error is None else pytest.raises(error):
        await tx.__aexit__(None, None, None)


@pytest.mark.parametrize("beside", ["nothing", "a transaction", "a domain"])
@pytest.mark.parametrize("verb", ["add again", "remove"])
async def test_only_who_moves_rows_and_does_nothing_else_overlooks_what_is_added(
    verb: str, beside: str
) -> None:
    """C3-02: whatever else is committed with moved files has to see what others have added."""
    store = await store_with(await base_objects())
    mine, theirs = (Table(store.uri, store=store) for _ in range(2))
    tx = mine.transaction("MOVE")
    await tx.__aenter__()
    files = await tx.read("p = 'a'")
    if verb == "remove":
        tx.remove_files(files, data_change=False)
    else:
        tx.add_files([replace(file, data_change=False) for file in files])
    if beside == "a transaction":
        tx.set_transaction("app", 1)
    elif beside == "a domain":
        tx.set_domain_metadata("app.notes", "hello")
    await OPERATIONS["append_a"](theirs)
    with nullcontext() if beside == "nothing" else pytest.raises(ConcurrentAppendError):
        await tx.__aexit__(None, None, None)


def test_the_matrix_is_complete() -> None:
    assert len(WINNERS) >= 18
    assert len(LOSERS) >= 12
    assert len(SERIALIZABLE) == len(WINNERS) * len(LOSERS)
