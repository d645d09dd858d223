"""A version of a table as a data set of pyarrow's, for engines that hand on columns and filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds  # noqa: TID251  # for its names alone: nothing is read by it

from adelta.errors import InvalidUseError
from adelta.sql.engine.pushdown import predicate_of
from adelta.sync._arrow import reader_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.compute as pc

    from adelta.sync.scan import Scan
    from adelta.sync.snapshot import Snapshot

__all__ = ["SnapshotDataset"]

_BATCH_ROWS = 64 * 1024


class SnapshotDataset(ds.Dataset):
    """A snapshot as a `pyarrow.dataset.Dataset`: `schema`, `scanner` and what follows of it.

    Columns that are not asked for are not read, nor files and row groups that a filter excludes.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is made again elsewhere: of the snapshot, which says how it is."""
        return SnapshotDataset, (self._snapshot,)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._snapshot.schema

    def scanner(  # type: ignore[override]
        self,
        columns: Sequence[str] | dict[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        batch_size: int = _BATCH_ROWS,
        **_: Any,
    ) -> SnapshotScanner:
        """A scan of some columns, of the rows that a filter keeps.

        Options that say how files are to be read are passed over: adelta reads them.

        Raises:
            InvalidUseError: columns are to be computed.
        """
        if isinstance(columns, dict):
            raise InvalidUseError("a snapshot's data set computes no columns; name those wanted")
        return SnapshotScanner(self._snapshot, columns, filter, batch_size)

    def to_batches(self, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch; arguments are those of `scanner`."""
        return self.scanner(*args, **kwargs).to_batches()

    def to_table(self, *args: Any, **kwargs: Any) -> pa.Table:
        """The rows; arguments are those of `scanner`."""
        return self.scanner(*args, **kwargs).to_table()

    def head(self, num_rows: int, *args: Any, **kwargs: Any) -> pa.Table:
        """Some rows; further arguments are those of `scanner`."""
        return self.scanner(*args, **kwargs).head(num_rows)

    def count_rows(  # type: ignore[override]
        self, filter: pc.Expression | None = None, **_: Any
    ) -> int:
        """How many rows a filter keeps."""
        return self.scanner(filter=filter).count_rows()

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Any]:
        """Files are adelta's to read.

        Raises:
            InvalidUseError: always.
        """
        raise InvalidUseError(
            "a snapshot's data set does not hand out files: deleted rows and mapped columns are "
            "not what they hold; use scanner, or Snapshot.scan(files=...)"
        )


class SnapshotScanner:
    """What is used of `pyarrow.dataset.Scanner`."""

    def __init__(
        self,
        snapshot: Snapshot,
        columns: Sequence[str] | None,
        kept: pc.Expression | None,
        batch_size: int,
    ) -> None:
        self._snapshot = snapshot
        names = snapshot.schema.names if columns is None else list(columns)
        self._names = names
        self._where, is_whole = (
            (None, True) if kept is None else predicate_of(kept, snapshot.schema)
        )
        self._kept = None if is_whole else kept  # Arrow decides about the rest
        self._batch_size = batch_size
        self._read = names if is_whole else snapshot.schema.names
        schema = self._scan().schema
        self.projected_schema = pa.schema([schema.field(name) for name in names])

    @property
    def dataset_schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._snapshot.schema

    def _scan(self, limit: int | None = None) -> Scan:
        most = limit if self._kept is None else None
        return self._snapshot.scan(self._read, self._where, most)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows."""
        return reader_of(self.projected_schema, self.to_batches())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        return self._batches(None)

    def to_table(self) -> pa.Table:
        """The rows."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """Some rows."""
        reader = reader_of(self.projected_schema, self._batches(num_rows))
        return reader.read_all().slice(0, num_rows)

    def count_rows(self) -> int:
        """How many rows there are."""
        if self._kept is None:
            return self._scan().count()
        return sum(batch.num_rows for batch in self.to_batches())

    def _batches(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        left = limit
        with self._scan(limit).batches() as found:
            for batch in found:
                for start in range(0, batch.num_rows, self._batch_size):
                    part = batch.slice(start, self._batch_size)
                    if self._kept is not None:
                        part = part.filter(self._kept).select(self._names)
                    if part.num_rows:
                        yield part
                    if left is not None:
                        left -= part.num_rows
                        if left <= 0:
                            return
