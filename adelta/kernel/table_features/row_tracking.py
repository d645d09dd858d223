"""`rowTracking`: rows with ids that last (PROTOCOL.md, "Row Tracking")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features.domain_metadata import DOMAIN_METADATA
from adelta.kernel.table_properties import Property, parse_boolean, parse_text

if TYPE_CHECKING:
    from adelta.kernel.table_state import TableState

__all__ = ["ROW_TRACKING", "row_id_columns"]

_ENABLED = Property("delta.enableRowTracking", parse_boolean, False)
_SUSPENDED = Property("delta.rowTrackingSuspended", parse_boolean, False)
_ROW_ID_COLUMN = Property(
    "delta.rowTracking.materializedRowIdColumnName", parse_text, "", settable=False
)
_ROW_COMMIT_VERSION_COLUMN = Property(
    "delta.rowTracking.materializedRowCommitVersionColumnName", parse_text, "", settable=False
)


def _wanted(state: TableState) -> bool:
    return _ENABLED.read(state.configuration)


def _active(state: TableState) -> bool:
    # Ids are assigned from the moment that the feature is supported, enabled or not.
    return not _SUSPENDED.read(state.configuration)


ROW_TRACKING = TableFeature(
    name="rowTracking",
    kind=FeatureKind.WRITER,
    requires=(DOMAIN_METADATA,),
    properties=(_ENABLED, _SUSPENDED, _ROW_ID_COLUMN, _ROW_COMMIT_VERSION_COLUMN),
    wanted=_wanted,
    active=_active,
)


def row_id_columns(state: TableState) -> tuple[str, str] | None:
    """The names under which files hold ids and versions of moved rows; None where none are kept.

    A table that supports the feature has to switch it on before every row has its id.
    """
    configuration = state.configuration
    if not _ENABLED.read(configuration):
        return None
    return _ROW_ID_COLUMN.read(configuration), _ROW_COMMIT_VERSION_COLUMN.read(configuration)
