"""`timestampNtz`: timestamps without a zone (PROTOCOL.md, "Timestamp without timezone")."""

from __future__ import annotations

from adelta.kernel.schema.types import TIMESTAMP_NTZ as TYPE
from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_type

__all__ = ["TIMESTAMP_NTZ"]

_active = has_type(TYPE)

TIMESTAMP_NTZ = TableFeature(
    name="timestampNtz",
    kind=FeatureKind.READER_WRITER,
    can_write=True,
    wanted=_active,
    active=_active,
    rebasable=True,
)
