"""Time travel in a path, as Delta Spark has it: ``/trips@v3``, ``/trips@20240601120000000``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError
from adelta.operations.create import exists
from adelta.spark.options.path_partitions import of_partition
from adelta.spark.options.read_write import ReadOptions
from adelta.spark.options.streams import without_stream_options
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["names_version", "read_options"]

_VERSION = re.compile(r"(.+)@[vV](\d+)")
_MOMENT = re.compile(r"(.+)@(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})")


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read, with the version and the partition that its path may name.

    A table whose own path ends so is read as it is. A time in a path is of the read's zone.

    Raises:
        InvalidOptionError: as `ReadOptions.parse`; or an option names a version beside the path.
        AdeltaError: as `of_partition`.
    """
    return of_partition(_of_version(ReadOptions.parse(given)))


def _of_version(options: ReadOptions) -> ReadOptions:
    found = _travel(options)
    if found is None:
        return options
    if (options.version, options.timestamp, options.changes) != (None, None, None):
        raise InvalidOptionError(
            "the path names a version of the table, and the options name versions or times as "
            "well: leave one of them out"
        )
    uri, *digits = found.groups()
    if len(digits) == 1:
        return replace(options, uri=uri, version=int(digits[0]))
    year, month, day, hour, minute, second, millis = digits
    moment = f"{year}-{month}-{day}T{hour}:{minute}:{second}.{millis}"
    return replace(options, uri=uri, timestamp=moment)


def names_version(given: Mapping[str, str]) -> bool:
    """Whether the path of a read or a stream names a version of the table.

    Raises:
        InvalidOptionError: as `ReadOptions.parse`.
    """
    if _match(given.get("path", "")) is None:
        return False
    return _travel(ReadOptions.parse(without_stream_options(given))) is not None


def _travel(options: ReadOptions) -> re.Match[str] | None:
    """The version or time at the end of the path; None of a table whose own path ends so."""
    found = _match(options.uri)
    if found is None or options.catalog is not None or call(_is_table, options):
        return None
    return found


def _match(path: str) -> re.Match[str] | None:
    return _VERSION.fullmatch(path) or _MOMENT.fullmatch(path)


async def _is_table(options: ReadOptions) -> bool:
    async with options.opened() as table:
        return await exists(table)
