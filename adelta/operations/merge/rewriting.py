"""The second half of a merge: tasks that write the rows that change, and copy those beside them."""

from __future__ import annotations

from array import array
from contextlib import AsyncExitStack, aclosing
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from adelta._arrow_values import array_of_numpy
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta._dictionaries import without_dictionaries
from adelta._memory import filtered
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.operations.column_copies import copy_by_column
from adelta.operations.copy_plan import copy_plan
from adelta.operations.matching import MatchedFile, live_rows
from adelta.operations.merge.rows import take
from adelta.operations.nested_values import nodes_of
from adelta.operations.rewrite import RewriteResult, completed
from adelta.read.data_files import Piece, read_pieces
from adelta.write.change_data import DELETE, POSTIMAGE, PREIMAGE, ChangeDataWriter
from adelta.write.data_file_writer import DataFileWriter
from adelta.write.deletion_vectors import RowRemoval
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions, WriteSpec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from numpy.typing import NDArray

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.operations.column_copies import Placed
    from adelta.operations.merge.matching import ChangedFile
    from adelta.operations.merge.plan import BoundClause, MergePlan
    from adelta.operations.merge.source import SourceRows
    from adelta.storage.roots import StoreRoots

__all__ = ["ChangeResult", "ChangeTask", "RowsOfFiles", "RowsToChange"]

_MIB: Final = 1024 * 1024
_READ_AHEAD: Final = 16 * _MIB
_ROWS: Final = 128 * 1024
_FEW: Final = 8  # rows that change are few where they are one in so many, or fewer


@dataclass(frozen=True, slots=True)
class RowsToChange:
    """A file of which rows change, and how many rows it has, deleted ones and all."""

    changed: ChangedFile
    num_rows: int

    @property
    def file(self) -> AddFile:
        """The file."""
        return self.changed.file

    @property
    def num_live(self) -> int:
        """How many rows are not under its deletion vector."""
        vector = self.file.deletion_vector
        return self.num_rows - (0 if vector is None else vector.cardinality)

    @property
    def is_whole(self) -> bool:
        """Whether every live row changes."""
        return len(self.changed.places) == self.num_live

    @property
    def num_staying(self) -> int:
        """How many live rows do not change."""
        return self.num_live - len(self.changed.places)

    def matched(self) -> MatchedFile:
        """The rows that change, whatever becomes of them."""
        return MatchedFile(self.file, _bitmap(self.changed.places), self.num_rows, self.num_live)

    @property
    def removal(self) -> RowRemoval:
        """What takes the rows that change out of the file."""
        return RowRemoval(self.file, _bitmap(self.changed.places), self.num_rows)


@dataclass(frozen=True, slots=True)
class ChangeResult(RewriteResult):
    """The same with the values that identity columns came to; `num_files` files were looked at."""

    high_water_marks: dict[str, int] = field(default_factory=dict)
    num_files: int = 0


