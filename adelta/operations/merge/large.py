"""The first half of a merge whose source is too large for the memory: both sides wait on disk.

Rows of both are laid into buckets by their keys, so that rows that match are in the same one, and
one bucket after the other is joined. Each row of the target is read once, and so is each row of the
source; those by which rows change are laid out again by the file that they change, and those that
are inserted by their clause. In memory stay some bytes a row that changes, and a bit a source row.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import numpy as np

from adelta._arrow_values import numpy_of
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.operations.merge.buckets import BUCKETS, buckets_of
from adelta.operations.merge.decisions import Decider, Decisions
from adelta.operations.merge.inserting import rows_to_insert
from adelta.operations.merge.matching import (
    FILE,
    LOOK_BYTES,
    PLACE,
    ChangedFile,
    deciding_rows,
    joined,
)
from adelta.operations.merge.piles import Piles, runs
from adelta.operations.merge.source import SourceRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.nodes import Node
    from adelta.operations.merge.plan import MergePlan
    from adelta.operations.merge.source import LargeSource
    from adelta.progress import Meter
    from adelta.storage.roots import StoreRoots

__all__ = ["LargeMatch", "PiledRows", "RowsByFile", "match_large"]

_SMALLEST: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RowsByFile:
    """The source rows by which the rows of files change, laid out by file."""

    piles: Piles
    numbers: Mapping[str, int]

    def of_file(self, file: AddFile) -> SourceRows:
        """The rows for one file, in which `ChangedFile.sources` are places."""
        return SourceRows(self.piles.whole(self.numbers[file.path]))


@dataclass(frozen=True, slots=True)
class PiledRows:
    """Source rows that become rows of the target, laid out by clause."""

    piles: Piles
    clauses: int

    @property
    def num_rows(self) -> int:
        """How many they are."""
        return sum(map(self.piles.num_rows, range(self.clauses)))

    def parts(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows, some at a time, each with the clause that inserts them."""
        for clause in range(self.clauses):
            for rows in self.piles.read(clause):
                yield clause, rows


@dataclass(frozen=True, slots=True)
class LargeMatch:
    """The files that change, the source rows by which they do, and those that are inserted."""

    changed: tuple[ChangedFile, ...]
    rows: RowsByFile
    inserted: PiledRows

    def close(self) -> None:
        """Forget the rows."""
        self.rows.piles.close()
        self.inserted.piles.close()


async def match_large(
    roots: StoreRoots,
    plan: MergePlan,
    files: Sequence[AddFile],
    source: LargeSource,
    *,
    where: Node | None,
    memory: int,
    meter: Meter,
) -> LargeMatch:
    """Find what changes in `files`, of rows of which `where` is true, in about so much memory.

    Raises:
        InvariantViolationError: a row would be changed by several source rows.
        InvalidExpressionError: a condition cannot be computed for a row.
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        StorageError: the store refused or failed, or the local disk did.
    """
    work = _Work(plan, files, source, memory)
    try:
        done = 0
        async with aclosing(deciding_rows(roots, plan, files, where)) as tables:
            async for table in tables:
                at = int(table.column(FILE)[0].as_py() or 0)
                if at > done:
                    meter.advance(at - done)
                    done = at
                for batch in table.to_batches():
                    await in_thread(work.take_in, batch)
        for bucket in range(BUCKETS):
            await in_thread(work.join, bucket)
        meter.advance(len(files) - done)
        return await in_thread(work.found)
    except BaseException:
        work.close()
        raise
    finally:
        work.end()


class _Work:
    """What of a match is under way."""

    def __init__(
        self, plan: MergePlan, files: Sequence[AddFile], source: LargeSource, memory: int
    ) -> None:
        self._plan = plan
        self._files = files
        self._source = source
        self._share = max(_SMALLEST, memory // 4) if memory > _SMALLEST else memory
        self._targets: Piles | None = None
        schema = source.piles.schema
        self._updating = Piles(schema, self._share)
        self._inserting = Piles(schema, self._share)
        self._parts: dict[int, list[ChangedFile]] = {}
        self._updates = np.array([clause.update is not None for clause in plan.matched], np.bool_)

    def take_in(self, rows: pa.RecordBatch) -> None:
        """Take in rows of the target, in the order of the files."""
        if self._targets is None:
            self._targets = Piles(rows.schema, self._share)
        paired = self._plan.sides.paired(rows, None)
        self._targets.sort(rows, buckets_of(self._plan.keys, "target", paired))

    def join(self, bucket: int) -> None:
        """Decide on the rows of one bucket."""
        plan, source = self._plan, self._source.piles
        count = source.num_rows(bucket)

        def parts() -> Iterator[pa.RecordBatch]:
            return source.read(bucket, self._share)

        decider = Decider(plan, parts, count)
        if self._targets is not None:
            for rows in self._targets.read(bucket, LOOK_BYTES):
                self._keep(decider, rows, decider.decide(rows))
        if not plan.not_matched:
            return
        first = 0
        for part in parts():
            matched = decider.matched[first : first + part.num_rows]
            chosen = rows_to_insert(plan, SourceRows(part), matched)
            for clause, new in chosen.parts():
                self._inserting.put(clause, new)
            first += part.num_rows

    def found(self) -> LargeMatch:
        """All that has been found."""
        changed = tuple(joined(parts) for parts in self._parts.values())
        numbers = {file.path: number for number, file in enumerate(self._files)}
        return LargeMatch(
            changed,
            RowsByFile(self._updating, numbers),
            PiledRows(self._inserting, len(self._plan.not_matched)),
        )

    def end(self) -> None:
        """Forget what is not needed any more."""
        self._source.close()
        if self._targets is not None:
            self._targets.close()

    def close(self) -> None:
        """Forget the rest."""
        self._updating.close()
        self._inserting.close()

    def _keep(self, decider: Decider, rows: pa.RecordBatch, decided: Decisions) -> None:
        if not len(decided.rows):
            return
        files = numpy_of(rows.column(FILE))[decided.rows]
        places = numpy_of(rows.column(PLACE))[decided.rows]
        for file, part in runs(files):
            clauses, sources = decided.clauses[part], decided.sources[part].copy()
            by_source = clauses < len(self._updates)
            updating = np.zeros(len(clauses), np.bool_)
            updating[by_source] = self._updates[clauses[by_source]]
            if updating.any():
                before = self._updating.num_rows(file)
                self._updating.put(file, decider.source_rows(sources[updating]))
                sources[updating] = before + np.arange(int(updating.sum()))
            changed = ChangedFile(self._files[file], places[part], clauses, sources)
            self._parts.setdefault(file, []).append(changed)
