"""Which bucket a row belongs to: rows with equal keys, of whatever side, belong to the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from adelta import _compute as pc
from adelta.operations.merge.keys import filler, key_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from adelta.operations.merge.keys import JoinKey
    from adelta.operations.merge.names import Side

__all__ = ["BUCKETS", "buckets_of"]


BUCKETS: Final = 64
_BITS: Final = np.uint64(58)  # the upper ones are left
_WORD: Final = 8
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_FOLD: Final = np.uint64(32)

_Words = Any  # an array of 64-bit words, which numpy's types cannot follow


def buckets_of(keys: Sequence[JoinKey], side: Side, rows: pa.RecordBatch) -> NDArray[np.int64]:
    """The bucket of each of `rows`, as `Sides.paired` makes them; all are in one without keys.

    Raises:
        InvalidExpressionError: a key cannot be computed.
    """
    mixed: _Words = np.zeros(rows.num_rows, np.uint64)
    for column in key_columns(keys, side, rows):
        filled = pc.fill_null(column, filler(column.type)) if column.null_count else column
        for word in _words(filled):
            mixed = (mixed ^ word) * _ODD
            mixed ^= mixed >> _FOLD
    found: NDArray[np.int64] = ((mixed * _ODD) >> _BITS).astype(np.int64)
    return found


def _words(values: pa.Array[Any]) -> list[_Words]:
    """Numbers that are the same where the values are, and mostly others where they are not."""
    kind: Any = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _text_words(values)
    width = kind.bit_width // 8
    data = _bytes(values.buffers()[1])
    data = data[values.offset * width : (values.offset + len(values)) * width]
    if width < _WORD:
        return [data.view(f"u{width}").astype(np.uint64)]
    return list(data.view(np.uint64).reshape(len(values), -1).T)


def _text_words(values: pa.Array[Any]) -> list[_Words]:
    """The length of each text, and the words at its beginning, in its middle and at its end."""
    _, offsets, data = values.buffers()
    bounds = (
        _bytes(offsets)
        .view(np.int32)[values.offset : values.offset + len(values) + 1]
        .astype(np.int64)
    )
    starts, lengths = bounds[:-1], np.diff(bounds)
    text = np.concatenate([_bytes(data), np.zeros(_WORD, np.uint8)])
    last = np.maximum(lengths - _WORD, 0)
    return [lengths.astype(np.uint64)] + [
        _word_at(text, starts + place, lengths - place) for place in (0 * last, last // 2, last)
    ]


def _bytes(buffer: Any) -> Any:
    return np.frombuffer(b"" if buffer is None else buffer, np.uint8)


def _word_at(text: Any, starts: Any, left: Any) -> _Words:
    """The eight bytes from each place on, of which `left` are the text's own."""
    within = np.arange(_WORD)
    found = text[np.minimum(starts[:, None] + within, len(text) - 1)]
    found[within >= left[:, None]] = 0
    return np.ascontiguousarray(found).view(np.uint64).ravel()