class RowsOfFiles(Protocol):
    """The source rows by which rows of files change."""

    def of_file(self, file: AddFile) -> SourceRows:
        """The rows for one file, in which `ChangedFile.sources` are places; this may block."""
        ...


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Files whose rows change, and the source rows by which they do.

    Rows that stay as they are are copied unless a deletion vector leaves them where they are. With
    `tells`, changes go to the change data feed.
    """

    plan: MergePlan
    files: tuple[RowsToChange, ...]
    source: RowsOfFiles
    tells: bool
    options: DataFileOptions = AS_THE_TABLE_SAYS

    async def run(self, roots: StoreRoots) -> ChangeResult:
        """Carry it out, in bounded memory.

        Raises:
            InvariantViolationError: an updated row violates a constraint of the table.
            InvalidExpressionError: a value cannot be computed.
            SchemaMismatchError: a column cannot hold a value.
            MissingDataFileError: a file is not there.
            InvalidTableError: a file is damaged.
            StorageError: the store refused or failed.
        """
        spec = WriteSpec.of_copies(self.plan.configuration, self.options)
        adds, left = await self._by_column(roots, spec)
        done = RewriteResult(tuple(adds), (), sum(each.num_staying for each in self.files))
        if left:
            taken = sum(each.num_staying for each in self.files) - sum(e.num_staying for e in left)
            done = replace(done, num_copied_rows=taken)
            done = await completed(roots, done, replace(self, files=left)._written(roots, spec))
        return ChangeResult(done.adds, done.cdc, done.num_copied_rows, num_files=len(self.files))

    async def _by_column(
        self, roots: StoreRoots, spec: WriteSpec
    ) -> tuple[list[AddFile], tuple[RowsToChange, ...]]:
        """What files become that need not be written anew as a whole; and the others."""
        if self.tells or self.plan.vectors:
            return [], self.files
        few = {e.file.path: e for e in self.files if _FEW * len(e.changed.places) <= e.num_rows}
        matched = [await in_thread(each.matched) for each in few.values()]

        async def instead(file: AddFile) -> list[Placed]:
            return await self._instead(roots, few[file.path])

        adds, left = await copy_by_column(roots, spec, matched, instead)
        taken = set(few) - {each.file.path for each in left}
        return adds, tuple(each for each in self.files if each.file.path not in taken)

    async def _instead(self, roots: StoreRoots, each: RowsToChange) -> list[Placed]:
        """The updated rows of a file, of which no more is read than they need."""
        changed = await in_thread(self._only_updates, each.changed)
        if not len(changed.places):
            return []
        source = await in_thread(self.source.of_file, each.file)
        sorter, found = _Sorter(changed, changed.places), []
        async with aclosing(self._looked_up(roots, each.file, changed)) as batches:
            async for batch in batches:
                _, parts = await in_thread(sorter.take, batch)
                for part in parts:
                    after = await in_thread(self._updated, part, source)
                    assert after is not None
                    found.append((part.places, after))
        return found

    async def _looked_up(
        self, roots: StoreRoots, file: AddFile, changed: ChangedFile
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows of a file that change, as the table has them, but for columns without need."""
        configuration = self.plan.configuration
        needed = self._needed
        wanted = [name for name in self.plan.sides.target.names if name in needed]
        if not wanted:
            for start in range(0, len(changed.places), _ROWS):
                yield await in_thread(self._complete, None, min(_ROWS, len(changed.places) - start))
            return
        piece = Piece(file, only=await in_thread(_bitmap, changed.places))
        plan = copy_plan(configuration, columns=wanted)
        read = read_pieces(roots, plan, [piece], read_ahead_bytes=_READ_AHEAD)
        async with aclosing(read) as tables:
            async for _, table in tables:
                for batch in table.to_batches(max_chunksize=_ROWS):
                    yield await in_thread(self._complete, batch, batch.num_rows)

    @property
    def _needed(self) -> frozenset[str]:
        """The columns of the target that an update keeps, or computes values of."""
        sides, found = self.plan.sides, set[str]()
        for update in (clause.update for clause in self._clauses):
            if update is not None:
                nodes = [node for _, value in update.values for node in nodes_of(value)]
                found |= set(sides.target.names).difference(name for name, _ in update.values)
                found |= sides.columns(nodes, "target")
        return frozenset(found)

    def _complete(self, rows: pa.RecordBatch | None, count: int) -> pa.RecordBatch:
        """The rows with all columns, of nulls where they are not read."""
        schema = to_arrow_schema(self.plan.sides.target)
        read = set() if rows is None else set(rows.schema.names)
        columns = [
            rows.column(field.name)
            if rows is not None and field.name in read
            else pa.nulls(count, field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema.names)

    async def _written(self, roots: StoreRoots, spec: WriteSpec) -> RewriteResult:
        """All rows of the files, encoded anew."""
        copied = 0
        async with AsyncExitStack() as stack:
            writer = await stack.enter_async_context(DataFileWriter(roots.store, spec))
            changes = None
            if self.tells:
                changes = await stack.enter_async_context(ChangeDataWriter(roots.store, spec))
            plan = copy_plan(self.plan.configuration, keeps_dictionaries=True)
            read = read_pieces(roots, plan, self._pieces(roots), read_ahead_bytes=_READ_AHEAD)
            tables = await stack.enter_async_context(aclosing(read))
            source, known = None, None
            async for piece, table in tables:
                assert isinstance(piece.tag, _Sorter)
                if source is None or known is not piece:
                    source, known = await in_thread(self.source.of_file, piece.file), piece
                for batch in table.to_batches(max_chunksize=_ROWS):
                    staying, changing = await in_thread(piece.tag.take, batch)
                    if staying is not None and staying.num_rows:
                        copied += staying.num_rows
                        await writer.write(staying)
                    for part in changing:
                        after = await in_thread(self._updated, part, source)
                        if after is not None:
                            await writer.write(after)
                        if changes is not None and after is not None:
                            await changes.write(part.rows, PREIMAGE)
                            await changes.write(after, POSTIMAGE)
                        elif changes is not None:
                            await changes.write(part.rows, DELETE)
            adds = await writer.finish()
            cdc = await changes.finish() if changes is not None else []
            return RewriteResult(tuple(adds), tuple(cdc), copied)

    @property
    def reads(self) -> bool:
        """Whether there is anything to write or to tell of."""
        return any(self._copies(each) or len(self._looked_at(each).places) for each in self.files)

    def _copies(self, each: RowsToChange) -> bool:
        return not self.plan.vectors and not each.is_whole

    def _looked_at(self, each: RowsToChange) -> ChangedFile:
        return each.changed if self.tells else self._only_updates(each.changed)

    async def _pieces(self, roots: StoreRoots) -> AsyncIterator[Piece]:
        """What to read of every file: no more than is written anew or told of."""
        for each in self.files:
            changed = each.changed
            if not self._copies(each):
                changed = await in_thread(self._looked_at, each)
                if len(changed.places):
                    only = await in_thread(_bitmap, changed.places)
                    yield Piece(each.file, only=only, tag=_Sorter(changed, changed.places))
            elif each.file.deletion_vector is None:
                yield Piece(each.file, tag=_Sorter(changed, None))
            else:
                live = await live_rows(roots, each.file, each.num_rows)
                places = await in_thread(_places, live)
                yield Piece(each.file, tag=_Sorter(changed, places))

    def _only_updates(self, changed: ChangedFile) -> ChangedFile:
        """Without the rows that go."""
        clauses = self._clauses
        updates = [number for number, clause in enumerate(clauses) if clause.update is not None]
        kept = np.isin(changed.clauses, updates)
        return replace(
            changed,
            places=changed.places[kept],
            clauses=changed.clauses[kept],
            sources=changed.sources[kept],
        )

    @property
    def _clauses(self) -> tuple[BoundClause, ...]:
        return (*self.plan.matched, *self.plan.not_matched_by_source)

    def _updated(self, part: _Part, source: SourceRows) -> pa.RecordBatch | None:
        """What becomes of rows; None where they go."""
        update = self._clauses[part.clause].update
        if update is None:
            return None
        target = part.rows.select(self.plan.sides.target.names)
        matching = None
        if part.clause < len(self.plan.matched):
            matching = source.take(part.sources)
        return update.apply(part.rows, self.plan.sides.paired(target, matching))


def _bitmap(places: NDArray[np.int64]) -> BitMap64:
    found = BitMap64()
    for start in range(0, len(places), _ROWS):  # the other threads wait for each
        found |= BitMap64(array("Q", places[start : start + _ROWS].astype(np.uint64).tobytes()))
    return found


def _places(rows: BitMap64) -> NDArray[np.int64]:
    return np.frombuffer(rows.to_array(), np.uint64).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows that one clause changes."""

    clause: int
    rows: pa.RecordBatch
    sources: NDArray[np.int64]
    places: NDArray[np.int64]


class _Sorter:
    """Tells rows of one file that change from those that stay.

    Rows come in the order of the file, so that their places follow from how many came before:
    `read` are the places of all that come, None for every place.
    """

    def __init__(self, changed: ChangedFile, read: NDArray[np.int64] | None) -> None:
        self._changed = changed
        self._read = read
        self._taken = 0

    def take(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch | None, list[_Part]]:
        """The rows that stay, and those that change, by clause."""
        if not rows.num_rows:
            return None, []
        begin, end = self._taken, self._taken + rows.num_rows
        self._taken = end
        changed, read = self._changed, self._read
        first, last = (begin, end - 1) if read is None else (read[begin], read[end - 1])
        low, high = np.searchsorted(changed.places, [first, last + 1])
        if low == high:
            return rows, []
        places = changed.places[low:high]
        at = places - begin if read is None else np.searchsorted(read[begin:end], places)
        clauses, sources = changed.clauses[low:high], changed.sources[low:high]
        parts = []
        for clause in np.unique(clauses):
            mine = clauses == clause
            taken = without_dictionaries(take(rows, at[mine]))
            parts.append(_Part(int(clause), taken, sources[mine], places[mine]))
        if len(at) == rows.num_rows:
            return None, parts
        staying = np.ones(rows.num_rows, np.bool_)
        staying[at] = False
        return filtered(rows, array_of_numpy(staying)), parts
