"""Which rows of which files a condition is true for: the first half of every change of rows.

Files are read only as far as the condition needs, and not at all where their partition decides.
"""

from __future__ import annotations

from array import array
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from adelta._concurrency import in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.expressions.compute import can_fail
from adelta.kernel.expressions.nodes import columns_of
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.scan_plan import plan_columns
from adelta.kernel.statistics import num_records
from adelta.log.deletion_vector_reader import read_deletion_vector
from adelta.progress import Meter
from adelta.read.data_files import Piece, read_pieces
from adelta.read.opener import open_data_file
from adelta.write.task_executor import grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.progress import OnProgress
    from adelta.storage.roots import StoreRoots
    from adelta.write.task_executor import TaskExecutor

__all__ = [
    "PLACE_NAMES",
    "MatchedFile",
    "decided_by_partition",
    "find_matches",
    "live_rows",
    "match_all",
    "physical_rows",
]

PLACE_NAMES = ("\0place", "\0unused")
"""What to call row ids that count from 0, which are places of rows: no column is so called."""
_AT_ONCE = 16
_BYTES_A_STEP = 64 << 20  # of progress that is told


@dataclass(frozen=True, slots=True)
class MatchedFile:
    """A live file, and the places of those of its rows that are to be changed.

    It has `num_rows` rows, of which `num_live` are not under its deletion vector.
    """

    file: AddFile
    rows: BitMap64
    num_rows: int
    num_live: int

    @property
    def is_whole(self) -> bool:
        """Whether every live row is to be changed."""
        return len(self.rows) == self.num_live


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Looks through some files for the rows for which a condition is true."""

    configuration: TableConfiguration
    files: tuple[AddFile, ...]
    where: Node

    async def run(self, roots: StoreRoots) -> MatchResult:
        """Those of the files that hold such a row, with all these rows.

        Raises: as `find_matches` does.
        """
        configuration = self.configuration
        plan = await in_thread(  # the condition may be of very many values
            plan_columns,
            configuration.schema,
            columns=[],
            where=self.where,
            partition_columns=configuration.partition_columns,
            mapping_mode=configuration.column_mapping_mode,
            row_ids=PLACE_NAMES,
            row_id_names=PLACE_NAMES,
            verifies=True,
        )
        # Row ids that are not stored count from the base on: from 0 they are the places of rows.
        pieces = (
            Piece(replace(file, base_row_id=0, default_row_commit_version=0), tag=file)
            for file in self.files
        )
        found: dict[str, BitMap64] = {}
        async with aclosing(read_pieces(roots, plan, pieces)) as tables:
            async for piece, table in tables:
                if table.num_rows:
                    rows = found.setdefault(piece.file.path, BitMap64())
                    rows |= await in_thread(_places, table)
                    found[piece.file.path] = rows
        files = [file for file in self.files if file.path in found]
        counts = await physical_rows(roots, files)
        matched = (
            MatchedFile(file, found[file.path], num_rows, num_rows - _deleted(file))
            for file, num_rows in zip(files, counts, strict=True)
        )
        return MatchResult(await in_thread(tuple, matched), len(self.files))


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The files that were found."""

    matched: tuple[MatchedFile, ...]
    num_files: int  # looked through
    paths: tuple[str, ...] = ()  # nothing is written


async def find_matches(
    executor: TaskExecutor,
    roots: StoreRoots,
    configuration: TableConfiguration,
    files: Sequence[AddFile],
    where: Node,
    *,
    on_progress: OnProgress | None = None,
) -> list[MatchedFile]:
    """Those of `files` that hold a row for which `where` is true, with all these rows.

    `on_progress` is told of the files that have been looked through.

    Raises:
        InvalidExpressionError: the condition does not fit the schema, or fails for a row.
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
    """
    if await in_thread(decided_by_partition, where, configuration):
        return await match_all(roots, files)
    most = executor.bytes_a_task
    if most is None and on_progress is not None:
        most = _BYTES_A_STEP
    groups = grouped(files, [file.size for file in files], most)
    tasks = [MatchTask(configuration, tuple(group), where) for group in groups]
    meter = Meter(on_progress, "matching", total=len(files))

    def on_done(result: MatchResult) -> None:
        meter.advance(result.num_files)

    done = await executor.run(roots, tasks, on_done=on_done)
    return [matched for result in done for matched in result.matched]


async def match_all(roots: StoreRoots, files: Sequence[AddFile]) -> list[MatchedFile]:
    """`files` with all of their live rows.

    Raises:
        MissingDataFileError: a file, or its deletion vector, is not there.
        InvalidTableError: a file is damaged.
    """

    async def matched(counted: tuple[AddFile, int]) -> MatchedFile:
        file, num_rows = counted
        return MatchedFile(
            file, await live_rows(roots, file, num_rows), num_rows, num_rows - _deleted(file)
        )

    counts = await physical_rows(roots, files)
    return await map_concurrent(matched, list(zip(files, counts, strict=True)), limit=_AT_ONCE)


async def live_rows(roots: StoreRoots, file: AddFile, num_rows: int) -> BitMap64:
    """The places of the rows that the file's deletion vector leaves.

    Raises:
        MissingDataFileError: the vector is not there.
        InvalidTableError: it is damaged.
    """
    rows = BitMap64(range(num_rows))
    if file.deletion_vector is None:
        return rows
    source = f"{roots.store.uri}: {decode_path(file.path)}"
    rows -= await read_deletion_vector(roots, file.deletion_vector, source)
    return rows


def decided_by_partition(where: Node, configuration: TableConfiguration) -> bool:
    """Whether the partition values of a file say of all of its rows whether `where` is true.

    Raises:
        InvalidExpressionError: the condition does not fit the schema.
    """
    bound = bind_predicate(where, configuration.schema)
    columns = {field.name for field in configuration.partition_fields}
    decides = all(path[0] in columns for path in columns_of(bound))
    return decides and not can_fail(bound, configuration.schema)


async def physical_rows(roots: StoreRoots, files: Sequence[AddFile]) -> list[int]:
    """How many rows each of the files has, those under its deletion vector too.

    Raises:
        MissingDataFileError: one does not say so, and is not there.
        InvalidTableError: likewise, and is damaged.
    """

    async def counted(place: int) -> None:
        stated[place] = (await open_data_file(roots, files[place])).layout.num_rows

    stated = await in_thread(lambda: [num_records(file.stats) for file in files])
    unsaid = [place for place, count in enumerate(stated) if count is None]
    await map_concurrent(counted, unsaid, limit=_AT_ONCE)
    return [count for count in stated if count is not None]


def _deleted(file: AddFile) -> int:
    return 0 if file.deletion_vector is None else file.deletion_vector.cardinality


def _places(table: pa.Table) -> BitMap64:
    places = array("Q")
    for chunk in table.column(PLACE_NAMES[0]).chunks:
        values = chunk.buffers()[1]
        if values is not None:
            start = chunk.offset * places.itemsize
            places.frombytes(memoryview(values)[start : start + len(chunk) * places.itemsize])
    return BitMap64(places)
