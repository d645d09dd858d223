"""The first half of a merge: tasks that find which rows of which files change, and by what.

Only the columns by which that is decided are read, file after file.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from adelta._arrow_values import numpy_of, scalar_of
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.kernel.expressions.compute import can_fail
from adelta.kernel.scan_plan import plan_columns
from adelta.operations.matching import PLACE_NAMES
from adelta.operations.merge.decisions import Decider
from adelta.operations.merge.piles import runs
from adelta.read.data_files import Piece, read_pieces
from adelta.write.task_executor import grouped

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.nodes import Node
    from adelta.operations.merge.plan import MergePlan
    from adelta.operations.merge.source import SourceRows
    from adelta.storage.roots import StoreRoots
    from adelta.write.task_executor import TaskExecutor

__all__ = [
    "FILE",
    "LOOK_BYTES",
    "PLACE",
    "ChangedFile",
    "MatchResult",
    "MatchTask",
    "deciding_rows",
    "joined",
    "plan_matching",
]

_MIB: Final = 1024 * 1024
_READ_AHEAD: Final = 16 * _MIB
_TASK_BYTES: Final = 512 * _MIB
_FEWEST_ROWS: Final = 64 * 1024
_LOOK_ROWS: Final = 1024 * 1024  # rows of the target that are joined at once at the most,
LOOK_BYTES: Final = 64 * _MIB  # and their bytes
PLACE: Final = PLACE_NAMES[0]
FILE: Final = "\0file"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of which rows change: their places in it, ascending, and what `Decisions` says."""

    file: AddFile
    places: NDArray[np.int64]
    clauses: NDArray[np.int16]
    sources: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The files that change, and of every source row whether it has matched, where that is asked.

    `matched` are bits, the first row's first. `num_files` files were looked at.
    """

    changed: tuple[ChangedFile, ...]
    matched: bytes
    num_files: int

    @property
    def paths(self) -> Iterable[str]:
        """Nothing is written."""
        return ()


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Files to look at for rows that change, and all rows of the source.

    `where` is true of all rows of the target that can be concerned; None is all.
    """

    plan: MergePlan
    files: tuple[AddFile, ...]
    where: Node | None
    source: SourceRows

    async def run(self, roots: StoreRoots) -> MatchResult:
        """Find them, in bounded memory beside what is found.

        Raises:
            InvariantViolationError: a row would be changed by several source rows.
            InvalidExpressionError: a condition cannot be computed for a row.
            MissingDataFileError: a file is not there.
            InvalidTableError: a file is damaged.
            StorageError: the store refused or failed.
        """
        finder = await in_thread(_Finder, self.plan, self.files, self.source)
        async with aclosing(deciding_rows(roots, self.plan, self.files, self.where)) as tables:
            async for table in tables:
                for part in finder.parts(table):
                    if finder.takes(part):
                        await in_thread(finder.look)
        return await in_thread(finder.found)


def plan_matching(
    plan: MergePlan,
    files: Sequence[AddFile],
    where: Node | None,
    source: SourceRows,
    executor: TaskExecutor,
) -> list[MatchTask]:
    """Tasks that look at `files`, shared among those that run at once."""
    sizes = [file.size for file in files]
    share = executor.bytes_a_task or sum(sizes) // executor.tasks_at_once + max(sizes, default=0)
    groups = grouped(files, sizes, min(_TASK_BYTES, share))
    return [MatchTask(plan, tuple(group), where, source) for group in groups]


async def deciding_rows(
    roots: StoreRoots, plan: MergePlan, files: Sequence[AddFile], where: Node | None
) -> AsyncGenerator[pa.Table, None]:
    """The rows of files that can be concerned, with the columns by which that is decided.

    Beside them come the places of the rows, and the number of the file among `files`.
    """
    configuration = plan.configuration
    whole = where is None or await in_thread(can_fail, where)
    columns = await in_thread(
        plan_columns,
        configuration.schema,
        columns=plan.target_columns,
        where=None if whole else where,
        partition_columns=configuration.partition_columns,
        mapping_mode=configuration.column_mapping_mode,
        row_ids=PLACE_NAMES,
        row_id_names=PLACE_NAMES,
        verifies=True,
    )
    pieces = (Piece(_from_zero(file), tag=at) for at, file in enumerate(files))
    read = read_pieces(roots, columns, pieces, read_ahead_bytes=_READ_AHEAD)
    async with aclosing(read) as tables:
        async for piece, table in tables:
            if table.num_rows:
                yield await in_thread(_of_file, table, piece.tag)


def _of_file(table: pa.Table, number: object) -> pa.Table:
    """The rows with the number of their file beside them."""
    whose = pa.repeat(scalar_of(number, pa.int64()), table.num_rows)
    return table.append_column(FILE, pa.chunked_array([whose]))


def _from_zero(file: AddFile) -> AddFile:
    """The file with row ids that are the places of its rows: they count from the base on."""
    return replace(file, base_row_id=0, default_row_commit_version=0)


class _Finder:
    """Gathers rows of files until there are enough of them to join, and keeps what is found."""

    def __init__(self, plan: MergePlan, files: Sequence[AddFile], source: SourceRows) -> None:
        self._files = files
        self._waiting: list[pa.Table] = []
        self._bytes = self._rows = 0
        self._parts: dict[int, list[ChangedFile]] = {}
        columns = [source.rows.schema.names[0], *plan.deciding_source_columns]
        rows = source.rows.select(columns)
        self._decider = Decider(plan, lambda: [rows], rows.num_rows)
        self._enough = min(_LOOK_ROWS, 4 * source.num_rows)

    def parts(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Rows of a file in parts: a join takes memory by the row."""
        most = max(_FEWEST_ROWS, self._enough)
        return (rows.slice(start, most) for start in range(0, rows.num_rows, most))

    def takes(self, rows: pa.Table) -> bool:
        """Take in rows of a file; whether it is time to look."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        return self._rows >= self._enough or self._bytes >= LOOK_BYTES

    def look(self) -> None:
        """Decide on the rows that wait."""
        waiting, self._waiting = self._waiting, []
        self._rows = self._bytes = 0
        if not waiting:
            return
        (rows,) = pa.concat_tables(waiting).combine_chunks().to_batches()
        decided = self._decider.decide(rows)
        if not len(decided.rows):
            return
        files = numpy_of(rows.column(FILE))[decided.rows]
        places = numpy_of(rows.column(PLACE))[decided.rows]
        for file, part in runs(files):
            changed = ChangedFile(
                self._files[file], places[part], decided.clauses[part], decided.sources[part]
            )
            self._parts.setdefault(file, []).append(changed)

    def found(self) -> MatchResult:
        """All that has been found."""
        self.look()
        changed = tuple(joined(parts) for parts in self._parts.values())
        return MatchResult(changed, np.packbits(self._decider.matched).tobytes(), len(self._files))


def joined(parts: Sequence[ChangedFile]) -> ChangedFile:
    """What parts say of one file, by place."""
    places = np.concatenate([part.places for part in parts])
    order = np.argsort(places, kind="stable")
    return ChangedFile(
        parts[0].file,
        places[order],
        np.concatenate([part.clauses for part in parts])[order],
        np.concatenate([part.sources for part in parts])[order],
    )
