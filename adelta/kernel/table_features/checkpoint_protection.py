"""`checkpointProtection`: old checkpoints stay as they are (a proposal of the Delta project)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_properties import Property, parse_whole

if TYPE_CHECKING:
    from adelta.kernel.table_state import TableState

__all__ = ["CHECKPOINT_PROTECTION"]

_BEFORE_VERSION = Property(
    "delta.requireCheckpointProtectionBeforeVersion", parse_whole(0), 0, settable=False
)


def _active(state: TableState) -> bool:
    return _BEFORE_VERSION.read(state.configuration) > 0


CHECKPOINT_PROTECTION = TableFeature(
    name="checkpointProtection",
    kind=FeatureKind.WRITER,
    properties=(_BEFORE_VERSION,),
    active=_active,
)
