"""`v2Checkpoint`: checkpoints with sidecars (PROTOCOL.md, "V2 Checkpoint Table Feature")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal, with_properties
from adelta.kernel.table_properties import TableProperties

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata

__all__ = ["V2_CHECKPOINT"]

_policy = TableProperties.checkpoint_policy.read


def _wanted(metadata: Metadata) -> bool:
    return _policy(metadata.configuration) == "v2"


def _cleaned(metadata: Metadata) -> Metadata:
    if _policy(metadata.configuration) != "v2":
        return metadata
    return with_properties(metadata, {TableProperties.checkpoint_policy.key: "classic"})


V2_CHECKPOINT = TableFeature(
    name="v2Checkpoint",
    kind=FeatureKind.READER_WRITER,
    can_write=True,  # the feature forbids multi-part checkpoints, and classic ones stay allowed
    wanted=_wanted,
    removal=Removal(
        "SET TBLPROPERTIES",
        cleaned=_cleaned,
        protects_history=True,
        used=_wanted,
        in_checkpoints=True,
    ),
    rebasable=True,
)
