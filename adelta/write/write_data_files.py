"""All rows of a stream → data files, by the writer that the WriteSpec asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.write.change_data import INSERT, ChangeDataWriter
from adelta.write.data_file_writer import DataFileWriter
from adelta.write.gathering import GatheringWriter
from adelta.write.layout import DataFileLayout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import pyarrow as pa

    from adelta._clock import Clock
    from adelta.kernel.actions.file_actions import AddFile
    from adelta.storage.object_store import ObjectStore
    from adelta.write.spec import WriteSpec

__all__ = ["CompletedRows", "WrittenFiles", "write_rows"]


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The actions that would add some files, and the values that identity columns came to."""

    files: tuple[AddFile, ...]
    high_water_marks: Mapping[str, int]


async def write_rows(
    store: ObjectStore,
    spec: WriteSpec,
    batches: AsyncIterator[pa.RecordBatch],
    *,
    changes: ChangeDataWriter | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> WrittenFiles:
    """Write all rows of `batches` below the root of `store`; what would add the files to the table.

    `changes` takes in the same rows, completed, as inserts. If anything fails, the files that were
    written are deleted again.

    Raises:
        SchemaMismatchError: the columns of a batch do not fit the table's.
        InvariantViolationError: a column that must not be null holds a null.
        StorageError: the store refused or failed.
    """
    if changes is not None and spec.content == "rows":
        completed = CompletedRows(await in_thread(DataFileLayout.of, spec))
        tee = _with_changes(completed, batches, changes)
        bare = replace(spec, content="copies", row_id_columns=None)
        written = await write_rows(store, bare, tee, clock=clock)
        return WrittenFiles(written.files, completed.high_water_marks)
    gather = spec.optimize_write and bool(spec.partition_columns)
    async with (GatheringWriter if gather else DataFileWriter)(store, spec, clock=clock) as writer:
        async for batch in batches:
            await writer.write(batch)
        files = await writer.finish()
        return WrittenFiles(tuple(files), writer.high_water_marks)


class CompletedRows:
    """New rows in the table's schema: numbered, computed and checked as `layout` says."""

    def __init__(self, layout: DataFileLayout) -> None:
        self._layout = layout
        self._numbers = self._layout.identity_values()

    @property
    def high_water_marks(self) -> dict[str, int]:
        """The values that identity columns have come to, by column."""
        return self._numbers.high_water_marks

    def complete(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """`rows` with every column of the table.

        Raises:
            SchemaMismatchError: a column is not the table's, or holds what it cannot hold.
            InvariantViolationError: a row does not satisfy a rule.
            InvalidExpressionError: a value cannot be computed.
        """
        return self._layout.complete(self._numbers.fill(rows))


async def _with_changes(
    completed: CompletedRows, batches: AsyncIterator[pa.RecordBatch], changes: ChangeDataWriter
) -> AsyncIterator[pa.RecordBatch]:
    async for batch in batches:
        rows = await in_thread(completed.complete, batch)
        await changes.write(rows, INSERT)
        yield rows
