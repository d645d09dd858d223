"""Functions of strings: characters are code points, as Spark counts them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.library._function import (
    BYTES,
    INT,
    STRING,
    Function,
    Parameter,
    Values,
    per_row,
)
from adelta.kernel.expressions.strings import check_size, trim
from adelta.kernel.schema import types as t

__all__ = ["STRINGS"]


def _padded(values: Values, length: Values, pad: Any, *, left: bool) -> Values:
    size = 0

    def one(text: str, count: int, filler: str) -> str:
        nonlocal size
        missing = count - len(text)
        if missing <= 0 or not filler:
            return text[: max(count, 0)]
        size += missing + len(text)
        check_size(size)
        filled = (filler * (missing // len(filler) + 1))[:missing]
        return filled + text if left else text + filled

    return per_row(t.STRING, one, values, length, pad)


def _repeat(values: Values, count: Values) -> Values:
    size = 0

    def one(text: str, times: int) -> str:
        nonlocal size
        size += len(text.encode()) * max(times, 0)
        check_size(size)
        return text * max(times, 0)

    return per_row(t.STRING, one, values, count)


def _space(count: Values) -> Values:
    return _repeat(column_of([" "] * len(count), pa.string()), count)


def _locate(part: Values, text: Values, start: Values | None = None) -> Values:
    if start is None:
        return per_row(t.INTEGER, lambda p, s: s.find(p) + 1, part, text)
    rows = zip(part.to_pylist(), text.to_pylist(), start.to_pylist(), strict=True)
    return column_of([_located(*row) for row in rows], pa.int32())


def _located(part: str | None, text: str | None, start: int | None) -> int | None:
    if start is None:
        return 0  # as Spark has it
    if part is None or text is None:
        return None
    if start < 1:
        return 0
    return 1 if not part else text.find(part, start - 1) + 1


def _concat_ws(separator: Values, *columns: Values) -> Values:
    rows = zip(*(c.to_pylist() for c in (separator, *columns)), strict=True) if columns else None
    if rows is None:
        return per_row(t.STRING, lambda _: "", separator)
    made: list[str | None] = []
    size = 0
    for between, *parts in rows:
        if between is None:
            made.append(None)
            continue
        flat = [
            text
            for part in parts
            for text in (part if isinstance(part, list) else [part])
            if text is not None
        ]
        made.append(between.join(flat))
        size += len(made[-1] or "")
        check_size(size)
    return column_of(made, pa.string())


def _split_part(text: str, delimiter: str, place: int) -> str:
    if place == 0:
        raise InvalidExpressionError("split_part counts parts from 1, or from -1 backwards, not 0")
    parts = text.split(delimiter) if delimiter else [text]
    index = place - 1 if place > 0 else len(parts) + place
    return parts[index] if 0 <= index < len(parts) else ""


def _substring_index(text: str, delimiter: str, count: int) -> str:
    if not delimiter or count == 0:
        return ""
    if count > 0:
        at = -1
        for _ in range(min(count, len(text) + 1)):
            at = text.find(delimiter, at + 1)
            if at < 0:
                return text
        return text[:at]
    at = len(text) - len(delimiter) + 1
    for _ in range(min(-count, len(text) + 1)):
        end = at - 1 + len(delimiter)
        at = text.rfind(delimiter, 0, end) if at > 0 else -1
        if at < 0:
            return text
    return text[at + len(delimiter) :]


def _translate(text: str, what: str, by: str) -> str:
    table: dict[int, str | None] = {}
    for place, character in enumerate(what):
        table.setdefault(ord(character), by[place] if place < len(by) else None)
    return text.translate(table)


def _ascii(text: str) -> int:
    return ord(text[0]) if text else 0


def _chr(number: int) -> str:
    return "" if number < 0 else chr(number & 0xFF)


def _trim_both(values: Values, characters: str = " ") -> Values:
    return trim("trim", values, characters)


def _bit_length(values: Values) -> Values:
    return pc.multiply(pc.binary_length(values), 8).cast(pa.int32())


def _textual(kinds: tuple[t.DataType, ...]) -> t.DataType | str:
    for kind in kinds[1:]:
        if isinstance(kind, t.ArrayType) and kind.element_type not in (t.STRING, t.VOID):
            return f"it joins strings and arrays of strings, not {kind}"
    return t.STRING


_STRING_OR_ARRAY = Parameter((t.STRING,), t.STRING, t.ArrayType)

STRINGS = {
    "ascii": Function(
        group="strings",
        example="ascii('é')",
        parameters=(STRING,),
        result=t.INTEGER,
        compute=lambda v: per_row(t.INTEGER, _ascii, v),
    ),
    "bit_length": Function(
        group="strings",
        example="bit_length('é')",
        parameters=(BYTES,),
        result=t.INTEGER,
        compute=_bit_length,
    ),
    "btrim": Function(
        group="strings",
        example="btrim('xxaxx', 'x')",
        parameters=(STRING, STRING),
        optional=1,
        constants=(1,),
        result=t.STRING,
        compute=_trim_both,
    ),
    "chr": Function(
        group="strings",
        example="chr(65)",
        parameters=(Parameter((t.LONG,), t.LONG),),
        result=t.STRING,
        compute=lambda v: per_row(t.STRING, _chr, v),
    ),
    "concat_ws": Function(
        group="strings",
        example="concat_ws('-', 'a', NULL, 'b')",
        parameters=(STRING, _STRING_OR_ARRAY),
        variadic=True,
        result=_textual,
        compute=_concat_ws,
        safe=False,
        tolerant=True,
    ),
    "instr": Function(
        group="strings",
        example="instr('banana', 'nan')",
        parameters=(STRING, STRING),
        result=t.INTEGER,
        compute=lambda text, part: per_row(t.INTEGER, lambda s, p: s.find(p) + 1, text, part),
    ),
    "locate": Function(
        group="strings",
        example="locate('a', 'banana', 3)",
        parameters=(STRING, STRING, INT),
        optional=1,
        result=t.INTEGER,
        compute=_locate,
        tolerant=True,
    ),
    "lpad": Function(
        group="strings",
        example="lpad('7', 3, '0')",
        parameters=(STRING, INT, STRING),
        optional=1,
        result=t.STRING,
        compute=lambda v, n, pad=" ": _padded(v, n, pad, left=True),
        safe=False,
    ),
    "octet_length": Function(
        group="strings",
        example="octet_length('é')",
        parameters=(BYTES,),
        result=t.INTEGER,
        compute=lambda v: pc.binary_length(v).cast(pa.int32()),
    ),
    "repeat": Function(
        group="strings",
        example="repeat('ab', 2)",
        parameters=(STRING, INT),
        result=t.STRING,
        compute=_repeat,
        safe=False,
    ),
    "reverse": Function(
        group="strings",
        example="reverse('abc')",
        parameters=(STRING,),
        result=t.STRING,
        compute=lambda v: pc.utf8_reverse(v),
    ),
    "rpad": Function(
        group="strings",
        example="rpad('7', 3, 'xy')",
        parameters=(STRING, INT, STRING),
        optional=1,
        result=t.STRING,
        compute=lambda v, n, pad=" ": _padded(v, n, pad, left=False),
        safe=False,
    ),
    "space": Function(
        group="strings",
        example="space(2)",
        parameters=(INT,),
        result=t.STRING,
        compute=_space,
        safe=False,
    ),
    "split_part": Function(
        group="strings",
        example="split_part('a.b.c', '.', -1)",
        parameters=(STRING, STRING, INT),
        result=t.STRING,
        compute=lambda *columns: per_row(t.STRING, _split_part, *columns),
        safe=False,
    ),
    "substring_index": Function(
        group="strings",
        example="substring_index('a.b.c', '.', 2)",
        parameters=(STRING, STRING, INT),
        result=t.STRING,
        compute=lambda *columns: per_row(t.STRING, _substring_index, *columns),
    ),
    "translate": Function(
        group="strings",
        example="translate('abcba', 'ab', 'x')",
        parameters=(STRING, STRING, STRING),
        result=t.STRING,
        compute=lambda *columns: per_row(t.STRING, _translate, *columns),
    ),
}
