"""The source of a merge: read once, and kept, so that all that looks at it sees the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, InvalidUseError, SchemaMismatchError
from adelta.kernel.schema.arrow import from_arrow_schema, to_arrow_schema
from adelta.kernel.schema.cast import cast_to_schema
from adelta.kernel.schema.names import as_nullable
from adelta.kernel.schema.types import StructType
from adelta.operations.merge.buckets import buckets_of
from adelta.operations.merge.candidates import KnownKeys
from adelta.operations.merge.piles import Piles
from adelta.operations.merge.rows import concat, take
from adelta.scan import Scan
from adelta.snapshot import Snapshot
from adelta.write.batches import Data, open_batches

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection

    import numpy as np
    from numpy.typing import NDArray

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.operations.merge.plan import MergePlan

__all__ = [
    "GivenSource",
    "LargeSource",
    "MergeSource",
    "OpenSource",
    "SourceRows",
    "open_source",
    "read_source",
]

MergeSource: TypeAlias = Data | Scan | Snapshot
"""Rows to merge: an Arrow stream, batches from an iterable of either kind, or rows of a table."""

_ROWS: Final = pa.field("\0rows", pa.null())


@dataclass(frozen=True, slots=True)
class OpenSource:
    """A source whose columns are known, and whose rows are still to be read.

    `narrow` is told before that of which columns the rows are needed; others may stay away.
    """

    schema: StructType
    batches: AsyncGenerator[pa.RecordBatch, None]
    narrow: Callable[[Collection[str]], None] | None = None


async def open_source(source: MergeSource | OpenSource) -> OpenSource:
    """Look at what is to be merged.

    Raises:
        InvalidOptionError: it holds no rows, or it cannot be seen of which columns.
        SchemaMismatchError: a column has a type that Delta does not have, or two have one name.
    """
    if isinstance(source, OpenSource):
        return source
    if isinstance(source, Snapshot):
        source = source.scan()
    if isinstance(source, Scan):
        return _opened(source.schema, source.batches())
    schema, batches = await open_batches(source)
    if schema is None:
        raise InvalidOptionError(
            "the source is an iterator without batches, so that its columns are not known; pass a "
            "pyarrow.RecordBatchReader, which has a schema"
        )
    return _opened(schema, batches)


def _opened(schema: pa.Schema, batches: AsyncGenerator[pa.RecordBatch, None]) -> OpenSource:
    names = Counter(name.lower() for name in schema.names)
    for name in schema.names:
        if names[name.lower()] > 1:
            raise SchemaMismatchError(
                f"the source has {names[name.lower()]} columns that are called {name!r}, where "
                "upper and lower case are the same; give each a name of its own"
            )
    known = as_nullable(from_arrow_schema(schema))
    assert isinstance(known, StructType)
    return OpenSource(known, batches)


class GivenSource:
    """The source of a merge as it was given; one that can be read once is opened once."""

    def __init__(self, rows: MergeSource | OpenSource) -> None:
        self._rows = rows
        self._once = isinstance(rows, (Iterator, AsyncIterator, OpenSource))
        self._is_spent = False

    async def open(self) -> OpenSource:
        """Look at what is to be merged.

        Raises:
            InvalidUseError: it can be read once, and has been.
            AdeltaError: as `open_source` does.
        """
        if self._is_spent:
            raise InvalidUseError(
                f"the source, a {type(self._rows).__name__}, can be read once, and this merge has "
                "read it before: its rows are gone. Make another merge with a source that has all "
                "rows, or pass what can be read again, such as a table or a data frame"
            )
        self._is_spent = self._once
        return await open_source(self._rows)


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Rows of a source, of which `rows` has the columns that a merge needs.

    A row is known by its place. The first column is not the source's: it keeps the number of rows
    where no other one is needed.
    """

    rows: pa.RecordBatch

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self.rows.num_rows

    def of_file(self, file: AddFile) -> SourceRows:
        """The rows by which those of a file change: they are among all of them."""
        del file
        return self

    def take(self, places: NDArray[np.int64]) -> pa.RecordBatch:
        """The rows at some places, in this order."""
        return take(self.rows, places)


@dataclass(frozen=True, slots=True)
class LargeSource:
    """The rows of a source that are too many for the memory, on local disk by `buckets_of`."""

    piles: Piles
    num_rows: int
    plan: MergePlan

    def close(self) -> None:
        """Forget them."""
        self.piles.close()


async def read_source(
    source: OpenSource, plan: MergePlan, memory: int
) -> tuple[SourceRows | LargeSource, KnownKeys]:
    """Read a source to its end, and keep the columns that `plan` needs, in about so much memory.

    Raises:
        SchemaMismatchError: a column holds a value that Delta's type for it does not hold.
        InvalidExpressionError: a key cannot be computed.
        StorageError: the local disk is full, or fails.
    """
    if source.narrow is not None:
        source.narrow(plan.source_columns)
    reader = _Reader(source.schema, plan, memory)
    try:
        async with aclosing(source.batches) as batches:
            async for batch in batches:
                await in_thread(reader.take_in, batch)
        return await in_thread(reader.all_rows), reader.known
    except BaseException:
        reader.close()
        raise


class _Reader:
    """Gathers the rows of a source: in one place, or by bucket from when they are many."""

    def __init__(self, schema: StructType, plan: MergePlan, memory: int) -> None:
        needed = set(plan.source_columns)
        kept = StructType(tuple(f for f in schema if f.name in needed))
        self._target = to_arrow_schema(kept)
        self._schema = pa.schema([_ROWS, *self._target])
        self._plan = plan
        self._memory = memory
        self._parts: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0
        self._piles: Piles | None = None
        self.known = KnownKeys(plan.keys, plan.sides)

    def take_in(self, batch: pa.RecordBatch) -> None:
        """Take in rows as the source gives them."""
        rows = self._kept(batch)
        self.known.add(rows)
        self._rows += rows.num_rows
        if self._piles is not None:
            self._lay(self._piles, rows)
            return
        self._parts.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self._memory:
            self._piles = Piles(self._schema, self._memory // 2)
            while self._parts:
                self._lay(self._piles, self._parts.pop(0))

    def all_rows(self) -> SourceRows | LargeSource:
        """All that was taken in."""
        if self._piles is not None:
            return LargeSource(self._piles, self._rows, self._plan)
        return SourceRows(concat(self._parts, self._schema))

    def close(self) -> None:
        """Forget the rows."""
        if self._piles is not None:
            self._piles.close()

    def _lay(self, piles: Piles, rows: pa.RecordBatch) -> None:
        paired = self._plan.sides.paired(None, rows)
        piles.sort(rows, buckets_of(self._plan.keys, "source", paired))

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = set(self._target.names)
        places = [place for place, name in enumerate(batch.schema.names) if name in names]
        columns = []
        if places:
            columns = cast_to_schema(batch.select(places), self._target).columns
        arrays = [pa.nulls(batch.num_rows), *columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
