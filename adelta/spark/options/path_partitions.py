"""Partitions in a path, as Delta Spark has it: ``/trips/day=2024-06-01`` is a part of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from adelta.errors import InvalidExpressionError, InvalidOptionError, TableNotFoundError
from adelta.kernel.expressions.compute import can_fail
from adelta.kernel.expressions.literals import literal_of
from adelta.kernel.expressions.nodes import Column, Comparison
from adelta.kernel.expressions.sql import to_sql
from adelta.operations.create import exists
from adelta.spark.translate.zones import condition_in, moment_in
from adelta.sync._portal import call

if TYPE_CHECKING:
    from adelta.spark.options.read_write import ReadOptions

__all__ = ["of_partition"]


def of_partition(options: ReadOptions) -> ReadOptions:
    """The read of a part of a table, where the path is that of a partition in it.

    A table whose own path ends so is read as it is.

    Raises:
        InvalidOptionError: the path names a column by which the table is not partitioned.
        InvalidExpressionError: a value is none of its column.
        TableNotFoundError: the table has no rows there.
        VersionNotFoundError: the version or time asked for is outside the history.
    """
    _, step = _split(options.uri)
    if "=" not in step or options.catalog is not None or options.changes is not None:
        return options
    return call(_found, options)


def _split(uri: str) -> tuple[str, str]:
    above, _, step = uri.rstrip("/").rpartition("/")
    return above, step


async def _found(options: ReadOptions) -> ReadOptions:
    uri = options.uri
    steps: list[tuple[str, str]] = []
    while not await _is_table(replace(options, uri=uri)):
        uri, step = _split(uri)
        if "=" not in step:
            return options  # of which it is said that there is no table
        name, _, text = step.partition("=")
        steps.insert(0, (unquote(name), unquote(text)))
    return await _in_table(replace(options, uri=uri), steps, options.uri) if steps else options


async def _is_table(options: ReadOptions) -> bool:
    async with options.opened() as table:
        return await exists(table)


async def _in_table(options: ReadOptions, steps: list[tuple[str, str]], path: str) -> ReadOptions:
    where = " AND ".join(
        to_sql(Comparison("=", Column((name,)), literal_of(text))) for name, text in steps
    )
    async with options.opened() as table:
        moment = options.timestamp
        at = None if moment is None else moment_in(moment, options.time_zone)
        snapshot = await table.snapshot(version=options.version, timestamp=at)
        wrong = [name for name, _ in steps if name not in snapshot.partition_columns]
        if wrong:
            raise InvalidOptionError(
                f"the path {path!r} is in a Delta table that is not partitioned by "
                f"{', '.join(wrong)}: load the table, and filter the DataFrame"
            )
        condition = condition_in(options.time_zone, where, snapshot.delta_schema)
        if can_fail(condition):
            raise InvalidExpressionError(
                f"the path {path!r} names a value that its column cannot hold: {where}"
            )
        if not (await snapshot.files(condition)).num_rows:
            raise TableNotFoundError(
                f"{path} does not exist, or is not a Delta table: the table around has no such "
                "partition"
            )
    asked = where if options.where is None else f"({options.where}) AND {where}"
    return replace(options, where=asked)
