"""Thrift's compact protocol, as far as Parquet needs it here: a strict reader of bytes.

Nothing that the bytes say makes the reader look beyond their end, build more elements than there
are bytes, or nest deeper than Parquet's structures do. What is not asked for is skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BINARY",
    "BOOLEANS",
    "FALSE",
    "I16",
    "I32",
    "I64",
    "LIST",
    "STRUCT",
    "TRUE",
    "VARINT",
    "CompactReader",
    "ThriftError",
    "encoded_binary",
    "encoded_integer",
    "field_header",
    "list_header",
    "read_struct",
    "unsigned",
    "varint",
]

TRUE: Final = 1
FALSE: Final = 2
BYTE: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
MAP: Final = 11
STRUCT: Final = 12
UUID: Final = 13
BOOLEANS: Final = (TRUE, FALSE)

_DEEPEST: Final = 16
_LONGEST_VARINT: Final = 10
_LAST_SHIFT: Final = 7 * (_LONGEST_VARINT - 1)
_WIDTHS: Final = {BYTE: 1, DOUBLE: 8, UUID: 16}


VARINT: Final = rb"[\x80-\xff]{0,9}+[\x00-\x7f]"
"""A regular expression for a varint of up to 64 bits, whose number is `unsigned`."""


class ThriftError(ValueError):
    """The bytes are no Thrift structure of the expected shape."""


class CompactReader:
    """Reads one value after another; `position` is where the next one starts."""

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = bytes(data)
        self.position = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """The id and the type of each field of a struct.

        Its value must be read or skipped before the next field is asked for. A boolean's value is
        its type.
        """
        last = 0
        while True:
            header = self._byte()
            if header == 0:
                return
            kind, delta = header & 0x0F, header >> 4
            last = last + delta if delta else self.integer()
            yield last, kind

    def list_of(self, kind: int) -> int:
        """How many elements of the type `kind` the list has whose first element comes next.

        Raises:
            ThriftError: the list is of other elements, or longer than the bytes that are left.
        """
        size, found = self._list_header()
        if size and found != kind and not {found, kind} <= set(BOOLEANS):
            raise ThriftError(f"a list of type {found} where one of type {kind} belongs")
        return size

    def integer(self) -> int:
        """An integer of any width."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def boolean(self) -> bool:
        """An element of a list of booleans."""
        value = self._byte()
        if value not in (0, *BOOLEANS):
            raise ThriftError(f"{value} where a boolean belongs")
        return value == TRUE

    def binary(self) -> bytes:
        """A binary or a string."""
        start = self._advance(self._varint())
        return self._data[start : self.position]

    def skipped(self, kind: int) -> bytes:
        """A value of the type `kind`, the value of a field, as it is encoded."""
        start = self.position
        self.skip(kind)
        return self._data[start : self.position]

    def skip(self, kind: int, depth: int = 0) -> None:
        """Pass over a value of the type `kind`, the value of a field."""
        if kind in (I16, I32, I64):
            self._varint()
        elif kind == BINARY:
            self._advance(self._varint())
        elif kind in BOOLEANS:
            return
        elif kind in _WIDTHS:
            self._advance(_WIDTHS[kind])
        elif depth >= _DEEPEST:
            raise ThriftError("structures nested too deeply")
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (LIST, SET):
            size, inner = self._list_header()
            for _ in range(size):
                self._skip_element(inner, depth + 1)
        elif kind == MAP:
            self._skip_map(depth + 1)
        else:
            raise ThriftError(f"a value of the unknown type {kind}")

    def _skip_element(self, kind: int, depth: int) -> None:
        if kind in BOOLEANS:
            self._advance(1)
        else:
            self.skip(kind, depth)

    def _skip_map(self, depth: int) -> None:
        size = self._bounded(self._varint())
        if not size:
            return
        kinds = self._byte()
        for _ in range(size):
            self._skip_element(kinds >> 4, depth)
            self._skip_element(kinds & 0x0F, depth)

    def _list_header(self) -> tuple[int, int]:
        header = self._byte()
        size = header >> 4
        return self._bounded(self._varint() if size == 0x0F else size), header & 0x0F

    def _bounded(self, size: int) -> int:
        """`size`, which is a number of elements of at least one byte each."""
        if size > len(self._data) - self.position:
            raise ThriftError(f"{size:,} elements in the {len(self._data):,} bytes of the whole")
        return size

    def _byte(self) -> int:
        return self._data[self._advance(1)]

    def _varint(self) -> int:
        value = 0
        data, at = self._data, self.position
        for shift in range(0, 7 * _LONGEST_VARINT, 7):
            if at >= len(data):
                break
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = at
                return value
        raise ThriftError("an integer without an end")

    def _advance(self, length: int) -> int:
        """Where the next `length` bytes start, which are then passed."""
        start = self.position
        if length > len(self._data) - start:
            raise ThriftError(f"{length:,} bytes where {len(self._data) - start:,} are left")
        self.position = start + length
        return start


