"""`icebergCompatV1` to `V3`: data that Iceberg clients can read (PROTOCOL.md, "IcebergCompat")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features.column_mapping import COLUMN_MAPPING
from adelta.kernel.table_features.row_tracking import ROW_TRACKING
from adelta.kernel.table_properties import Property, parse_boolean

if TYPE_CHECKING:
    from adelta.kernel.table_state import TableState

__all__ = [
    "ICEBERG_COMPAT_V1",
    "ICEBERG_COMPAT_V2",
    "ICEBERG_COMPAT_V3",
    "ICEBERG_WRITER_COMPAT_V1",
]


def _feature(name: str, key: str, *requires: TableFeature, rebasable: bool = True) -> TableFeature:
    enabled = Property(key, parse_boolean, False)

    def active(state: TableState) -> bool:
        return enabled.read(state.configuration)

    return TableFeature(
        name=name,
        kind=FeatureKind.WRITER,
        requires=requires,
        properties=(enabled,),
        wanted=active,
        active=active,
        rebasable=rebasable,
    )


ICEBERG_COMPAT_V1 = _feature("icebergCompatV1", "delta.enableIcebergCompatV1", COLUMN_MAPPING)
ICEBERG_COMPAT_V2 = _feature("icebergCompatV2", "delta.enableIcebergCompatV2", COLUMN_MAPPING)
ICEBERG_COMPAT_V3 = _feature(
    "icebergCompatV3", "delta.enableIcebergCompatV3", COLUMN_MAPPING, ROW_TRACKING
)
ICEBERG_WRITER_COMPAT_V1 = _feature(
    "icebergWriterCompatV1",
    "delta.enableIcebergWriterCompatV1",
    ICEBERG_COMPAT_V2,
    rebasable=False,
)
