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
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING

from adelta._chance import new_uuid
from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.kernel.actions.sidecar import Sidecar
from adelta.kernel.checkpoint.classic import kept_transactions
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
    v2_checkpoint_path,
)
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_properties import TableProperties
from adelta.log.checkpoint_files import (
    SIDECAR_ROWS,
    Singletons,
    checkpoint_options,
    write_part,
    write_sidecars,
)
from adelta.log.checkpoint_rows import CheckpointRows
from adelta.log.checksum_writer import counted_by, empty_checksum, known_checksum
from adelta.log.expiry_time import expiry_time_ms
from adelta.log.gone import take_back_if_gone
from adelta.log.listing import read_hint
from adelta.parquet.write.options import WriterOptions
from adelta.parquet.write.writer import ParquetObjectWriter
from adelta.progress import Meter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta._clock import Clock
    from adelta.kernel.checksum.version_checksum import VersionChecksum
    from adelta.log.checksum_record import ChecksumRecord
    from adelta.log.checksum_writer import NonFiles
    from adelta.log.state import LogState
    from adelta.log.version_replay import VersionReplay
    from adelta.progress import OnProgress
    from adelta.storage.object_store import ObjectStore

__all__ = [
    "CheckpointContent",
    "checkpoint_if_due",
    "finish_v2",
    "is_checkpoint_due",
    "note_counted",
    "point_to",
    "write_checkpoint",
    "write_manifest",
]

_log = logging.getLogger("adelta.log")

_MOST_ROW_GROUP_BYTES = 32 << 20  # of Arrow data
_OPEN_BYTES = 96 << 20  # over all parts that are written at once
_LEAST_ROW_GROUP_BYTES = 256 << 10


async def checkpoint_if_due(state: LogState, clock: Clock = SYSTEM_CLOCK) -> LastCheckpoint | None:
    """Write a checkpoint of `state` where the table's checkpoint interval says so.

    Raises:
        InvalidTableError: an earlier checkpoint is damaged.
        StorageError: the store refused or failed.
    """
    return await write_checkpoint(state, clock) if is_checkpoint_due(state) else None


def is_checkpoint_due(state: LogState) -> bool:
    """Whether the table's checkpoint interval asks for a checkpoint of `state`."""
    interval = TableProperties.parse(state.metadata.configuration).checkpoint_interval
    return state.version > 0 and state.version % interval == 0


async def write_checkpoint(
    state: LogState,
    clock: Clock = SYSTEM_CLOCK,
    *,
    in_one: bool = False,
    on_progress: OnProgress | None = None,
) -> LastCheckpoint:
    """Write a checkpoint of `state`, and the hint that points to it.

    A hint of a newer checkpoint stays as it is. With `in_one` it is one object at
    `checkpoint_path`, whatever kind the table asks for. `on_progress` is told of the live files.

    Raises:
        InvalidTableError: an earlier checkpoint is damaged, and none before it helps.
        TableNotFoundError: the table was dropped meanwhile.
        StorageError: the store refused or failed.
    """
    now_ms = await expiry_time_ms(state.store, clock.now_ms())
    meter = None
    if on_progress is not None:
        known = await known_checksum(state)
        total = None if known is None else known.num_files
        meter = Meter(on_progress, "writing", total=total)
    hint = await state.replayed(lambda replay: _write(state, replay, now_ms, meter, in_one=in_one))
    await point_to(state, hint)
    return hint


async def point_to(state: LogState, hint: LastCheckpoint) -> None:
    """Let the log's hint be this one, of a checkpoint of `state`, unless it is of a newer one.

    Raises:
        TableNotFoundError: the table was dropped meanwhile; the checkpoint has been taken back.
        StorageError: the store refused or failed.
    """
    store, written = state.store, _files_of(hint)
    present = await read_hint(store)
    if present is None or present.version <= hint.version:
        await store.put(LAST_CHECKPOINT_PATH, encode(hint))
        written.append(LAST_CHECKPOINT_PATH)
    await take_back_if_gone(state, written)


def _files_of(hint: LastCheckpoint) -> list[str]:
    """The files of a checkpoint, by its hint; no sidecars, which nobody names without it."""
    version, parts = hint.version, hint.parts
    if hint.v2_path is not None:
        return [LOG_DIR + hint.v2_path]
    if parts is None:
        return [checkpoint_path(version)]
    return [checkpoint_part_path(version, part, parts) for part in range(1, parts + 1)]


@dataclass(frozen=True, slots=True)
class CheckpointContent:
    """What goes into a checkpoint that is written at `now_ms`, but the files.

    `empty` is the version's checksum as if it had none.
    """

    version: int
    singletons: Singletons
    empty: VersionChecksum
    now_ms: int

    @classmethod
    async def of(cls, state: LogState, replay: NonFiles, now_ms: int) -> CheckpointContent:
        """What goes into a checkpoint of `state`, of which `replay` tells.

        Raises:
            InvalidTableError: an earlier checkpoint is damaged.
        """
        transactions = (await replay.set_transactions()).values()
        domains = (await replay.domain_metadata()).values()
        retention_ms = state.configuration.properties.set_transaction_retention_ms
        singletons = Singletons(
            state.protocol,
            state.metadata,
            tuple(kept_transactions(transactions, now_ms, retention_ms)),
            tuple(domains),
        )
        return cls(state.version, singletons, await empty_checksum(state, replay), now_ms)

    @property
    def configuration(self) -> TableConfiguration:
        """How the version is to be read and written."""
        return TableConfiguration(self.singletons.protocol, self.singletons.metadata)


