"""In-commit timestamps: they always grow, and the commit that switches them on says so."""

from __future__ import annotations

from dataclasses import replace

from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.commit_attempt import CommitAttempt
from adelta.kernel.staged import StagedChanges
from adelta.kernel.table_features import prepared

ON = Metadata("m", "{}", configuration={"delta.enableInCommitTimestamps": "true", "owner": "me"})
OFF = Metadata("m", "{}")
PROTOCOL = Protocol(1, 7, None, ("inCommitTimestamp",))


def attempt(
    now: int, previous: int | None, before: Metadata | None, after: Metadata, version: int = 7
) -> CommitAttempt:
    return prepared(
        CommitAttempt(
            version,
            StagedChanges("mine", metadata=after if after is not before else None),
            CommitInfo(timestamp=now),
            protocol=PROTOCOL,
            metadata=after,
            before=before,
            written_for=before or after,
            previous_ms=previous,
        )
    )


def test_they_grow_even_when_the_clock_does_not() -> None:
    for now, previous, expected in ((50, None, 50), (50, 40, 50), (50, 50, 51), (10, 50, 51)):
        info = attempt(now, previous, ON, ON).info
        assert (info.timestamp, info.in_commit_timestamp) == (expected, expected)


def test_without_them_a_commit_says_when_it_was_made_and_no_more() -> None:
    info = attempt(10, 50, OFF, OFF).info
    assert (info.timestamp, info.in_commit_timestamp) == (10, None)


def test_the_commit_that_switches_them_on_says_so_for_every_attempt() -> None:
    """B8: the version and the time are those of the commit, whichever version it becomes."""
    enablement = {
        "delta.inCommitTimestampEnablementVersion": "7",
        "delta.inCommitTimestampEnablementTimestamp": "1000",
    }
    made = attempt(1000, 999, OFF, ON)
    assert made.staged.metadata == made.metadata
    assert made.metadata.configuration == {**ON.configuration, **enablement}
    enabled = made.metadata
    renamed = replace(enabled, name="another")
    assert attempt(2000, 1000, enabled, renamed, version=8).staged.metadata == renamed
    assert attempt(1000, None, None, ON, version=0).staged.metadata == ON
