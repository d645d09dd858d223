"""`deletionVectors`: rows removed without a rewrite (PROTOCOL.md, "Deletion Vectors")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature, always
from adelta.kernel.table_features._removal import Removal, unset
from adelta.kernel.table_properties import Property, parse_boolean

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata

__all__ = ["DELETION_VECTORS"]

_ENABLED = Property("delta.enableDeletionVectors", parse_boolean, False)


def _active(metadata: Metadata) -> bool:
    return _ENABLED.read(metadata.configuration)


def _cleaned(metadata: Metadata) -> Metadata:
    return unset(metadata, _ENABLED.key)


def _switched_on(before: Metadata, after: Metadata) -> bool:
    return _active(after) and not _active(before)


DELETION_VECTORS = TableFeature(
    name="deletionVectors",
    kind=FeatureKind.READER_WRITER,
    properties=(_ENABLED,),
    can_read=True,
    can_write=True,
    wanted=_active,
    active=_active,
    needed_to_read=always,  # vectors stay in force when the property is switched off
    removal=Removal(
        "REORG",
        cleaned=_cleaned,
        column="deletion_vector",
        protects_history=True,
        used=_active,
    ),
    rebasable=True,
    tolerates=_switched_on,
)
