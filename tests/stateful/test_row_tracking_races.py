"""Row tracking is enabled in three commits, and others come between them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from adelta.errors import CommitConflictError
from adelta.table import Table
from tests.support.conflict_settings import CONFLICTS, Setting, cells, histories_of
from tests.support.races import OPERATIONS, OvertakenStore, outcome_of, store_with

if TYPE_CHECKING:
    from tests.support.conflict_settings import Histories
    from tests.support.races import Outcome

# A row is a winner, a column the commit that it overtakes: the upgrade of the protocol, the files
# that are added again with ids, or the property.
TRACKING = """
            1  2  3
append_a    ok ok ok
overwrite   ok ok ok
delete_id1  ok ok ok
delete_all  ok ok ok
update_pa   ok ok ok
txn         ok ok ok
domain      ok ok ok
setprop     MC ok MC
addcol      MC MC MC
addfeat     PC ok MC
addrule     PC PC PC
compact     ok ok ok
again_a     ok ok ok
track       PC ok MC
note        ok ok ok
"""


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize(("winner", "turn"), cells(TRACKING))
async def test_row_tracking_can_be_enabled_whatever_comes_between_its_commits(
    winner: str, turn: str, vectors: bool
) -> None:
    """The upgrade, the files added again with ids, the property: each overtaken in turn."""
    histories = histories_of(Setting(vectors=vectors))
    inner = await store_with(await histories.after())

    async def win() -> None:
        await OPERATIONS[winner](Table(inner.uri, store=inner))

    store = OvertakenStore(inner, win, before=int(turn))
    expected = cells(TRACKING)[winner, turn]
    try:
        await OPERATIONS["track"](Table(inner.uri, store=store))
        met = "ok"
    except CommitConflictError as error:
        met = CONFLICTS[type(error)]
    assert met == expected
    if met != "ok":
        assert (await outcome_of(inner)).rows == (await seen_after(histories, winner)).rows
    else:
        found, wanted = await outcome_of(inner), await seen_after(histories, winner, "track")
        assert replace(found, domains=()) == replace(wanted, domains=())
        snapshot = await Table(inner.uri, store=inner).snapshot()
        ids = (await snapshot.scan(with_row_ids=True).to_arrow()).column("_row_id").to_pylist()
        assert None not in ids
        assert len(set(ids)) == len(ids)
    assert store.before <= 0


async def seen_after(histories: Histories, *names: str) -> Outcome:
    found = await histories.outcome(*names)
    assert found is not None
    return found
