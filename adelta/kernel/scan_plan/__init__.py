"""What a scan reads of every file, and what it makes of it.

`plan` says what to read, `assemble` makes rows of the table of it, `row_ids` attaches their ids.
"""

from __future__ import annotations

from adelta.kernel.scan_plan.assemble import assemble, file_column_indices, matches
from adelta.kernel.scan_plan.plan import ScanPlan, plan_columns, project
from adelta.kernel.scan_plan.row_ids import (
    ROW_COMMIT_VERSION,
    ROW_ID,
    attach_row_ids,
    row_id_columns,
)

__all__ = [
    "ROW_COMMIT_VERSION",
    "ROW_ID",
    "ScanPlan",
    "assemble",
    "attach_row_ids",
    "file_column_indices",
    "matches",
    "plan_columns",
    "project",
    "row_id_columns",
]
