"""`checkpointProtection`: old checkpoints stay as they are (a proposal of the Delta project)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal, with_properties
from adelta.kernel.table_properties import Property, parse_whole

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.commit_attempt import CommitAttempt

__all__ = ["CHECKPOINT_PROTECTION", "CHECKPOINT_PROTECTION_BEFORE"]

CHECKPOINT_PROTECTION_BEFORE = Property(
    "delta.requireCheckpointProtectionBeforeVersion", parse_whole(0), 0, settable=False
)
"""The version before which checkpoints are protected."""


def _active(metadata: Metadata) -> bool:
    return CHECKPOINT_PROTECTION_BEFORE.read(metadata.configuration) > 0


def _prepare_commit(attempt: CommitAttempt) -> CommitAttempt:
    """A commit that begins to protect what came before, or protects more, says up to where.

    What is protected stays so, whatever definition comes in the place of the table's own.
    """
    staged, before = attempt.staged, attempt.before
    if staged.metadata is None or before is None:
        return attempt
    said = CHECKPOINT_PROTECTION_BEFORE.read(attempt.metadata.configuration)
    protected = CHECKPOINT_PROTECTION_BEFORE.read(before.configuration)
    if said == protected:
        return attempt
    wanted = attempt.version if said > protected else protected
    version = {CHECKPOINT_PROTECTION_BEFORE.key: str(wanted)}
    metadata = with_properties(staged.metadata, version)
    return replace(attempt, staged=replace(staged, metadata=metadata), metadata=metadata)


CHECKPOINT_PROTECTION = TableFeature(
    name="checkpointProtection",
    kind=FeatureKind.WRITER,
    properties=(CHECKPOINT_PROTECTION_BEFORE,),
    can_write=True,  # checkpoints are written of the latest version alone, which is never before
    active=_active,
    prepare_commit=_prepare_commit,
    removal=Removal(needs_truncation=True, forgotten=(CHECKPOINT_PROTECTION_BEFORE.key,)),
)
