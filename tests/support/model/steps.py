"""Every kind of step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.model.column_steps import (
    AddColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    RequireValues,
    SetDefault,
    Widen,
)
from tests.support.model.definition_steps import (
    AddConstraint,
    AddFeature,
    ClusterBy,
    DropConstraint,
    DropFeature,
    SetProperties,
    UnsetProperties,
)
from tests.support.model.row_steps import Delete, Merge, Update
from tests.support.model.upkeep_steps import Optimize, Reorg, ReplaceTable, Restore, Upkeep, Vacuum
from tests.support.model.write_steps import Append, DynamicOverwrite, Overwrite, ReplaceWhere

if TYPE_CHECKING:
    from tests.support.model.step import Step

__all__ = ["ARRANGING", "STEPS"]

STEPS: dict[type[Step], int] = {
    Append: 5,
    Overwrite: 1,
    ReplaceWhere: 2,
    DynamicOverwrite: 2,
    Delete: 4,
    Update: 4,
    Merge: 6,
    AddColumn: 2,
    RenameColumn: 2,
    DropColumn: 1,
    Widen: 2,
    MoveColumn: 1,
    SetDefault: 1,
    RequireValues: 1,
    SetProperties: 2,
    UnsetProperties: 1,
    AddConstraint: 1,
    DropConstraint: 1,
    AddFeature: 1,
    DropFeature: 2,
    ClusterBy: 1,
    Optimize: 4,
    Reorg: 2,
    Vacuum: 2,
    Restore: 2,
    ReplaceTable: 1,
    Upkeep: 3,
}
"""Every kind of step, and how often it is drawn."""

ARRANGING = (Optimize, Reorg, Vacuum, Upkeep)
"""Steps that leave rows, columns and properties as they are."""
