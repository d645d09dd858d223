"""`generatedColumns`: columns computed from others (PROTOCOL.md, "Generated Columns")."""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_field_metadata

__all__ = ["GENERATED_COLUMNS"]

_active = has_field_metadata("delta.generationExpression")

GENERATED_COLUMNS = TableFeature(
    name="generatedColumns",
    kind=FeatureKind.WRITER,
    legacy_writer=4,
    can_write=True,
    wanted=_active,
    active=_active,
)
