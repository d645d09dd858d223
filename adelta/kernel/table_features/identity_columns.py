"""`identityColumns`: columns that number rows (PROTOCOL.md, "Identity Columns")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_field_metadata

__all__ = ["IDENTITY_COLUMNS"]

if TYPE_CHECKING:
    from adelta.kernel.table_state import TableState

_active = has_field_metadata("delta.identity.start", "delta.identity.step")


def _only_counted(_before: TableState, _after: TableState) -> bool:
    """Numbers that others have given out do not concern a commit that gives out none."""
    return True


IDENTITY_COLUMNS = TableFeature(
    name="identityColumns",
    kind=FeatureKind.WRITER,
    legacy_writer=6,
    wanted=_active,
    active=_active,
    tolerates=_only_counted,
    field_metadata=("delta.identity.highWaterMark",),
)
