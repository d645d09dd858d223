"""MERGE overtaken by each other operation: what could have matched is a conflict, and no more is.

Where there is none, the table has the rows that the two make of it one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adelta.errors import CommitConflictError
from adelta.operations import merge, optimize
from adelta.table import Table
from tests.support.conflict_settings import CONFLICTS, cells
from tests.support.depth import DEEP
from tests.support.races import (
    OPERATIONS,
    OvertakenStore,
    base_objects,
    objects_of,
    outcome_of,
    rows,
    store_with,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.operations import Merge
    from tests.support.races import Objects, Outcome

# A row is a winner, a column a merge: what it does, and what becomes of it.
RACES = """
           upsert insert delete by_source mirror
append_a   ok     ok     ok     CA        CA
append_c   ok     ok     ok     ok        CA
overwrite  CDR    CDR    CDR    CA        CA
dynamic_pb ok     ok     CDR    CDR       CA
delete_id1 CDR    CDR    CDR    CA        CA
delete_id3 ok     ok     CDR    CA        CA
delete_pb  ok     ok     CDR    CDR       CDR
update_pa  CA     CA     CA     CA        CA
setprop    ok     ok     ok     ok        ok
addcol     MC     MC     MC     MC        MC
addrule    PC     PC     PC     PC        PC
again_a    ok     ok     ok     ok        ok
track      ok     ok     ok     ok        ok
groups     CDD    ok     CDD    CDD       CDD
upsert     CA     CA     CA     CA        CA
insert     CA     CA     ok     CA        CA
delete     CDR    CDR    CA     CA        CA
"""
# Blind appends may go behind a merge that is only WriteSerializable.
BLIND = """
           upsert insert delete by_source mirror
append_a   ok     ok     ok     ok        ok
append_c   ok     ok     ok     ok        ok
insert     CA     CA     ok     CA        CA
"""
# With a vector a file is added again, and may hold all that it held by its statistics.
VECTORS = """
           upsert insert delete by_source mirror
delete_id1 CA     CA     CA     CA        CA
delete_id3 ok     ok     CA     CA        CA
again_a    CA     ok     CA     CA        ok
delete     CA     CA     CA     CA        CA
"""


def merges(table: Table, kind: str, isolation: str) -> Merge:
    """A merge of rows that the table has, and of one that it does not have, in partition a."""
    source = rows(1, 20, more=1000)
    on = "target.id = source.id AND target.p = source.p"
    if kind in ("by_source", "delete"):
        source, on = rows(1, 3, 5, more=1000), "target.id = source.id"
    builder = merge(table, source, on, isolation=isolation)  # type: ignore[arg-type]
    match kind:
        case "upsert":
            return builder.when_matched_update_all().when_not_matched_insert_all()
        case "insert":
            return builder.when_not_matched_insert_all()
        case "delete":
            return builder.when_matched_delete(condition="source.v < 1005")
        case "by_source":
            return builder.when_not_matched_by_source_delete("target.p = 'a'")
    every = builder.when_matched_update_all().when_not_matched_insert_all()
    return every.when_not_matched_by_source_delete()


async def do(table: Table, name: str, isolation: str = "Serializable") -> None:
    if name == "groups":
        await optimize(table)
    elif name in OPERATIONS:
        await OPERATIONS[name](table)
    else:
        await merges(table, name, isolation).execute()


async def after(base: Objects, *steps: Callable[[Table], Awaitable[object]]) -> Outcome:
    store = await store_with(base)
    for step in steps:
        await step(Table(store.uri, store=store))
    return await outcome_of(store)


SETTINGS = [
    ("Serializable", False, RACES),
    ("WriteSerializable", True, BLIND),
    *([("Serializable", True, VECTORS), ("WriteSerializable", False, BLIND)] if DEEP else []),
]


@pytest.mark.parametrize(("isolation", "vectors", "races"), SETTINGS)
async def test_what_could_have_matched_is_a_conflict_and_no_row_is_lost_or_doubled(
    isolation: str, vectors: bool, races: str
) -> None:
    # C3-02, C3-03
    base, wrong = await base_objects(vectors=vectors), []
    for (winner, kind), expected in cells(races).items():
        found = await raced(base, winner, kind, isolation)
        if found != expected:
            wrong.append(f"{kind} after {winner}: {found} instead of {expected}")
    assert not wrong, "\n".join(wrong)


async def raced(base: Objects, winner: str, kind: str, isolation: str) -> str:
    """What becomes of a merge that is overtaken, and what is wrong with that."""
    inner = await store_with(base)

    async def win(table: Table | None = None) -> None:
        await do(table or Table(inner.uri, store=inner), winner)

    async def lose(table: Table) -> None:
        await do(table, kind, isolation)

    try:
        await lose(Table(inner.uri, store=OvertakenStore(inner, win)))
    except CommitConflictError as error:
        found, allowed = CONFLICTS[type(error)], [await after(base, win)]
    else:
        found, allowed = "ok", [await after(base, win, lose)]
        if isolation == "WriteSerializable":
            allowed.append(await after(base, lose, win))
    if await outcome_of(inner) not in allowed:
        found += ", with other rows"
    objects = await objects_of(inner)
    log = b"".join(data for path, data in objects.items() if path.endswith(".json"))
    if any(path.endswith(".parquet") and path.encode() not in log for path in objects):
        found += ", and files left behind"
    return found
