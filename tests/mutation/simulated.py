"""What the simulation has to find when it is taken out: rules, guards, and what they rest on.

Those of the conflict checker are found in it, as all guards are; the others are texts of the commit
path, of the coordinators, of clean-up and of VACUUM, and what stands there without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.mutation.mutants import Mutant, mutants_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["NOT_FOUND", "simulated"]

_CHECKER = "adelta/kernel/transaction/conflict_checker.py"
_FILES = "adelta/commit/filesystem.py"
_DYNAMO = "adelta/commit/dynamodb.py"
_OWNER = "adelta/commit/owner_commit.py"
_POSTGRES = "adelta/commit/postgresql.py"
_CLEANUP = "adelta/kernel/log_cleanup.py"
_CHECKPOINT = "adelta/kernel/checkpoint/classic.py"
_CHECKSUM = "adelta/kernel/checksum/advance.py"
_COMPACTION = "adelta/kernel/log_compaction.py"
_VACUUM = "adelta/kernel/vacuum.py"
_PLAN = "adelta/operations/vacuum_plan.py"
_LOOP = "adelta/write/commit_loop.py"
_OWN = "own = next((at for at, c in enumerate(commits) if c.info.txn_id == transaction_id), None)"


@dataclass(frozen=True)
class _Change:
    """A text that stands once in a module, and what is put in its place."""

    module: str
    old: str
    new: str

    def made(self, source: str) -> Mutant:
        before, found, after = source.partition(self.old)
        if not found or self.old in after:
            raise LookupError(f"{self.module} does not say {self.old!r} once")
        start = len(before.encode())
        what = f"{self.new.strip()!r} for {self.old.strip()!r}"
        end = start + len(self.old.encode())
        return Mutant(self.module, before.count("\n") + 1, start, end, self.new, what)


_GUARDS = {  # of modules in which the others are not about races: parts of what a mutant says
    _CHECKER: (),
    "adelta/commit/check_then_put.py": ("is_shown(store, path)",),
    "adelta/write/winners.py": ("found is None and at == 0", "never: if found is None"),
    "adelta/write/recent_commits.py": ("missing > 0",),
    _LOOP: ("not winners.follow_base", "len(group) > 1 and own"),
    _DYNAMO: ("never: if taken", "not is_next", "not claimed", "entry.temp_path", "entry.complete"),
    _OWNER: ("response.ratified", "never: if ours", "latest < proposed", "self._log.commits"),
    _CLEANUP: ("run[-1].version + 1", "not candidates"),
    "adelta/log/cleanup.py": ("_is_younger", "none_expired"),
    _VACUUM: ("vectors.null_count", "name[:1]"),
}
_CHANGES = [
    # what keeps commits from being overwritten, or made twice
    _Change(_FILES, "made = await self._create(path", "made = await self._store.put(path"),
    _Change(_FILES, "if not is_by(found, transaction_id):", "if False:"),
    _Change(_DYNAMO, "put_new(entry.item):", "put_new(entry.item) or True:"),
    _Change(
        _DYNAMO,
        "            return Unknown(version, error)\n        except AdeltaError:",
        "            await self._discard(entry)\n            return Unknown(version, error)\n"
        "        except AdeltaError:",
    ),
    _Change(_DYNAMO, "version > 0 and not before.complete:", "version < 0:"),
    _Change(
        "adelta/commit/coordinated_store.py",
        "if last is not None and last >= min(versions):",
        "if False:",
    ),
    _Change("adelta/commit/check_then_put.py", "if alone is not None:", "if False:"),
    _Change(_POSTGRES, "self._key = lock_key(store.uri)", "self._key = id(self)"),
    _Change(_POSTGRES, "outcome, Lost | WithoutBase):", "outcome, object):"),
    _Change(_LOOP, _OWN, "own = None"),
    _Change(
        "adelta/write/submission.py",
        "self.staged, self.read = judged.staged, judged.read",
        "self.staged = judged.staged",
    ),
    _Change(
        "adelta/write/commit_queue.py",
        "if leader.outcome is None and leader.age.is_great:",
        "if False:",
    ),
    _Change(
        "adelta/kernel/table_features/in_commit_timestamp.py",
        "str(attempt.version)",
        "str(attempt.version - 1)",
    ),
    _Change(
        "adelta/kernel/table_features/row_tracking.py",
        "default_row_commit_version=attempt.version)",
        "default_row_commit_version=attempt.version - 1)",
    ),
    # what is told of commits
    _Change("adelta/changes/commit_pieces.py", "((after - before, DELETE)", "((after, DELETE)"),
    # what stands for commits
    _Change(_COMPACTION, "range(0, removes.num_rows, _PIECE)", "range(0)"),
    _Change(_COMPACTION, "        *transactions.values(),\n", ""),
    _Change(_COMPACTION, "        *domains.values(),\n", ""),
    _Change(
        _CHECKPOINT, "pc.greater_equal(pc.fill_null(deleted, 0), oldest)", "pc.less(deleted, 0)"
    ),
    _Change(_CHECKPOINT, "        return list(transactions)\n", "        return []\n"),
    _Change(_CHECKPOINT, "if not domain.removed),", "if domain.removed),"),
    _Change(_CHECKSUM, "removes, -1), adds)", "removes, 0), adds)"),
    _Change(
        _CHECKSUM,
        "found.update({domain.domain: domain for _, domain in commit.domain_metadata})",
        "pass",
    ),
    _Change(
        _CHECKSUM, "found.update({txn.app_id: txn for _, txn in commit.set_transactions})", "pass"
    ),
    _Change(
        "adelta/log/version_replay.py",
        "(await self.segment.domain_metadata(), 0)\n        newer = self._newer[applied:]",
        "(await self.segment.domain_metadata(), 0)\n        newer = self._newer[applied + 1:]",
    ),
    # clean-up of the log
    _Change("adelta/log/cleanup.py", "is_abandoned(s.last_modified_ms, now_ms)", "True"),
    _Change(_CLEANUP, "return file.version < min(first, anchor)", "return file.version <= first"),
    _Change(_CLEANUP, "    return file.version < first\n", "    return True\n"),
    _Change(
        "adelta/log/cleanup.py",
        "min(day_of(expired_ms) if whole_days else expired_ms, now_ms - LEAST_AGE_MS)",
        "now_ms",
    ),
    _Change("adelta/log/expiry_time.py", "else min(now_ms, store_ms)", "else now_ms"),
    _Change("adelta/write/commit_time.py", "else max(now_ms, store_ms)", "else now_ms"),
    # VACUUM
    _Change(_PLAN, "paths.append(live)", "pass"),
    _Change(_PLAN, "if unexpired.num_rows:", "if False:"),
    _Change(
        _PLAN,
        "old = pc.less(batch.column(2), cutoff_ms)",
        "old = pc.less(batch.column(2), 1 << 60)",
    ),
    _Change(
        _PLAN,
        "    mask = kept.lacks(batch.column(0))",
        "    mask = KeptFiles().lacks(batch.column(0))",
    ),
    _Change(_VACUUM, "    if len(vectors):", "    if False:"),
    _Change(_VACUUM, "pc.greater_equal(times, cutoff_ms)", "pc.less(times, 0)"),
    _Change(
        "adelta/operations/vacuum.py", "if start.version != self.state.version + 1:", "if False:"
    ),
    _Change("adelta/operations/vacuum.py", "cutoff_ms = now_ms - kept_ms", "cutoff_ms = now_ms"),
]
_SPARES_WORK = "it only spares work: without it the same is found, or more is refused"
_OTHER_RULE = "another rule refuses what this one would: one of them suffices for these operations"
_WHOLE_TABLE = (
    "those who read the whole table in a run read the whole log, or change metadata in ways that "
    "fit all files which others may add or remove meanwhile"
)
_TOLD_BEFORE = (
    "coordinators find out by themselves whose a version is, and a simulated store says where it "
    "has repeated a put: the loop looks again for those that do not say so"
)
_OF_CHECKER = {
    "never: if winner.info.txn_id == staged.transaction_id": _TOLD_BEFORE,
    "never: if already_applied(staged.set_transactions, recorded)": (
        "the rule of applications refuses what would have been skipped"
    ),
    "without: _check_placed(staged, winner, root)": _OTHER_RULE,
    "never: if again.num_rows": _OTHER_RULE,
    "never: if not len(staged.existing)": _SPARES_WORK,
    "never: if not paths": _SPARES_WORK,
    "never: if adds is None or removes is None": "no commit of a run has too many files for that",
    "without: now.check_writable(root)": "no winner brings a feature that adelta does not write",
    "never: if is_supported(CATALOG_MANAGED, changed) != is_supported(CATALOG_MANAGED, "
    "now.protocol)": "nobody changes during a run who decides on commits",
    "never: if read.is_empty or not level.must_see_adds_of(winner, staged)": _SPARES_WORK,
    "never: if not adds.num_rows": _SPARES_WORK,
    "never: if read.whole_table": _WHOLE_TABLE,
    "never: if gone.num_rows and read.whole_table": _WHOLE_TABLE,
    "never: if gone.num_rows": _OTHER_RULE,
    "never: if staged.protocol is not None": (
        "operations that change the protocol stage metadata, too, and the rule of these refuses it"
    ),
    "never: if read.is_empty and (not len(removed)) or not winner.removes.num_rows": _SPARES_WORK,
}
_LATE_PUT = (
    "what is put when another one has the lock is not held against the code: it may have been sent "
    "before, which no lock prevents; tests/commit/test_postgresql.py shows it"
)
NOT_FOUND = {
    **{f"{_CHECKER}: {what}": why for what, why in _OF_CHECKER.items()},
    "adelta/commit/check_then_put.py: 'if False:' for 'if alone is not None:'": _LATE_PUT,
    f"{_POSTGRES}: 'outcome, object):' for 'outcome, Lost | WithoutBase):'": _LATE_PUT,
    "adelta/commit/coordinated_store.py: 'if False:' for "
    "'if last is not None and last >= min(versions):'": (
        "the commit is put in the log all the same, and a handle that asks for it by name sees it "
        "the next time: a moment late, of a version that nobody has been told of; "
        "tests/commit/test_dynamodb.py shows it"
    ),
    f"{_DYNAMO}: never: if taken": "the entry of a version that is taken stays during a run",
    f"{_DYNAMO}: never: if not is_next": "the entry of a version that is taken stays during a run",
    f"{_DYNAMO}: 'version < 0:' for 'version > 0 and not before.complete:'": (
        "a commit behind one that is not in the log yet is refused, until somebody lists the log"
    ),
    f"{_DYNAMO}: never: if there is None or there.temp_path != entry.temp_path": (
        "the entry of a version that is taken stays during a run"
    ),
    f"{_OWNER}: never: if response.ratified": (
        "the commit is taken for a lost one, and the loop finds its own among the winners"
    ),
    "adelta/write/submission.py: 'self.staged = judged.staged' for "
    "'self.staged, self.read = judged.staged, judged.read'": (
        "what was counted has to be moved before one attempt and taken out before the next: that "
        "was not met in 200 s of runs made for it; tests/api/test_own_operations.py shows it"
    ),
    f"{_LOOP}: 'own = None' for {_OWN!r}": _TOLD_BEFORE,
    f"{_LOOP}: never: if len(group) > 1 and own is not None": _TOLD_BEFORE,
    f"{_LOOP}: never: if own is None and commits and (not winners.follow_base)": (
        "who drops the table makes a commit first, by which all others lose: 20 tables made anew"
    ),
    "adelta/write/winners.py: never: if found is None and at == first": (
        "it is met where winners have been cleaned up: whose the commit is nobody can tell then "
        "either, and the outcome is said to be unknown; or the base is gone, and nothing is put"
    ),
    f"{_OWNER}: never: if ours": (
        "as before: a commit that is kept and taken for another's is found among the winners"
    ),
    f"{_OWNER}: never: if latest is None or latest < proposed.version": (
        "what nobody has yet is said to be unknown, where it would be proposed again: no lie"
    ),
    f"{_OWNER}: never: if ours is None": (
        "an owner keeps a commit until the log shows it, so where it does not keep one it is there"
    ),
    f"{_OWNER}: never: if proposed.version in self._log.commits": (
        "where the owner has told already whose it is, the outcome is said to be unknown: no lie"
    ),
    "adelta/log/cleanup.py: never: if none_expired and look.at_ms <= time_ms < look.at_ms + "
    "_LOOK_LASTS_MS": _SPARES_WORK,
    f"{_VACUUM}: never: if vectors.null_count == len(vectors)": _SPARES_WORK,
}
"""What the simulation cannot find, as `str(mutant)` without its line, and why."""


def simulated(root: Path) -> list[Mutant]:
    """All of them, in the order of their modules' names."""
    found: list[Mutant] = []
    for module, wanted in _GUARDS.items():
        for each in mutants_of(module, (root / module).read_text(), rules=True):
            is_wanted = not wanted or any(text in each.what for text in wanted)
            if is_wanted and not each.what.startswith("without operand"):
                found.append(each)
    found += [change.made((root / change.module).read_text()) for change in _CHANGES]
    if gone := NOT_FOUND.keys() - {f"{each.module}: {each.what}" for each in found}:
        raise LookupError(f"what cannot be found is not there any more: {sorted(gone)}")
    return sorted(found, key=lambda mutant: (mutant.module, mutant.line))
