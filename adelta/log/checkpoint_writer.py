"""Writes a checkpoint of a version, then points the hint to it.

A table says which kind: V2 with sidecars where `delta.checkpointPolicy` asks for it, else classic,
in several parts where `adelta.checkpoint.partSize` says how large one is and the table may have
parts at all. The singletons make a row group, or a file, of their own, so that opening a table does
not read past it. Files are written slice by slice while the next ones are read.

Nothing that a reader could take for a checkpoint is there before it is whole: an object appears at
once, a set of parts counts when it is complete, and a manifest is written after its sidecars.
Writers of one version do not disturb each other: they write equal files, or files of other names.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import in_thread, map_concurrent, map_stream
from adelta.kernel.actions.sidecar import Sidecar
from adelta.kernel.checkpoint.classic import kept_transactions, singleton_rows
from adelta.kernel.checkpoint.parts import number_of_parts
from adelta.kernel.checkpoint.schema import manifest_schema
from adelta.kernel.checkpoint.v2 import V2Manifest
from adelta.kernel.checksum.version_checksum import differences
from adelta.kernel.last_checkpoint import LastCheckpoint, encode
from adelta.kernel.log_path import (
    LAST_CHECKPOINT_PATH,
    LOG_DIR,
    checkpoint_part_path,
    checkpoint_path,
    sidecar_path,
    v2_checkpoint_path,
)
from adelta.kernel.table_properties import TableProperties
from adelta.log.checkpoint_rows import CheckpointRows
from adelta.log.checksum_writer import counted_by, empty_checksum, known_checksum
from adelta.log.expiry_time import expiry_time_ms
from adelta.log.listing import read_hint
from adelta.parquet.write.options import WriterOptions
from adelta.parquet.write.writer import ParquetObjectWriter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import pyarrow as pa

    from adelta._clock import Clock
    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.segment_replay import VersionReplay
    from adelta.log.state import LogState
    from adelta.parquet.write.writer import WrittenFile
    from adelta.storage.object_store import ObjectStore

__all__ = ["checkpoint_if_due", "write_checkpoint", "write_manifest"]

_log = logging.getLogger("adelta.log")

_ROW_GROUP_BYTES = 32 << 20  # of Arrow data
_OPEN_BYTES = 96 << 20  # over all parts that are written at once
_LEAST_ROW_GROUP_BYTES = 256 << 10
_SIDECAR_ROWS = 50_000
_SIDECARS_AT_ONCE = 2
_REPEATING = ("partitionValues", "partitionValues_parsed", "tags", "clusteringProvider")
"""Fields of file actions whose values repeat, which are worth a dictionary."""


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

    A hint of a newer checkpoint stays as it is.

    Raises:
        InvalidTableError: an earlier checkpoint is damaged, and none before it helps.
        StorageError: the store refused or failed.
    """
    now_ms = await expiry_time_ms(state.store, clock.now_ms())
    hint = await state.replayed(lambda replay: _write(state, replay, now_ms))
    present = await read_hint(state.store)
    if present is None or present.version <= hint.version:
        await state.store.put(LAST_CHECKPOINT_PATH, encode(hint))
    return hint


@dataclass(frozen=True, slots=True)
class _Content:
    """What goes into a checkpoint."""

    state: LogState
    rows: CheckpointRows
    transactions: tuple[SetTransaction, ...]
    domains: tuple[DomainMetadata, ...]
    now_ms: int

    def singletons(self) -> pa.Table:
        """Everything but the files, as rows of a classic checkpoint."""
        state = self.state
        return singleton_rows(
            self.rows.schema, state.protocol, state.metadata, self.transactions, self.domains
        )


async def _write(state: LogState, replay: VersionReplay, now_ms: int) -> LastCheckpoint:
    configuration = state.configuration
    properties = configuration.properties
    transactions = (await replay.set_transactions()).values()
    domains = (await replay.domain_metadata()).values()
    empty = await empty_checksum(state, replay)
    content = _Content(
        state,
        CheckpointRows(replay, configuration, empty, now_ms),
        tuple(kept_transactions(transactions, now_ms, properties.set_transaction_retention_ms)),
        tuple(domains),
        now_ms,
    )
    hint = await _write_kind(content, configuration)
    known = await known_checksum(state)
    differing = () if known is None else differences(known, content.rows.counted)
    if differing:  # the log counts; a checksum that does not agree is not carried on
        _log.warning(
            "%s: the checksums before version %d do not agree with the log in %s",
            state.root,
            state.version,
            "; ".join(differing),
        )
    state.note_checksum(counted_by(content.rows.counted, state, replay))
    return hint


