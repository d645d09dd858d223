"""What gives up or brings back files, overtaken by each other operation, and overtaking it.

A cell says what becomes of the loser, as in `tests.support.conflict_settings`; ``C`` is a
CommitConflictError of no narrower kind. What is seen of the table afterwards is what the operations
make of it one after the other, or the winner alone.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from adelta.errors import CommitConflictError
from adelta.operations import (
    clone,
    optimize,
    replace_table,
    restore,
    vacuum,
    write_table,
)
from adelta.operations.define_with_rows import define_with_rows
from adelta.storage.memory import MemoryStore
from adelta.table import Table, open_table
from tests.support.conflict_settings import CONFLICTS, cells
from tests.support.races import (
    OPERATIONS,
    SCHEMA,
    OvertakenStore,
    base_objects,
    outcome_of,
    rows,
    store_with,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Act = Callable[[Table], Awaitable[object]]

OVERTAKEN = """
            restore clone replace ctas vacuum
append_a    C       C     CA      CA   ok
overwrite   C       C     CA      CA   ok
delete_id1  C       C     CA      CA   ok
delete_pa   C       C     CDR     CDR  ok
txn         C       C     CA      CA   ok
domain      C       C     ok      ok   ok
setprop     C       C     MC      MC   ok
addcol      C       C     MC      MC   ok
addfeat     C       C     MC      PC   ok
compact     C       C     CDD     CDD  ok
again_a     C       C     ok      ok   ok
track       C       C     MC      PC   ok
note        C       C     ok      ok   ok
restore     C       C     MC      MC   ok
clone       C       C     MC      MC   ok
replace     C       C     MC      MC   ok
ctas        C       C     PC      PC   ok
optimize    C       C     CDD     CDD  ok
vacuum      C       C     ok      ok   ok
"""
OVERTAKING = """
         append_a overwrite delete_id1 delete_pa setprop addcol addfeat compact again_a track note
restore  ok       CDR       ok         ok        MC      MC     MC      ok      ok      MC    ok
clone    ok       CA        CDR        CA        MC      MC     MC      CDR     CDR     MC    ok
replace  MC       MC        MC         MC        MC      MC     MC      MC      MC      MC    ok
ctas     PC       PC        PC         PC        PC      PC     PC      PC      PC      PC    ok
vacuum   ok       ok        ok         ok        ok      ok     ok      ok      ok      ok    ok
"""


async def clone_here(table: Table) -> None:
    async with open_table(f"memory://{uuid.uuid4()}/source") as source:
        await write_table(source, rows(31, 32), partition_by=["p"])
        await clone(source, table, replace=True)


async def define(table: Table) -> None:
    data: Any = rows(41, 42)
    await define_with_rows(table, data, SCHEMA, mode="create or replace", cluster_by=("id",))


ACTS: dict[str, Act] = {
    "restore": partial(restore, version=2),
    "clone": clone_here,
    "replace": partial(replace_table, schema=SCHEMA),
    "ctas": define,
    "optimize": optimize,
    "vacuum": vacuum,
}


def races(text: str) -> list[tuple[str, dict[str, str]]]:
    """The outcomes by the operation that it is raced with."""
    found: dict[str, dict[str, str]] = {}
    for (row, column), cell in cells(text).items():
        found.setdefault(row, {})[column] = cell
    return list(found.items())


def act_of(name: str) -> Act:
    return ACTS[name] if name in ACTS else OPERATIONS[name]


async def race(loser: str, winner: str) -> str:
    """What becomes of the loser; the table has to be as after the two, or the winner alone."""
    base = await base_objects()
    inner, serial = await store_with(base), await store_with(base)

    async def win() -> None:
        await act_of(winner)(Table(inner.uri, store=inner))

    try:
        await act_of(loser)(Table(inner.uri, store=OvertakenStore(inner, win)))
        met = "ok"
    except CommitConflictError as error:
        met = CONFLICTS.get(type(error), "C")
    for name in (winner, loser) if met == "ok" else (winner,):
        await act_of(name)(Table(serial.uri, store=serial))
    assert await seen(inner) == await seen(serial), (loser, winner, met)
    return met


async def seen(store: MemoryStore) -> object:
    found = await outcome_of(store)
    return found.rows, found.columns, found.properties, found.features


async def test_create_if_not_exists_leaves_the_table_of_whoever_came_first() -> None:
    inner, data = MemoryStore(), rows(1)

    async def win() -> None:
        await write_table(Table(inner.uri, store=inner), rows(2))

    table = Table(inner.uri, store=OvertakenStore(inner, win))
    mode: Any = "create if not exists"
    assert await define_with_rows(table, data, SCHEMA, mode=mode) == 0
    assert [row[0] for row in (await outcome_of(inner)).rows] == [2]


@pytest.mark.parametrize(("winner", "expected"), races(OVERTAKEN))
async def test_overtaken_by_another_operation(winner: str, expected: dict[str, str]) -> None:
    assert {name: await race(name, winner) for name in expected} == expected


@pytest.mark.parametrize(("winner", "expected"), races(OVERTAKING))
async def test_overtaking_another_operation(winner: str, expected: dict[str, str]) -> None:
    assert {name: await race(name, winner) for name in expected} == expected
