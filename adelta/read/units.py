"""What a scan reads: pieces of data files, and units of their row groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap64

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.schema.calendar import LegacyCalendar
    from adelta.parquet.footer.layout import SelectedColumns
    from adelta.parquet.reader import ParquetFile
    from adelta.parquet.row_pages import RowPages

__all__ = ["Opened", "Part", "Piece", "Unit"]


@dataclass(frozen=True, slots=True)
class Piece:
    """What to read of one data file: the rows that its deletion vector leaves, or `only` these.

    `tag` is the caller's own.
    """

    file: AddFile
    only: BitMap64 | None = None
    tag: object = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A data file, opened, with what is known of how to read it."""

    piece: Piece
    parquet: ParquetFile
    columns: SelectedColumns
    deciding: SelectedColumns | None
    deleted: BitMap64 | None
    legacy: LegacyCalendar | None
    row_groups: dict[int, list[Part]]


@dataclass(frozen=True, slots=True)
class Part:
    """What to read of a row group: all of it, or the `pages` with some of its rows.

    It has so many bytes, as they are stored and once they are decoded.
    """

    bytes: int
    decoded_bytes: int
    pages: RowPages | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """Row groups of one file that follow each other, or pages of one, which are read at once."""

    opened: Opened
    row_groups: tuple[int, ...]
    first_row: int
    rows: int
    bytes: int
    decoded_bytes: int
    pages: RowPages | None = None
    table: pa.Table | None = None
    """The rows, where they were decoded already."""
