"""`geospatial`: columns of shapes, `geometry` and `geography`, as well-known binary (WKB).

No RFC describes it yet; Delta Spark's rules are followed (B2-31). Shapes have no order: they cannot
partition or cluster a table and have a count of nulls as their only statistic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import SchemaMismatchError
from adelta.kernel.schema.geospatial import check_shape, holds_shapes, shape_of
from adelta.kernel.schema.names import walk_fields
from adelta.kernel.schema.types import ArrayType, MapType
from adelta.kernel.table_features._feature import FeatureKind, TableFeature, occurring_types
from adelta.kernel.table_features._removal import Removal
from adelta.kernel.table_features.allow_column_defaults import DEFAULT_KEY

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.schema.geospatial import Shape
    from adelta.kernel.schema.types import DataType
    from adelta.kernel.table_features._feature import ProtocolAndMetadata

__all__ = ["GEOSPATIAL"]


def _has_shapes(metadata: Metadata) -> bool:
    return any(shape_of(each) is not None for each in occurring_types(metadata))


def _check(before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
    if not _has_shapes(after.metadata):
        return
    known = frozenset() if before is None else occurring_types(before.metadata)
    for path, field in walk_fields(after.schema):
        for data_type, shape in _shapes_of(field.type):
            if data_type not in known:
                check_shape(shape, ".".join(path))
    for field in after.schema:
        if DEFAULT_KEY in field.metadata and holds_shapes(field.type):
            raise SchemaMismatchError(
                f"column {field.name!r} holds shapes, which cannot have a default value; leave the "
                "default out"
            )


def _shapes_of(data_type: DataType) -> list[tuple[DataType, Shape]]:
    """The types of shapes that a field's own type has, but for those of fields inside it."""
    match data_type:
        case ArrayType(element):
            return _shapes_of(element)
        case MapType(key, value):
            return [*_shapes_of(key), *_shapes_of(value)]
    shape = shape_of(data_type)
    return [] if shape is None else [(data_type, shape)]


def _obstacle(metadata: Metadata) -> str | None:
    found = [
        ".".join(path) for path, field in walk_fields(metadata.schema) if _shapes_of(field.type)
    ]
    return f"its columns of shapes ({', '.join(found)}); drop them first" if found else None


GEOSPATIAL = TableFeature(
    name="geospatial",
    kind=FeatureKind.READER_WRITER,
    aliases=("geospatial-dev",),
    can_write=True,
    wanted=_has_shapes,
    active=_has_shapes,
    check=_check,
    removal=Removal(obstacle=_obstacle, protects_history=True, used=_has_shapes),
    rebasable=True,
)
