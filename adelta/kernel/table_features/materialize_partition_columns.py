"""`materializePartitionColumns`: partition columns in files too (proposed to the Delta project)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal
from adelta.kernel.table_properties import Property, parse_boolean

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata

__all__ = ["MATERIALIZE_PARTITION_COLUMNS", "PARTITION_COLUMNS_TO_PARQUET"]

_WANTED = Property("delta.enableMaterializePartitionColumnsFeature", parse_boolean, False)
PARTITION_COLUMNS_TO_PARQUET = Property(
    "delta.writePartitionColumnsToParquet", parse_boolean, False
)
"""Whether files hold partition columns too, in tables that do not demand it."""


def _wanted(metadata: Metadata) -> bool:
    return _WANTED.read(metadata.configuration)


MATERIALIZE_PARTITION_COLUMNS = TableFeature(
    name="materializePartitionColumns",
    kind=FeatureKind.WRITER,
    properties=(_WANTED, PARTITION_COLUMNS_TO_PARQUET),
    can_write=True,
    wanted=_wanted,
    removal=Removal(forgotten=(_WANTED.key,)),
)