async def _write_kind(content: _Content, configuration: TableConfiguration) -> LastCheckpoint:
    properties = configuration.properties
    size = properties.checkpoint_part_size
    if configuration.writes_v2_checkpoints:
        as_json = properties.checkpoint_v2_format == "json"
        return await _write_v2(content, size or _SIDECAR_ROWS, as_json=as_json)
    if size is not None and not configuration.supports_v2_checkpoints:
        parts = number_of_parts(await content.rows.count(), size)
        if parts > 1:
            return await _write_parts(content, parts)
    return await _write_single(content)


async def _write_single(content: _Content) -> LastCheckpoint:
    rows, version = content.rows, content.state.version
    path, schema = checkpoint_path(version), rows.schema
    async with (
        ParquetObjectWriter(
            content.state.store, path, schema=schema, options=_options(schema)
        ) as writer,
        aclosing(rows.batches(schema)) as batches,
    ):
        await writer.write(await in_thread(content.singletons))
        await writer.flush()
        async for batch in batches:
            await writer.write(batch)
        written = await writer.close()
    return LastCheckpoint(
        version, written.num_rows, size_in_bytes=written.size, num_of_add_files=rows.num_adds
    )


async def _write_parts(content: _Content, parts: int) -> LastCheckpoint:
    """Every part at once, each with its share of the memory for row groups."""
    rows, version, store = content.rows, content.state.version, content.state.store
    schema = rows.schema
    share = max(_LEAST_ROW_GROUP_BYTES, min(_ROW_GROUP_BYTES, _OPEN_BYTES // parts))
    options = _options(schema, row_group_bytes=share)
    async with AsyncExitStack() as stack:
        writers = [
            await stack.enter_async_context(
                ParquetObjectWriter(
                    store,
                    checkpoint_part_path(version, number, parts),
                    schema=schema,
                    options=options,
                )
            )
            for number in range(1, parts + 1)
        ]
        await writers[0].write(await in_thread(content.singletons))
        await writers[0].flush()
        clusters = await stack.enter_async_context(aclosing(rows.clustered(schema, parts)))
        async for cluster in clusters:
            for number, some in cluster:
                await writers[number].write(some)
        written = await map_concurrent(ParquetObjectWriter.close, writers, limit=store.concurrency)
    return LastCheckpoint(
        version,
        sum(file.num_rows for file in written),
        parts=parts,
        size_in_bytes=sum(file.size for file in written),
        num_of_add_files=rows.num_adds,
    )


async def _write_v2(content: _Content, size: int, *, as_json: bool) -> LastCheckpoint:
    """Sidecars of `size` rows, a few at once, and at last the manifest that names them."""
    state, rows, store = content.state, content.rows, content.state.store
    schema = rows.sidecar_schema

    async def write(tables: list[pa.Table]) -> WrittenFile:
        path = sidecar_path(f"{uuid.uuid4()}.parquet")
        async with ParquetObjectWriter(
            store, path, schema=schema, options=_options(schema)
        ) as writer:
            while tables:
                await writer.write(tables.pop(0))
            return await writer.close()

    async with aclosing(_runs(rows.batches(schema), size)) as runs:
        files = await map_stream(write, runs, limit=_SIDECARS_AT_ONCE)
    manifest = V2Manifest(
        version=state.version,
        protocol=state.protocol,
        metadata=state.metadata,
        transactions=content.transactions,
        domains=content.domains,
        sidecars=tuple(
            Sidecar(file.path.rpartition("/")[2], file.size, content.now_ms) for file in files
        ),
        num_file_actions=rows.num_adds + rows.num_removes,
        num_adds=rows.num_adds,
    )
    path = v2_checkpoint_path(state.version, str(uuid.uuid4()), "json" if as_json else "parquet")
    written_size = await write_manifest(store, manifest, path)
    return LastCheckpoint(
        state.version,
        rows.num_adds + rows.num_removes + len(manifest.actions),
        size_in_bytes=manifest.sidecar_bytes + written_size,
        num_of_add_files=rows.num_adds,
        v2_path=path.removeprefix(LOG_DIR),
        v2_content=manifest.recorded(written_size, content.now_ms),
    )


async def write_manifest(store: ObjectStore, manifest: V2Manifest, path: str) -> int:
    """Write the manifest of a V2 checkpoint, as JSON or Parquet by its path; the bytes it has.

    Raises:
        StorageError: the store refused or failed.
    """
    if path.endswith(".json"):
        data = await in_thread(manifest.to_json)
        await store.put(path, data)
        return len(data)
    async with ParquetObjectWriter(
        store,
        path,
        schema=manifest_schema(),
        options=WriterOptions(compression="zstd", page_index=False),
    ) as writer:
        await writer.write(await in_thread(manifest.to_table))
        return (await writer.close()).size


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


def _options(schema: pa.Schema, *, row_group_bytes: int = _ROW_GROUP_BYTES) -> WriterOptions:
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
