"""How rows are read that are to be written again: whole, and with the ids that they have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.kernel.scan_plan import ROW_COMMIT_VERSION, ROW_ID, ScanPlan, plan_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["copy_plan"]


def copy_plan(
    configuration: TableConfiguration,
    where: Node | None = None,
    columns: Sequence[str] | None = None,
    *,
    keeps_dictionaries: bool = False,
) -> ScanPlan:
    """The plan of all columns of the rows for which `where` is true, or of some `columns` alone.

    Where the table tracks rows, ids and commit versions come in columns that are named as files
    name those in which they keep them. Pages are held to their checksums: a damaged one is not to
    become rows of a new file. With `keeps_dictionaries` texts that repeat may come as dictionaries,
    which `adelta.write` takes as they are; there is no condition then.

    Raises:
        InvalidExpressionError: the condition does not fit the schema.
        UnsupportedFeatureError: a column had its type changed in a way that adelta does not know.
    """
    hidden = configuration.row_id_columns if columns is None else None
    plan = plan_columns(
        configuration.schema,
        columns=columns,
        where=where,
        partition_columns=configuration.partition_columns,
        mapping_mode=configuration.column_mapping_mode,
        row_ids=hidden,
        row_id_names=hidden or (ROW_ID, ROW_COMMIT_VERSION),
        verifies=True,
    )
    return replace(plan, keeps_dictionaries=keeps_dictionaries and where is None)
