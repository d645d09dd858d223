"""Scan: rows of one version of a table. It is lazy: it reads when its rows are asked for."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._arrow_values import empty_table
from adelta._concurrency import in_thread, map_concurrent
from adelta._frames import to_pandas, to_polars
from adelta._html import described, of_columns
from adelta._streams import stream
from adelta._telemetry import detached_span
from adelta.errors import InvalidTableError
from adelta.kernel.file_set import FileSet
from adelta.log.matching_files import shown, skipping_by
from adelta.read.admission import admitted
from adelta.read.data_files import Piece, read_files, read_pieces
from adelta.read.opener import open_data_file

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    import pandas as pd
    import polars as pl

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.log.state import LogState
    from adelta.storage.roots import StoreRoots

__all__ = ["Scan", "read_files"]

_BATCH_ROWS = 64 * 1024
_FILES = 1_000
_VERY_FEW_FILES = 4  # become Python's sooner than a thread is told to


class Scan:
    """The rows of a snapshot that a predicate keeps, with the columns asked for."""

    def __init__(
        self,
        state: LogState,
        roots: StoreRoots,
        plan: ScanPlan,
        *,
        limit: int | None = None,
        complete: Callable[[], ScanPlan] | None = None,
        files: Sequence[AddFile] | None = None,
    ) -> None:
        """With `complete`, `plan` has no predicate yet, and `complete` makes the plan that has.

        With `files` only these are looked at.
        """
        self._state = state
        self._roots = roots
        self._plan = plan
        self._limit = limit
        self._complete = complete
        self._is_short = complete is None
        self._given = files
        self._made: Skipping | None = None

    def __repr__(self) -> str:
        return f"<Scan of {self._state.root} at version {self._state.version}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: what would be read, and of which version."""
        from adelta.kernel.expressions.sql import to_sql

        plan = self._plan
        where = None if plan.where is None else to_sql(plan.where)
        return described(
            "Scan of a Delta table",
            {
                "location": self._state.root,
                "version": self._state.version,
                "where": "a long predicate" if self._complete is not None else where,
                "limit": self._limit,
                "of": None if self._given is None else f"{len(self._given):,} files",
            },
            of_columns(plan.output, plan.partition_columns),
        )

    @property
    def plan(self) -> ScanPlan:
        """What is read of every file: a value that can be pickled to a worker.

        Raises:
            InvalidExpressionError: a long predicate cannot be parsed, or does not fit the schema.
        """
        if self._complete is not None:
            self._plan, self._complete = self._complete(), None
        return self._plan

    async def _planned(self) -> ScanPlan:
        """The plan; a long predicate is made part of it in a thread."""
        return self._plan if self._complete is None else await in_thread(lambda: self.plan)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._plan.arrow_schema

    async def files(self) -> pa.Table:
        """The files that may hold rows of the scan, with the columns of `Snapshot.files`.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        return await shown((await self._files()).table)

    async def _skipping(self) -> Skipping | None:
        """The plan's predicate in terms of statistics, made once."""
        plan = await self._planned()
        if plan.where is not None and self._made is None:
            if self._is_short:
                self._made = skipping_by(plan.where, plan)
            else:
                self._made = await in_thread(skipping_by, plan.where, plan)
        return self._made

    async def _files(self) -> FileSet:
        skipping = await self._skipping()
        if self._given is None:
            return await self._state.files_matching(skipping)
        given = await in_thread(FileSet.of, self._given)
        if skipping is None:
            return given
        return FileSet(await in_thread(skipping.candidates, given.table))

    async def to_arrow(self) -> pa.Table:
        """All rows as one table.

        Raises:
            MissingDataFileError: the log names a file that is not there.
            InvalidTableError: a file is damaged.
        """
        async with aclosing(self._tables()) as found:
            tables = [table async for table in found]
        if not self.schema.names:  # Arrow forgets the number of rows when it joins no columns
            return pa.table({"": pa.nulls(sum(t.num_rows for t in tables))}).select([])
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables(tables) if tables else empty_table(self.schema)

    async def to_pandas(self) -> pd.DataFrame:
        """All rows as a data frame of pandas, which has to be installed.

        Raises:
            InvalidUseError: pandas is not installed.
            MissingDataFileError: the log names a file that is not there.
            InvalidTableError: a file is damaged.
        """
        return await to_pandas(await self.to_arrow())

    async def to_polars(self) -> pl.DataFrame:
        """All rows as a data frame of polars, which has to be installed.

        Raises:
            InvalidUseError: polars is not installed.
            MissingDataFileError: the log names a file that is not there.
            InvalidTableError: a file is damaged.
        """
        return await to_polars(await self.to_arrow())

    @stream
    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows in batches of at most 65,536, in bounded memory.

        Raises:
            MissingDataFileError: the log names a file that is not there.
            InvalidTableError: a file is damaged.
        """
        async with aclosing(self._tables()) as tables:
            async for table in tables:
                for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
                    if batch.num_rows:
                        yield batch
                del table  # so that what is decoded next may have its memory

    async def _tables(self) -> AsyncGenerator[pa.Table, None]:
        left = self._limit
        if left == 0:
            return
        async with admitted() as leave:
            plan, skipping = await self._planned(), await self._skipping()
            read = read_pieces(self._roots, plan, self._pieces(), skipping=skipping)
            state, rows = self._state, 0
            seen = detached_span("adelta.scan", table=state.root, version=state.version, limit=left)
            with seen as told:
                async with aclosing(read) as pieces:
                    async for _, table in pieces:
                        leave()
                        rows += table.num_rows
                        told.tell(rows=rows)
                        if left is None:
                            yield table
                            del table
                            continue
                        yield table.slice(0, left)
                        left -= min(left, table.num_rows)
                        if left == 0:
                            return

    async def _pieces(self) -> AsyncGenerator[Piece, None]:
        """The files of the scan; a few at a time become Python's, for there may be millions."""
        table = (await self._files()).table
        for start in range(0, table.num_rows, _FILES):
            files = FileSet(table.slice(start, _FILES))
            if files.num_files <= _VERY_FEW_FILES:
                few = list(files.rows())
            else:
                few = await in_thread(lambda these: list(these.rows()), files)
            for file in few:
                yield Piece(file)

    async def count(self) -> int:
        """How many rows the scan has; from the log and footers alone where these are exact.

        Raises:
            MissingDataFileError: the log names a file that is not there.
            InvalidTableError: a file is damaged.
        """
        from adelta.kernel.data_skipping.exact import exact_row_counts

        files = await self._files()
        plan = self.plan
        counts = await in_thread(exact_row_counts, files.table, plan.where, plan.partition_columns)
        if counts is None:
            async with aclosing(self._tables()) as tables:
                return sum([table.num_rows async for table in tables])
        known, unknown = counts

        async def footer_rows(file: AddFile) -> int:
            vector = file.deletion_vector
            rows = (await open_data_file(self._roots, file)).layout.num_rows
            if vector is not None and vector.cardinality > rows:
                raise InvalidTableError(
                    f"{self._state.root}: {file.path} has {rows} rows, and the log deletes "
                    f"{vector.cardinality} of them; restore the table to an earlier version"
                )
            return rows - (vector.cardinality if vector else 0)

        rest = FileSet(files.table.take(unknown)).rows() if len(unknown) else ()
        total = known + sum(
            await map_concurrent(footer_rows, rest, limit=self._state.store.concurrency)
        )
        return total if self._limit is None else min(total, self._limit)
