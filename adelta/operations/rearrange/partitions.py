"""The files of some partitions alone, which a user names by a predicate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.errors import InvalidOptionError
from adelta.kernel.data_skipping.prune import Skipping
from adelta.kernel.expressions.nodes import columns_of
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.operations.matching import decided_by_partition

if TYPE_CHECKING:
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.file_set import FileSet
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.state import LogState

__all__ = ["files_in_partitions"]


async def files_in_partitions(
    uri: str, where: Node | None, state: LogState, *, by_statistics: bool = False
) -> FileSet:
    """The live files in the partitions for which `where` is true.

    With `by_statistics` it may be about any column, and leaves out the files that have no such row
    by what is known of them.

    Raises:
        InvalidOptionError: it is not decided by partition columns.
        InvalidExpressionError: it does not fit the schema.
        InvalidTableError: a checkpoint is damaged.
    """
    if where is None:
        return await state.files()
    skipping = await in_thread(_skipping, uri, state.configuration, where, by_statistics)
    return await state.files_matching(skipping)


def _skipping(
    uri: str, configuration: TableConfiguration, where: Node, by_statistics: bool
) -> Skipping:
    if not by_statistics and not decided_by_partition(where, configuration):
        names = ", ".join(configuration.partition_columns) or "none"
        named = columns_of(bind_predicate(where, configuration.schema))
        beyond = not {path[0] for path in named} <= set(configuration.partition_columns)
        raise InvalidOptionError(
            f"{uri}: files are written anew partition by partition, so that `where` may only "
            f"compare partition columns ({names}), and not compute what can fail",
            reason="where_beyond_partitions" if beyond else None,
        )
    return Skipping.of(
        where,
        configuration.schema,
        configuration.partition_columns,
        mode=configuration.column_mapping_mode,
    )
