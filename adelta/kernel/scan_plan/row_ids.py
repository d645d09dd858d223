"""Row ids and row commit versions of what was read of a file (PROTOCOL.md, "Row Tracking").

A row that was moved bears both in hidden columns of its file; any other row has the id that follows
from its place in the file, and the version that added the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import scalar_of
from adelta.errors import InvalidTableError
from adelta.kernel.scan_plan.plan import ROW_COMMIT_VERSION, ROW_ID

if TYPE_CHECKING:
    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.scan_plan.plan import ScanPlan

__all__ = ["ROW_COMMIT_VERSION", "ROW_ID", "attach_row_ids", "attached", "row_id_columns"]


arrow: Any = pa  # likewise of `arange`

# No column of a file has such names.
_ATTACHED = ("\0" + ROW_ID, "\0" + ROW_COMMIT_VERSION)


def row_id_columns(plan: ScanPlan, file_schema: pa.Schema) -> list[str]:
    """The hidden columns that the file has of those that hold ids and versions."""
    return [name for name in plan.row_ids or () if name in file_schema.names]


def attach_row_ids(
    plan: ScanPlan, rows: pa.Table, file: AddFile, first_row: int, source: str
) -> pa.Table:
    """`rows`, which follow each other in the file from `first_row` on, with ids and versions.

    Raises:
        InvalidTableError: the log does not say what the file's ids begin with, or its version.
    """
    if plan.row_ids is None:
        return rows
    base, version = file.base_row_id, file.default_row_commit_version
    count = rows.num_rows
    fresh = None if base is None else arrow.arange(base + first_row, base + first_row + count)
    constant = None if version is None else arrow.repeat(scalar_of(version, pa.int64()), count)
    for hidden, name, default in zip(plan.row_ids, _ATTACHED, (fresh, constant), strict=True):
        values: Any = default
        if hidden in rows.column_names:
            stored = rows.column(hidden).cast(pa.int64())
            values = stored if default is None else pc.coalesce(stored, default)
        if values is None or values.null_count:
            raise InvalidTableError(
                f"{source}: tracks rows, but the log has no baseRowId or no "
                "defaultRowCommitVersion for the file, and the file not all of its ids; scan "
                "without row ids, or rewrite the file"
            )
        rows = rows.append_column(name, values)
    return rows


def attached(rows: pa.Table) -> list[pa.ChunkedArray[Any]]:
    """The ids and versions attached to `rows`."""
    return [rows.column(name) for name in _ATTACHED]
