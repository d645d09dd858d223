"""`rowTracking`: rows with ids that last (PROTOCOL.md, "Row Tracking")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from adelta.errors import InvalidPropertyError, InvalidTableError, SchemaMismatchError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.schema.names import PHYSICAL_NAME_KEY
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal, with_properties
from adelta.kernel.table_features.domain_metadata import DOMAIN_METADATA
from adelta.kernel.table_properties import Property, parse_boolean, parse_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.table_state import TableState

__all__ = [
    "ROW_IDS_PRESERVED",
    "ROW_TRACKING",
    "ROW_TRACKING_BACKFILL",
    "ROW_TRACKING_DOMAIN",
    "ROW_TRACKING_ENABLED",
    "high_water_mark",
    "high_water_mark_domain",
    "may_hold_row_ids",
    "row_id_columns",
    "with_row_id_columns",
]

ROW_TRACKING_DOMAIN: Final = "delta.rowTracking"
"""The domain whose configuration holds the high-water mark of row ids."""

ROW_TRACKING_BACKFILL: Final = "ROW TRACKING BACKFILL"
"""The operation that gives ids to the rows that were there before."""

ROW_IDS_PRESERVED: Final = "delta.rowTracking.preserved"
"""The tag of a commit's provenance that says whether rows kept their ids."""

_MARK = "rowIdHighWaterMark"
_NO_MARK = -1

ROW_TRACKING_ENABLED = Property("delta.enableRowTracking", parse_boolean, False)
"""Whether every row has an id that lasts."""
_SUSPENDED = Property("delta.rowTrackingSuspended", parse_boolean, False)
_ROW_ID_COLUMN = Property(
    "delta.rowTracking.materializedRowIdColumnName", parse_text, "", settable=False
)
_ROW_COMMIT_VERSION_COLUMN = Property(
    "delta.rowTracking.materializedRowCommitVersionColumnName", parse_text, "", settable=False
)
_PROPERTIES: tuple[Property[object], ...] = (
    ROW_TRACKING_ENABLED,
    _SUSPENDED,
    _ROW_ID_COLUMN,
    _ROW_COMMIT_VERSION_COLUMN,
)


def _wanted(state: TableState) -> bool:
    return ROW_TRACKING_ENABLED.read(state.configuration)


def _active(state: TableState) -> bool:
    # Ids are assigned from the moment that the feature is supported, enabled or not.
    return not _SUSPENDED.read(state.configuration)


def _cleaned(metadata: Metadata) -> Metadata:
    """Row ids are no longer kept, nor given to new files."""
    wanted = {ROW_TRACKING_ENABLED.key: "false", _SUSPENDED.key: "true"}
    configuration = metadata.configuration
    if _SUSPENDED.read(configuration) and not ROW_TRACKING_ENABLED.read(configuration):
        return metadata
    return with_properties(metadata, wanted)


def _switched_on(before: TableState, after: TableState) -> bool:
    suspended = _SUSPENDED.read(before.configuration) or _SUSPENDED.read(after.configuration)
    return _wanted(after) and not _wanted(before) and not suspended


ROW_TRACKING = TableFeature(
    name="rowTracking",
    kind=FeatureKind.WRITER,
    can_write=True,
    requires=(DOMAIN_METADATA,),
    properties=_PROPERTIES,
    wanted=_wanted,
    active=_active,
    removal=Removal(
        "ROW TRACKING UNBACKFILL",
        cleaned=_cleaned,
        cleared=("base_row_id", "default_row_commit_version"),
        forgotten=tuple(p.key for p in _PROPERTIES),
        domains=(ROW_TRACKING_DOMAIN,),
    ),
    rebasable=True,
    tolerates=_switched_on,
)


def row_id_columns(state: TableState) -> tuple[str, str] | None:
    """The names under which files hold ids and versions of moved rows; None where none are kept.

    A table that supports the feature has to switch it on before every row has its id.
    """
    configuration = state.configuration
    if not ROW_TRACKING_ENABLED.read(configuration):
        return None
    return _ROW_ID_COLUMN.read(configuration), _ROW_COMMIT_VERSION_COLUMN.read(configuration)


def may_hold_row_ids(state: TableState) -> bool:
    """Whether files may hold ids of moved rows: the table has, or had, names for such columns."""
    return bool(_ROW_ID_COLUMN.read(state.configuration))


def with_row_id_columns(state: TableState, unique: str) -> Metadata:
    """The metadata of a table that supports the feature, with names for the hidden columns.

    A table that tracks rows gets names that bear `unique`, which makes them nobody else's; names
    that a table has are kept.

    Raises:
        InvalidPropertyError: tracking is both enabled and suspended.
        SchemaMismatchError: a column of the table has the name of a hidden one.
    """
    configuration = dict(state.configuration)
    if ROW_TRACKING_ENABLED.read(configuration) and _SUSPENDED.read(configuration):
        raise InvalidPropertyError(
            f"{ROW_TRACKING_ENABLED.key} and {_SUSPENDED.key} cannot both be true: a table whose "
            "rows are tracked gives an id to every row; unset one of them"
        )
    taken = {str(f.metadata.get(PHYSICAL_NAME_KEY, f.name)) for f in state.schema}
    taken |= set(state.schema.names)
    for column, prefix in (
        (_ROW_ID_COLUMN, "_row-id-col-"),
        (_ROW_COMMIT_VERSION_COLUMN, "_row-commit-version-col-"),
    ):
        name = column.read(configuration)
        if not name and not ROW_TRACKING_ENABLED.read(configuration):
            continue  # a commit that is under way need not learn of names that nobody uses yet
        name = name or prefix + unique
        if name in taken:
            raise SchemaMismatchError(
                f"the column name {name!r} is taken by a hidden column of the table, in which row "
                "ids are kept; choose another name"
            )
        configuration[column.key] = name
    if configuration == state.configuration:
        return state.metadata
    return state.metadata.with_configuration(configuration)


def high_water_mark(domains: Mapping[str, DomainMetadata]) -> int:
    """The highest row id that has ever been given, -1 where there is none.

    Raises:
        InvalidTableError: the table's domain says something else.
    """
    domain = domains.get(ROW_TRACKING_DOMAIN)
    if domain is None or domain.removed:
        return _NO_MARK
    try:
        mark = orjson.loads(domain.configuration)[_MARK]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        mark = None
    if not isinstance(mark, int) or isinstance(mark, bool) or mark < _NO_MARK:
        raise InvalidTableError(
            f"the domain {ROW_TRACKING_DOMAIN} is configured as {domain.configuration[:100]!r}, "
            "which is no high-water mark of row ids; restore the table to an earlier version"
        )
    return mark


def high_water_mark_domain(mark: int) -> DomainMetadata:
    """The action that records the highest row id given."""
    return DomainMetadata(ROW_TRACKING_DOMAIN, orjson.dumps({_MARK: mark}).decode())
