"""The lengths that Spark's char and varchar types allow texts inside lists, maps and structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._dataclasses import dataclass
from adelta.errors import InvariantViolationError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.char_types import longest

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TOO_LONG", "LengthCheck", "has_limits"]


_SHOWN = 100
TOO_LONG = "text_too_long"
"""The reason of the error about such a text."""


def has_limits(declared: t.DataType) -> bool:
    """Whether texts of a type, at any depth, may only have so many characters."""
    match declared:
        case t.StructType(fields):
            return any(has_limits(field.type) for field in fields)
        case t.ArrayType(element):
            return has_limits(element)
        case t.MapType(key, value):
            return has_limits(key) or has_limits(value)
    return longest(declared) is not None


@dataclass(frozen=True, slots=True)
class LengthCheck:
    """That no text in a column is longer than the type that the column was declared as allows."""

    name: str
    declared: t.DataType

    def apply(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Refuse `rows` with a longer text.

        Raises:
            InvariantViolationError: there is one; the message shows it.
        """
        column: Any = rows.column(self.name)
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            for texts, most in _limited(chunk, self.declared):
                longer = pc.filter(texts, pc.greater(pc.utf8_length(texts), most))
                if len(longer):
                    raise InvariantViolationError(
                        f"column {self.name!r} holds texts of at most {most} characters "
                        f"({self.declared}), and one is {longer[0].as_py()[:_SHOWN]!r}; correct "
                        "such rows, or leave them out",
                        reason=TOO_LONG,
                    )


def _limited(values: Any, declared: t.DataType) -> Iterator[tuple[Any, int]]:
    """The texts of which the length is limited, and how many characters they may have."""
    if not has_limits(declared):
        return
    match declared:
        case t.StructType(fields):
            kinds = {field.name.lower(): field.type for field in fields}
            for field, inside in zip(values.type, values.flatten(), strict=True):
                if (kind := kinds.get(field.name.lower())) is not None:
                    yield from _limited(inside, kind)
        case t.ArrayType(element):
            yield from _limited(values.flatten(), element)
        case t.MapType(key, value):
            whole = pc.drop_null(values)
            start, end = whole.offsets[0].as_py(), whole.offsets[-1].as_py()
            yield from _limited(whole.keys.slice(start, end - start), key)
            yield from _limited(whole.items.slice(start, end - start), value)
        case _ if (most := longest(declared)) is not None:
            yield values, most
