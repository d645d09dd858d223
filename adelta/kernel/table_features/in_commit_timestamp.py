"""`inCommitTimestamp`: commits carry their own time (PROTOCOL.md, "In-Commit Timestamps")."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal, unset, with_properties
from adelta.kernel.table_properties import Property, parse_boolean, parse_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.commit_attempt import CommitAttempt

__all__ = [
    "IN_COMMIT_TIMESTAMP",
    "IN_COMMIT_TIMESTAMPS_ENABLED",
    "IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP",
    "IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION",
    "in_commit_timestamp_enablement",
]

IN_COMMIT_TIMESTAMPS_ENABLED = Property("delta.enableInCommitTimestamps", parse_boolean, False)
"""Whether commits carry their own time."""
IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION: Property[int | None] = Property(
    "delta.inCommitTimestampEnablementVersion", parse_whole(0), None, settable=False
)
"""The first version that does, where earlier ones do not."""
IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP: Property[int | None] = Property(
    "delta.inCommitTimestampEnablementTimestamp", parse_whole(0), None, settable=False
)
"""The time of that version, in milliseconds."""


def in_commit_timestamp_enablement(configuration: Mapping[str, str]) -> tuple[int, int] | None:
    """Version and time from which commits carry their own time; None where all of them do."""
    version = IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION.read(configuration)
    timestamp = IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP.read(configuration)
    return None if version is None or timestamp is None else (version, timestamp)


def _active(metadata: Metadata) -> bool:
    return IN_COMMIT_TIMESTAMPS_ENABLED.read(metadata.configuration)


def _prepare_commit(attempt: CommitAttempt) -> CommitAttempt:
    """The attempt with its own time, which always grows, and with where that began."""
    if not _active(attempt.metadata):
        return attempt
    now, previous = attempt.info.timestamp, attempt.previous_ms
    assert now is not None
    stamp = now if previous is None else max(now, previous + 1)
    info = replace(attempt.info, timestamp=stamp, in_commit_timestamp=stamp)
    attempt = replace(attempt, info=info)
    staged, before = attempt.staged, attempt.before
    if staged.metadata is None or before is None or _active(before):
        return attempt
    began = {
        IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION.key: str(attempt.version),
        IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP.key: str(stamp),
    }
    metadata = staged.metadata.with_configuration({**staged.metadata.configuration, **began})
    return replace(attempt, staged=replace(staged, metadata=metadata), metadata=metadata)


def _cleaned(metadata: Metadata) -> Metadata:
    rest = unset(
        metadata,
        IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION.key,
        IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP.key,
    )
    if not IN_COMMIT_TIMESTAMPS_ENABLED.read(metadata.configuration):
        return rest
    return with_properties(rest, {IN_COMMIT_TIMESTAMPS_ENABLED.key: "false"})


def _switched_on(before: Metadata, after: Metadata) -> bool:
    return _active(after) and not _active(before)


IN_COMMIT_TIMESTAMP = TableFeature(
    name="inCommitTimestamp",
    kind=FeatureKind.WRITER,
    properties=(
        IN_COMMIT_TIMESTAMPS_ENABLED,
        IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION,
        IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP,
    ),
    can_write=True,
    wanted=_active,
    active=_active,
    removal=Removal(cleaned=_cleaned),
    rebasable=True,
    tolerates=_switched_on,
    prepare_commit=_prepare_commit,
    outlasting=(
        IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION.key,
        IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP.key,
    ),
)
