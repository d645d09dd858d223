"""`materializePartitionColumns`: partition columns in files too (proposed to the Delta project)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal
from adelta.kernel.table_properties import Property, parse_boolean

if TYPE_CHECKING:
    from adelta.kernel.table_state import TableState

__all__ = ["MATERIALIZE_PARTITION_COLUMNS"]

_WANTED = Property("delta.enableMaterializePartitionColumnsFeature", parse_boolean, False)
_BEST_EFFORT = Property("delta.writePartitionColumnsToParquet", parse_boolean, False)


def _wanted(state: TableState) -> bool:
    return _WANTED.read(state.configuration)


MATERIALIZE_PARTITION_COLUMNS = TableFeature(
    name="materializePartitionColumns",
    kind=FeatureKind.WRITER,
    properties=(_WANTED, _BEST_EFFORT),
    wanted=_wanted,
    removal=Removal(forgotten=(_WANTED.key,)),
)
