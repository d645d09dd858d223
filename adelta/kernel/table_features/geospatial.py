"""`geospatial`: columns of shapes, `geometry` and `geography`, read as well-known binary (WKB)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.schema.names import walk_fields
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal

if TYPE_CHECKING:
    from adelta.kernel.table_state import TableState

__all__ = ["GEOSPATIAL"]

_SHAPES = ("geometry", "geography")


def _obstacle(state: TableState) -> str | None:
    found = [".".join(p) for p, f in walk_fields(state.schema) if str(f.type).startswith(_SHAPES)]
    return f"its columns of shapes ({', '.join(found)}); drop them first" if found else None


GEOSPATIAL = TableFeature(
    name="geospatial",
    kind=FeatureKind.READER_WRITER,
    removal=Removal(obstacle=_obstacle, protects_history=True),
)
