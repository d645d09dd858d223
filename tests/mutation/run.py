"""Every guard of the commit path and every rule of the conflict checker has a test that needs it.

Each is taken out in turn, in a copy of the package, and the tests have to fail; what survives is
named, and the exit code is 1. Tests that fail as it is are left out, and named too.

    python -m tests.mutation.run                  all of them: an hour of one core or so
    python -m tests.mutation.run conflict_checker those of modules with that in their name
    python -m tests.mutation.run --list           what they are
    python -m tests.mutation.run --simulated 600  whether the simulation finds those that are its
                                                  business, in so many seconds of CPU each
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import queue
import re
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.simulated import NOT_FOUND, simulated

ROOT = Path(__file__).resolve().parents[2]
RULES = ["adelta/kernel/transaction/*.py"]
COMMIT_PATH = [
    "adelta/transaction.py",
    "adelta/commit/filesystem.py",
    "adelta/write/attempt.py",
    "adelta/write/commit*.py",
    "adelta/write/group_commit.py",
    "adelta/write/recent_commits.py",
    "adelta/write/staging.py",
    "adelta/write/submission*.py",
    "adelta/write/transaction*.py",
    "adelta/write/winners.py",
]
STAGES = [  # from the quickest on, and each only for what the ones before it let live
    ["tests/kernel/transaction"],
    [
        "tests/api/test_transaction.py",
        "tests/api/test_own_operations.py",
        "tests/api/test_transaction_verbs.py",
        "tests/write/test_base.py",
        "tests/write/test_commit_queue.py",
        "tests/write/test_creation.py",
        "tests/write/test_kept_files.py",
        "tests/write/test_lost_answers.py",
        "tests/write/test_recent_commits.py",
        "tests/write/test_staged_files.py",
        "tests/write/test_transaction_core.py",
        "tests/operations/test_alter_races.py",
        "tests/operations/test_row_tracking.py",
        "tests/stateful/test_row_tracking_races.py",
    ],
    [
        "tests/faults/test_append.py",
        "tests/stateful/test_conflict_settings.py",
        "-k",
        "test_append or marked or partitioned or vectors or nameless or compacted-write or local",
    ],
    [
        "tests/api",
        "tests/commit",
        "tests/faults",
        "tests/kernel/table_features",
        "tests/operations",
        "tests/property",
        "tests/stateful",
        "tests/write",
    ],
]
NEAREST: dict[str, list[str]] = {  # what is run before all of them, for a part of the package
    "adelta/transaction.py": [
        "tests/api/test_own_operations.py",
        "tests/api/test_arguments.py",
        "tests/write/test_transaction_core.py",
    ],
    "adelta/commit/filesystem.py": ["tests/commit/test_filesystem.py", "tests/write/test_base.py"],
    "adelta/write/attempt.py": ["tests/write/test_creation.py", "tests/api/test_arguments.py"],
    "adelta/write/commit_loop.py": [
        "tests/write/test_creation.py",
        "tests/write/test_base.py",
        "tests/write/test_transaction_core.py",
    ],
    "adelta/write/commit_queue.py": [
        "tests/write/test_commit_queue.py",
        "tests/write/test_transaction_core.py",
    ],
    "adelta/write/staging.py": ["tests/write/test_staged_files.py"],
    "adelta/write/submission.py": ["tests/write/test_creation.py"],
    "adelta/write/transaction_core.py": [
        "tests/api/test_transaction_verbs.py",
        "tests/api/test_own_operations.py",
        "tests/write/test_transaction_core.py",
    ],
    "adelta/write/transaction_life.py": [
        "tests/api/test_transaction_verbs.py",
        "tests/api/test_own_operations.py",
        "tests/write/test_kept_files.py",
        "tests/write/test_transaction_core.py",
    ],
    "adelta/write/winners.py": [
        "tests/write/test_base.py",
        "tests/write/test_recent_commits.py",
        "tests/write/test_transaction_core.py",
    ],
}
LONGEST = 900.0  # seconds of a stage: what hangs is noticed, too
_CHECKER = "adelta/kernel/transaction/conflict_checker.py: "
_READ_SET = "adelta/kernel/transaction/read_set.py: "
_ONLY_SOONER = "without it the same is found, after more work"
EQUIVALENT: dict[str, str] = {
    _CHECKER + "never: if not len(staged.existing)": _ONLY_SOONER,
    _CHECKER + "never: if read.is_empty and (not len(removed)) or not winner.removes.num_rows": (
        _ONLY_SOONER
    ),
    _CHECKER
    + "without operand 1 of: read.is_empty and (not len(removed)) or not winner.removes.num_rows": (
        _ONLY_SOONER
    ),
    _CHECKER
    + "without operand 2 of: read.is_empty and (not len(removed)) or not winner.removes.num_rows": (
        _ONLY_SOONER
    ),
    _READ_SET + "never: if not len(self.files)": _ONLY_SOONER,
    _READ_SET + "never: if not moved.num_rows": _ONLY_SOONER,
    "adelta/kernel/transaction/creation.py: without operand 1 of: ours.protocol == theirs.protocol "
    "or protocol_may_change(ours.protocol, theirs.protocol)": "no change is one that may be",
    "adelta/kernel/transaction/metadata_change.py: never: if old == new": _ONLY_SOONER,
    _CHECKER
    + "without operand 1 of: read.is_empty or not level.must_see_adds_of(winner, staged)": (
        _ONLY_SOONER
    ),
    "adelta/write/commit_queue.py: never: if winners.damage is not None": _ONLY_SOONER,
}
"""What no test can tell from the original, as `str(mutant)` without its line, and why."""
_STAGES_OF_EQUIVALENT = 2  # where one of them is not what it is said to be, these would tell


_NOT_EVEN_LOADED = 4  # pytest's exit code where a conftest.py fails
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(  # what every run would load again
    [
        "aiobotocore.session",
        "anyio",
        "deltalake",
        "hypothesis",
        "orjson",
        "pyarrow.parquet",
        "pytest",
    ]
)


def run_pytest(folder: str, options: list[str], said: str) -> None:
    """Run tests of the copy in `folder`, in a process of their own."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("adelta", "tests")]:
        del sys.modules[name]
    here = {"", str(ROOT), str(Path.cwd())}
    sys.path[:] = [folder, *(path for path in sys.path if path not in here)]
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = folder  # of processes that tests begin
    os.chdir(folder)
    with open(said, "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        import pytest

        code = pytest.main(options)
        import adelta

        assert Path(adelta.__file__).is_relative_to(folder)
    os._exit(int(code))  # whatever hangs


def hunt(folder: str, seconds: float, said: str) -> None:
    """Have the simulation look for what is wrong with the copy in `folder`."""
    sys.path[:0] = [folder]
    sys.dont_write_bytecode = True
    os.chdir(folder)
    with open(said, "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            from tests.simulation import hunt

            code = hunt.main([f"seconds={seconds}"])
        except BaseException as error:
            print(repr(error))
            code = 1
        print(f"{time.process_time():.1f}")
        sys.stdout.flush()
    os._exit(code)


def cpu_seconds(process: int | None) -> float:
    """The processor time that a process has had."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Copy:
    """A copy of the package and its tests, in which one module at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("adelta", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc"))
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / name, folder)

    def test(self, paths: list[str], *, leave_out: list[str], stop: bool = True) -> list[str]:
        """The tests of `paths` that fail; with `stop` the first one of them."""
        options = ["-q", "-p", "no:cacheprovider", "-rfE"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is loaded before
        options += ["--timeout", "60", "-x"] if stop else ["--timeout", "120"]
        options += [f"--deselect={name}" for name in leave_out]
        gone = {path for path in paths if path.startswith("tests/") and not self._has(path)}
        options += [path for path in paths if path not in gone]
        said = self.folder / "said"
        process = _PROCESSES.Process(target=run_pytest, args=(str(self.folder), options, str(said)))
        process.start()
        process.join(LONGEST)
        if process.is_alive():
            process.kill()
            process.join()
            return ["it hangs"]
        if process.exitcode in (0, 5):
            return []
        found = r"^(?:FAILED|ERROR) (tests/\S*(?:\[.*?\])?)"
        failed = re.findall(found, said.read_text(), re.MULTILINE)
        if not failed and "+ Timeout +" in said.read_text():
            return ["a test hangs"]
        if not failed and process.exitcode != _NOT_EVEN_LOADED:
            raise RuntimeError(f"the tests did not run:\n{said.read_text()[-2000:]}")
        return failed or ["nothing can be loaded"]

    def found_by_simulation(self, mutant: Mutant, seconds: float) -> tuple[str | None, float]:
        """What the simulation finds without the guard, None for nothing, and in what CPU time."""
        module = self.folder / mutant.module
        source = module.read_text()
        module.write_text(mutant.apply(source))
        said = self.folder / "said"
        try:
            process = _PROCESSES.Process(target=hunt, args=(str(self.folder), seconds, str(said)))
            process.start()
            process.join(LONGEST + 2 * seconds)
            if process.is_alive():
                had = cpu_seconds(process.pid)
                process.kill()
                process.join()
                if had < seconds:  # which in the simulation nothing waits for but the processor
                    raise RuntimeError(
                        f"{mutant}: {had:.0f} of {seconds:.0f} s of processor time were to be had; "
                        "run it again while the machine is less busy"
                    )
                return "it hangs", had
            *lines, cpu = said.read_text().strip().splitlines()
            return None if process.exitcode == 0 else (lines or ["nothing is said"])[-1], float(cpu)
        finally:
            module.write_text(source)

    def _has(self, path: str) -> bool:
        return (self.folder / path).exists()

    def killer(self, mutant: Mutant, stages: list[Stage]) -> str | None:
        """The first test that fails without the guard; None where none does."""
        module = self.folder / mutant.module
        source = module.read_text()
        module.write_text(mutant.apply(source))
        try:
            for stage in stages:
                if failed := self.test(stage.paths, leave_out=stage.failing()):
                    return failed[0]
        finally:
            module.write_text(source)
        return None


class Stage:
    """Tests that are run together, but for those that fail as it is."""

    def __init__(self, paths: list[str], folder: Path) -> None:
        self.paths = paths
        self._copy = Copy(folder)  # in which nothing is ever changed
        self._failing: list[str] | None = None
        self._lock = threading.Lock()

    def failing(self) -> list[str]:
        """The tests that fail with all guards in place."""
        with self._lock:
            if self._failing is None:
                self._failing = self._copy.test(self.paths, leave_out=[], stop=False)
                if any(not name.startswith("tests/") for name in self._failing):
                    raise RuntimeError(f"{self.paths} do not run: {self._failing}")
                for name in self._failing:
                    print(f"left out, since it fails with all guards: {name}", flush=True)
            return self._failing


def mutants(only: str) -> list[Mutant]:
    """All guards of modules with `only` in their name."""
    found: list[Mutant] = []
    for patterns, rules in ((RULES, True), (COMMIT_PATH, False)):
        for path in sorted({path for pattern in patterns for path in ROOT.glob(pattern)}):
            name = path.relative_to(ROOT).as_posix()
            if only in name:
                found += mutants_of(name, path.read_text(), rules=rules)
    return found


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="part of a module's name")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--stages", type=int, default=len(STAGES), help="how many to run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--simulated", type=float, metavar="SECONDS", help="by the simulation")
    options = parser.parse_args()
    if options.simulated is not None:
        return by_simulation(options.only, options.simulated, options.jobs, only_list=options.list)
    todo = mutants(options.only)
    if options.list:
        print(*todo, f"{len(todo)} guards", sep="\n")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stages = [
            Stage(paths, folder / f"stage-{number}")
            for number, paths in enumerate(STAGES[: options.stages])
        ]
        nearest = {
            module: Stage(paths, folder / f"nearest-{number}")
            for number, (module, paths) in enumerate(NEAREST.items())
            if any(mutant.module == module for mutant in todo)
        }
        copies = [Copy(folder / f"job-{number}") for number in range(options.jobs)]
        tried, survivors = run(copies, todo, stages, nearest)
    if tried < len(todo):
        print(f"only {tried} of {len(todo)} guards were tried: see the error above")
        return 2
    print(f"\n{len(todo) - len(survivors)} of {len(todo)} guards are needed by a test")
    for mutant in survivors:
        print(f"SURVIVES {mutant}")
    return 1 if survivors else 0


def by_simulation(only: str, seconds: float, jobs: int, *, only_list: bool) -> int:
    """Whether the simulation finds each of those that it should, and how long that takes."""
    todo = [mutant for mutant in simulated(ROOT) if only in str(mutant)]
    if only_list:
        print(*todo, f"{len(todo)} to be found", sep="\n")
        return 0
    missed: list[Mutant] = []

    def work(copy: Copy, left: queue.SimpleQueue[Mutant]) -> None:
        while not left.empty():
            mutant = left.get_nowait()
            reason = NOT_FOUND.get(nameless(mutant))
            found, took = copy.found_by_simulation(
                mutant, min(seconds, 20.0) if reason else seconds
            )
            if found is None and reason is None:
                missed.append(mutant)
            end = found or (f"cannot be found: {reason}" if reason else "NOT FOUND")
            print(f"{took:6.1f} s  {mutant}\n          {end}", flush=True)

    with tempfile.TemporaryDirectory() as name:
        left: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        for mutant in todo:
            left.put(mutant)
        copies = [Copy(Path(name) / f"job-{number}") for number in range(jobs)]
        threads = [threading.Thread(target=work, args=(copy, left)) for copy in copies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(f"\n{len(missed)} of {len(todo)} are not found")
    return 1 if missed else 0


def nameless(mutant: Mutant) -> str:
    """What a mutant is called, without its line."""
    return re.sub(r":\d+:", ":", str(mutant), count=1)


def run(
    copies: list[Copy], todo: list[Mutant], stages: list[Stage], nearest: dict[str, Stage]
) -> tuple[int, list[Mutant]]:
    """How many could be tried, in all copies at once, and those that survive."""
    left: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in todo:
        left.put(mutant)
    tried: list[Mutant] = []
    survivors: list[Mutant] = []

    def work(copy: Copy) -> None:
        while True:
            try:
                mutant = left.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            first = [nearest[mutant.module]] if mutant.module in nearest else []
            reason = EQUIVALENT.get(nameless(mutant))
            killer = copy.killer(
                mutant, first + (stages[:_STAGES_OF_EQUIVALENT] if reason else stages)
            )
            tried.append(mutant)
            if killer is None and reason is None:
                survivors.append(mutant)
            end = killer or (f"as good as before: {reason}" if reason else "SURVIVES")
            print(f"{time.monotonic() - began:6.1f} s  {mutant}\n          {end}", flush=True)

    threads = [threading.Thread(target=work, args=(copy,)) for copy in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(tried), survivors


if __name__ == "__main__":
    sys.exit(main())
