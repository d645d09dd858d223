"""Streams of bytes, cut anew into pieces of the sizes that a store takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["in_pieces", "numbered", "put_back"]


async def in_pieces(
    chunks: AsyncIterator[bytes], size: Callable[[int], int]
) -> AsyncIterator[bytes]:
    """The same bytes in pieces of ``size(n)`` bytes, after n of them; the last may be smaller."""
    waiting: list[bytes] = []
    held = made = 0
    async for chunk in chunks:
        view = memoryview(chunk)
        while view:
            wanted = size(made)
            piece, view = view[: wanted - held], view[wanted - held :]
            waiting.append(bytes(piece))
            held += len(piece)
            if held == wanted:
                yield b"".join(waiting)
                waiting, held = [], 0
                made += 1
    if held:
        yield b"".join(waiting)


async def put_back(*first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces that were taken, and those that come after them."""
    for piece in first:
        yield piece
    async for piece in rest:
        yield piece


async def numbered(
    pieces: AsyncIterator[bytes], *, start: int = 0
) -> AsyncIterator[tuple[int, bytes]]:
    """Each piece with its number, counted from `start` on."""
    number = start
    async for piece in pieces:
        yield number, piece
        number += 1
