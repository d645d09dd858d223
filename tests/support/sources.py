"""What a table gives a stream, all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adelta.changes.source_offset import SourceOffset
    from adelta.changes.table_source import TableSource
    from adelta.read.data_files import Piece


async def pieces_of(source: TableSource, start: SourceOffset, end: SourceOffset) -> list[Piece]:
    """What is read for the micro-batch between two offsets, of all versions."""
    return [piece for part in await source.parts(start, end) for piece in part.pieces]
