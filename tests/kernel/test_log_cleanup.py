"""Which files of the log have expired (B14, traps D18 and C4-11)."""

from __future__ import annotations

from adelta.kernel.log_cleanup import LogCleanup, day_of, is_abandoned, plan_cleanup
from adelta.kernel.log_path import (
    LogPath,
    checkpoint_part_path,
    checkpoint_path,
    checksum_path,
    commit_path,
    compaction_path,
    parse_log_path,
    v2_checkpoint_path,
)

DAY = 86_400_000


def file(path: str, at: int = 0, size: int = 1) -> LogPath:
    parsed = parse_log_path(path, size, at)
    assert parsed is not None
    return parsed


def commits(*times: int, first: int = 0) -> list[LogPath]:
    return [file(commit_path(first + n), time) for n, time in enumerate(times)]


def names(plan: LogCleanup | None) -> list[str]:
    return [] if plan is None else [f.path.removeprefix("_delta_log/") for f in plan.files]


def test_what_lies_before_the_newest_checkpoint_at_the_cutoff_goes() -> None:
    log = commits(0, 10, 20, 30, 40, 50)
    log += [file(checkpoint_path(v)) for v in (1, 3, 5)] + [file(checksum_path(v)) for v in (0, 3)]
    plan = plan_cleanup(log, 45)
    assert plan is not None
    assert plan.first.version == 3
    assert [f.version for f in plan.commits] == [0, 1, 2]
    assert sorted(f.path for f in plan.others) == sorted([checkpoint_path(1), checksum_path(0)])


def test_a_commit_exactly_at_the_cutoff_is_a_cutoff() -> None:
    log = [*commits(0, 10, 20, 30), file(checkpoint_path(2))]
    assert names(plan_cleanup(log, 20)) == [f"{v:020d}.json" for v in (0, 1)]
    assert names(plan_cleanup(log, 19)) == []


def test_without_a_checkpoint_at_or_before_the_cutoff_nothing_goes() -> None:
    log = commits(0, 10, 20, 30)
    assert plan_cleanup(log, 25) is None
    assert plan_cleanup([*log, file(checkpoint_path(3))], 25) is None, "it is newer than the cutoff"


def test_commits_that_hold_the_times_of_later_ones_stay() -> None:
    """C4-11: 0, 5, 10, 7, 8, 14 count as 0, 5, 10, 11, 12, 14."""
    log = [*commits(0, 5, 10, 7, 8, 14), file(checkpoint_path(4))]
    plan = plan_cleanup(log, 12)
    assert plan is not None
    assert plan.first.version == 4
    assert [f.version for f in plan.commits] == [0, 1], "version 2 makes 3 and 4 later than it"
    assert plan_cleanup(log, 11) is None, "version 4 counts as of 12"


def test_incomplete_and_empty_checkpoints_are_none_and_go_with_the_rest() -> None:
    log = commits(0, 10, 20, 30)
    log += [file(checkpoint_part_path(3, 1, 2)), file(checkpoint_path(2), size=0)]
    assert plan_cleanup(log, 35) is None
    log += [file(checkpoint_part_path(1, 1, 2)), file(checkpoint_part_path(1, 2, 2))]
    plan = plan_cleanup(log, 35)
    assert plan is not None
    assert plan.first.version == 1
    log.append(file(v2_checkpoint_path(3, "u")))
    plan = plan_cleanup(log, 35)
    assert plan is not None
    assert len([f for f in plan.others if f.is_checkpoint]) == 3


def test_a_checkpoint_without_the_commit_of_its_version_is_no_beginning() -> None:
    log = [*commits(30, 40, first=3), file(checkpoint_path(2)), file(checkpoint_path(3))]
    plan = plan_cleanup(log, 50)
    assert plan is not None
    assert plan.first.version == 3


def test_nothing_is_begun_before_a_gap() -> None:
    log = [*commits(0, 10), *commits(30, 40, first=3), file(checkpoint_path(1))]
    assert plan_cleanup(log, 50) is None


def test_compactions_go_that_begin_at_the_checkpoint_or_before() -> None:
    log = [*commits(*range(0, 100, 10)), file(checkpoint_path(4))]
    log += [file(compaction_path(*span)) for span in ((0, 2), (3, 5), (4, 6), (5, 7))]
    plan = plan_cleanup(log, 45)
    assert plan is not None
    assert sorted(f.path for f in plan.others) == [
        compaction_path(*span) for span in ((0, 2), (3, 5), (4, 6))
    ]


def test_staged_commits_go_up_to_the_checkpoint() -> None:
    log = [*commits(0, 10, 20), file(checkpoint_path(1))]
    log += [file(f"_delta_log/_staged_commits/{v:020d}.u.json") for v in (0, 1, 2)]
    plan = plan_cleanup(log, 15)
    assert plan is not None
    assert [f.version for f in plan.others] == [0, 1]


def test_protected_history_goes_at_once_or_not_at_all() -> None:
    """B12-14."""
    log = [*commits(0, 10, 20, 30), file(checkpoint_path(1)), file(checkpoint_path(3))]
    assert plan_cleanup(log, 15, protected_before=2) is None
    assert plan_cleanup(log, 35, protected_before=3) is not None
    assert plan_cleanup(log, 35, protected_before=4) is None


def test_a_damaged_checkpoint_is_passed_over() -> None:
    log = [*commits(0, 10, 20, 30), file(checkpoint_path(1)), file(checkpoint_path(3))]
    plan = plan_cleanup(log, 35, unusable=frozenset([checkpoint_path(3)]))
    assert plan is not None
    assert plan.first.version == 1


def test_a_day_begins_at_midnight_utc() -> None:
    assert day_of(3 * DAY + 5) == day_of(3 * DAY) == 3 * DAY


def test_what_nobody_names_is_abandoned_when_it_is_a_day_old_at_midnight() -> None:
    now = 10 * DAY + 7
    assert is_abandoned(9 * DAY, now)
    assert not is_abandoned(9 * DAY + 1, now)
