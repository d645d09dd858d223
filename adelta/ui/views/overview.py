"""The first page: where the table stands, its columns, its files; rows are counted apart."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from adelta._secrets import without_secrets
from adelta.kernel.schema.alteration import shown
from adelta.kernel.table_features import CLUSTERING_DOMAIN, clustering_columns
from adelta.kernel.timestamps import from_ms
from adelta.operations.inspect.file_totals import file_totals, row_totals
from adelta.ui.answers import pairs, shortened, text_of, time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.schema.types import StructType
    from adelta.snapshot import Snapshot
    from adelta.table import Table
    from adelta.ui.answers import Asked
    from adelta.ui.kept import Kept

__all__ = ["asked_snapshot", "count", "overview", "sizes"]

_MOST_COLUMNS = 1_000


async def asked_snapshot(table: Table, asked: Asked) -> Snapshot:
    """The version that is asked for, or the latest one.

    Raises:
        InvalidOptionError: it is none.
        VersionNotFoundError: there is no such version.
    """
    return await table.snapshot(version=asked.number("version"))


async def overview(table: Table, asked: Asked, kept: Kept) -> Mapping[str, Any]:
    """What the table says of itself; no file of data is counted."""
    snapshot = await asked_snapshot(table, asked)
    protocol, metadata = snapshot.protocol, snapshot.metadata
    domains = await kept.of(snapshot, snapshot.domain_metadata, "domains")
    clustered = clustering_columns(domains.get(CLUSTERING_DOMAIN), metadata)
    created = metadata.created_time
    return {
        "uri": without_secrets(table.uri),
        "name": text_of(metadata.name),
        "description": text_of(metadata.description),
        "id": text_of(metadata.id),
        "version": snapshot.version,
        "timestamp": time_of(snapshot.timestamp),
        "created": None if created is None else time_of(from_ms(created)),
        "may_be_stale": snapshot.may_be_stale,
        "partition_columns": [shortened(name) for name in snapshot.partition_columns],
        "clustering_columns": [shortened(shown(path)) for path in clustered],
        "reader_version": protocol.min_reader_version,
        "writer_version": protocol.min_writer_version,
        "reader_features": sorted(map(shortened, protocol.reader_features or ())),
        "writer_features": sorted(map(shortened, protocol.writer_features or ())),
        "properties": pairs(snapshot.properties),
        "domains": pairs(domains),
        "columns": _column_rows(snapshot.delta_schema, snapshot.partition_columns),
        "num_columns": len(snapshot.delta_schema.fields),
    }


def _column_rows(schema: StructType, partition_columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """The columns of a table; at most a thousand."""
    return [
        {
            "name": shortened(field.name),
            "type": shortened(str(field.type)),
            "nullable": field.nullable,
            "partition": field.name in partition_columns,
            "comment": text_of(field.metadata.get("comment")),
        }
        for field in schema.fields[:_MOST_COLUMNS]
    ]


async def sizes(table: Table, asked: Asked, kept: Kept) -> Mapping[str, Any]:
    """The files, counted, and their deletion vectors."""
    snapshot = await asked_snapshot(table, asked)
    found = await kept.of(snapshot, partial(file_totals, snapshot), "files")
    return {
        "num_files": found.num_files,
        "num_bytes": found.num_bytes,
        "median_bytes": found.median_bytes,
        "num_vectors": found.num_vectors,
        "num_deleted": found.num_deleted,
        "sizes": [{"least": least, "num_files": number} for least, number in found.sizes],
    }


async def count(table: Table, asked: Asked, kept: Kept) -> Mapping[str, Any]:
    """The rows, as the statistics of all files say."""
    snapshot = await asked_snapshot(table, asked)
    found = await kept.of(snapshot, partial(row_totals, snapshot), "rows")
    return {
        "num_rows": found.num_rows,
        "num_deleted": found.num_deleted,
        "num_unknown": found.num_unknown,
    }
