"""`identityColumns`: columns that number rows (PROTOCOL.md, "Identity Columns")."""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_field_metadata

__all__ = ["IDENTITY_COLUMNS"]

_active = has_field_metadata("delta.identity.start", "delta.identity.step")

IDENTITY_COLUMNS = TableFeature(
    name="identityColumns",
    kind=FeatureKind.WRITER,
    legacy_writer=6,
    wanted=_active,
    active=_active,
)
