"""Tasks as bytes for other processes, which share what several of them hold.

Every task of a merge holds the rows of its source: these are sent once, and not with each task.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["packed", "unpacked"]

_SHARED_FROM = 64 * 1024  # bytes


def packed(values: Sequence[Any]) -> tuple[list[bytes], tuple[pa.RecordBatch, ...]]:
    """Each value as bytes, for `unpacked` with the rows that are left out of them."""
    shared: dict[int, pa.RecordBatch] = {}  # by identity; kept alive by the values
    found = []
    for value in values:
        buffer = io.BytesIO()
        _Packer(buffer, shared).dump(value)
        found.append(buffer.getvalue())
    return found, tuple(shared.values())


def unpacked(data: bytes, shared: Sequence[pa.RecordBatch]) -> Any:
    """The value."""
    return _Unpacker(io.BytesIO(data), shared).load()


class _Packer(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, shared: dict[int, pa.RecordBatch]) -> None:
        super().__init__(buffer)
        self._shared = shared

    def persistent_id(self, obj: object) -> int | None:
        if not isinstance(obj, pa.RecordBatch) or obj.nbytes < _SHARED_FROM:
            return None
        if id(obj) not in self._shared:
            self._shared[id(obj)] = obj
        return list(self._shared).index(id(obj))


class _Unpacker(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, shared: Sequence[pa.RecordBatch]) -> None:
        super().__init__(buffer)
        self._shared = shared

    def persistent_load(self, pid: int) -> pa.RecordBatch:
        return self._shared[pid]
