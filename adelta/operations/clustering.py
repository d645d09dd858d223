"""Which columns a table can be clustered by, and that it stays so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adelta.errors import InvalidOptionError, InvalidUseError, SchemaMismatchError
from adelta.kernel.schema.alteration import shown, type_at
from adelta.kernel.statistics import has_bounds, stats_leaves
from adelta.kernel.table_features import CLUSTERING, clustering_columns
from adelta.kernel.table_properties import FEATURE_PREFIX
from adelta.operations.dependents import column_path
from adelta.table import latest_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.table import Table

__all__ = ["CLUSTERED", "check_still_clustered", "clustered_by", "clustering_paths"]

CLUSTERED: Final = {FEATURE_PREFIX + CLUSTERING.name: "supported"}
"""The property that asks for the table feature."""

_MOST = 4


def clustering_paths(
    configuration: TableConfiguration, names: Sequence[str]
) -> tuple[tuple[str, ...], ...]:
    """The paths of the columns that a user wants a table clustered by.

    Raises:
        SchemaMismatchError: there is no such column, or its type has no order.
        InvalidOptionError: a column is named twice, or there are more than four.
        InvalidUseError: the table asks for no statistics of a column.
    """
    paths = tuple(column_path(configuration.schema, name) for name in names)
    if len(paths) > _MOST or len(set(paths)) < len(paths):
        raise InvalidOptionError(
            f"a table is clustered by {_MOST} columns at the most, each named once; "
            f"({', '.join(names)}) are {len(names)}"
        )
    for path in paths:
        data_type = type_at(configuration.schema, path)
        if not has_bounds(data_type):
            raise SchemaMismatchError(
                f"column {shown(path)!r} is of type {data_type}, by which a table cannot be "
                "clustered; name a column whose values have an order"
            )
    _check_statistics(configuration, paths)
    return paths


async def clustered_by(table: Table) -> tuple[tuple[str, ...], ...]:
    """The paths of the columns that the latest version is clustered by."""
    state = await latest_state(table)
    domains = await state.domain_metadata()
    configured = {name: domain.configuration for name, domain in domains.items()}
    return clustering_columns(configured, state.metadata)


async def check_still_clustered(table: Table, after: TableConfiguration) -> None:
    """Refuse metadata under which files would lack statistics of columns that cluster the table.

    Raises:
        InvalidUseError: there is such a column.
    """
    if after.supports(CLUSTERING):
        _check_statistics(after, await clustered_by(table))


def _check_statistics(configuration: TableConfiguration, paths: Sequence[tuple[str, ...]]) -> None:
    leaves = set(stats_leaves(configuration.schema, configuration.properties))
    for path in paths:
        if path not in leaves:
            raise InvalidUseError(
                f"files have no statistics of column {shown(path)!r}, which clustering needs; name "
                "it in delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols"
            )
