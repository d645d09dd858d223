"""New rows of a merge: what its clauses make of source rows that match no row of the target."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from adelta._concurrency import ItemsInThread, in_thread
from adelta._dataclasses import dataclass
from adelta.operations.merge.decisions import first_clause
from adelta.operations.merge.rewriting import ChangeResult
from adelta.write.change_data import ChangeDataWriter
from adelta.write.discarding import discard_data_files
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions, WriteSpec
from adelta.write.write_data_files import write_rows

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from adelta.operations.merge.plan import MergePlan
    from adelta.operations.merge.source import SourceRows
    from adelta.storage.roots import StoreRoots

__all__ = ["ChosenRows", "InsertTask", "NewRows", "rows_to_insert"]

_ROWS: Final = 64 * 1024


class NewRows(Protocol):
    """Source rows that become rows of the target."""

    @property
    def num_rows(self) -> int:
        """How many they are."""
        ...

    def parts(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows, some at a time, each with the clause that inserts them; this may block."""
        ...


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Rows of a source by their places, for each clause."""

    source: SourceRows
    places: tuple[NDArray[np.int64], ...]

    @property
    def num_rows(self) -> int:
        """How many they are."""
        return sum(map(len, self.places))

    def parts(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows, some at a time, each with the clause that inserts them."""
        for clause, places in enumerate(self.places):
            for start in range(0, len(places), _ROWS):
                yield clause, self.source.take(places[start : start + _ROWS])


def rows_to_insert(plan: MergePlan, source: SourceRows, matched: NDArray[np.bool_]) -> ChosenRows:
    """The rows that clauses insert: of those that match none, or of all, as the plan has it.

    Raises:
        InvalidExpressionError: a condition cannot be computed for a row.
    """
    if plan.inserts_all:
        left = np.arange(source.num_rows)
    else:
        left = np.flatnonzero(~matched) if plan.not_matched else np.empty(0, np.int64)

    def rows(places: NDArray[np.int64]) -> pa.RecordBatch:
        return plan.sides.paired(None, source.take(left[places]))

    clauses = first_clause(plan.not_matched, len(left), rows)
    places = tuple(left[clauses == number] for number in range(len(plan.not_matched)))
    return ChosenRows(source, places)


@dataclass(frozen=True, slots=True)
class InsertTask:
    """Source rows that become rows of the target."""

    plan: MergePlan
    rows: NewRows
    tells: bool
    options: DataFileOptions = AS_THE_TABLE_SAYS

    async def run(self, roots: StoreRoots) -> ChangeResult:
        """Write them, in bounded memory.

        Raises:
            InvariantViolationError: a row violates a constraint of the table.
            InvalidExpressionError: a value cannot be computed.
            SchemaMismatchError: a column cannot hold a value.
            StorageError: the store refused or failed.
        """
        zone = self.plan.sides.zone
        spec = WriteSpec.of(self.plan.configuration, files=self.options, zone=zone, assigns=True)
        async with AsyncExitStack() as stack:
            changes = None
            if self.tells:
                changes = await stack.enter_async_context(ChangeDataWriter(roots.store, spec))
            written = await write_rows(roots.store, spec, self._batches(), changes=changes)
            done = ChangeResult(written.files, high_water_marks=dict(written.high_water_marks))
            if changes is None:
                return done
            try:
                return replace(done, cdc=tuple(await changes.finish()))
            except BaseException:
                await discard_data_files(roots.store, done.paths)
                raise

    async def _batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        async for clause, rows in ItemsInThread(self.rows.parts()):
            yield await in_thread(self._made, clause, rows)

    def _made(self, clause: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        insertion = self.plan.not_matched[clause].insertion
        assert insertion is not None
        return insertion.apply(self.plan.sides.paired(None, rows))
