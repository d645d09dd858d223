"""One page about a table: where it stands and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from adelta.cli.arguments import add_table, add_version, open_snapshot, open_table
from adelta.cli.commands.schema import columns
from adelta.console.render import Output, size

if TYPE_CHECKING:
    import argparse

__all__ = ["configure", "run"]

_HEADINGS = {
    "numRows": "rows",
    "numFiles": "files",
    "sizeInBytes": "size",
    "partitionColumns": "partitioned by",
    "minReaderVersion": "reader version",
    "minWriterVersion": "writer version",
    "readerFeatures": "reader features",
    "writerFeatures": "writer features",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    add_version(parser)


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print the page."""
    async with open_table(arguments) as table:
        snapshot = await open_snapshot(table, arguments)
        files = await snapshot.files()
        total = int(pc.sum(files.column("size")).as_py() or 0)
        rows = await snapshot.scan().count()
    protocol, metadata = snapshot.protocol, snapshot.metadata
    page: dict[str, object] = {
        "location": table.uri,
        "name": metadata.name,
        "description": metadata.description,
        "version": snapshot.version,
        "timestamp": snapshot.timestamp,
        "numRows": rows,
        "numFiles": files.num_rows,
        "sizeInBytes": total,
        "partitionColumns": list(snapshot.partition_columns),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": list(protocol.reader_features or ()),
        "writerFeatures": list(protocol.writer_features or ()),
        "properties": dict(snapshot.properties),
        "id": metadata.id,
    }
    if output.as_json:
        output.line(page)
        return
    page |= {"numRows": f"{rows:,}", "numFiles": f"{files.num_rows:,}", "sizeInBytes": size(total)}
    output.record(
        {_HEADINGS.get(name, name): value for name, value in page.items() if value or value == 0}
    )
    output.table(*columns(snapshot.delta_schema, snapshot.partition_columns))
