"""The files by partition, and the ranges of a column over the files."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from adelta.operations.inspect.column_layout import column_layout, layout_columns
from adelta.operations.inspect.file_totals import partition_totals
from adelta.ui.answers import shortened, text_of
from adelta.ui.views.overview import asked_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.table import Table
    from adelta.ui.answers import Asked
    from adelta.ui.kept import Kept

__all__ = ["layout", "partitions"]

_MOST_COLUMNS = 500


async def partitions(table: Table, asked: Asked, kept: Kept) -> Mapping[str, Any]:
    """The largest partitions, and how many there are."""
    snapshot = await asked_snapshot(table, asked)
    number, found = await kept.of(snapshot, partial(partition_totals, snapshot), "partitions")
    return {
        "version": snapshot.version,
        "columns": [shortened(name) for name in snapshot.partition_columns],
        "num_partitions": number,
        "partitions": [
            {
                "values": [text_of(text) for text in each.values],
                "num_files": each.num_files,
                "num_bytes": each.num_bytes,
                "num_vectors": each.num_vectors,
            }
            for each in found
        ],
    }


async def layout(table: Table, asked: Asked, kept: Kept) -> Mapping[str, Any]:
    """The ranges of a column, by default of the first; and the columns that there are."""
    snapshot = await asked_snapshot(table, asked)
    columns = layout_columns(snapshot)[:_MOST_COLUMNS]
    column = asked.text("column") or next(iter(columns), None)
    if column is None:
        return {"columns": [], "layout": None}
    make = partial(column_layout, snapshot, column)
    found = asdict(await kept.of(snapshot, make, "layout", column))
    found["column"] = shortened(found["column"])
    found["files"] = [{**each, "path": shortened(each["path"], 200)} for each in found["files"]]
    names = [name for name in columns if len(name) <= 1_000]
    return {"columns": names, "layout": found}
