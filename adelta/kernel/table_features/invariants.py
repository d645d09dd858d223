"""`invariants`: conditions in a column's metadata (PROTOCOL.md, "Column Invariants")."""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_field_metadata

__all__ = ["INVARIANTS"]

_active = has_field_metadata("delta.invariants")

INVARIANTS = TableFeature(
    name="invariants",
    kind=FeatureKind.WRITER,
    legacy_writer=2,
    can_write=True,
    wanted=_active,
    active=_active,
)
