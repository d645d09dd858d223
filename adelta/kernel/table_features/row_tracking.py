"""`rowTracking`: rows with ids that last (PROTOCOL.md, "Row Tracking").

Every file that is added gets the ids behind the table's high-water mark, as many as it holds rows,
and the version that the commit becomes. Both depend on the version that a commit is put after, so
they are settled for every attempt anew, and staged files bear none. A file that is added again
keeps what it had.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from adelta import _compute as pc
from adelta.errors import (
    InvalidOptionError,
    InvalidPropertyError,
    InvalidTableError,
    SchemaMismatchError,
)
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.schema.names import PHYSICAL_NAME_KEY
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal, with_properties
from adelta.kernel.table_features.domain_metadata import DOMAIN_METADATA
from adelta.kernel.table_properties import Property, parse_boolean, parse_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.commit import Commit
    from adelta.kernel.commit_attempt import CommitAttempt
    from adelta.kernel.staged import StagedChanges

__all__ = [
    "ROW_TRACKING",
    "ROW_TRACKING_BACKFILL",
    "ROW_TRACKING_DOMAIN",
    "ROW_TRACKING_ENABLED",
    "high_water_mark",
    "may_hold_row_ids",
    "row_id_columns",
]


ROW_TRACKING_DOMAIN: Final = "delta.rowTracking"
"""The domain whose configuration holds the high-water mark of row ids."""

ROW_TRACKING_BACKFILL: Final = "ROW TRACKING BACKFILL"
"""The operation that gives ids to the rows that were there before."""

_PRESERVED: Final = "delta.rowTracking.preserved"  # a tag of provenance
_ROW_ID_FIELDS: Final = ("base_row_id", "default_row_commit_version")
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


def _wanted(metadata: Metadata) -> bool:
    return ROW_TRACKING_ENABLED.read(metadata.configuration)


def _active(metadata: Metadata) -> bool:
    # Ids are assigned from the moment that the feature is supported, enabled or not.
    return not _SUSPENDED.read(metadata.configuration)


def _cleaned(metadata: Metadata) -> Metadata:
    """Row ids are no longer kept, nor given to new files."""
    wanted = {ROW_TRACKING_ENABLED.key: "false", _SUSPENDED.key: "true"}
    configuration = metadata.configuration
    if _SUSPENDED.read(configuration) and not ROW_TRACKING_ENABLED.read(configuration):
        return metadata
    return with_properties(metadata, wanted)


def _switched_on(before: Metadata, after: Metadata) -> bool:
    suspended = _SUSPENDED.read(before.configuration) or _SUSPENDED.read(after.configuration)
    return _wanted(after) and not _wanted(before) and not suspended


def _complete_metadata(
    _before: Metadata | None, after: Metadata, protocol: Protocol, unique: Callable[[], str]
) -> Metadata:
    """Names for the hidden columns of a table that tracks rows; names that it has are kept.

    Raises:
        InvalidPropertyError: tracking is both enabled and suspended.
        SchemaMismatchError: a column of the table has the name of a hidden one.
    """
    if ROW_TRACKING.name not in (protocol.writer_features or ()):
        return after
    configuration = dict(after.configuration)
    if ROW_TRACKING_ENABLED.read(configuration) and _SUSPENDED.read(configuration):
        raise InvalidPropertyError(
            f"{ROW_TRACKING_ENABLED.key} and {_SUSPENDED.key} cannot both be true: a table whose "
            "rows are tracked gives an id to every row; unset one of them"
        )
    taken = {str(f.metadata.get(PHYSICAL_NAME_KEY, f.name)) for f in after.schema}
    taken |= set(after.schema.names)
    made_up = unique()
    for column, prefix in (
        (_ROW_ID_COLUMN, "_row-id-col-"),
        (_ROW_COMMIT_VERSION_COLUMN, "_row-commit-version-col-"),
    ):
        name = column.read(configuration)
        if not name and not ROW_TRACKING_ENABLED.read(configuration):
            continue  # a commit that is under way need not learn of names that nobody uses yet
        name = name or prefix + made_up
        if name in taken:
            raise SchemaMismatchError(
                f"the column name {name!r} is taken by a hidden column of the table, in which row "
                "ids are kept; choose another name"
            )
        configuration[column.key] = name
    return (
        after if configuration == after.configuration else after.with_configuration(configuration)
    )


def _prepare_commit(attempt: CommitAttempt) -> CommitAttempt:
    """The attempt with ids for the rows of its new files; where tracking is suspended, with none.

    Files that come back to a table that has lost its mark since keep their ids, which lie before
    new ones.

    Example: after the mark 9, a file of three rows gets the base 10, and the mark becomes 12.

    Raises:
        InvalidOptionError: a file does not say how many rows it has.
        InvalidTableError: the table's high-water mark is damaged.
    """
    staged = attempt.staged
    if not _active(attempt.metadata):
        bare = (replace(a, base_row_id=None, default_row_commit_version=None) for a in staged.adds)
        return replace(attempt, staged=replace(staged, adds=tuple(bare)))
    before = mark = high_water_mark(attempt.domains)
    for add in staged.adds:
        if add.base_row_id is not None and add.base_row_id > mark:
            mark = max(mark, add.base_row_id + _physical_rows(add) - 1)
    adds: list[AddFile] = []
    for add in staged.adds:
        if add.base_row_id is None:
            add = replace(add, base_row_id=mark + 1)
            mark += _physical_rows(add)
        if add.default_row_commit_version is None:
            add = replace(add, default_row_commit_version=attempt.version)
        adds.append(add)
    moved = (_high_water_mark_domain(mark),) if mark != before else ()
    staged = replace(staged, adds=tuple(adds), domains=(*staged.domains, *moved))
    attempt = replace(attempt, staged=staged)
    if row_id_columns(attempt.metadata) is None:
        return attempt
    kept_ids = row_id_columns(attempt.written_for) is not None and not staged.moves_rows_by_hand
    preserved = kept_ids or not staged.removes.num_rows
    return attempt.with_tag(_PRESERVED, "true" if preserved else "false")


def _physical_rows(add: AddFile) -> int:
    from adelta.kernel.statistics import num_records

    rows = num_records(add.stats)
    if rows is None:
        raise InvalidOptionError(
            f"the file {add.path!r} has no numRecords in its statistics, so its rows cannot be "
            "given ids, which this table demands; add it with statistics"
        )
    return rows


def _rebase(staged: StagedChanges, winners: Sequence[Commit], root: str) -> StagedChanges:
    """`staged`, whose removes bear the ids that `winners` have given to the files removed.

    Files that are without ids get them when tracking is switched on; whoever removes such a file
    at the same time goes behind that, and says what the last `add` of the file says.
    """
    removes = staged.removes
    if not removes.num_rows or not removes.column(_ROW_ID_FIELDS[0]).null_count:
        return staged
    for winner in winners:
        given = winner.adds.filter(winner.adds.column(_ROW_ID_FIELDS[0]).is_valid())
        if given.num_rows:
            removes = _with_ids(removes, given, root)
    return staged if removes is staged.removes else replace(staged, removes=removes)


def _with_ids(removes: pa.Table, adds: pa.Table, root: str) -> pa.Table:
    from adelta.kernel.file_id import places_of_data

    places = places_of_data(removes, adds, root)
    if places.null_count == len(places):
        return removes
    return _replaced(removes, adds, places, _ROW_ID_FIELDS)


def _replaced(
    removes: pa.Table, adds: pa.Table, places: pa.ChunkedArray[Any], names: Sequence[str]
) -> pa.Table:
    for name in names:
        taken = adds.column(name).take(places)
        column = pc.coalesce(taken, removes.column(name))
        removes = removes.set_column(removes.schema.get_field_index(name), name, column)
    return removes


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
        parameters={"batchId": "0"},  # Delta Spark counts its batches; this is one
        cleaned=_cleaned,
        cleared=("base_row_id", "default_row_commit_version"),
        forgotten=tuple(p.key for p in _PROPERTIES),
        domains=(ROW_TRACKING_DOMAIN,),
    ),
    rebasable=True,
    tolerates=_switched_on,
    complete_metadata=_complete_metadata,
    prepare_commit=_prepare_commit,
    rebase=_rebase,
    maintained_domains=(ROW_TRACKING_DOMAIN,),
    outlasting=(_ROW_ID_COLUMN.key, _ROW_COMMIT_VERSION_COLUMN.key),
)


def row_id_columns(metadata: Metadata) -> tuple[str, str] | None:
    """The names under which files hold ids and versions of moved rows; None where none are kept.

    A table that supports the feature has to switch it on before every row has its id.
    """
    configuration = metadata.configuration
    if not ROW_TRACKING_ENABLED.read(configuration):
        return None
    return _ROW_ID_COLUMN.read(configuration), _ROW_COMMIT_VERSION_COLUMN.read(configuration)


def may_hold_row_ids(metadata: Metadata) -> bool:
    """Whether files may hold ids of moved rows: the table has, or had, names for such columns."""
    return bool(_ROW_ID_COLUMN.read(metadata.configuration))


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


def _high_water_mark_domain(mark: int) -> DomainMetadata:
    return DomainMetadata(ROW_TRACKING_DOMAIN, orjson.dumps({_MARK: mark}).decode())
