"""`variantType`: values that bring their own type (PROTOCOL.md, "Variant Data Type")."""

from __future__ import annotations

from adelta.kernel.schema.types import VARIANT
from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_type

__all__ = ["VARIANT_TYPE"]

_active = has_type(VARIANT)

VARIANT_TYPE = TableFeature(
    name="variantType",
    kind=FeatureKind.READER_WRITER,
    aliases=("variantType-preview",),
    can_read=True,
    can_write=True,
    wanted=_active,
    active=_active,
    needed_to_read=_active,
)
