"""The rows of a checkpoint as they are written: live files and tombstones, slice by slice.

Memory holds the slices under way, never all files; what has been read before is not read again.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol, TypeAlias

from adelta._concurrency import in_thread
from adelta.kernel.checkpoint.classic import add_rows, kept_tombstones, remove_rows
from adelta.kernel.checkpoint.parts import by_part
from adelta.kernel.checkpoint.schema import checkpoint_schema, sidecar_schema
from adelta.kernel.checksum.file_facts import FileFacts, with_files
from adelta.log.checkpoint_columns import ParsedColumns

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    import pyarrow as pa

    from adelta.kernel.checksum.version_checksum import VersionChecksum
    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.kernel.file_set import FileSet
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.progress import Meter

__all__ = ["CheckpointRows", "FileActions"]

_SLICE = 64 * 1024
_Clusters: TypeAlias = "list[tuple[int, pa.Table]]"


class FileActions(Protocol):
    """What a replay says of files: of a version, or of some pieces of its log."""

    def file_batches(
        self, skipping: Skipping | None = None, columns: Sequence[str] | None = None
    ) -> AsyncGenerator[pa.Table, None]:
        """The live files."""
        ...

    def tombstone_batches(self) -> AsyncGenerator[pa.Table, None]:
        """The removed files that the log still names."""
        ...


class CheckpointRows:
    """The file actions of a version as a checkpoint of it holds them at `now_ms`.

    `num_removes` and `counted`, a checksum that is `empty` at first, count what has been yielded.
    Where the live files are `loaded` they are not read. `meter` is told of those yielded.
    """

    def __init__(
        self,
        replay: FileActions,
        root: str,
        configuration: TableConfiguration,
        empty: VersionChecksum,
        now_ms: int,
        loaded: FileSet | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._replay = replay
        self._root = root
        self._loaded = loaded
        self._meter = meter
        self._now_ms = now_ms
        self._retention_ms = configuration.properties.deleted_file_retention_ms
        as_json, as_struct = configuration.properties.checkpoint_statistics
        self._parsed = ParsedColumns(configuration) if as_struct else None
        fields = self._parsed.fields if self._parsed else ()
        self.schema = checkpoint_schema(stats=as_json, parsed=fields)
        self.sidecar_schema = sidecar_schema(stats=as_json, parsed=fields)
        self.counted = empty
        self.num_removes = 0

    @property
    def num_adds(self) -> int:
        """How many live files have been yielded."""
        return self.counted.num_files

    async def count(self) -> int:
        """How many rows `batches` will yield."""
        if self._loaded is not None:
            found = self._loaded.num_files
        else:
            async with aclosing(self._replay.file_batches(columns=["path"])) as tables:
                found = sum([table.num_rows async for table in tables])
        async with aclosing(self._tombstones()) as tables:
            return found + sum([table.num_rows async for table in tables])

    async def batches(self, schema: pa.Schema) -> AsyncGenerator[pa.Table, None]:
        """Rows of `schema`, one of this object's two: files first, then tombstones.

        Raises:
            InvalidTableError: an earlier checkpoint is damaged.
        """
        async with aclosing(self.clustered(schema, 1)) as batches:
            async for ((_, batch),) in batches:
                yield batch

    async def clustered(
        self, schema: pa.Schema, parts: int
    ) -> AsyncGenerator[list[tuple[int, pa.Table]], None]:
        """The same rows by the part of a checkpoint, counted from 0, that they belong to.

        Raises:
            InvalidTableError: an earlier checkpoint is damaged.
        """

        def count_adds(slice_: pa.Table) -> _Clusters:
            self.counted = with_files(self.counted, FileFacts.of_table(slice_))
            return make(slice_, adds)

        def adds(slice_: pa.Table) -> pa.Table:
            return add_rows(schema, slice_, self._parsed.of(slice_) if self._parsed else None)

        def removes(slice_: pa.Table) -> pa.Table:
            return remove_rows(schema, slice_)

        def make(slice_: pa.Table, rows: Callable[[pa.Table], pa.Table]) -> _Clusters:
            clusters = by_part(slice_, parts, self._root) if parts > 1 else [(0, slice_)]
            return [(part, rows(some)) for part, some in clusters]

        async with aclosing(self._files()) as files:
            async for table in files:
                for slice_ in _slices(table):
                    made = await in_thread(count_adds, slice_)
                    if self._meter is not None:
                        self._meter.advance(slice_.num_rows)
                    yield made
        async with aclosing(self._tombstones()) as tombstones:
            async for table in tombstones:
                for slice_ in _slices(table):
                    self.num_removes += slice_.num_rows
                    yield await in_thread(make, slice_, removes)

    async def _files(self) -> AsyncGenerator[pa.Table, None]:
        if self._loaded is not None:
            yield self._loaded.table
            return
        async with aclosing(self._replay.file_batches()) as tables:
            async for table in tables:
                yield table

    async def _tombstones(self) -> AsyncGenerator[pa.Table, None]:
        async with aclosing(self._replay.tombstone_batches()) as tables:
            async for table in tables:
                yield await in_thread(kept_tombstones, table, self._now_ms, self._retention_ms)


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    return (table.slice(start, _SLICE) for start in range(0, table.num_rows, _SLICE))
