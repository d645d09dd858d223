"""A version of a table as DuckDB reads data sets of pyarrow's: by columns and a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds  # noqa: TID251  # for its name alone: nothing is read by it

from adelta.sql.engine.pushdown import predicate_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.compute as pc

    from adelta.snapshot import Snapshot
    from adelta.sql.engine.feed import Feeds

__all__ = ["ScannedTable"]


class ScannedTable(ds.Dataset):
    """A snapshot, to whoever takes a data set; nothing but `schema` and `scanner` may be used."""

    def __init__(self, snapshot: Snapshot, feeds: Feeds) -> None:
        self._snapshot = snapshot
        self._feeds = feeds

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._snapshot.schema

    def scanner(  # type: ignore[override]  # what DuckDB uses of it
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> _Scanner:
        """A scan of some columns, of the rows that a filter keeps."""
        return _Scanner(self._snapshot, self._feeds, columns, filter)


class _Scanner:
    """What DuckDB uses of `pyarrow.dataset.Scanner`."""

    def __init__(
        self,
        snapshot: Snapshot,
        feeds: Feeds,
        columns: Sequence[str] | None,
        kept: pc.Expression | None,
    ) -> None:
        names = snapshot.schema.names if columns is None else list(columns)
        self._names = names
        self._kept: pc.Expression | None = None
        self._feeds = feeds
        where, is_whole = (None, True) if kept is None else predicate_of(kept, snapshot.schema)
        if not is_whole:  # Arrow decides about the rest
            self._kept = kept
            names = snapshot.schema.names
        self._scan = snapshot.scan(columns=names, where=where)
        self.projected_schema = pa.schema([self._scan.schema.field(name) for name in self._names])

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._rows())

    def _rows(self) -> Iterator[pa.RecordBatch]:
        for batch in self._feeds.rows(self._scan):
            if self._kept is None:
                yield batch
            else:
                table = pa.Table.from_batches([batch]).filter(self._kept)
                yield from table.select(self._names).to_batches()
