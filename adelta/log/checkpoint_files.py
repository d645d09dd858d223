"""The Parquet files that a checkpoint's file actions are written to: parts of it, and sidecars."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from adelta._chance import new_uuid
from adelta._concurrency import in_thread, map_stream
from adelta._dataclasses import dataclass
from adelta.kernel.checkpoint.classic import singleton_rows
from adelta.kernel.log_path import sidecar_path
from adelta.parquet.write.options import WriterOptions
from adelta.parquet.write.writer import ParquetObjectWriter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import pyarrow as pa

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.log.checkpoint_rows import CheckpointRows
    from adelta.parquet.write.writer import WrittenFile
    from adelta.storage.object_store import ObjectStore

__all__ = ["SIDECAR_ROWS", "Singletons", "checkpoint_options", "write_part", "write_sidecars"]

SIDECAR_ROWS = 50_000
"""How many file actions a sidecar has, where the table does not say."""

_ROW_GROUP_BYTES = 32 << 20  # of Arrow data
_SIDECARS_AT_ONCE = 2
_REPEATING = ("partitionValues", "partitionValues_parsed", "tags", "clusteringProvider")
"""Fields of file actions whose values repeat, which are worth a dictionary."""


@dataclass(frozen=True, slots=True)
class Singletons:
    """Everything in a checkpoint but the files."""

    protocol: Protocol
    metadata: Metadata
    transactions: tuple[SetTransaction, ...]
    domains: tuple[DomainMetadata, ...]

    def rows(self, schema: pa.Schema) -> pa.Table:
        """Rows of a classic checkpoint."""
        return singleton_rows(schema, self.protocol, self.metadata, self.transactions, self.domains)


async def write_part(
    store: ObjectStore, path: str, rows: CheckpointRows, singletons: Singletons | None
) -> WrittenFile:
    """Write all of `rows` as a file of a classic checkpoint, after `singletons` where it has these.

    Raises:
        InvalidTableError: an earlier checkpoint is damaged.
        StorageError: the store refused or failed.
    """
    schema = rows.schema
    async with (
        ParquetObjectWriter(
            store, path, schema=schema, options=checkpoint_options(schema)
        ) as writer,
        aclosing(rows.batches(schema)) as batches,
    ):
        if singletons is not None:
            await writer.write(await in_thread(singletons.rows, schema))
            await writer.flush()  # opening a table does not read past them
        async for batch in batches:
            await writer.write(batch)
        return await writer.close()


async def write_sidecars(store: ObjectStore, rows: CheckpointRows, size: int) -> list[WrittenFile]:
    """Write all of `rows` to sidecars of `size` rows, a few at once; their names are new.

    Raises:
        InvalidTableError: an earlier checkpoint is damaged.
        StorageError: the store refused or failed.
    """
    schema = rows.sidecar_schema

    async def write(tables: list[pa.Table]) -> WrittenFile:
        path = sidecar_path(f"{new_uuid()}.parquet")
        async with ParquetObjectWriter(
            store, path, schema=schema, options=checkpoint_options(schema)
        ) as writer:
            while tables:
                await writer.write(tables.pop(0))
            return await writer.close()

    async with aclosing(_runs(rows.batches(schema), size)) as runs:
        return await map_stream(write, runs, limit=_SIDECARS_AT_ONCE)


async def _runs(
    batches: AsyncGenerator[pa.Table, None], size: int
) -> AsyncGenerator[list[pa.Table], None]:
    """The rows of `batches` in lists of tables with `size` rows together."""
    run: list[pa.Table] = []
    room = size
    async with aclosing(batches):
        async for batch in batches:
            start = 0
            while start < batch.num_rows:
                part = batch.slice(start, room)
                run.append(part)
                start, room = start + part.num_rows, room - part.num_rows
                if not room:
                    yield run
                    run, room = [], size
    if run:
        yield run


def checkpoint_options(
    schema: pa.Schema, *, row_group_bytes: int = _ROW_GROUP_BYTES
) -> WriterOptions:
    """How the files of a checkpoint with this schema are written."""
    fields = {
        (action, field.name) for action in ("add", "remove") for field in schema.field(action).type
    }
    others = [name for name in schema.names if name not in ("add", "remove")]
    return WriterOptions(
        page_index=False,  # checkpoints are read by row group
        compression="zstd",
        compression_level=1,
        row_group_bytes=row_group_bytes,
        dictionary=tuple(sorted(field for field in fields if field[1] in _REPEATING)),
        statistics=(*others, *sorted(field for field in fields if field[1] != "stats")),
    )