async def _write(
    state: LogState, replay: VersionReplay, now_ms: int, meter: Meter | None, *, in_one: bool
) -> LastCheckpoint:
    content = await CheckpointContent.of(state, replay, now_ms)
    loaded = await replay.files() if replay.files_loaded else None
    rows = CheckpointRows(
        replay, state.root, content.configuration, content.empty, now_ms, loaded, meter
    )
    write = _write_one if in_one else _write_kind
    hint = await write(state.store, content, rows)
    counted = counted_by(rows.counted, state, replay.segment.opened)
    await note_counted(state, counted)
    return hint


async def note_counted(state: LogState, record: ChecksumRecord) -> None:
    """Take note of the checksum that the files of `state` have by themselves.

    Raises:
        StorageError: the store refused or failed.
    """
    known = await known_checksum(state)
    found = record.counted
    differing = () if known is None or found is None else differences(known, found)
    if differing:  # the log counts; a checksum that does not agree is not carried on
        _log.warning(
            "%s: the checksums before version %d do not agree with the log in %s",
            state.root,
            state.version,
            "; ".join(differing),
        )
    state.note_checksum(record)


async def _write_kind(
    store: ObjectStore, content: CheckpointContent, rows: CheckpointRows
) -> LastCheckpoint:
    configuration = content.configuration
    properties = configuration.properties
    size = properties.checkpoint_part_size
    if configuration.writes_v2_checkpoints:
        files = await write_sidecars(store, rows, size or SIDECAR_ROWS)
        sidecars = [(file.path, file.size) for file in files]
        return await finish_v2(store, content, sidecars, rows.num_adds, rows.num_removes)
    if size is not None and not configuration.supports_v2_checkpoints:
        parts = number_of_parts(await rows.count(), size)
        if parts > 1:
            return await _write_parts(store, content, rows, parts)
    return await _write_one(store, content, rows)


async def _write_one(
    store: ObjectStore, content: CheckpointContent, rows: CheckpointRows
) -> LastCheckpoint:
    path = checkpoint_path(content.version)
    file = await write_part(store, path, rows, content.singletons)
    return LastCheckpoint(
        content.version, file.num_rows, size_in_bytes=file.size, num_of_add_files=rows.num_adds
    )


async def _write_parts(
    store: ObjectStore, content: CheckpointContent, rows: CheckpointRows, parts: int
) -> LastCheckpoint:
    """Every part at once, each with its share of the memory for row groups."""
    schema = rows.schema
    share = max(_LEAST_ROW_GROUP_BYTES, min(_MOST_ROW_GROUP_BYTES, _OPEN_BYTES // parts))
    options = checkpoint_options(schema, row_group_bytes=share)
    async with AsyncExitStack() as stack:
        writers = [
            await stack.enter_async_context(
                ParquetObjectWriter(
                    store,
                    checkpoint_part_path(content.version, number, parts),
                    schema=schema,
                    options=options,
                )
            )
            for number in range(1, parts + 1)
        ]
        await writers[0].write(await in_thread(content.singletons.rows, schema))
        await writers[0].flush()
        clusters = await stack.enter_async_context(aclosing(rows.clustered(schema, parts)))
        async for cluster in clusters:
            for number, some in cluster:
                await writers[number].write(some)
        written = await map_concurrent(ParquetObjectWriter.close, writers, limit=store.concurrency)
    return LastCheckpoint(
        content.version,
        sum(file.num_rows for file in written),
        parts=parts,
        size_in_bytes=sum(file.size for file in written),
        num_of_add_files=rows.num_adds,
    )


async def finish_v2(
    store: ObjectStore,
    content: CheckpointContent,
    sidecars: Iterable[tuple[str, int]],
    num_adds: int,
    num_removes: int,
) -> LastCheckpoint:
    """Write the manifest over sidecars of these paths and sizes, and with it the checkpoint.

    Raises:
        StorageError: the store refused or failed.
    """
    others, version = content.singletons, content.version
    manifest = V2Manifest(
        version=version,
        protocol=others.protocol,
        metadata=others.metadata,
        transactions=others.transactions,
        domains=others.domains,
        sidecars=tuple(
            Sidecar(path.rpartition("/")[2], size, content.now_ms) for path, size in sidecars
        ),
        num_file_actions=num_adds + num_removes,
        num_adds=num_adds,
    )
    kind = content.configuration.properties.checkpoint_v2_format
    path = v2_checkpoint_path(version, str(new_uuid()), "json" if kind == "json" else "parquet")
    written_size = await write_manifest(store, manifest, path)
    return LastCheckpoint(
        version,
        num_adds + num_removes + len(manifest.actions),
        size_in_bytes=manifest.sidecar_bytes + written_size,
        num_of_add_files=num_adds,
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
