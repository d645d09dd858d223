"""`inCommitTimestamp`: commits carry their own time (PROTOCOL.md, "In-Commit Timestamps")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal, unset, with_properties
from adelta.kernel.table_properties import Property, parse_boolean, parse_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.table_state import TableState

__all__ = [
    "IN_COMMIT_TIMESTAMP",
    "IN_COMMIT_TIMESTAMPS_ENABLED",
    "IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP",
    "IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION",
    "in_commit_timestamp_enablement",
    "with_enablement",
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


def with_enablement(
    before: Mapping[str, str], after: Mapping[str, str], version: int, timestamp_ms: int
) -> Mapping[str, str]:
    """`after` with version and time of the commit that switches in-commit timestamps on.

    The commit becomes `version` of a table that had the properties `before`.
    """
    enabled = IN_COMMIT_TIMESTAMPS_ENABLED
    if version == 0 or enabled.read(before) or not enabled.read(after):
        return after
    return {
        **after,
        IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION.key: str(version),
        IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP.key: str(timestamp_ms),
    }


def _active(state: TableState) -> bool:
    return IN_COMMIT_TIMESTAMPS_ENABLED.read(state.configuration)


def _cleaned(metadata: Metadata) -> Metadata:
    rest = unset(
        metadata,
        IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION.key,
        IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP.key,
    )
    if not IN_COMMIT_TIMESTAMPS_ENABLED.read(metadata.configuration):
        return rest
    return with_properties(rest, {IN_COMMIT_TIMESTAMPS_ENABLED.key: "false"})


def _switched_on(before: TableState, after: TableState) -> bool:
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
)
