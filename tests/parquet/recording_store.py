"""A memory store that remembers what it was asked."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from adelta.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from adelta.storage.object_store import ObjectMeta, SuffixRead


class RecordingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, Any]] = []

    async def head(self, path: str) -> ObjectMeta:
        self.requests.append(("head", path))
        return await super().head(path)

    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        self.requests.append(("suffix", length))
        return await super().get_suffix(path, length)

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        self.requests.append(("range", (start, end)))
        return await super().get_range(path, start, end)

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        before = [*self.requests, ("ranges", list(ranges))]
        answers = await super().get_ranges(path, ranges)
        self.requests = before  # what the store asks of itself is no request
        return answers

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        self.requests.append(("put", len(data)))
        return await super().put(path, data)

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        before = [*self.requests, ("put_stream", path)]
        meta = await super().put_stream(path, chunks)
        self.requests = before
        return meta

    def asked(self) -> list[tuple[str, Any]]:
        """The requests since the last call."""
        requests, self.requests = self.requests, []
        return requests


def parquet_bytes(table: pa.Table, **settings: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **settings)
    return sink.getvalue()


async def stored(table: pa.Table, path: str = "f.parquet", **settings: Any) -> RecordingStore:
    """A store with one Parquet object, and no request to its name."""
    store = RecordingStore()
    await store.put(path, parquet_bytes(table, **settings))
    store.asked()
    return store
