"""What changes rows and files of a table: UPDATE, RESTORE, VACUUM, repairs, files by hand."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from adelta import sync
from adelta._clock import monotonic
from adelta.deltalake._actions import RemoveAction, added_file
from adelta.deltalake._filters import where_of
from adelta.deltalake._raw import moment_of
from adelta.deltalake._sql import cast_to, plain_name, spark_sql
from adelta.deltalake._util import check_count, check_flag, check_text
from adelta.deltalake.exceptions import DeltaError, raises_as_deltalake
from adelta.deltalake.writer.modes import checked_mode
from adelta.deltalake.writer.options import with_data_files
from adelta.errors import InvalidOptionError, MissingDataFileError, VersionNotFoundError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.expressions.sql import quote_text
from adelta.kernel.table_properties import TableProperties

if TYPE_CHECKING:
    from adelta import AddFile, CommitOptions
    from adelta.deltalake._actions import AddAction
    from adelta.deltalake._provenance import DeltalakeCommit
    from adelta.deltalake._raw import RawDeltaTable
    from adelta.deltalake._types import Schema
    from adelta.deltalake.writer.properties import WriterProperties

__all__ = ["changed_rows", "repaired", "restored", "vacuumed", "write_transaction"]


def _assignments(
    updates: dict[str, str] | None, new_values: dict[str, Any] | None
) -> dict[str, Any]:
    if updates is not None and new_values is not None:
        raise ValueError("Passing updates and new_values at same time is not allowed, pick one.")
    if updates is not None:
        for key, value in updates.items():
            if not all(isinstance(each, str) for each in (key, value)):
                raise TypeError(
                    "The values of the updates parameter must all be SQL strings. "
                    f"Got {updates}. Did you mean to use the new_values parameter?"
                )
        return {key: spark_sql(value) for key, value in updates.items()}
    if new_values is None:
        raise ValueError("Either updates or new_values need to be passed to update the table.")
    return {key: _literal(value) for key, value in new_values.items()}


def _literal(value: Any) -> Any:
    """A new value as a constant: in SQL, or where that does not have it, as it is."""
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, list):
        return f"array({', '.join(_item(each) for each in value)})"
    if isinstance(value, int | float) and math.isfinite(value):
        return str(value)
    if isinstance(value, float | datetime):
        return value
    raise TypeError(
        "Invalid datatype provided in new_values, only int, float, bool, list, str or "
        "datetime or accepted."
    )


def _item(value: Any) -> str:
    """An element of a list, in SQL."""
    match value:
        case None:
            return "NULL"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case datetime():
            return f"TIMESTAMP '{value}'"
        case _:
            return str(_literal(value))


def changed_rows(
    table: RawDeltaTable,
    updates: dict[str, str] | None,
    new_values: dict[str, Any] | None,
    predicate: str | None,
    properties: WriterProperties | None,
    fails_on_casts: bool,
    options: DeltalakeCommit,
) -> dict[str, Any]:
    """What an update did.

    Raises:
        ValueError: neither or both of `updates` and `new_values` are given.
        TypeError: a value is of a type that cannot be set.
    """
    assigned = _assignments(updates, new_values)
    if predicate is not None:
        check_text(predicate)
    if not assigned:
        counts = ("num_added_files", "num_removed_files", "num_updated_rows", "num_copied_rows")
        return dict.fromkeys((*counts, "execution_time_ms", "scan_time_ms"), 0)
    return _updated(table, assigned, predicate, properties, fails_on_casts, options)


@raises_as_deltalake
def _updated(
    table: RawDeltaTable,
    assigned: dict[str, Any],
    predicate: str | None,
    properties: WriterProperties | None,
    fails_on_casts: bool,
    options: DeltalakeCommit,
) -> dict[str, Any]:
    began = monotonic()
    kind = table.snapshot.delta_schema
    found: dict[str, Any] = {}
    for key, value in assigned.items():
        column = kind.field(plain_name(key))
        if column is not None and isinstance(value, str):
            there = kind.field(plain_name(value.strip()))
            if there is None or there.type != column.type:
                value = cast_to(value, column.type, fails=fails_on_casts)
        found[key if column is None else column.name] = value
    handle = table.committing(with_data_files(options, properties, table))
    done = sync.update(handle, found, None if predicate is None else spark_sql(predicate))
    table.update_incremental()
    return {
        "num_added_files": done.num_added_files,
        "num_removed_files": done.num_removed_files,
        "num_updated_rows": done.num_updated_rows,
        "num_copied_rows": done.num_copied_rows,
        "execution_time_ms": done.execution_time_ms or round((monotonic() - began) * 1000),
        "scan_time_ms": done.scan_time_ms,
    }


@raises_as_deltalake
def restored(
    table: RawDeltaTable,
    target: object,
    ignore_missing: bool,
    downgrades: bool,
    options: CommitOptions,
) -> dict[str, Any]:
    """What a restore did.

    Raises:
        DeltaError: it is the latest version already, there is none such, or its files are gone.
    """
    check_flag(ignore_missing, downgrades)
    if isinstance(target, datetime):
        target = target.isoformat()
    if not isinstance(target, str | int) or (isinstance(target, int) and target < 0):
        raise DeltaError(
            "Generic error: Either the version or datetime should be provided for restore"
        )
    version = table.version_at(moment_of(target)) if isinstance(target, str) else int(target)
    latest = table.get_latest_version()
    if version == latest:
        raise DeltaError(
            f"Generic error: Version to restore {version} should be less then last available "
            f"version {latest}."
        )
    try:
        done = sync.restore(
            table.committing(options),
            version=version,
            ignore_missing=ignore_missing,
            protocol_downgrade_allowed=downgrades,
        )
    except MissingDataFileError as error:
        raise DeltaError(f"Generic error: Find missing file when restore: {error}") from error
    table.update_incremental()
    return {
        "numRemovedFile": done.num_removed_files,
        "numRestoredFile": done.num_restored_files,
    }


@raises_as_deltalake
def vacuumed(
    table: RawDeltaTable,
    retention_hours: int | None,
    dry_run: bool,
    enforced: bool,
    options: CommitOptions,
    *,
    full: bool,
    keep_versions: list[int] | None,
) -> list[str]:
    """The files that a vacuum deleted, or would delete.

    Raises:
        ValueError: the retention is negative.
        DeltaError: it is shorter than the table's own, which is enforced.
        TypeError: it, or a version to keep, is no whole number.
        OverflowError: a version to keep is negative.
    """
    if isinstance(retention_hours, str | float):
        check_count(retention_hours)
    check_flag(dry_run, enforced, full)
    for version in keep_versions or ():
        check_count(version)
    if retention_hours is not None and retention_hours < 0:
        raise ValueError("The retention periods should be positive.")
    try:
        done = sync.vacuum(
            table.committing(options),
            retention=None if retention_hours is None else timedelta(hours=retention_hours),
            mode="full" if full else "lite",
            dry_run=dry_run,
            enforce_retention=enforced,
            keep_versions=keep_versions or (),
        )
    except VersionNotFoundError:
        raise
    except InvalidOptionError as error:
        keeps = TableProperties.deleted_file_retention_ms.read(table.snapshot.properties)
        least = keeps // 3_600_000
        raise DeltaError(
            "Generic error: Invalid retention period, minimum retention for vacuum is configured "
            f"to be greater than {least} hours, got {retention_hours} hours: {error}"
        ) from error
    if not dry_run:
        table.update_incremental()
    return [str(path) for path in done.files.column("path").to_pylist()]


@raises_as_deltalake
def repaired(table: RawDeltaTable, dry_run: bool, options: CommitOptions) -> dict[str, Any]:
    """Which files are gone, and were taken out.

    Raises:
        TypeError: `dry_run` is neither true nor false.
    """
    check_flag(dry_run)
    done = sync.fsck(table.committing(options), dry_run=dry_run)
    if not dry_run:
        table.update_incremental()
    return {"dry_run": dry_run, "files_removed": [str(path) for path in done.missing_files]}


@raises_as_deltalake
def write_transaction(
    table: RawDeltaTable,
    actions: list[AddAction | RemoveAction],
    mode: str,
    schema: Schema,
    partition_by: list[str],
    filters: Any,
    options: CommitOptions,
) -> None:
    """Commit files that are in place, and removals of others.

    Raises:
        DeltaError: there is no such mode, or a file to remove is not live, or comes as well.
    """
    mode = checked_mode(mode)
    adds = [added_file(each) for each in actions if not isinstance(each, RemoveAction)]
    removes = [each for each in actions if isinstance(each, RemoveAction)]
    if removes and mode != "append":
        raise DeltaError("a RemoveAction is allowed with mode='append' alone")
    clash = {file.path for file in adds} & {each.path for each in removes}
    if clash:
        raise DeltaError(f"{sorted(clash)[0]} cannot be added and removed in the same transaction")
    parameters: dict[str, object] = {
        "mode": {"append": "Append", "overwrite": "Overwrite"}.get(mode, mode),
        "partitionBy": list(partition_by),
    }
    handle = table.committing(options)
    with handle.transaction("WRITE", parameters=parameters) as tx:
        gone: list[AddFile] = []
        if mode == "overwrite":
            gone = tx.read(where_of(filters, table.snapshot.delta_schema))
            again = {file.path for file in adds}
            gone = [file for file in gone if file.path not in again]
        elif removes:
            gone = _live(tx.read(), removes)
        if gone:
            tx.remove_files(gone, data_change=all(each.data_change for each in removes))
        if adds:
            tx.add_files(adds)
    table.update_incremental()


def _live(live: list[AddFile], removes: list[RemoveAction]) -> list[AddFile]:
    by_path = {file.path: file for file in live} | {decode_path(f.path): f for f in live}
    for each in removes:
        if each.path not in by_path:
            raise DeltaError(f"{each.path} is no live file of the table, and cannot be removed")
    return [by_path[each.path] for each in removes]
