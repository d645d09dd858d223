"""`columnMapping`: files name columns by ids or made-up names (PROTOCOL.md, "Column Mapping")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.schema.names import COLUMN_ID_KEY, PHYSICAL_NAME_KEY, walk_fields
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_properties import Property, parse_one_of, parse_whole

if TYPE_CHECKING:
    from adelta.kernel.table_state import TableState

__all__ = ["COLUMN_MAPPING", "COLUMN_MAPPING_MAX_ID", "COLUMN_MAPPING_MODE"]

COLUMN_MAPPING_MODE = Property(
    "delta.columnMapping.mode", parse_one_of("none", "id", "name"), "none"
)
"""How files name columns."""
COLUMN_MAPPING_MAX_ID = Property(
    "delta.columnMapping.maxColumnId", parse_whole(0), 0, settable=False
)
"""The highest id that a column has ever had."""


def _active(state: TableState) -> bool:
    return COLUMN_MAPPING_MODE.read(state.configuration) != "none"


def _switched_on(before: TableState, after: TableState) -> bool:
    """By name, on a table whose files go on bearing the names that they have."""
    modes = [COLUMN_MAPPING_MODE.read(state.configuration) for state in (before, after)]
    return modes == ["none", "name"] and all(
        field.metadata.get(PHYSICAL_NAME_KEY) == field.name
        for _, field in walk_fields(after.schema)
    )


COLUMN_MAPPING = TableFeature(
    name="columnMapping",
    kind=FeatureKind.READER_WRITER,
    legacy_writer=5,
    legacy_reader=2,
    properties=(COLUMN_MAPPING_MODE, COLUMN_MAPPING_MAX_ID),
    can_read=True,
    wanted=_active,
    active=_active,
    needed_to_read=_active,
    rebasable=True,
    tolerates=_switched_on,
    field_metadata=(PHYSICAL_NAME_KEY, COLUMN_ID_KEY, "delta.columnMapping.nested.ids"),
)
