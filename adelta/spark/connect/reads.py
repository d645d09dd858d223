"""The scans of tables that a DataFrame of Spark Connect has, by the plan that its client sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.errors import AdeltaError
from adelta.spark.connect.view_targets import frame_of_view
from adelta.spark.options.path_travel import read_options
from adelta.spark.rows.own_reads import scan_of
from adelta.spark.translate.identifiers import FORMATS, identifier_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from adelta.spark.side import TableScan

__all__ = ["remote_scans"]


def remote_scans(df: DataFrame) -> list[TableScan]:
    """What is read of tables, through views of this session, too, but for versions asked for.

    The server settles the version whenever it runs the plan.
    """
    return list(_scans(df, set()))


def _scans(df: Any, seen: set[str]) -> Iterator[TableScan]:
    for read in _reads(df._plan.to_proto(df.sparkSession.client)):
        if read.HasField("data_source"):
            scan = _of_source(read.data_source)
            if scan is not None:
                yield scan
            continue
        name = _sole_part(read.named_table.unparsed_identifier)
        if name is None or name in seen:
            continue
        seen.add(name)
        view = frame_of_view(df.sparkSession, name)
        if view is not None:
            yield from _scans(view, seen)


def _reads(message: Any) -> Iterator[Any]:
    """All messages in one that read a table or a data source."""
    if message.DESCRIPTOR.full_name == "spark.connect.Read":
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in (value,) if hasattr(value, "ListFields") else value:
            yield from _reads(each)


def _of_source(source: Any) -> TableScan | None:
    if source.format.lower() not in FORMATS:
        return None
    given = dict(source.options)
    if source.paths:
        given["path"] = source.paths[0]
    try:
        options = read_options(given)
    except AdeltaError:  # which Spark will say of it
        return None
    return None if options.changes is not None else scan_of(options, None)


def _sole_part(name: str) -> str | None:
    try:
        parts = identifier_parts(name)
    except AdeltaError:
        return None
    return parts[0].lower() if len(parts) == 1 else None
