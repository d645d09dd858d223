"""`variantShredding`: variants split into typed columns (PROTOCOL.md, "Variant Shredding")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.schema.types import VARIANT
from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_type
from adelta.kernel.table_features.variant_type import VARIANT_TYPE
from adelta.kernel.table_properties import Property, parse_boolean

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata

__all__ = ["VARIANT_SHREDDING"]

_ENABLED = Property("delta.enableVariantShredding", parse_boolean, False)


def _active(metadata: Metadata) -> bool:
    return _ENABLED.read(metadata.configuration)


VARIANT_SHREDDING = TableFeature(
    name="variantShredding",
    kind=FeatureKind.READER_WRITER,
    aliases=("variantShredding-preview",),
    requires=(VARIANT_TYPE,),
    properties=(_ENABLED,),
    can_write=True,  # files may be shredded, and may as well not be
    wanted=_active,
    active=_active,
    needed_to_read=has_type(VARIANT),  # files stay shredded when the property is switched off
)
