"""The columns that rows are sorted by along a curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError, SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.alteration import shown, type_at
from adelta.kernel.statistics import has_bounds
from adelta.kernel.table_features import CLUSTERING, CLUSTERING_DOMAIN, clustering_columns
from adelta.operations.clustering import check_statistics
from adelta.operations.dependents import column_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.state import LogState

__all__ = ["clustered_columns", "z_order_columns"]


async def clustered_columns(state: LogState) -> tuple[tuple[str, ...], ...]:
    """The paths of the columns that the table is clustered by; none where it is not.

    Raises:
        InvalidTableError: a checkpoint, or what the log says of the columns, is damaged.
    """
    if not state.configuration.supports(CLUSTERING):
        return ()
    domain = (await state.domain_metadata()).get(CLUSTERING_DOMAIN)
    return clustering_columns(None if domain is None else domain.configuration, state.metadata)


def z_order_columns(
    configuration: TableConfiguration, names: Sequence[str]
) -> tuple[tuple[str, ...], ...]:
    """The paths of the columns that a user wants rows in Z-order by.

    Raises:
        SchemaMismatchError: there is no such column, or its type has no order.
        InvalidOptionError: a column is named twice, or is a partition column.
        InvalidUseError: the table asks for no statistics of a column.
    """
    paths = tuple(column_path(configuration.schema, name) for name in names)
    partitions = {name.lower() for name in configuration.partition_columns}
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise InvalidOptionError(f"zorder_by names the column {shown(path)!r} twice")
        if path[0].lower() in partitions:
            raise InvalidOptionError(
                f"{shown(path)!r} is a partition column: all rows of a partition have the same "
                "value, by which they cannot be ordered; leave it out of zorder_by",
                reason="order_by_partition_column",
            )
        data_type = type_at(configuration.schema, path)
        if not (has_bounds(data_type) or data_type in (t.BOOLEAN, t.BINARY)):
            raise SchemaMismatchError(
                f"column {shown(path)!r} is of type {data_type}, by which rows cannot be ordered; "
                "name a column whose values have an order"
            )
    check_statistics(configuration, paths)
    return paths
