"""The binary form of a Variant: a dictionary of names, and a value that refers to it by number.

VariantEncoding.md of parquet-format. Decoded values are plain Python ones, and `Number` where plain
Python has no such value: times beyond the year 9999, and nanoseconds, keep their integer.

Whatever the bytes say, decoding takes memory and time in proportion to their length: every value is
charged for the bytes that it takes, and values that lie over each other run out of them.
"""

from __future__ import annotations

import itertools
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import IntEnum
from typing import TypeAlias

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError

__all__ = [
    "EMPTY_METADATA",
    "MAX_DEPTH",
    "NULL",
    "WIDTHS",
    "Metadata",
    "Number",
    "NumberKind",
    "Variant",
    "array_items",
    "damaged",
    "decode",
    "is_array",
    "is_object",
    "little_endian",
    "object_fields",
    "width_of",
]

NULL = b"\x00"
"""The value that is null, which is not a missing value."""

EMPTY_METADATA = b"\x01\x00\x00"
"""A dictionary of no names."""

MAX_DEPTH = 128
"""How deep objects and arrays may lie in each other."""

_VERSION = 1
_PRIMITIVE, _SHORT_TEXT, _OBJECT, _ARRAY = range(4)
_LONGEST_SHORT_TEXT = 63
_TRUE, _FALSE = 1, 2
_INTEGERS = {3: 1, 4: 2, 5: 4, 6: 8}
_DOUBLE, _FLOAT = 7, 14
_DECIMALS = {8: 4, 9: 8, 10: 16}
_BINARY, _TEXT, _UUID = 15, 16, 20
_MAX_SCALE = 38


class NumberKind(IntEnum):
    """What a `Number` counts; the value is the type's number in the encoding."""

    DATE = 11
    """Days since 1970-01-01."""
    TIMESTAMP = 12
    """Microseconds since the epoch."""
    TIMESTAMP_NTZ = 13
    """Microseconds since 1970-01-01 00:00 on a clock on the wall."""
    TIME = 17
    """Microseconds since midnight."""
    TIMESTAMP_NANOS = 18
    """Nanoseconds since the epoch."""
    TIMESTAMP_NTZ_NANOS = 19
    """Nanoseconds since 1970-01-01 00:00 on a clock on the wall."""


@dataclass(frozen=True, slots=True)
class Number:
    """A date or time as the integer that the encoding holds."""

    kind: NumberKind
    value: int


_Leaf: TypeAlias = bool | int | float | Decimal | str | bytes | uuid.UUID | Number | None
Variant: TypeAlias = _Leaf | Sequence["Variant"] | Mapping[str, "Variant"]
"""A decoded value."""


def damaged(what: str) -> InvalidTableError:
    """The error of a variant about which `what` is wrong."""
    return InvalidTableError(
        f"a variant is damaged: {what}; restore the data file, or the table to an earlier version"
    )


