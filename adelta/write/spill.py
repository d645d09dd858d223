"""SpillFile: rows that wait on the local disk, in segments that are given back as they are read.

A segment is an unnamed temporary file: it is gone when this process is, however that ends. All
methods block on the disk and are called in worker threads. One at a time writes, any number read.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import field
from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow as pa

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Pile", "SpillFile", "SpilledBatch", "spill_piles"]

_SEGMENT_BYTES: Final = 256 * 1024 * 1024
_CODEC: Final = "lz4_raw"  # costs less time than it saves on any disk


@dataclass(slots=True, eq=False)
class _Segment:
    file: BinaryIO
    length: int = 0
    waiting: set[int] = field(default_factory=set)  # offsets that have not been read


@dataclass(frozen=True, slots=True)
class SpilledBatch:
    """Where a record batch waits, and how many bytes of Arrow's it is."""

    segment: _Segment
    offset: int
    length: int
    message_bytes: int


class SpillFile:
    """Record batches of one schema, written in any order and read in any other.

    Args:
        schema: the batches' schema.
        directory: where the segments lie; None is the platform's directory for temporary files.
    """

    def __init__(self, schema: pa.Schema, directory: str | None = None) -> None:
        self._schema = schema
        self._directory = directory
        self._segments: list[_Segment] = []
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """Bytes on disk."""
        return sum(segment.length for segment in self._segments)

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[SpilledBatch]:
        """Put batches on disk; where they are, in their order.

        Raises:
            OSError: the disk is full, or fails.
        """
        found = []
        for batch in batches:
            segment = self._writable()
            message = batch.serialize()
            data = pa.compress(message, codec=_CODEC, asbytes=True)
            segment.file.write(data)
            found.append(SpilledBatch(segment, segment.length, len(data), message.size))
            segment.waiting.add(segment.length)
            segment.length += len(data)
        for segment in self._segments:
            segment.file.flush()
        return found

    def read(self, where: SpilledBatch, *, keep: bool = False) -> pa.RecordBatch:
        """Take a batch back. It is forgotten, and with the last one of a segment its room on disk.

        With `keep` it stays where it is.

        Raises:
            OSError: the disk fails.
        """
        segment = where.segment
        data = os.pread(segment.file.fileno(), where.length, where.offset)
        message = pa.decompress(data, decompressed_size=where.message_bytes, codec=_CODEC)
        batch = pa.ipc.read_record_batch(message, self._schema)
        if keep:
            return batch
        with self._lock:
            segment.waiting.discard(where.offset)
            if not segment.waiting and segment.length >= _SEGMENT_BYTES:
                self._segments.remove(segment)
                segment.file.close()
        return batch

    def close(self) -> None:
        """Give up everything that waits."""
        for segment in self._segments:
            segment.file.close()
        self._segments.clear()

    def _writable(self) -> _Segment:
        if not self._segments or self._segments[-1].length >= _SEGMENT_BYTES:
            file = tempfile.TemporaryFile(prefix="adelta-", dir=self._directory)  # noqa: SIM115
            self._segments.append(_Segment(file))
        return self._segments[-1]


@dataclass(slots=True)
class Pile:
    """Rows that wait together: those on disk came before those in memory."""

    spilled: list[SpilledBatch] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    num_bytes: int = 0


def spill_piles(spill: SpillFile | None, piles: Iterable[Pile]) -> SpillFile | None:
    """Put every row that waits in memory on disk; the file, made where there is none yet.

    A few of the rows would not do: slices share what they lie in.

    Raises:
        OSError: the disk is full, or fails.
    """
    for pile in piles:
        if not pile.batches:
            continue
        if spill is None:
            spill = SpillFile(pile.batches[0].schema)
        whole = pa.Table.from_batches(pile.batches).combine_chunks()
        pile.spilled += spill.write(whole.to_batches())
        pile.batches.clear()
    return spill
