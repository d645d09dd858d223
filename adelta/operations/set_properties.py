"""SET TBLPROPERTIES and UNSET TBLPROPERTIES."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._chance import new_uuid
from adelta._concurrency import in_thread
from adelta.errors import InvalidPropertyError
from adelta.kernel.actions.protocol import TABLE_FEATURES_READER, TABLE_FEATURES_WRITER
from adelta.kernel.statistics import check_stats_columns
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import (
    COLUMN_MAPPING,
    COLUMN_MAPPING_MODE,
    check_change,
    completed_metadata,
    raised_protocol,
    stored_properties,
    switches_row_tracking_on,
    upgraded_protocol,
    validate_properties,
)
from adelta.kernel.table_properties import CONSTRAINT_PREFIX, PROTOCOL_KEYS, TableProperties
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.clustering import check_still_clustered
from adelta.operations.evolve import stage_metadata
from adelta.operations.feature_traces import remove_traces
from adelta.operations.row_tracking import backfill_row_ids
from adelta.table import latest_state, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.table import TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["set_properties", "unset_properties"]

_COMMENT = "comment"
"""The property that is the table's description, as Delta Spark has it."""

_UNMAPPED = "none"
"""The `delta.columnMapping.mode` of tables without column mapping."""

_RETENTIONS = tuple(
    p.key.lower()
    for p in (TableProperties.log_retention_ms, TableProperties.deleted_file_retention_ms)
)


