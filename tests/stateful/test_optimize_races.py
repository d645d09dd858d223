"""OPTIMIZE overtaken by each other operation, and overtaking it: no row is lost or revived."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adelta.errors import CommitConflictError
from adelta.operations import optimize
from adelta.table import Table
from tests.support.conflict_settings import CONFLICTS, Setting, cells, histories_of
from tests.support.races import (
    OPERATIONS,
    OvertakenStore,
    base_objects,
    is_commit,
    is_data,
    objects_of,
    outcome_of,
    store_with,
)

if TYPE_CHECKING:
    from adelta.operations import OptimizeMetrics

# How many of the two groups, one of each partition, are committed by an optimisation that the
# operation of the row overtakes, and what becomes of the operation where it is overtaken.
RACES = """
            groups overtaken
append_a    2      ok
overwrite   0      CDD
replace_pa  1      CDD
dynamic_pb  1      CDD
delete_id1  1      CDD
delete_pa   1      CDD
delete_all  0      CDD
update_pa   1      CDD
txn         2      ok
setprop     2      ok
addcol      MC     ok
addfeat     2      ok
addrule     PC     ok
compact     1      CDD
track       2      ok
note        2      ok
"""


def races(column: str) -> list[tuple[str, str]]:
    return [(row, met) for (row, of), met in cells(RACES).items() if of == column]


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize(("winner", "expected"), races("groups"))
async def test_what_others_leave_is_optimized(winner: str, expected: str, vectors: bool) -> None:
    inner = await store_with(await base_objects(vectors=vectors))

    async def win() -> None:
        await OPERATIONS[winner](Table(inner.uri, store=inner))

    met = await _optimized(Table(inner.uri, store=OvertakenStore(inner, win)))
    if isinstance(met, str):
        assert met == expected
    else:
        assert met.num_bins == int(expected)
    alone = await histories_of(Setting(vectors=vectors)).outcome(winner)
    assert alone is not None
    assert (await outcome_of(inner)).rows == alone.rows
    objects = await objects_of(inner)
    log = b"".join(data for path, data in objects.items() if is_commit(path)).decode()
    data_files = [path.rpartition("/")[2] for path in objects if is_data(path)]
    assert all(name in log for name in data_files if name.endswith(".parquet"))


async def _optimized(table: Table) -> OptimizeMetrics | str:
    try:
        return await optimize(table)
    except CommitConflictError as error:
        return CONFLICTS[type(error)]


@pytest.mark.parametrize(
    ("loser", "expected"), [each for each in races("overtaken") if OPERATIONS[each[0]].stage]
)
async def test_whoever_would_undo_an_optimization_does_its_work_again(
    loser: str, expected: str
) -> None:
    inner = await store_with(await base_objects())

    async def win() -> None:
        await optimize(Table(inner.uri, store=inner))

    try:
        await OPERATIONS[loser](Table(inner.uri, store=OvertakenStore(inner, win)))
        met = "ok"
    except CommitConflictError as error:
        met = CONFLICTS[type(error)]
    assert met == expected
    alone = await histories_of(Setting()).outcome(*([loser] if met == "ok" else []))
    assert alone is not None
    assert (await outcome_of(inner)).rows == alone.rows
