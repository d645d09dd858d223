"""Which files make a version."""

import pytest

from adelta.errors import InvalidTableError, MissingCommitError, VersionNotFoundError
from adelta.kernel.log_path import (
    LogFileKind,
    LogPath,
    checkpoint_part_path,
    checkpoint_path,
    commit_path,
    compaction_path,
    parse_log_path,
    v2_checkpoint_path,
)
from adelta.kernel.log_segment import complete_checkpoints, plan_log_segment


def files(*paths: str, size: int = 1) -> list[LogPath]:
    parsed = [parse_log_path(path, size) for path in paths]
    return [file for file in parsed if file is not None]


def commits(*versions: int) -> list[LogPath]:
    return files(*(commit_path(version) for version in versions))


def test_a_young_table_is_its_commits() -> None:
    segment = plan_log_segment(commits(0, 1, 2))
    assert segment.version == 2
    assert segment.checkpoint is None
    assert [c.version for c in segment.commits] == [0, 1, 2]


def test_a_checkpoint_stands_for_everything_up_to_it() -> None:
    segment = plan_log_segment([*commits(*range(13)), *files(checkpoint_path(10))])
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 10
    assert [c.version for c in segment.commits] == [11, 12]


def test_time_travel_takes_no_checkpoint_that_is_newer_than_its_target() -> None:
    listing = [*commits(*range(13)), *files(checkpoint_path(5), checkpoint_path(10))]
    segment = plan_log_segment(listing, version=8)
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 5
    assert [c.version for c in segment.commits] == [6, 7, 8]


def test_a_set_with_a_missing_part_is_no_checkpoint() -> None:
    listing = [
        *commits(*range(12)),
        *files(checkpoint_path(5), checkpoint_part_path(10, 1, 2)),
    ]
    segment = plan_log_segment(listing)
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 5


def test_sets_of_different_sizes_at_one_version_are_told_apart() -> None:
    listing = files(
        checkpoint_part_path(10, 1, 2),
        checkpoint_part_path(10, 2, 2),
        checkpoint_part_path(10, 1, 3),
    )
    (only,) = complete_checkpoints(listing)
    assert [file.part for file in only.files] == [1, 2]


def test_an_empty_file_is_no_checkpoint() -> None:
    listing = [*commits(*range(12)), *files(checkpoint_path(10), size=0)]
    assert plan_log_segment(listing).checkpoint is None


def test_at_one_version_v2_beats_multi_part_beats_classic() -> None:
    listing = files(
        checkpoint_path(10),
        checkpoint_part_path(10, 1, 1),
        v2_checkpoint_path(10, "a"),
        v2_checkpoint_path(10, "b"),
    )
    kinds = [c.kind for c in complete_checkpoints(listing)]
    assert kinds == [
        LogFileKind.UUID_CHECKPOINT,
        LogFileKind.UUID_CHECKPOINT,
        LogFileKind.MULTI_PART_CHECKPOINT,
        LogFileKind.CLASSIC_CHECKPOINT,
    ]


def test_a_gap_in_the_commits_is_named() -> None:
    with pytest.raises(MissingCommitError, match="version 2 is missing"):
        plan_log_segment(commits(0, 1, 3))


def test_commits_must_join_the_checkpoint() -> None:
    with pytest.raises(MissingCommitError, match="version 11 is missing"):
        plan_log_segment([*files(checkpoint_path(10)), *commits(12)])


def test_a_log_that_starts_late_needs_a_checkpoint() -> None:
    with pytest.raises(MissingCommitError, match="version 0 is missing"):
        plan_log_segment(commits(3, 4))


def test_a_checkpoint_without_its_commits_is_enough() -> None:
    segment = plan_log_segment(files(checkpoint_path(10)))
    assert segment.version == 10
    assert segment.commits == ()


def test_a_version_that_is_not_there_yet_names_the_latest() -> None:
    with pytest.raises(VersionNotFoundError, match="latest version is 2"):
        plan_log_segment(commits(0, 1, 2), version=3)


def test_a_version_that_was_cleaned_up_names_the_range() -> None:
    listing = [*files(checkpoint_path(10)), *commits(10, 11, 12)]
    with pytest.raises(VersionNotFoundError, match="versions 10 to 12"):
        plan_log_segment(listing, version=4)


def test_compactions_that_straddle_the_range_are_left_out() -> None:
    listing = [
        *commits(*range(13)),
        *files(checkpoint_path(5), compaction_path(4, 7), compaction_path(7, 9)),
        *files(compaction_path(10, 14)),
    ]
    segment = plan_log_segment(listing, version=12)
    assert [(c.start_version, c.version) for c in segment.compactions] == [(7, 9)]


def test_an_empty_log_is_no_table() -> None:
    with pytest.raises(InvalidTableError):
        plan_log_segment([])
