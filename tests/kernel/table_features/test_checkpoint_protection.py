"""Protected checkpoints: the commit that begins to protect says up to where, in every attempt."""

from __future__ import annotations

from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.commit_attempt import CommitAttempt
from adelta.kernel.staged import StagedChanges
from adelta.kernel.table_features import prepared

KEY = "delta.requireCheckpointProtectionBeforeVersion"
PROTOCOL = Protocol(1, 7, None, ("checkpointProtection",))


def configured(**configuration: str) -> Metadata:
    return Metadata("m", "{}", configuration=configuration)


def committed(before: Metadata, after: Metadata, version: int) -> Metadata:
    staged = StagedChanges("mine", metadata=after)
    attempt = CommitAttempt(version, staged, CommitInfo(), PROTOCOL, after, before, before)
    found = prepared(attempt)
    assert found.staged.metadata == found.metadata
    return found.metadata


def test_what_came_before_the_commit_is_protected_whichever_version_it_becomes() -> None:
    """A feature is dropped as version 5, and loses the race for it."""
    asked = configured(**{KEY: "5"})
    assert committed(configured(), asked, 6).configuration == {KEY: "6"}
    assert committed(configured(**{KEY: "3"}), asked, 5).configuration == {KEY: "5"}


def test_other_changes_leave_it_as_it_is() -> None:
    other = configured(**{KEY: "3", "owner": "me"})
    assert committed(configured(**{KEY: "3"}), other, 9) == other
    assert committed(configured(), configured(owner="me"), 9) == configured(owner="me")


def test_no_definition_protects_less() -> None:
    for less in (configured(), configured(**{KEY: "3"})):
        found = committed(configured(**{KEY: "5"}), less, 9)
        assert found.configuration == {KEY: "5"}
