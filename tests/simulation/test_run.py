"""Runs that a seed decides: whatever happens in them, the table stays what was made of it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.changes import tail
from adelta.changes.commit_pieces import changed_pieces
from adelta.kernel.checkpoint.classic import add_rows
from tests.mutation.simulated import simulated
from tests.simulation.__main__ import main
from tests.simulation.exclusion import EXCLUDES
from tests.simulation.plan import _FAR_S, Plan
from tests.simulation.postgres import LockServer
from tests.simulation.run import _is_commit, _Run, run
from tests.support.depth import DEEP, cases
from tests.support.workload import ALL_KINDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from adelta.kernel.commit import Commit
    from adelta.read.data_files import Piece
    from adelta.table import Table

RUNS = cases(700, 36)  # of 30 commits each: more than 20,000, or 1,100
BUSY = cases(1000, 10)  # of 60 small commits each, and more: 75,000, or 750
LIGHT = cases(1000, 58)  # of 120 that have no rows, most of them, and more: 140,000, or 8,200


@pytest.mark.parametrize("seed", range(RUNS))
def test_whatever_happens_the_table_stays_what_was_made_of_it(seed: int) -> None:
    plan = Plan.drawn(seed, 10)
    ran = run(plan)
    assert ran.wrong == [], plan.command()
    assert 0 <= ran.commits - 10 * plan.writers <= 2 * plan.sleepers


@pytest.mark.parametrize(
    "plan",
    [*(Plan.busy(seed) for seed in range(BUSY)), *(Plan.light(seed) for seed in range(LIGHT))],
    ids=lambda plan: f"{plan.seed}-{plan.kinds[0]}",
)
def test_and_so_it_does_where_tasks_of_one_process_make_many_small_commits(plan: Plan) -> None:
    ran = run(plan)
    assert ran.wrong == [], plan.command()
    assert ran.commits >= plan.commits * plan.writers


def test_an_update_that_begins_before_settings_change_keeps_to_them() -> None:
    kinds = tuple(each for each in ALL_KINDS if each not in ("support", "domain"))
    plan = Plan(206, 4, 6, 2, crashes=1, checkpoint_every=3, vector_files=True, kinds=kinds)
    assert run(plan).wrong == [], plan.command()


def test_features_that_many_writers_add_stay_supported_and_files_are_as_they_ask() -> None:
    kinds = ("support", "support", "append", "append", "delete", "add_one")
    plan = Plan(5, 4, 6, crashes=0, keepers=(), kinds=kinds)
    ran = run(plan)
    assert ran.wrong == [], plan.command()
    assert ran.outcomes["refused"]


@pytest.mark.parametrize("excludes", sorted({*EXCLUDES}))
def test_and_whatever_keeps_writers_from_overwriting_each_other(excludes: str) -> None:
    plan = Plan(3, writers=2, commits=4, faults=20, crashes=3, tailers=1, excludes=excludes)
    ran = run(plan)
    assert ran.wrong == [], plan.command()
    assert ran.commits == 8


def test_and_whatever_the_table_writes_beside_its_rows_and_however_late_listings_are() -> None:
    kinds = ("append", "delete", "add_one", "merge", "overwrite")
    plan = Plan(5, writers=3, commits=6, kinds=kinds, checkpoint_every=3, page=7, lag=5.0)
    made = _Run(replace(plan, settings=("changes", "sidecars", "row_ids")), traced=True)
    assert made.world.run(made.main) == [], made.plan.command()
    for what in ("_change_data/", "_delta_log/_sidecars/"):
        assert any(what in path for path in made.archive.objects), what


def test_and_where_uploads_are_torn_between_two_parts_and_stores_throttle() -> None:
    plan = Plan(6, 3, 6, faults=30, crashes=3, kinds=("append", "overwrite"), streamed=True)
    ran = run(plan, traced=True)
    assert ran.wrong == [], plan.command()
    parts = [line for line in ran.trace if " part " in line]
    assert any("is lost" in line for line in parts)
    assert any("is throttled" in line for line in parts)
    assert len(parts) > 2 * ran.commits


@pytest.mark.parametrize("gets", ["nothing", "not the last"])
def test_a_tailer_that_does_not_get_what_is_there_is_found(
    gets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def few(table: Table, since: int, *, poll: float) -> AsyncGenerator[Commit, None]:
        async for commit in tail(table, since, poll=poll):
            if gets == "nothing" or commit.version > 2:
                await asyncio.sleep(1e6)
            yield commit

    plan = Plan(4, writers=1, commits=4, faults=0, crashes=0, keepers=(), tailers=1)
    assert run(plan).wrong == []
    monkeypatch.setattr("tests.simulation.run.tail", few)
    assert any("a tailer waits for version" in each for each in run(plan).wrong)


def test_tables_are_compacted_after_commits_though_processes_die_that_did_it() -> None:
    kinds = ("append", "add_one")
    plan = Plan(15, 2, 12, crashes=4, keepers=(), kinds=kinds, settings=("compacted",))
    ran = run(plan)
    assert ran.wrong == [], plan.command()
    assert ran.compacted > 1


def test_commits_that_overwrite_are_found_shrunk_and_made_again_by_the_printed_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["runs=20", "commits=4", "overwriting=1"]) == 1
    printed = capsys.readouterr().out
    command = [line for line in printed.splitlines() if line.startswith("python -m")][-1]
    least = Plan.of(command.split()[3:])
    assert (least.keepers, least.faults, least.crashes) == ((), 0, 0)
    assert main(command.split()[3:]) == 1
    again = capsys.readouterr().out
    assert re.search(r"version \d+ is not what|at its version|no later|began when", again)
    assert run(replace(least, overwriting=False)).wrong == []


def test_a_run_that_does_not_come_to_its_end_is_shrunk_and_made_again_as_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise LookupError("nobody expects that")

    monkeypatch.setattr(_Run, "_left_alone", broken)
    assert main(["runs=1", "first=4", "commits=2"]) == 1
    command = capsys.readouterr().out.splitlines()[-1]
    assert "writers=1 commits=1 faults=0 crashes=0" in command
    assert main(command.split()[3:]) == 1
    assert 'raise LookupError("nobody expects that")' in capsys.readouterr().out


def test_a_lock_that_a_server_gives_to_everybody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def grant(self: LockServer) -> None:
        while self.waiting:
            self.holder = self.waiting.popleft()
            self.holder.told(None)

    monkeypatch.setattr(LockServer, "grant", grant)
    plans = [Plan(s, 3, 4, 0, 0, keepers=(), excludes="postgres", reads=0) for s in range(8)]
    assert any("not any more what it was" in each for plan in plans for each in run(plan).wrong)


def test_an_owner_whose_statements_are_transactions_of_their_own_is_found() -> None:
    def found(seed: int) -> bool:
        made = _Run(Plan(seed, commits=4, keepers=(), excludes="owner"), traced=False)
        assert made.exclusion.owner is not None
        made.exclusion.owner.base.torn = True
        return any("has ratified version" in each for each in made.world.run(made.main))

    assert any(map(found, range(3, 9)))


@pytest.mark.parametrize("what", ["rows", "a commit", "a row", "another's", "a checksum"])
def test_what_is_gone_or_changed_too_soon_is_found(what: str) -> None:
    class Losing(_Run):
        """Something happens to the store before it is checked."""

        async def _wrong(self) -> list[str]:
            files = sorted(self.bucket.objects)
            if what == "another's":
                lost = "table/p=a/.begun"
            elif what == "a commit":
                lost = [path for path in files if _is_commit(path)][-2]
            else:
                ending = ".crc" if what == "a checksum" else ".parquet"
                lost = [path for path in files if path.endswith(ending)][-1]
            if what in ("a row", "a checksum"):
                other = next(p for p in files if p.endswith(ending) and p != lost)
                self.bucket.put(lost, self.bucket.objects[other].data)
            else:
                self.bucket.delete(lost)
            return await super()._wrong()

    plan = Plan(2, writers=1, commits=4, faults=0, crashes=0, keepers=(), kinds=("append",))
    made = Losing(plan, traced=False)
    found = made.world.run(made.main)
    says = {
        "rows": "which the versions",
        "another's": "which the versions",
        "a commit": "cannot be read",
        "a row": "not any more what",
        "a checksum": "does not agree with the log",
    }
    assert any(says[what] in each for each in found)


def test_an_old_transaction_that_trusts_in_its_base_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = Plan(43, 2, 6, 5, 0, 0.0, checkpoint_every=3, keepers=("cleanup",), kinds=("append",))
    plans = [replace(plan, seed=seed, reads=0, sleepers=4, page=7) for seed in (43, 46, 59)]
    assert [run(plan).wrong for plan in plans] == [[], [], []]
    monkeypatch.setattr("adelta.write.base_age.BaseAge.is_great", False)
    assert any(run(plan).wrong for plan in plans)


_MOST_RUNS = 40


async def _by_own_clock(_: object, now_ms: int) -> int:
    return now_ms


def _without_statistics(schema: pa.Schema, files: pa.Table, *more: Any) -> pa.Table:
    at = files.schema.get_field_index("stats")
    none = pa.nulls(files.num_rows, pa.string())
    return add_rows(schema, files.set_column(at, "stats", none), *more)


async def _twice(*args: Any, **named: Any) -> list[Piece]:
    return 2 * await changed_pieces(*args, **named)


@pytest.mark.parametrize(
    ("broken", "by", "says"),
    [
        ("adelta.operations.vacuum.expiry_time_ms", _by_own_clock, "is gone, which the versions"),
        ("adelta.log.checkpoint_rows.add_rows", _without_statistics, "for which stats of"),
        ("adelta.changes.feed.changed_pieces", _twice, "something else than changed"),
        ("adelta.log.cleanup.is_abandoned", lambda *_: True, "_sidecars/"),
    ],
    ids=["a clock that is ahead", "statistics", "changes", "a sidecar"],
)
def test_what_is_lost_of_versions_or_told_twice_is_found(
    broken: str, by: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = ("append", "delete", "overwrite")
    keepers = ("vacuum", *("cleanup",) * 4, *("checkpoint",) * 2)
    plan = Plan(2, 2, 6, 2, 0, _FAR_S, keepers=keepers, kinds=kinds, checkpoint_every=3)
    plan = replace(plan, settings=("changes", "sidecars"), slow=300, page=7)
    assert run(plan).wrong == []
    module, _, name = broken.rpartition(".")
    monkeypatch.setattr(import_module(module), name, by)
    for seed in range(1, _MOST_RUNS + 1):
        if any(says in each for each in run(replace(plan, seed=seed)).wrong):
            print(f"found in run {seed} of at most {_MOST_RUNS}")
            return
    pytest.fail(f"{_MOST_RUNS} runs do not find it")


@pytest.mark.skipif(not DEEP, reason="it starts three processes")
def test_many_runs_are_made_by_several_processes_and_said_where_they_go_on() -> None:
    made = [sys.executable, "-m", "tests.simulation", "total=5", "jobs=2", "first=3", "commits=1"]
    done = subprocess.run(made, capture_output=True, text=True, check=True)
    runs = int(done.stdout.split()[0])
    assert runs >= 1
    assert f"first={3 + runs} goes on" in done.stdout


def test_a_plan_is_made_again_by_its_command() -> None:
    plan = Plan.drawn(17, 3)
    assert Plan.of(plan.command().split()[3:]) == plan


def test_all_that_the_simulation_is_to_find_is_still_in_the_sources() -> None:
    found = simulated(Path(__file__).parents[2])
    assert len(found) > 60
    assert len({str(mutant) for mutant in found}) == len(found)
