"""`clustering`: rows kept together by columns of choice (PROTOCOL.md, "Clustered Table")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from adelta.errors import InvalidPropertyError, InvalidTableError
from adelta.kernel.schema.names import leaf_fields, physical_schema
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features.column_mapping import COLUMN_MAPPING_MODE
from adelta.kernel.table_features.domain_metadata import DOMAIN_METADATA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.schema.types import StructType
    from adelta.kernel.table_features._feature import ProtocolAndMetadata

__all__ = [
    "CLUSTERING",
    "CLUSTERING_DOMAIN",
    "clustering_columns",
    "clustering_configuration",
    "physical_clustering_columns",
]

CLUSTERING_DOMAIN: Final = "delta.clustering"
"""The domain whose configuration names the columns."""

_COLUMNS = "clusteringColumns"


def _check(_before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
    columns = after.metadata.partition_columns
    if columns:
        raise InvalidPropertyError(
            f"a table that is partitioned (by {', '.join(columns)}) cannot be clustered as well"
        )


def _is_partitioned(metadata: Metadata) -> bool:
    return bool(metadata.partition_columns)


CLUSTERING = TableFeature(
    name="clustering",
    kind=FeatureKind.WRITER,
    requires=(DOMAIN_METADATA,),
    can_write=True,
    check=_check,
    gives_way=_is_partitioned,
)


def _physical_leaves(schema: StructType, mode: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The physical paths of the leaves of structs, and the logical ones that they stand for."""
    pairs = zip(leaf_fields(physical_schema(schema, mode)), leaf_fields(schema), strict=True)
    return {physical: logical for (physical, _), (logical, _) in pairs}


def clustering_columns(
    configuration: str | None, metadata: Metadata
) -> tuple[tuple[str, ...], ...]:
    """The logical paths of the columns that a table is clustered by, as its domain says.

    The log has lists of the parts of physical names, and from other writers plain names.

    Raises:
        InvalidTableError: the domain's configuration names no columns, or none that are there.
    """
    if configuration is None:
        return ()
    try:
        listed = orjson.loads(configuration)[_COLUMNS]
        paths = [(c,) if isinstance(c, str) else tuple(map(str, c)) for c in listed]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise InvalidTableError(
            f"the domain {CLUSTERING_DOMAIN} is configured as {configuration[:100]!r}, "
            "which names no columns; restore the table to an earlier version"
        ) from error
    known = _physical_leaves(metadata.schema, COLUMN_MAPPING_MODE.read(metadata.configuration))
    for path in paths:
        if path not in known:
            raise InvalidTableError(
                f"the domain {CLUSTERING_DOMAIN} names the column {'.'.join(path)[:100]!r}, which "
                "the table does not have; restore the table to an earlier version"
            )
    return tuple(known[path] for path in paths)


def physical_clustering_columns(
    columns: Sequence[tuple[str, ...]], metadata: Metadata
) -> tuple[tuple[str, ...], ...]:
    """What files call the columns of these logical paths, which are leaves."""
    mode = COLUMN_MAPPING_MODE.read(metadata.configuration)
    leaves = {logical: path for path, logical in _physical_leaves(metadata.schema, mode).items()}
    return tuple(leaves[path] for path in columns)


def clustering_configuration(columns: Sequence[tuple[str, ...]], metadata: Metadata) -> str:
    """The configuration of the domain for columns of these logical paths, which are leaves."""
    return orjson.dumps({_COLUMNS: physical_clustering_columns(columns, metadata)}).decode()
