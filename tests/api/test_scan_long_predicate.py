"""Predicates of thousands of values never hold the event loop up."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidExpressionError, InvalidOptionError
from adelta.kernel.data_skipping.prune import Skipping
from adelta.kernel.expressions import dnf
from adelta.kernel.expressions.dnf import is_long

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from types import FrameType

MANY = range(0, 20_000, 2)
SPELLINGS: dict[str, Any] = {
    "text": f"id in ({', '.join(map(str, MANY))})",
    "tuples": [("id", "in", list(MANY))],
    "disjunction": [[("id", "=", n)] for n in MANY[:1_000]],
}


async def table_of(path: Path) -> str:
    rows = pa.table({"id": pa.array(range(100)), "name": pa.array(map(str, range(100)))})
    await adelta.write_table(str(path), rows)
    return str(path)


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_long_predicate_is_looked_into_in_threads_alone(
    spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    loop, seen = threading.get_ident(), []
    parsed, prepared = dnf.to_predicate, Skipping.of

    def watched(where: Any, **settings: Any) -> Any:
        seen.append(("parsed", threading.get_ident() == loop))
        return parsed(where, **settings)

    def watched_too(*of: Any, **settings: Any) -> Skipping:
        seen.append(("prepared", threading.get_ident() == loop))
        return prepared(*of, **settings)

    async with adelta.open_table(await table_of(tmp_path)) as table:
        snapshot = await table.snapshot()
        monkeypatch.setattr(dnf, "to_predicate", watched)
        monkeypatch.setattr(Skipping, "of", watched_too)
        scan = snapshot.scan(["name"], where=SPELLINGS[spelling])
        assert scan.schema.names == ["name"]
        seen.clear()  # the plan without a predicate
        assert (await scan.to_arrow())["name"].to_pylist() == [str(n) for n in range(0, 100, 2)]
        assert seen == [("parsed", False), ("prepared", False)]
        assert await scan.count() == 50
        assert (await scan.files()).num_rows == 1
        assert [name for name, _ in seen].count("parsed") == 1
        assert len(await_free(scan)) == 2
        seen.clear()
        assert (await snapshot.files(SPELLINGS[spelling])).num_rows == 1
        assert seen
        assert not any(on_loop for _, on_loop in seen)


def await_free(scan: adelta.Scan) -> list[str]:
    """What the plan, which needs no await, reads of a file."""
    return [field.name for field in scan.plan.read]


SOURCE = pa.table({"id": [2], "name": ["y"]})
SAME = "target.id = source.id"


async def read_in_transaction(table: str, where: str) -> None:
    async with adelta.open_table(table) as opened, opened.transaction() as tx:
        assert await tx.read(where)


OPERATIONS: dict[str, Callable[[str, str], Awaitable[Any]]] = {
    "analyze": lambda table, where: adelta.analyze(table, where=where),
    "optimize": lambda table, where: adelta.optimize(table, where=where),
    "reorg": lambda table, where: adelta.reorg_purge(table, where=where),
    "update": lambda table, where: adelta.update(table, {"name": "'x'"}, where),
    "update to": lambda table, where: adelta.update(
        table, {"name": f"CASE WHEN {where} THEN 'x' END"}
    ),
    "delete": adelta.delete,
    "overwrite": lambda table, where: adelta.write_table(
        table, SOURCE, mode="overwrite", replace_where=where
    ),
    "transaction": read_in_transaction,
    "merge on": lambda table, where: (
        adelta.merge(table, SOURCE, f"{SAME} AND target.{where}").when_matched_delete().execute()
    ),
    "merge when": lambda table, where: (
        adelta.merge(table, SOURCE, SAME).when_matched_update_all(f"source.{where}").execute()
    ),
    "constraint": lambda table, where: adelta.add_constraint(table, "c", f"id > 0 OR {where}"),
    "statement": lambda table, where: adelta.sql(
        f"UPDATE t SET name = 'x' WHERE {where}", tables={"t": table}
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_operations_look_into_a_long_condition_in_threads_alone(
    operation: str, tmp_path: Path
):
    table, days = str(tmp_path), pa.array([1, 2] * 50)
    rows = pa.table({"id": days, "name": pa.array(map(str, range(100)))})
    await adelta.write_table(table, rows, partition_by=["id"])
    calls = 0

    def called(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and "/adelta/kernel/" in frame.f_code.co_filename

    sys.setprofile(called)  # of this thread alone, which is the event loop's
    try:
        await OPERATIONS[operation](table, SPELLINGS["text"])
    finally:
        sys.setprofile(None)
    assert calls < 3_000  # some hundreds are whatever the condition is


async def test_what_a_long_condition_of_a_merge_says_counts(tmp_path: Path):
    table, where = await table_of(tmp_path), SPELLINGS["text"]
    source = pa.table({"id": [4, 5, 6, 7], "name": ["a"] * 4})
    merge = adelta.merge(table, source, f"{SAME} AND target.{where}")
    merge = merge.when_matched_delete(f"NOT source.{where} OR source.id = 6")
    done = await merge.when_matched_update_all().execute()
    assert (done.num_target_rows_deleted, done.num_target_rows_updated) == (1, 1)
    nothing = adelta.merge(table, source, f"target.{where} AND nothing = 1").when_matched_delete()
    with pytest.raises(InvalidExpressionError):
        await nothing.execute()
    everything = adelta.merge(table, source, [[], *[[("id", "=", n)] for n in range(300)]])
    with pytest.raises(InvalidOptionError, match="needs a condition"):
        await everything.when_matched_delete().execute()


async def test_what_is_wrong_with_a_long_predicate_is_said_when_rows_are_asked_for(tmp_path: Path):
    async with adelta.open_table(await table_of(tmp_path)) as table:
        snapshot = await table.snapshot()
        with pytest.raises(InvalidExpressionError):
            snapshot.scan(where="nothing in (1)")
        scan = snapshot.scan(where=f"nothing in ({', '.join(map(str, MANY))})")
        for ask in (scan.to_arrow, scan.files, scan.count):
            with pytest.raises(InvalidExpressionError):
                await ask()
        with pytest.raises(InvalidExpressionError):
            _ = scan.plan


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, False),
        ("id = 1", False),
        ("id = 1 or " * 500 + "id = 2", True),
        ([("id", "=", 1)], False),
        ([("name", "=", "x" * 5000)], False),
        ([("id", "in", range(300))], True),
        ([[("id", "=", 1), ("id", "in", {*range(300)})]], True),
        ([()], False),
        (7, False),
    ],
)
def test_few_values_are_no_long_predicate(where: Any, expected: bool):
    assert is_long(where) == expected
