"""Whether rows that go into a table were made of that table's own.

Then what is written depends on all of the version that was read: in delta-spark a scan within a
transaction counts as what the transaction has read, and so it does here. A DataFrame is of one
version, so that the change is judged by all that was committed since.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from adelta.errors import TableNotFoundError
from adelta.spark.side import TableScan, side_of
from adelta.storage.addresses import Place
from adelta.storage.providers import LOCAL
from adelta.sync._portal import call
from adelta.table import latest_state, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from adelta.spark.options.read_write import ReadOptions, WriteOptions

__all__ = ["earliest_version", "made_of", "scan_of"]


def made_of(df: DataFrame, table: ReadOptions | WriteOptions) -> int | None:
    """The version of a table that the rows of `df` are made of; None if of none.

    Versions that were asked for by number or time do not count, nor do rows in Spark's cache. Where
    Spark reads the version that is the latest one when it runs, that is the latest one now.
    """
    return earliest_version(side_of(df.sparkSession).scans(df), table)


def earliest_version(scans: list[TableScan], table: ReadOptions | WriteOptions) -> int | None:
    """The same of the scans that the rows are made of."""
    if not scans:
        return None
    place = _place(table.uri)
    own = {scan.version for scan in scans if _place(scan.uri) == place}
    known = [version for version in own if version is not None]
    if None in own and (latest := call(_latest, table)) is not None:
        known.append(latest)
    return min(known, default=None)


async def _latest(table: ReadOptions | WriteOptions) -> int | None:
    async with open_table(table.uri, table.storage_options, catalog=table.catalog) as opened:
        try:
            return (await latest_state(opened)).version
        except TableNotFoundError:
            return None


def scan_of(options: ReadOptions, version: int | None) -> TableScan | None:
    """The scan that a read of `version` is; None where that was asked for."""
    return None if options.travels else TableScan(options.uri, version)


def _place(uri: str) -> Place:
    place = Place.of(uri)
    return Place.of(os.path.realpath(f"/{place.path}")) if place.provider is LOCAL else place