@checked
async def set_properties(
    table: TableOrAddress,
    properties: Mapping[str, str],
    *,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Set properties of a table; the others stay as they are.

    Where a property needs a table feature, the protocol comes to support it. A feature alone is
    asked for by ``{"delta.feature.<name>": "supported"}``, and all that protocol versions stand for
    by ``delta.minReaderVersion`` and ``delta.minWriterVersion``, as by `upgrade_protocol`: none of
    them is kept as a property. The property ``comment`` is the table's description. Before
    `delta.enableRowTracking` is set, or `delta.enableIcebergCompatV3`, which takes it along, rows
    that are there are given ids, in commits of their own. If `delta.columnMapping.mode` becomes
    ``none``, a separate commit first rewrites all data files with the logical names of columns.

    Raises:
        TableNotFoundError: there is no table.
        InvalidPropertyError: a property is unknown, not for users, or has a value that is not
            allowed; constraints are for `add_constraint`.
        UnsupportedFeatureError: the table would need a feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    asked = validate_properties(properties)
    _refuse_constraints(asked)
    versions = _versions(asked)
    if switches_row_tracking_on(asked):
        await _check_beforehand(table, asked, storage_options)
        await backfill_row_ids(table, storage_options=storage_options)
    if COLUMN_MAPPING_MODE.key in asked and COLUMN_MAPPING_MODE.read(asked) == _UNMAPPED:
        stopped = await _stop_mapping(
            table, {COLUMN_MAPPING_MODE.key: _UNMAPPED}, user_metadata, storage_options
        )
        if stopped.version is not None and len(asked) == 1:
            return stopped
    async with altering(
        table,
        "SET TBLPROPERTIES",
        {"properties": asked},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, _):
        before = tx.metadata.configuration
        _check_together(before, asked)
        await in_thread(_raise_protocol, tx, *versions)
        stored = {key: value for key, value in asked.items() if key.lower() != _COMMENT}
        said = [value for key, value in asked.items() if key.lower() == _COMMENT]
        description = said[-1] if said else tx.metadata.description
        await _stage(tx, _joined(before, stored), stored, description)
    return AlterMetrics(tx.version)


@checked
async def unset_properties(
    table: TableOrAddress,
    names: Iterable[str],
    *,
    if_exists: bool = False,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Remove properties of a table, so that their defaults hold again.

    One that is not set is an error, unless `if_exists`. If `delta.columnMapping.mode` is removed, a
    separate commit first rewrites all data files with the logical names of columns.

    Raises:
        TableNotFoundError: there is no table.
        InvalidPropertyError: a property is not set, or not for users; constraints are for
            `drop_constraint`.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    wanted = list(names)
    if COLUMN_MAPPING_MODE.key.lower() in map(str.lower, wanted):
        stopped = await _stop_mapping(table, None, user_metadata, storage_options)
        if stopped.version is not None:
            wanted = [name for name in wanted if name.lower() != COLUMN_MAPPING_MODE.key.lower()]
            if not wanted:
                return stopped
    async with altering(
        table,
        "UNSET TBLPROPERTIES",
        {"properties": wanted, "ifExists": if_exists},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, handle):
        before, description = tx.metadata.configuration, tx.metadata.description
        if description is not None and _COMMENT in map(str.lower, wanted):
            wanted = [name for name in wanted if name.lower() != _COMMENT]
            description = None
        present = {key.lower(): key for key in before}
        missing = [name for name in wanted if name.lower() not in present]
        if missing and not if_exists:
            raise InvalidPropertyError(
                f"{handle.uri} has no property {missing[0]!r} to unset; leave it out, or say "
                "if_exists=True"
            )
        gone = {present[name.lower()] for name in wanted if name.lower() in present}
        removed = {key: before[key] for key in gone}
        _refuse_constraints(removed)
        validate_properties(removed)  # what users may not set they may not unset
        kept = {key: value for key, value in before.items() if key not in gone}
        await _stage(tx, kept, {}, description)
    return AlterMetrics(tx.version)


def _refuse_constraints(properties: Mapping[str, str]) -> None:
    """Refuse what is changed in another way than as a property."""
    for key in properties:
        if key.lower().startswith(CONSTRAINT_PREFIX):
            raise InvalidPropertyError(
                f"{key} is a constraint, which rows have to be held to; use add_constraint or "
                "drop_constraint"
            )


def _versions(asked: Mapping[str, str]) -> tuple[int | None, int | None]:
    """The protocol versions that properties ask for, for readers and for writers.

    Raises:
        InvalidPropertyError: one of them is no version.
    """
    found = []
    for key, highest in zip(
        PROTOCOL_KEYS, (TABLE_FEATURES_READER, TABLE_FEATURES_WRITER), strict=True
    ):
        said = asked.get(key)
        if said is not None and said not in map(str, range(1, highest + 1)):
            raise InvalidPropertyError(f"{key} is {said!r}: pass a version from 1 to {highest}")
        found.append(None if said is None else int(said))
    return found[0], found[1]


def _raise_protocol(tx: TransactionCore, reader: int | None, writer: int | None) -> None:
    """Have the table support what versions stand for; one that is not said is the table's own."""
    if reader is None and writer is None:
        return
    has = tx.protocol
    writer = has.min_writer_version if writer is None else writer
    if reader is None:
        reader = has.min_reader_version
        if writer < TABLE_FEATURES_WRITER:  # the highest of readers goes with that one only
            reader = min(reader, TABLE_FEATURES_READER - 1)
    raised = raised_protocol(has, reader, writer)
    if raised != has:
        tx.update_metadata(tx.metadata, raised)


def _check_together(before: Mapping[str, str], asked: Mapping[str, str]) -> None:
    """Hold the new properties against those of the old ones that they depend on."""
    folded = {key.lower() for key in asked}
    if folded.isdisjoint(_RETENTIONS):
        return  # whatever those are, this does not make it worse
    beside = {
        key: value
        for key, value in before.items()
        if key.lower() in _RETENTIONS and key.lower() not in folded
    }
    validate_properties({**beside, **asked})


def _joined(before: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str]:
    stored = stored_properties(asked)
    folded = {key.lower() for key in stored}
    return {**{k: v for k, v in before.items() if k.lower() not in folded}, **stored}


async def _stop_mapping(
    table: TableOrAddress,
    properties: Mapping[str, str] | None,
    user_metadata: str | None,
    storage_options: Mapping[str, str] | None,
) -> AlterMetrics:
    """Rewrite a table with column mapping to one without; the result has no version if it has none.

    `properties` are set in the same commit.
    """
    async with opened(table, storage_options) as handle:
        state = await latest_state(handle)
        removal = COLUMN_MAPPING.removal
        if removal is None or state.configuration.column_mapping_mode == _UNMAPPED:
            return AlterMetrics(None)
        return await remove_traces(
            handle,
            COLUMN_MAPPING,
            removal,
            parameters={},
            properties=properties,
            user_metadata=user_metadata,
        )


async def _check_beforehand(
    table: TableOrAddress, asked: Mapping[str, str], storage_options: Mapping[str, str] | None
) -> None:
    """Refuse what the table does not allow before anything is committed on the way to it."""
    async with opened(table, storage_options) as handle:
        state = await latest_state(handle)
        before = state.configuration

        def check() -> None:
            after = before.metadata.with_configuration(_joined(before.configuration, asked))
            upgraded = upgraded_protocol(before.protocol, before.metadata, after, asked)
            protocol = upgraded or before.protocol
            after = completed_metadata(before.metadata, after, protocol, lambda: str(new_uuid()))
            changed = TableConfiguration(protocol, after)
            changed.check_writable(handle.uri)
            check_change(TableConfiguration(protocol, before.metadata), changed)

        await in_thread(check)


async def _stage(
    tx: TransactionCore,
    configuration: Mapping[str, str],
    asked: Mapping[str, str],
    description: str | None,
) -> None:
    after = replace(tx.metadata.with_configuration(configuration), description=description)
    properties = TableConfiguration(tx.protocol, after).properties
    await in_thread(check_stats_columns, after.schema, properties, after.partition_columns)
    await in_thread(stage_metadata, tx, after, asked)
    await check_still_clustered(tx)
