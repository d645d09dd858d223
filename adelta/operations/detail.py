"""DESCRIBE DETAIL: what a table is, where, and how large."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from adelta import _compute as pc
from adelta._arguments import checked
from adelta._dataclasses import dataclass
from adelta.kernel.schema.alteration import shown
from adelta.kernel.table_features import CLUSTERING_DOMAIN, clustering_columns
from adelta.kernel.timestamps import from_ms
from adelta.table import opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from adelta.table import TableOrAddress

__all__ = ["TableDetail", "detail"]


@dataclass(frozen=True, slots=True)
class TableDetail:
    """A table at its latest version; sizes in bytes.

    `table_features` are the names that its protocol lists, for readers and for writers together.
    """

    format: str
    id: str
    name: str | None
    description: str | None
    location: str
    created_at: datetime | None
    last_modified: datetime
    partition_columns: tuple[str, ...]
    clustering_columns: tuple[str, ...]
    num_files: int
    size_in_bytes: int
    properties: Mapping[str, str] = field(hash=False)
    min_reader_version: int
    min_writer_version: int
    table_features: tuple[str, ...]
    version: int


@checked
async def detail(
    table: TableOrAddress, *, storage_options: Mapping[str, str] | None = None
) -> TableDetail:
    """What the table is at its latest version.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
        InvalidTableError: the log is damaged.
    """
    async with opened(table, storage_options) as handle:
        snapshot = await handle.snapshot()
        files = await snapshot.files()
        domains = await snapshot.domain_metadata()
    metadata, protocol = snapshot.metadata, snapshot.protocol
    clustered = clustering_columns(domains.get(CLUSTERING_DOMAIN), metadata)
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return TableDetail(
        format="delta",
        id=metadata.id,
        name=metadata.name,
        description=metadata.description,
        location=handle.uri,
        created_at=None if metadata.created_time is None else from_ms(metadata.created_time),
        last_modified=snapshot.timestamp,
        partition_columns=snapshot.partition_columns,
        clustering_columns=tuple(map(shown, clustered)),
        num_files=files.num_rows,
        size_in_bytes=int(pc.sum(files.column("size")).as_py() or 0),
        properties=dict(snapshot.properties),
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        table_features=tuple(sorted(features)),
        version=snapshot.version,
    )