class Metadata:
    """The names that values refer to by number."""

    __slots__ = ("_numbers", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self._numbers: dict[str, int] | None = None

    @classmethod
    def decode(cls, data: bytes) -> Metadata:
        """The dictionary that the bytes hold.

        Raises:
            InvalidTableError: they hold none.
        """
        if not data or data[0] & 15 != _VERSION:
            raise damaged(f"its dictionary has the version {data[0] & 15 if data else None}")
        width = (data[0] >> 6) + 1
        count = int.from_bytes(data[1 : 1 + width], "little")
        texts = 1 + width * (count + 2)
        if len(data) < texts:
            raise damaged(f"{count} names in a dictionary of {len(data)} bytes")
        ends = list(_numbers(data, 1 + width, width, count + 1))
        if ends[0] != 0 or texts + ends[-1] > len(data) or ends != sorted(ends):
            raise damaged("the names of its dictionary lie outside of it")
        try:
            names = [
                data[texts + ends[i] : texts + ends[i + 1]].decode("utf-8") for i in range(count)
            ]
        except UnicodeDecodeError as error:
            raise damaged(f"a name of its dictionary is not UTF-8 ({error})") from error
        return cls(names)

    def encode(self) -> bytes:
        """The bytes of the dictionary."""
        texts = [name.encode("utf-8") for name in self.names]
        total = sum(map(len, texts))
        width = width_of(max(total, len(texts)))
        ordered = all(a < b for a, b in itertools.pairwise(texts))
        parts = [
            bytes([_VERSION | ordered << 4 | (width - 1) << 6]),
            little_endian(len(texts), width),
        ]
        at = 0
        for text in (b"", *texts):
            at += len(text)
            parts.append(little_endian(at, width))
        return b"".join((*parts, *texts))

    def name(self, number: int) -> str:
        """The name of this number.

        Raises:
            InvalidTableError: there is none.
        """
        if number >= len(self.names):
            raise damaged(f"it uses name {number} of a dictionary of {len(self.names)}")
        return self.names[number]

    def number(self, name: str) -> int:
        """The number of this name.

        Raises:
            InvalidTableError: the dictionary does not have it.
        """
        if self._numbers is None:
            self._numbers = {}
            for number, known in enumerate(self.names):
                self._numbers.setdefault(known, number)
        found = self._numbers.get(name)
        if found is None:
            raise damaged(f"its dictionary lacks the name {name[:60]!r} of a shredded field")
        return found


# -------------------------------------------------------------------------------------- decoding


def decode(metadata: Metadata, value: bytes) -> Variant:
    """The value that the bytes hold.

    Raises:
        InvalidTableError: they are damaged.
    """
    return _Decoder(metadata, value).value(0, len(value), MAX_DEPTH)


def is_object(value: bytes) -> bool:
    """Whether the bytes hold an object."""
    return bool(value) and value[0] & 3 == _OBJECT


def is_array(value: bytes) -> bool:
    """Whether the bytes hold an array."""
    return bool(value) and value[0] & 3 == _ARRAY


def object_fields(metadata: Metadata, value: bytes) -> dict[str, bytes]:
    """The encoded value of every field of an encoded object.

    Raises:
        InvalidTableError: the bytes are damaged, or hold no object.
    """
    decoder = _Decoder(metadata, value)
    if not is_object(value):
        raise damaged("it has shredded fields, and a value beside them that is no object")
    spans = decoder.fields(0, len(value))
    return {name: value[start : decoder.end(start, end)] for name, start, end in spans}


def array_items(metadata: Metadata, value: bytes) -> list[bytes]:
    """The encoded items of an encoded array.

    Raises:
        InvalidTableError: the bytes are damaged, or hold no array.
    """
    decoder = _Decoder(metadata, value)
    if not is_array(value):
        raise damaged("it has an array's items, and no array")
    return [value[start : decoder.end(start, end)] for start, end in decoder.items(0, len(value))]


class _Decoder:
    """Decodes inside `data`; `left` are the bytes that values may still be charged for."""

    __slots__ = ("data", "left", "metadata")

    def __init__(self, metadata: Metadata, data: bytes) -> None:
        self.metadata = metadata
        self.data = data
        self.left = len(data)

    def value(self, at: int, end: int, depth: int) -> Variant:
        """The value from `at` on, which ends no later than `end`."""
        if at >= end:
            raise damaged("a value has no bytes")
        head = self.data[at]
        basic = head & 3
        if basic == _PRIMITIVE:
            return self._primitive(head >> 2, at + 1, end)
        if basic == _SHORT_TEXT:
            return self._text(at + 1, head >> 2, end)
        if depth == 0:
            raise damaged(f"it nests deeper than {MAX_DEPTH} levels")
        if basic == _OBJECT:
            return {
                name: self.value(start, stop, depth - 1)
                for name, start, stop in self.fields(at, end)
            }
        return [self.value(start, stop, depth - 1) for start, stop in self.items(at, end)]

    def end(self, at: int, end: int) -> int:
        """Where the value from `at` on ends."""
        if at >= end:
            raise damaged("a value has no bytes")
        head = self.data[at]
        basic, kind = head & 3, head >> 2
        if basic == _SHORT_TEXT:
            length = 1 + kind
        elif basic == _PRIMITIVE:
            length = 1 + self._width_of(kind, at + 1, end)
        else:
            _, _, first, total = self._layout(at, end)
            length = first + total - at
        if at + length > end:
            raise damaged("a value ends beyond the object or array that holds it")
        return at + length

    def fields(self, at: int, end: int) -> Iterator[tuple[str, int, int]]:
        """The fields of the object at `at`: name, where the value starts, where it ends at last."""
        head = self.data[at]
        count, offsets, first, total = self._layout(at, end)
        id_width = (head >> 4 & 3) + 1
        width = (head >> 2 & 3) + 1
        ids = offsets - count * id_width
        seen: set[str] = set()
        for number, offset in zip(
            _numbers(self.data, ids, id_width, count),
            _numbers(self.data, offsets, width, count),
            strict=True,
        ):
            name = self.metadata.name(number)
            if name in seen:
                raise damaged(f"an object has the field {name[:60]!r} twice")
            seen.add(name)
            yield name, first + offset, first + total

    def items(self, at: int, end: int) -> Iterator[tuple[int, int]]:
        """The items of the array at `at`: where each starts, and where it ends at last."""
        width = (self.data[at] >> 2 & 3) + 1
        count, offsets, first, total = self._layout(at, end)
        for offset in _numbers(self.data, offsets, width, count):
            yield first + offset, first + total

    def _layout(self, at: int, end: int) -> tuple[int, int, int, int]:
        """Of an object or array: number of values, start of offsets and values, bytes of values."""
        head = self.data[at]
        width = (head >> 2 & 3) + 1
        is_object = head & 3 == _OBJECT
        large = head >> (6 if is_object else 4) & 1
        sized = 4 if large else 1
        self._within(at + 1, sized, end)
        count = int.from_bytes(self.data[at + 1 : at + 1 + sized], "little")
        ids = count * ((head >> 4 & 3) + 1) if is_object else 0
        offsets = at + 1 + sized + ids
        first = offsets + (count + 1) * width
        self._within(at, first - at, end)
        self._charge(first - at)
        last = first - width
        total = int.from_bytes(self.data[last : last + width], "little")
        self._within(first, total, end)
        return count, offsets, first, total

    def _primitive(self, kind: int, at: int, end: int) -> Variant:
        if kind == 0:
            self._charge(1)
            return None
        if kind in (_TRUE, _FALSE):
            self._charge(1)
            return kind == _TRUE
        if kind in (_BINARY, _TEXT):
            length = self._width_of(kind, at, end) - 4
            return self._text(at + 4, length, end) if kind == _TEXT else self._raw(at + 4, length)
        width = self._width_of(kind, at, end)
        self._within(at, width, end)
        raw = self._raw(at, width)
        if kind in _INTEGERS:
            return int.from_bytes(raw, "little", signed=True)
        if kind == _DOUBLE:
            return float(struct.unpack("<d", raw)[0])
        if kind == _FLOAT:
            return float(struct.unpack("<f", raw)[0])
        if kind in _DECIMALS:
            if raw[0] > _MAX_SCALE:
                raise damaged(f"a decimal has the scale {raw[0]}")
            unscaled = int.from_bytes(raw[1:], "little", signed=True)
            return Decimal((int(unscaled < 0), _digits(unscaled), -raw[0]))
        if kind == _UUID:
            return uuid.UUID(bytes=raw)
        return Number(NumberKind(kind), int.from_bytes(raw, "little", signed=True))

    def _width_of(self, kind: int, at: int, end: int) -> int:
        """Bytes of a primitive after its first one."""
        fixed = WIDTHS.get(kind)
        if fixed is not None:
            return fixed
        if kind not in (_BINARY, _TEXT):
            raise damaged(f"it has a value of the unknown type {kind}")
        self._within(at, 4, end)
        length = 4 + int.from_bytes(self.data[at : at + 4], "little")
        self._within(at, length, end)
        return length

    def _raw(self, at: int, length: int) -> bytes:
        self._charge(length)
        return self.data[at : at + length]

    def _text(self, at: int, length: int, end: int) -> str:
        self._within(at, length, end)
        try:
            return self._raw(at, length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise damaged(f"a text is not UTF-8 ({error})") from error

    def _within(self, at: int, length: int, end: int) -> None:
        if at + length > end:
            raise damaged(f"{length} bytes are asked for where {max(0, end - at)} are left")

    def _charge(self, length: int) -> None:
        self.left -= length
        if self.left < 0:
            raise damaged("its values lie over each other")


WIDTHS: dict[int, int] = {
    0: 0,
    _TRUE: 0,
    _FALSE: 0,
    **_INTEGERS,
    _DOUBLE: 8,
    _FLOAT: 4,
    **{kind: 1 + width for kind, width in _DECIMALS.items()},
    _UUID: 16,
    **{kind: 4 if kind is NumberKind.DATE else 8 for kind in NumberKind},
}


def _numbers(data: bytes, at: int, width: int, count: int) -> Iterator[int]:
    """`count` unsigned numbers of `width` bytes."""
    for start in range(at, at + count * width, width):
        yield int.from_bytes(data[start : start + width], "little")


def _digits(unscaled: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(unscaled))))


def width_of(greatest: int) -> int:
    """The bytes that unsigned numbers up to `greatest` take."""
    return max(1, (greatest.bit_length() + 7) // 8)


def little_endian(number: int, width: int) -> bytes:
    """The bytes of an unsigned number."""
    return number.to_bytes(width, "little")
