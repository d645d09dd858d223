"""Runs damaged files through decoders that are written in C++, in a process that may be lost.

``python -m tests.fuzz.worker TARGET FIRST LAST`` prints the number of each case before it is run:
when the process dies, the last number is the case that it died of. It prints what went wrong with
a case that ends in anything but one error of adelta's, and how many cases there were.
"""

from __future__ import annotations

import asyncio
import faulthandler
import resource
import sys
import traceback
from typing import TYPE_CHECKING

from adelta.errors import AdeltaError
from adelta.kernel.deletion_vector.blob import decode_bitmap
from adelta.kernel.deletion_vector.mask import check_bounds, kept_rows
from adelta.kernel.log_path import checkpoint_path
from adelta.parquet.decode import decompressed_chunks
from adelta.parquet.reader import ParquetFile
from adelta.storage.memory import MemoryStore
from tests.fuzz.mutation import corpus, variant
from tests.hostile.reading import everything, table_with

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY = 4 << 30
"""What the process may have: a decoder that asks for more than the file is worth fails."""


async def checkpoint(data: bytes) -> None:
    store = MemoryStore()
    await store.put(checkpoint_path(1), data)
    await everything(store)


async def data_file(data: bytes) -> None:
    store = await table_with(_ADD)
    await store.put("a.parquet", data)
    await everything(store)


async def decompressed_file(data: bytes) -> None:
    """A data file that Arrow reads, decoded on the way of large files: to the same rows."""
    store = MemoryStore()
    await store.put("a.parquet", data)
    file = await ParquetFile.open(store, "a.parquet")
    fetched = await file.fetch()
    expected: pa.Table | AdeltaError
    try:
        expected = file.decode(fetched)
    except AdeltaError as error:
        expected = error
    fewest, decompressed_chunks._FEWEST_BYTES = decompressed_chunks._FEWEST_BYTES, 0
    try:
        found = file.decode(fetched)
    except AdeltaError:
        assert isinstance(expected, AdeltaError), "Arrow reads it"
        raise
    finally:
        decompressed_chunks._FEWEST_BYTES = fewest
    assert isinstance(expected, AdeltaError) or found.equals(expected), "Arrow reads other rows"


async def deletion_vector(data: bytes) -> None:
    rows = decode_bitmap(data, "x")
    try:
        check_bounds(rows, 1 << 20, len(rows), "x")
    finally:
        kept_rows(rows, 0, 4096)


_ADD = b'{"add":{"path":"a.parquet","partitionValues":{},"size":1,"modificationTime":1,' + (
    b'"dataChange":true}}'
)
_TARGETS = {
    "checkpoint": checkpoint,
    "data_file": data_file,
    "decompressed_file": decompressed_file,
    "deletion_vector": deletion_vector,
}
_CORPUS = {"decompressed_file": "data_file"}  # where it is another target's


async def main(target: str, first: int, last: int) -> int:
    decode, starts = _TARGETS[target], corpus(_CORPUS.get(target, target))
    failures = 0
    for number in range(first, last):
        print(number, flush=True)
        data = variant(starts[number % len(starts)], number)
        try:
            await decode(data)
        except AdeltaError as error:
            if len(str(error)) > 2000:
                failures += 1
                print(f"case {number} has a message that is too long", file=sys.stderr)
        except (Exception, MemoryError):
            failures += 1
            print(f"case {number}:\n{traceback.format_exc()[-2000:]}", file=sys.stderr)
    return failures


if __name__ == "__main__":
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.exit(min(asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))), 100))
