"""Where a long list of files stays: close together, and apart from what comes and goes.

An allocator that decodes a million files gives out, takes back and keeps for later a third more
than the list is large. So a slice is decoded where the next one will be, and its columns are copied
into large blocks, which hold nothing else and go back to the system with the last array in them.
"""

from __future__ import annotations

import mmap
import threading
from typing import Any

import anyio
import pyarrow as pa

__all__ = ["ColumnArena"]

_BLOCK = 32 << 20  # bytes; what is not written to takes no memory
_DECODERS = 2  # at a time: some 2 MB each on top of a list of a million files
_ALIGNED = 64
_FRAMING = 1024  # bytes of Arrow's stream format around one array, without its schema


class ColumnArena:
    """Memory for arrays that are kept. Any thread may use it."""

    def __init__(self) -> None:
        self._decoders = anyio.Semaphore(_DECODERS)
        self._writer_of_texts = anyio.Lock()
        self._lock = threading.Lock()
        self._block = memoryview(b"")
        self._used = 0

    def turn(self, *, writes_texts: bool) -> anyio.Lock | anyio.Semaphore:
        """Held by who decodes much for the arena: few do, for what that takes comes on top.

        One alone where statistics become text as well, which is work of three threads.
        """
        return self._writer_of_texts if writes_texts else self._decoders

    def keep(self, values: Any) -> Any:
        """A copy of an array, which has no more memory than it needs."""
        batch = pa.RecordBatch.from_arrays([values], names=[""])
        schema: Any = batch.schema
        size = pa.ipc.get_record_batch_size(batch) + schema.serialize().size + _FRAMING
        where = self._reserve(size)
        with pa.ipc.new_stream(pa.FixedSizeBufferWriter(where), schema) as stream:
            stream.write_batch(batch)
        return pa.ipc.open_stream(pa.BufferReader(where)).read_next_batch().column(0)

    def _reserve(self, size: int) -> pa.Buffer:
        size = -(-size // _ALIGNED) * _ALIGNED
        with self._lock:
            if self._used + size > len(self._block):
                # Python counts who refers to it, and unmaps it after the last one.
                self._block = memoryview(mmap.mmap(-1, max(_BLOCK, size), **_PRIVATE))
                self._used = 0
            start = self._used
            self._used += size
            return pa.py_buffer(self._block[start : start + size])


_PRIVATE: dict[str, int] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)
