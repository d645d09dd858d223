"""Log replay: what a version's segment and the commits after it say.

A `VersionReplay` belongs to the replay of one opened segment, and never looks at another one. Where
a checkpoint is given up for an earlier one, nothing that the damaged one has led to can be met in
the replay of the segment read instead. It is loaded when a table's files are first asked for: most
of what reads checkpoints comes with it.

Files are read row group by row group; a predicate reads just the columns that it needs.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa

from adelta._arrow_values import empty_table
from adelta._concurrency import in_thread
from adelta._memory import check_memory
from adelta.kernel.actions.file_actions import VERSION_COLUMN
from adelta.kernel.actions.file_schemas import ADD_SCHEMA, REMOVE_SCHEMA, VERSION_FIELD
from adelta.kernel.actions.json import tables_of_adds
from adelta.kernel.data_skipping.known_statistics import KnownStatistics
from adelta.kernel.file_set import FileSet
from adelta.kernel.replay import ReconciledTail, anti_join, reconcile
from adelta.log.checkpoint_replay import checkpoint_files, checkpoint_tombstones
from adelta.log.column_arena import ColumnArena

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.json import ActionBatch
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.log.segment_replay import SegmentReplay

__all__ = ["VersionReplay", "reconciled"]

_KEPT_WHOLE = 16 << 20  # a smaller checkpoint is read at once, and its files are kept
_MOST_CHUNKS = 64  # of the table of files


class VersionReplay:
    """What a segment and the commits after it say, derived when it is first asked for.

    Attributes:
        segment: the replay of the segment.
    """

    def __init__(self, segment: SegmentReplay, newer: tuple[ActionBatch, ...]) -> None:
        self.segment = segment
        self._newer = newer
        self._lock = anyio.Lock()
        self._tail: ReconciledTail | None = None
        self._files: FileSet | None = None
        self._known: KnownStatistics | None = None  # of `_files`
        # Live files after so many newer batches, and what else there is after so many.
        self._carried: tuple[FileSet, KnownStatistics, int] | None = None
        self._transactions: tuple[Mapping[str, SetTransaction], int] | None = None
        self._domains: tuple[Mapping[str, DomainMetadata], int] | None = None

    @property
    def nbytes(self) -> int:
        """The memory of what has been derived beside the segment's, about, in bytes."""
        carried = () if self._carried is None else self._carried[:2]
        files = {id(each): each for each in (self._files, *carried[:1]) if each is not None}
        known = {id(each): each for each in (self._known, *carried[1:]) if each is not None}
        derived = sum(each.nbytes for each in known.values())
        if self._tail is not None:
            derived += self._tail.nbytes
        listed = sum(int(each.table.nbytes) for each in files.values())
        return int(derived) + listed

    @property
    def files_loaded(self) -> bool:
        """Whether `files` answers without reading."""
        return self._files is not None or self._carried is not None

    def advanced(self, newer: tuple[ActionBatch, ...]) -> VersionReplay:
        """The replay of a later version, whose `newer` batches begin with those of this one."""
        later = VersionReplay(self.segment, newer)
        later._carried = self._carried
        later._transactions, later._domains = self._transactions, self._domains
        if self._files is not None and self._known is not None:
            later._carried = (self._files, self._known, len(self._newer))
        return later

    def logged(self) -> tuple[Protocol, Metadata]:
        """Protocol and metadata as the log has them."""
        protocol, metadata = self.segment.opened.protocol, self.segment.opened.metadata
        for batch in self._newer:
            protocol = batch.protocols[-1][1] if batch.protocols else protocol
            metadata = batch.metadata[-1][1] if batch.metadata else metadata
        return protocol, metadata

    async def set_transactions(self) -> Mapping[str, SetTransaction]:
        """The latest `txn` of every application.

        Raises:
            InvalidTableError: the checkpoint is damaged.
        """
        found, applied = self._transactions or (await self.segment.set_transactions(), 0)
        newer = self._newer[applied:]
        later = {txn.app_id: txn for batch in newer for _, txn in batch.set_transactions}
        found = {**found, **later} if later else found
        self._transactions = found, len(self._newer)
        return found

    async def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """The configuration of every domain that is not removed.

        Raises:
            InvalidTableError: the checkpoint is damaged.
        """
        found, applied = self._domains or (await self.segment.domain_metadata(), 0)
        newer = self._newer[applied:]
        later = {domain.domain: domain for batch in newer for _, domain in batch.domain_metadata}
        found = {**found, **later} if later else found
        self._domains = found, len(self._newer)
        return {name: domain for name, domain in found.items() if not domain.removed}

    async def files(self) -> FileSet:
        """All live files, with every column of `ADD_SCHEMA`; kept for the next call.

        Raises:
            InvalidTableError: the checkpoint is damaged.
        """
        async with self._lock:
            if self._files is None:
                self._files, self._known = await self._load_files()
            return self._files

    async def _load_files(self) -> tuple[FileSet, KnownStatistics]:
        root = self.segment.root
        if self._carried is not None:
            files, known, applied = self._carried
            tail = await reconciled(self._newer[applied:], root)
            if len(tail.keys) == 0:
                return files, known
            kept = await in_thread(anti_join, files.table, tail, root)
            table = FileSet(kept).union(FileSet(tail.adds)).table
            if table.num_rows and table.column(0).num_chunks > _MOST_CHUNKS:
                # One more with every commit: in the end each list would take longer than the last.
                table = await in_thread(table.combine_chunks)
            texts = table.column("stats")
            return FileSet(table), (
                known.continued(texts) if kept is files.table else KnownStatistics(texts)
            )
        table = await self._gather(None, ADD_SCHEMA.names)
        return FileSet(table), KnownStatistics(table.column("stats"))

    async def _gather(self, skipping: Skipping | None, columns: Sequence[str]) -> pa.Table:
        arena = ColumnArena() if skipping is None else None
        reader = self.segment.opened.reader
        async with aclosing(self.file_batches(skipping, columns, arena)) as batches:
            tables, size = [], 0
            async for table in batches:
                tables.append(table)
                size += table.nbytes
                if reader is not None:
                    check_memory(
                        size, reader.memory_limit, f"{self.segment.root}: its list of files"
                    )
        if not tables:
            nothing = pa.schema([ADD_SCHEMA.field(column) for column in columns])
            return pa.Table.from_batches([], nothing)
        return pa.concat_tables(tables)

    async def files_matching(
        self, skipping: Skipping | None = None, columns: Sequence[str] | None = None
    ) -> FileSet:
        """The live files that `skipping` keeps, with the named columns of `ADD_SCHEMA`.

        Where all files are at hand, or soon are, they are used; else no more is read than needed.

        Raises:
            InvalidTableError: the checkpoint is damaged.
        """
        names = ADD_SCHEMA.names if columns is None else list(columns)
        whole = skipping is None and set(names) == set(ADD_SCHEMA.names)
        if not whole and not self.files_loaded and self.checkpoint_bytes > _KEPT_WHOLE:
            return FileSet(await self._gather(skipping, names))
        table = (await self.files()).table
        if skipping is not None and table.num_rows:
            table = await in_thread(skipping.candidates, table, self._known)
        return FileSet(table if names == table.column_names else table.select(names))

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes in the files of the checkpoint; 0 where there is none."""
        opened = self.segment.opened
        if opened.segment.checkpoint is None or opened.reader is None:
            return 0
        sidecars = sum(sidecar.size_in_bytes or 0 for sidecar in opened.reader.sidecars)
        return sidecars + sum(file.size for file in opened.segment.checkpoint.files)

    @property
    def about_files(self) -> int:
        """How many files the version has, about, by what has been read of it."""
        opened = self.segment.opened
        commits = (*opened.batches, *self._newer)
        base = 0 if opened.reader is None else opened.reader.about_files
        return base + sum(batch.num_files for batch in commits)

    async def added(self) -> pa.Table:
        """The `path` of each file that the commits after the checkpoint add, and their `version`.

        Raises:
            InvalidTableError: a commit is damaged.
        """
        batches = (*self.segment.opened.batches, *self._newer)
        tables = await in_thread(tables_of_adds, batches)
        wanted = ["path", VERSION_COLUMN]
        found = [table.select(wanted) for table in tables if table.num_rows]
        if not found:
            return empty_table(ADD_SCHEMA.append(VERSION_FIELD)).select(wanted)
        return pa.concat_tables(found)

    async def tail(self) -> ReconciledTail:
        """What the commits after the checkpoint leave.

        Raises:
            InvalidTableError: a commit is damaged.
        """
        if self._tail is None:
            onto = await self.segment.tail()
            self._tail = await reconciled(self._newer, self.segment.root, onto)
        return self._tail

    async def file_batches(
        self,
        skipping: Skipping | None = None,
        columns: Sequence[str] | None = None,
        arena: ColumnArena | None = None,
    ) -> AsyncGenerator[pa.Table, None]:
        """The live files that `skipping` keeps, piece by piece, in the memory of a few row groups.

        Those of the checkpoint come to lie in `arena` where one is given.

        Raises:
            InvalidTableError: the checkpoint is damaged.
        """
        names = ADD_SCHEMA.names if columns is None else list(columns)
        tail = await self.tail()
        if tail.adds.num_rows:
            adds = tail.adds
            if skipping is not None:
                adds = await in_thread(skipping.candidates, adds)
            if adds.num_rows:
                yield adds.select(names)
        reader = self.segment.opened.reader
        if reader is None:
            return
        found = checkpoint_files(reader.parts(), tail, self.segment.root, skipping, names, arena)
        async with aclosing(found) as tables:
            async for table in tables:
                yield table

    async def tombstones(self) -> pa.Table:
        """The removed files that the log still names, with the columns of `REMOVE_SCHEMA`.

        Raises:
            InvalidTableError: the checkpoint is damaged.
        """
        async with self._lock, aclosing(self.tombstone_batches()) as batches:
            tables = [table async for table in batches]
            return pa.concat_tables(tables or [empty_table(REMOVE_SCHEMA)])

    async def tombstone_batches(self) -> AsyncGenerator[pa.Table, None]:
        """The removed files that the log still names, piece by piece, as `file_batches`.

        Raises:
            InvalidTableError: the checkpoint is damaged.
        """
        tail = await self.tail()
        if tail.tombstones.num_rows:
            yield tail.tombstones
        reader = self.segment.opened.reader
        if reader is None:
            return

        found = checkpoint_tombstones(reader.parts(), tail, self.segment.root)
        async with aclosing(found) as tables:
            async for table in tables:
                yield table


async def reconciled(
    batches: Sequence[ActionBatch], root: str, onto: ReconciledTail | None = None
) -> ReconciledTail:
    """What commits leave, after those that left `onto`."""
    if not any(batch.changes_files for batch in batches):
        return onto or ReconciledTail.nothing()
    return await in_thread(reconcile, batches, root, onto=onto)
