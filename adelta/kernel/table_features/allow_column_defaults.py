"""`allowColumnDefaults`: values for omitted columns (PROTOCOL.md, "Default Columns")."""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_field_metadata

__all__ = ["ALLOW_COLUMN_DEFAULTS"]

_active = has_field_metadata("CURRENT_DEFAULT")

ALLOW_COLUMN_DEFAULTS = TableFeature(
    name="allowColumnDefaults",
    kind=FeatureKind.WRITER,
    can_write=True,
    wanted=_active,
    active=_active,
)
