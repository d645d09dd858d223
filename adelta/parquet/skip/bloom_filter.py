"""Split-block Bloom filters of column chunks: whether a value can be among those stored.

A value is hashed, by xxHash64, as Parquet stores it plainly in the file's own physical type.
"""

from __future__ import annotations

from typing import Final

import xxhash

from adelta.parquet.thrift import I32, STRUCT, CompactReader, ThriftError

__all__ = ["LONGEST_HEADER", "SplitBlockFilter"]

LONGEST_HEADER: Final = 64
"""More bytes than the header of a filter takes."""

_BLOCK: Final = 32
_SALTS: Final = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)
_NUM_BYTES, _ALGORITHM, _HASH, _COMPRESSION = 1, 2, 3, 4


class SplitBlockFilter:
    """A filter as it lies in a file, header and bits, without a copy.

    Raises:
        ThriftError: the header is damaged, the bits are not all there, or the filter is of a kind
            that Parquet did not have when this was written.
    """

    __slots__ = ("_bits", "_blocks")

    def __init__(self, data: memoryview) -> None:
        reader = CompactReader(data[:LONGEST_HEADER])
        length = _bits_length(reader)
        self._bits = data[reader.position : reader.position + length]
        self._blocks = length // _BLOCK
        if len(self._bits) != length:
            raise ThriftError(f"a Bloom filter of {length:,} bytes, of which {len(self._bits):,}")

    def may_contain(self, value: bytes) -> bool:
        """Whether a value may be in the column chunk: False is certain, True is not."""
        digest = xxhash.xxh64_intdigest(value)
        start = (((digest >> 32) * self._blocks) >> 32) * _BLOCK
        block, key = self._bits[start : start + _BLOCK], digest & 0xFFFFFFFF
        for word, salt in enumerate(_SALTS):
            bit = ((key * salt) & 0xFFFFFFFF) >> 27
            if not block[4 * word + (bit >> 3)] >> (bit & 7) & 1:
                return False
        return True


def _bits_length(reader: CompactReader) -> int:
    length = 0
    kinds: dict[int, int] = {}
    for field, kind in reader.fields():
        if field == _NUM_BYTES and kind == I32:
            length = reader.integer()
        elif field in (_ALGORITHM, _HASH, _COMPRESSION) and kind == STRUCT:
            kinds[field] = _chosen(reader)
        else:
            reader.skip(kind)
    if kinds != {_ALGORITHM: 1, _HASH: 1, _COMPRESSION: 1}:
        raise ThriftError("a Bloom filter that is no uncompressed split-block filter of xxHash64")
    if length < _BLOCK or length % _BLOCK:
        raise ThriftError(f"a Bloom filter of {length:,} bytes, which are no blocks of {_BLOCK}")
    return length


def _chosen(reader: CompactReader) -> int:
    """Which member of a union is there."""
    members = []
    for field, kind in reader.fields():
        members.append(field)
        reader.skip(kind)
    return members[0] if len(members) == 1 else 0
