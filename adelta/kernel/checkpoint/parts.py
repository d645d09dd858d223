"""Which part a file action goes to (PROTOCOL.md, "Multi-part checkpoint").

Parts are clustered by a hash of the canonical path, so that everyone who writes the same version in
as many parts puts the same actions into each, and a part that is written twice says the same. All
actions on one file belong to one part, however they spell its path.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from adelta._arrow_values import array_of
from adelta.kernel.file_id import canonical_paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MAX_PARTS", "by_part", "number_of_parts"]

MAX_PARTS = 1000
_FACTOR = 0x9E3779B97F4A7C15
_MIX = 0xBF58476D1CE4E5B9
_MASK = 2**64 - 1
_SLICE = 8 * 1024


def number_of_parts(actions: int, part_size: int) -> int:
    """How many parts of about `part_size` file actions there are; one at least."""
    return min(max(1, -(-actions // part_size)), MAX_PARTS)


def by_part(files: pa.Table, parts: int, root: str) -> list[tuple[int, pa.Table]]:
    """File actions of the table at `root` by the part that they belong to, counted from 0.

    They have a column `path`; their order is kept within a part.

    Example: of the paths a, b and c, b may be in part 0, and a and c in part 1 of two.
    """
    paths = files.column("path")
    starts = range(0, files.num_rows, _SLICE)
    hashes = [_hashes(canonical_paths(paths.slice(start, _SLICE), root)) for start in starts]
    numbers = np.concatenate([np.empty(0, np.uint64), *hashes]) % np.uint64(parts)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers.astype(np.int64), minlength=parts)).tolist()
    clustered = files.take(order)
    return [
        (part, clustered.slice(start, end - start))
        for part, (start, end) in enumerate(pairwise([0, *ends]))
        if end > start
    ]


def _hashes(paths: pa.ChunkedArray[Any]) -> NDArray[np.uint64]:
    """A hash of each text's bytes: the same on every machine, now and later."""
    whole = pa.concat_arrays([*paths.chunks, array_of([], pa.string())])
    _, offsets, data = (buffer and memoryview(buffer) for buffer in whole.buffers())
    ends = np.frombuffer(offsets or b"\0\0\0\0", np.int32)[whole.offset :][: len(whole) + 1]
    ends = ends.astype(np.int64)
    lengths = np.diff(ends)
    content = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]].astype(np.uint64)
    places = np.arange(len(content)) - np.repeat(ends[:-1] - ends[0], lengths)
    weights = _weights(int(lengths.max(initial=0)))
    sums = np.concatenate([[np.uint64(0)], np.cumsum(content * weights[places], dtype=np.uint64)])
    hashes = sums[ends[1:] - ends[0]] - sums[ends[:-1] - ends[0]]  # modulo 2^64, as all of it
    hashes ^= hashes >> np.uint64(31)
    hashes *= np.uint64(_MIX)
    mixed: NDArray[np.uint64] = hashes ^ (hashes >> np.uint64(27))
    return mixed


def _weights(count: int) -> NDArray[np.uint64]:
    factors = np.full(count, _FACTOR, np.uint64)
    return np.cumprod(factors, dtype=np.uint64)
