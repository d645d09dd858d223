"""Streaming reads: micro-batches cut and planned in the driver, read in the executors.

Spark keeps one reader in a process of its own for as long as a query runs, which says how far each
micro-batch goes; tasks get their files with the plan, and never look at the log. The offsets are
those of Delta's own source. Whatever a query reads has the columns of the DataFrame that it was
started with.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from adelta.changes.change_rows import change_columns
from adelta.changes.source_rules import Admission
from adelta.changes.table_source import TableSource
from adelta.errors import AdeltaError, SchemaMismatchError
from adelta.spark.source.change_reader import pack_changes, read_changes
from adelta.spark.source.partitions import pack_files
from adelta.spark.source.reader import FilePartition, check_fits, read_partition
from adelta.spark.translate.types import to_spark_schema
from adelta.spark.versions import SPARK
from adelta.sync._portal import call
from adelta.table import Table, give_back_connections, open_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import types as s
    from pyspark.sql.datasource import InputPartition

    from adelta.changes.source_offset import SourceOffset
    from adelta.changes.table_source import SourcePart
    from adelta.kernel.expressions.nodes import Node
    from adelta.read.data_files import Piece
    from adelta.spark.options.streams import StreamOptions
    from adelta.spark.versions.spark42.streams import StreamReader
else:
    StreamReader = SPARK.stream_reader_base()

__all__ = ["DeltaStreamReader", "load_tracked_schema"]

_T = TypeVar("_T")
_OF_THE_FEED = 3  # columns, which come after the table's own


def load_tracked_schema(options: StreamOptions) -> s.StructType:
    """The columns of a stream that tracks schemas: of the log of schemas, or the table's now.

    Raises:
        TableNotFoundError: there is no table.
        InvalidTableError: the log of schemas is damaged.
        ChangesNotAvailableError: the log of schemas is of another table.
        SchemaMismatchError: a column asked for does not exist.
    """

    async def load() -> s.StructType:
        async with open_table(options.uri, options.storage_options) as table:
            source = await TableSource.open_for_columns(table, options.rules)
            async with aclosing(source):
                columns = options.columns or source.configuration.metadata.schema.names
                if options.rules.read_changes:
                    return to_spark_schema(change_columns(source.change_plan(list(columns))))
                return to_spark_schema(source.plan(list(columns)).output)

    return call(load)


class DeltaStreamReader(StreamReader):
    """Reads the columns of `schema` from a table, as it grows."""

    def __init__(self, options: StreamOptions, schema: s.StructType) -> None:
        self._options = options
        self.rules = options.rules
        self._schema = schema
        self._table: Table | None = None
        self._source: TableSource | None = None
        self._until: SourceOffset | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get of it: what it was made of."""
        return {**self.__dict__, "_table": None, "_source": None}

    def initialOffset(self) -> dict[str, Any]:
        """Before everything that the stream reads.

        Raises:
            VersionNotFoundError: the version or time to start from is beyond the history.
            ChangesNotAvailableError: the version to start from has been cleaned up.
        """

        async def find(source: TableSource) -> dict[str, Any]:
            return (await source.initial_offset()).to_json()

        return self._asked(find)

    def next_offset(
        self, start: dict[str, Any] | None, admission: Admission, *, ends: bool
    ) -> dict[str, Any]:
        """The end of the micro-batch from `start` on; None is where the stream begins.

        With `ends` there is nothing after what there is at the first such call.

        Raises:
            InvalidUseError: a commit deletes or changes rows, and that is not allowed.
            SchemaMismatchError: a commit changes the columns; or, where schemas are tracked, has
                done so at `start`, and that is noted.
            ChangesNotAvailableError: commits are gone, or the change data feed was off.
            InvalidTableError: the log is damaged.
        """

        async def find(source: TableSource) -> dict[str, Any]:
            begin = await source.initial_offset() if start is None else source.offset(start)
            if ends and self._until is None:
                self._until = await source.latest_offset(begin, Admission.unlimited())
            found = await source.latest_offset(begin, admission, self._until)
            # Spark takes other text for other data.
            return start if start is not None and found == begin else found.to_json()

        return self._asked(find)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch, which a reader before this one may have cut.

        Raises: as `next_offset` does.
        """

        async def plan(source: TableSource) -> Sequence[InputPartition]:
            begin, stop = source.offset(start), source.offset(end)
            return self._packed(source, await source.parts(begin, stop))

        tasks = self._asked(plan)
        self.has_planned(end)
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task.

        Raises:
            MissingDataFileError: a file that the log names is not there.
            InvalidTableError: a file is damaged.
        """
        options = self._options
        read = read_changes if options.rules.read_changes else read_partition
        return read(options.uri, options.storage_options, partition, self._schema)

    def stop(self) -> None:
        """Close the table."""
        if self._source is not None:
            with suppress(AdeltaError, OSError):
                call(self._source.aclose)
        if self._table is not None:
            with suppress(AdeltaError, OSError):  # nothing is lost with it
                call(self._table.aclose)
        self._table = self._source = None

    def _packed(self, source: TableSource, parts: Sequence[SourcePart]) -> Sequence[InputPartition]:
        pieces: dict[Node | None, list[Piece]] = {}
        for part in parts:
            pieces.setdefault(part.where, []).extend(part.pieces)
        return [task for where in pieces for task in self._tasks(source, where, pieces[where])]

    def _tasks(
        self, source: TableSource, where: Node | None, pieces: list[Piece]
    ) -> Sequence[InputPartition]:
        options = self._options
        most, fewest = options.max_partition_bytes, options.min_partitions
        if options.rules.read_changes:
            return pack_changes(source.change_plan(self._columns, where), pieces, most, fewest)
        plan = source.plan(self._columns, where)
        sizes = [piece.file.size for piece in pieces]
        return [
            FilePartition(plan, tuple(pieces[i].file for i in task))
            for task in pack_files(sizes, max_bytes=most, min_partitions=fewest)
        ]

    @property
    def _columns(self) -> list[str]:
        """The table's own columns."""
        names = self._schema.fieldNames()
        return names[:-_OF_THE_FEED] if self._options.rules.read_changes else names

    def _asked(self, ask: Callable[[TableSource], Awaitable[_T]]) -> _T:
        """What the source answers, of a table that stays open from one question to the next."""

        async def answer() -> _T:
            if self._table is None:
                self._table = Table(self._options.uri, self._options.storage_options)
            if self._source is None:
                source = await TableSource.open(self._table, self._options.rules)
                self._check_columns(source)
                self._source = source
            try:
                return await ask(self._source)
            finally:
                await give_back_connections(self._table)

        return call(answer)

    def _check_columns(self, source: TableSource) -> None:
        """Hold the table's columns to those that the DataFrame was made with."""
        uri, names = self._options.uri, self._columns
        wanted = self._options.columns or source.configuration.metadata.schema.names
        if list(wanted) != names:
            raise SchemaMismatchError(
                f"{uri}: the table has the columns {', '.join(wanted)} now, and the DataFrame has "
                f"{', '.join(names)}: load it again, and start the stream again with what that "
                "gives"
            )
        if self._options.rules.read_changes:
            have = change_columns(source.change_plan(names))
        else:
            have = source.plan(names).output
        check_fits(uri, to_spark_schema(have), self._schema)
