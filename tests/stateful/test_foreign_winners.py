"""C3-03: adelta's operations against commits of deltalake that came first, on the local disk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pytest

from adelta.errors import CommitConflictError
from adelta.operations import write_table
from adelta.storage.local import LocalStore
from adelta.table import Table
from tests.support.conflict_settings import CONFLICTS, LOSERS, SERIALIZABLE, Setting, histories_of
from tests.support.races import (
    OPERATIONS,
    OvertakenStore,
    by_hand,
    objects_of,
    outcome_of,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.races import Objects


def _write(data: object, **options: object) -> Callable[[deltalake.DeltaTable], object]:
    return lambda table: deltalake.write_deltalake(table, data, **options)  # type: ignore[call-overload,arg-type]


# What deltalake calls the operations of `tests.support.races`.
WINNERS: dict[str, Callable[[deltalake.DeltaTable], object]] = {
    "append_a": _write(rows(9), mode="append"),
    "replace_pa": _write(rows(13), mode="overwrite", predicate="p = 'a'"),
    "delete_id1": lambda table: table.delete("id = 1"),
    "delete_id3": lambda table: table.delete("id = 3"),
    "delete_pa": lambda table: table.delete("p = 'a'"),
    "delete_pb": lambda table: table.delete("p = 'b'"),
    "delete_all": lambda table: table.delete(),
    "update_pa": lambda table: table.update({"v": "v + 100"}, predicate="p = 'a'"),
    "setprop": lambda table: table.alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 9 days"}
    ),
    "compact": lambda table: table.optimize.compact(partition_filters=[("p", "=", "a")]),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not `tmp_path`, whose tables are all read again by other readers."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


_base: Objects = {}


async def base(folder: Path) -> Objects:
    """The table of the races, with a protocol that deltalake writes."""
    if not _base:
        table = Table(str(folder), store=LocalStore(str(folder)))
        for p, ids in (("a", (1, 2)), ("a", (3, 4)), ("b", (5, 6)), ("b", (7, 8))):
            await write_table(table, rows(*ids, p=p), partition_by=["p"])
        _base.update(await objects_of(table.store))
    return _base


@pytest.mark.parametrize("winner", WINNERS)
async def test_a_race_lost_to_deltalake_is_the_right_conflict_or_the_order_of_the_log(
    winner: str, folder: Path
) -> None:
    objects = await base(folder / "base")
    histories = histories_of(Setting())
    wrong = []
    for number, loser in enumerate(name for name in LOSERS if name != "domain"):
        inner = LocalStore(str(folder / loser))
        for path, data in objects.items():
            await inner.put(path, data)

        async def win(inner: LocalStore = inner) -> None:
            WINNERS[winner](deltalake.DeltaTable(inner.uri))

        operation = OPERATIONS[loser]
        act = operation.real if number % 2 or operation.stage is None else by_hand(operation.stage)
        store = OvertakenStore(inner, win)
        try:
            await (act or by_hand(operation.stage))(Table(inner.uri, store=store), "Serializable")
            wanted = await histories.outcome(winner, loser)
            seen = (await outcome_of(inner)).rows
            found = "ok" if wanted is not None and seen == wanted.rows else f"rows {seen}"
        except CommitConflictError as error:
            found = CONFLICTS[type(error)]
        if found != SERIALIZABLE[winner, loser]:
            wrong.append(f"{loser}: {found} instead of {SERIALIZABLE[winner, loser]}")
        assert store.before <= 0, "there was a race"
    assert not wrong, "\n".join(wrong)
