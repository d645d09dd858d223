"""Writes a classic checkpoint of a version, then points the hint to it.

The singletons make a row group of their own, so that opening a table does not read past it. Files
are written slice by slice: memory holds the live files themselves, and one row group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import in_thread
from adelta.kernel.checkpoint.classic import (
    add_rows,
    kept_tombstones,
    kept_transactions,
    remove_rows,
    singleton_rows,
)
from adelta.kernel.checkpoint.schema import checkpoint_schema
from adelta.kernel.last_checkpoint import LastCheckpoint, encode
from adelta.kernel.log_path import LAST_CHECKPOINT_PATH, checkpoint_path
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_properties import TableProperties
from adelta.log.checkpoint_columns import ParsedColumns
from adelta.parquet.options import WriterOptions
from adelta.parquet.writer import ParquetObjectWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta._clock import Clock
    from adelta.log.state import LogState

__all__ = ["checkpoint_if_due", "write_checkpoint"]

_SLICE = 64 * 1024
_OPTIONS = WriterOptions(compression="snappy", row_group_rows=256 * 1024)


async def checkpoint_if_due(state: LogState, clock: Clock = SYSTEM_CLOCK) -> LastCheckpoint | None:
    """Write a checkpoint of `state` where the table's checkpoint interval says so.

    Raises:
        InvalidTableError: an earlier checkpoint is damaged.
        StorageError: the store refused or failed.
    """
    interval = TableProperties.parse(state.metadata.configuration).checkpoint_interval
    if state.version == 0 or state.version % interval:
        return None
    return await write_checkpoint(state, clock)


async def write_checkpoint(state: LogState, clock: Clock = SYSTEM_CLOCK) -> LastCheckpoint:
    """Write a checkpoint of `state`, and the hint that points to it.

    Raises:
        InvalidTableError: an earlier checkpoint is damaged.
        StorageError: the store refused or failed.
    """
    now = clock.now_ms()
    configuration = TableConfiguration(state.protocol, state.metadata)
    properties = configuration.properties
    files = (await state.files()).table
    tombstones = await in_thread(
        kept_tombstones,
        await state.tombstones(),
        now,
        properties.deleted_file_retention_ms,
    )
    transactions = kept_transactions(
        (await state.set_transactions()).values(), now, properties.set_transaction_retention_ms
    )
    domains = (await state.domain_metadata()).values()
    parsed = ParsedColumns(configuration) if properties.checkpoint_write_stats_as_struct else None
    schema = checkpoint_schema(
        stats=properties.checkpoint_write_stats_as_json, parsed=parsed.fields if parsed else ()
    )

    def adds(part: pa.Table) -> pa.Table:
        return add_rows(schema, part, parsed.of(part) if parsed else None)

    singletons = singleton_rows(schema, state.protocol, state.metadata, transactions, domains)
    path = checkpoint_path(state.version)
    async with ParquetObjectWriter(state.store, path, schema=schema, options=_OPTIONS) as writer:
        await writer.write(singletons)
        await writer.flush()
        for start in range(0, files.num_rows, _SLICE):
            await writer.write(await in_thread(adds, files.slice(start, _SLICE)))
        for start in range(0, tombstones.num_rows, _SLICE):
            await writer.write(
                await in_thread(remove_rows, schema, tombstones.slice(start, _SLICE))
            )
        written = await writer.close()
    hint = LastCheckpoint(
        version=state.version,
        size=written.num_rows,
        size_in_bytes=written.size,
        num_of_add_files=files.num_rows,
    )
    await state.store.put(LAST_CHECKPOINT_PATH, encode(hint))
    return hint