def read_struct(
    data: bytes,
    at: int = 0,
    places: dict[int, tuple[int, int]] | None = None,
    *,
    behind: int = 0,
) -> tuple[dict[int, Any], int]:
    """The integers, the booleans' types and the structs of a struct, by field, and where it ends.

    `places`, where given, takes the places of its integers. What is read may be the rest of a
    struct, `behind` a field. Of many pages this reads in one function what `CompactReader` does in
    several.

    Raises:
        ThriftError: it is no struct.
    """
    try:
        return _struct(data, at, 0, places, behind)
    except IndexError:
        raise ThriftError("a structure without an end") from None


def _struct(
    data: bytes,
    at: int,
    depth: int,
    places: dict[int, tuple[int, int]] | None = None,
    field: int = 0,
) -> tuple[dict[int, Any], int]:
    if depth > _DEEPEST:
        raise ThriftError("structures nested too deeply")
    found: dict[int, Any] = {}
    while head := data[at]:
        at += 1
        of = head & 0x0F
        if head >= 0x10:
            field += head >> 4
        else:  # its number is by itself
            value, at = _unsigned_at(data, at)
            field = (value >> 1) ^ -(value & 1)
        if I16 <= of <= I64:
            start = at
            value = data[at]
            if value < 0x80:
                at += 1
            else:
                value, at = _unsigned_at(data, at)
            found[field] = (value >> 1) ^ -(value & 1)
            if places is not None:
                places[field] = (start, at)
        elif of == BINARY:
            length, at = _unsigned_at(data, at)
            at += length
        elif of == STRUCT:
            found[field], at = _struct(data, at, depth + 1)
        elif of in BOOLEANS:
            found[field] = of
        elif of == LIST:
            at = _behind_list(data, at, depth + 1)
        else:
            reader = CompactReader(data)
            reader.position = at
            reader.skip(of, depth + 1)
            at = reader.position
    return found, at + 1


def _behind_list(data: bytes, at: int, depth: int) -> int:
    """The end of a list."""
    head = data[at]
    size, of = head >> 4, head & 0x0F
    start, at = at, at + 1
    if size == 0x0F:
        size, at = _unsigned_at(data, at)
    if I16 <= of <= I64:
        for _ in range(size):
            while data[at] >= 0x80:
                at += 1
            at += 1
    elif of == BINARY:
        for _ in range(size):
            length, at = _unsigned_at(data, at)
            at += length
    elif of == STRUCT:
        for _ in range(size):
            _, at = _struct(data, at, depth)
    else:
        reader = CompactReader(data)
        reader.position = start
        reader.skip(LIST, depth)
        at = reader.position
    return at


def _unsigned_at(data: bytes, at: int) -> tuple[int, int]:
    """A whole number and its end."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _LAST_SHIFT:
            raise ThriftError("an integer without an end")


def varint(value: int) -> bytes:
    """A whole number that is not negative, seven bits a byte, the lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def unsigned(encoded: bytes) -> int:
    """The whole number that a varint, which is all of the bytes, stands for."""
    if len(encoded) == 1:
        return encoded[0]
    if len(encoded) == 2:
        return encoded[0] & 0x7F | encoded[1] << 7
    if len(encoded) == 3:
        return encoded[0] & 0x7F | (encoded[1] & 0x7F) << 7 | encoded[2] << 14
    value = 0
    for place, byte in enumerate(encoded):
        value |= (byte & 0x7F) << 7 * place
    return value


def encoded_integer(value: int) -> bytes:
    """An integer of any width that is not negative."""
    return varint(value << 1)


def encoded_binary(value: bytes) -> bytes:
    """A binary or a string."""
    return varint(len(value)) + value


def field_header(kind: int, delta: int) -> bytes:
    """What is in front of a field's value whose id is `delta`, 1 to 15, above the last one's."""
    return bytes((delta << 4 | kind,))


def list_header(kind: int, size: int) -> bytes:
    """What is in front of the `size` elements of a list."""
    return bytes((size << 4 | kind,)) if size < 0x0F else bytes((0xF0 | kind,)) + varint(size)
