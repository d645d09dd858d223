"""`checkpointProtection`: old checkpoints stay as they are (a proposal of the Delta project)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal
from adelta.kernel.table_properties import Property, parse_whole

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata

__all__ = ["CHECKPOINT_PROTECTION", "CHECKPOINT_PROTECTION_BEFORE"]

CHECKPOINT_PROTECTION_BEFORE = Property(
    "delta.requireCheckpointProtectionBeforeVersion", parse_whole(0), 0, settable=False
)
"""The version before which checkpoints are protected."""


def _active(metadata: Metadata) -> bool:
    return CHECKPOINT_PROTECTION_BEFORE.read(metadata.configuration) > 0


CHECKPOINT_PROTECTION = TableFeature(
    name="checkpointProtection",
    kind=FeatureKind.WRITER,
    properties=(CHECKPOINT_PROTECTION_BEFORE,),
    can_write=True,  # checkpoints are written of the latest version alone, which is never before
    active=_active,
    removal=Removal(needs_truncation=True, forgotten=(CHECKPOINT_PROTECTION_BEFORE.key,)),
)
