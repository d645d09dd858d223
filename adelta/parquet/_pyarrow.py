"""All that adelta uses of pyarrow without its being documented: one class, with a way around it.

`pyarrow.parquet.ParquetFile` decodes into the process's memory pool alone, and knows columns by
name alone. The reader beneath it takes a pool, and the numbers of leaves. Where a later pyarrow has
no such reader any more, which is found at import, the public one does: it takes more memory, and
refuses files of which two columns have the same path.
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from adelta.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq

__all__ = ["ArrowReader", "PublicReader", "new_reader", "own_reader"]

_log = logging.getLogger("adelta.parquet")


class ArrowReader(Protocol):
    """What adelta asks of Arrow's Parquet reader."""

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer."""
        ...

    @property
    def schema_arrow(self) -> pa.Schema:
        """The schema of the whole file."""
        ...

    def open(
        self,
        source: pa.NativeFile,
        *,
        metadata: pq.FileMetaData | None = None,
        pre_buffer: bool = True,
        buffer_size: int = 0,
        read_dictionary: list[str] | None = None,
        coerce_int96_timestamp_unit: str | None = None,
    ) -> None:
        """Read the footer, where `metadata` is not given."""
        ...

    def read_row_groups(
        self, groups: list[int], *, column_indices: list[int], use_threads: bool
    ) -> pa.Table:
        """These leaves of these row groups."""
        ...

    def iter_batches(
        self, rows: int, *, row_groups: list[int], column_indices: list[int], use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """These leaves of these row groups, so many rows at a time."""
        ...


def own_reader() -> type[Any] | None:
    """The reader beneath pyarrow's public one; None where it is not as it was."""
    try:
        from pyarrow._parquet import ParquetReader

        takes: dict[Any, tuple[str, ...]] = {
            ParquetReader.open: (
                "source",
                "metadata",
                "pre_buffer",
                "buffer_size",
                "read_dictionary",
                "coerce_int96_timestamp_unit",
            ),
            ParquetReader.read_row_groups: ("column_indices", "use_threads"),
            ParquetReader.iter_batches: ("row_groups", "column_indices", "use_threads"),
        }
        known = all(
            name in inspect.signature(method).parameters
            for method, names in takes.items()
            for name in names
        )
        ParquetReader(pa.default_memory_pool())
        return ParquetReader if known and hasattr(ParquetReader, "schema_arrow") else None
    except (ImportError, AttributeError, TypeError, ValueError):
        return None


class PublicReader:
    """The same by pyarrow's documented means. `pool` is not used: they have no such option."""

    def __init__(self, pool: pa.MemoryPool | None = None) -> None:
        self._file: Any = None
        self.metadata: pq.FileMetaData
        self.schema_arrow: pa.Schema

    def open(self, source: pa.NativeFile, **options: Any) -> None:
        """Read the footer, where its `metadata` are not given."""
        import pyarrow.parquet as pq  # loads pyarrow's file systems, a fifth of opening a table

        make: Any = pq.ParquetFile  # the stubs lack an option
        self._file = make(source, arrow_extensions_enabled=False, **options)
        self.metadata = self._file.metadata
        self.schema_arrow = self._file.schema_arrow

    def read_row_groups(
        self, groups: list[int], *, column_indices: list[int], use_threads: bool
    ) -> pa.Table:
        """These leaves of these row groups."""
        names = self._names(column_indices)
        table: pa.Table = self._file.read_row_groups(groups, columns=names, use_threads=use_threads)
        return table

    def iter_batches(
        self, rows: int, *, row_groups: list[int], column_indices: list[int], use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """These leaves of these row groups, so many rows at a time."""
        names = self._names(column_indices)
        found: Iterator[pa.RecordBatch] = self._file.iter_batches(
            rows, row_groups=row_groups, columns=names, use_threads=use_threads
        )
        return found

    def _names(self, leaves: list[int]) -> list[str]:
        paths = [self.metadata.schema.column(n).path for n in range(self.metadata.num_columns)]
        for leaf in leaves:
            path = paths[leaf]
            if sum(other == path or other.startswith(f"{path}.") for other in paths) > 1:
                raise UnsupportedFeatureError(
                    f"the file has two columns that pyarrow {pa.__version__} calls {path!r}; "
                    "install a version of pyarrow that adelta was tested with"
                )
        return [paths[leaf] for leaf in leaves]


_READER: type[Any] | None = own_reader()
if _READER is None:
    _log.warning(
        "pyarrow %s is not as adelta knows it: Parquet is read by its public API, in more memory",
        pa.__version__,
    )


def new_reader(pool: pa.MemoryPool | None) -> ArrowReader:
    """A reader that decodes into `pool`, where it can; `open` comes first."""
    reader: ArrowReader = (_READER or PublicReader)(pool)
    return reader
