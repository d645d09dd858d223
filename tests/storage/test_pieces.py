"""Streams of bytes, cut anew."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from adelta._concurrency import in_thread
from adelta.storage import pieces
from adelta.storage.pieces import in_pieces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MIB = 1 << 20


async def stream(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ((), []),
        ((b"", b""), []),
        ((b"abcd", b"ef"), [b"abcd", b"ef"]),
        ((b"ab", b"", b"cdef"), [b"abcd", b"ef"]),
        ((b"abcdefghij",), [b"abcd", b"efgh", b"ij"]),
    ],
)
async def test_the_same_bytes_come_in_pieces_of_one_size(
    chunks: tuple[bytes, ...], expected: list[bytes]
) -> None:
    assert [piece async for piece in in_pieces(stream(*chunks), lambda _: 4)] == expected


async def test_a_chunk_that_is_a_piece_is_not_copied() -> None:
    chunk = bytes(2 * MIB)
    (found,) = [piece async for piece in in_pieces(stream(chunk), lambda _: 2 * MIB)]
    assert found is chunk


async def test_large_pieces_are_put_together_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[threading.Thread] = []

    async def noted(func, *arguments):  # type: ignore[no-untyped-def]
        def call() -> object:
            asked.append(threading.current_thread())
            return func(*arguments)

        return await in_thread(call)

    monkeypatch.setattr(pieces, "in_thread", noted)
    chunks = [bytes([number]) * MIB for number in range(4)]
    found = [piece async for piece in in_pieces(stream(*chunks), lambda _: 2 * MIB)]
    assert found == [b"".join(chunks[:2]), b"".join(chunks[2:])]
    assert len(asked) == 2
    assert threading.main_thread() not in asked
