"""Which columns a table can be clustered by, and that it stays so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adelta.errors import (
    InvalidOptionError,
    InvalidTableError,
    InvalidUseError,
    SchemaMismatchError,
)
from adelta.kernel.schema.alteration import shown, type_at
from adelta.kernel.statistics import has_bounds, stats_leaves
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import (
    CLUSTERING,
    CLUSTERING_DOMAIN,
    clustering_columns,
    clustering_configuration,
)
from adelta.kernel.table_properties import FEATURE_PREFIX
from adelta.operations.dependents import column_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.actions.metadata import Metadata
    from adelta.write.transaction_core import TransactionCore

__all__ = [
    "CLUSTERED",
    "check_clustered_as",
    "check_statistics",
    "check_still_clustered",
    "clustered_by",
    "clustering_paths",
    "end_clustering_if_lost",
    "keep_clustering",
]

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
    check_statistics(configuration, paths)
    return paths


async def clustered_by(tx: TransactionCore) -> tuple[tuple[str, ...], ...]:
    """The paths of the columns by which the table is clustered that `tx` changes.

    Others who cluster it by other columns meanwhile are a conflict.
    """
    return clustering_columns(await tx.read_domain(CLUSTERING_DOMAIN), tx.base.metadata)


async def check_clustered_as(tx: TransactionCore, names: Sequence[str]) -> None:
    """Refuse a table that is clustered by other columns than a user says, or in another order.

    Raises:
        SchemaMismatchError: it is, or it has no such column.
        InvalidOptionError: a name is none.
    """
    now = await clustered_by(tx)
    if now != tuple(column_path(tx.metadata.schema, name) for name in names):
        raise SchemaMismatchError(
            f"{tx.root} is clustered by ({', '.join(map(shown, now))}), not by "
            f"({', '.join(names)}); leave cluster_by out, or call adelta.cluster_by first"
        )


async def check_still_clustered(tx: TransactionCore) -> None:
    """Refuse staged metadata that no longer fit the columns by which the table is clustered.

    Raises:
        InvalidUseError: such a column is gone, or another one now, or files would lack its
            statistics.
    """
    paths = await clustered_by(tx)
    if paths and not await _has_still(tx, paths):
        raise InvalidUseError(
            f"the table is clustered by {', '.join(map(shown, paths))}, which would no longer be "
            "the columns that they are; cluster it by other ones first (cluster_by)"
        )
    check_statistics(TableConfiguration(tx.protocol, tx.metadata), paths)


async def end_clustering_if_lost(tx: TransactionCore) -> None:
    """Stage that the table is clustered by nothing, where staged metadata lack such a column."""
    paths = await clustered_by(tx)
    if not paths:
        return
    if await _has_still(tx, paths):
        check_statistics(TableConfiguration(tx.protocol, tx.metadata), paths)
    else:
        tx.staging.set_domain(CLUSTERING_DOMAIN, clustering_configuration((), tx.metadata))


async def _has_still(tx: TransactionCore, paths: tuple[tuple[str, ...], ...]) -> bool:
    """Whether the columns of the clustering are these in the metadata that are staged, too."""
    try:
        return clustering_columns(await tx.read_domain(CLUSTERING_DOMAIN), tx.metadata) == paths
    except InvalidTableError:
        return False


async def keep_clustering(tx: TransactionCore, after: Metadata) -> None:
    """Stage what the clustering columns are called in files of `after`, if not as before."""
    paths = await clustered_by(tx)
    called = clustering_configuration(paths, after)
    if paths and called != clustering_configuration(paths, tx.base.metadata):
        tx.staging.set_domain(CLUSTERING_DOMAIN, called)


def check_statistics(configuration: TableConfiguration, paths: Sequence[tuple[str, ...]]) -> None:
    """Refuse columns of which files have no statistics.

    Raises:
        InvalidUseError: the table asks for none of one of these columns.
    """
    leaves = set(stats_leaves(configuration.schema, configuration.properties))
    for path in paths:
        if path not in leaves:
            raise InvalidUseError(
                f"files have no statistics of column {shown(path)!r}, which clustering needs; name "
                "it in delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols"
            )
