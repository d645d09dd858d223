"""Streams of bytes, cut anew into pieces of the sizes that a store takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adelta._concurrency import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["in_pieces", "numbered", "put_back"]

_LARGE: Final = 1 << 20


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
            waiting.append(bytes(chunk if len(piece) == len(chunk) else piece))  # no copy of all
            held += len(piece)
            if held == wanted:
                yield await _joined(waiting)
                waiting, held = [], 0
                made += 1
    if held:
        yield await _joined(waiting)


async def _joined(parts: list[bytes]) -> bytes:
    """The parts as one, put together in a worker thread where they are large."""
    if len(parts) == 1:
        return parts[0]
    if sum(map(len, parts)) < _LARGE:
        return b"".join(parts)
    return await in_thread(b"".join, parts)


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
