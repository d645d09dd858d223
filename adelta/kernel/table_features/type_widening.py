"""`typeWidening`: columns of files in narrower types (PROTOCOL.md, "Type Widening")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_field_metadata
from adelta.kernel.table_properties import Property, parse_boolean

if TYPE_CHECKING:
    from adelta.kernel.table_state import TableState

__all__ = ["TYPE_WIDENING"]

_ENABLED = Property("delta.enableTypeWidening", parse_boolean, False)


def _active(state: TableState) -> bool:
    return _ENABLED.read(state.configuration)


TYPE_WIDENING = TableFeature(
    name="typeWidening",
    kind=FeatureKind.READER_WRITER,
    aliases=("typeWidening-preview",),
    properties=(_ENABLED,),
    can_read=True,
    can_write=True,
    wanted=_active,
    active=_active,
    needed_to_read=has_field_metadata("delta.typeChanges"),
)
