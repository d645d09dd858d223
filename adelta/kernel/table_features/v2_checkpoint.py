"""`v2Checkpoint`: checkpoints with sidecars (PROTOCOL.md, "V2 Checkpoint Table Feature")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_properties import TableProperties

if TYPE_CHECKING:
    from adelta.kernel.table_state import TableState

__all__ = ["V2_CHECKPOINT"]


def _wanted(state: TableState) -> bool:
    return TableProperties.checkpoint_policy.read(state.configuration) == "v2"


V2_CHECKPOINT = TableFeature(
    name="v2Checkpoint",
    kind=FeatureKind.READER_WRITER,
    can_write=True,  # the feature forbids multi-part checkpoints, and classic ones stay allowed
    wanted=_wanted,
)
