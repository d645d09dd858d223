"""Conditions and values as a session means them: times that name no zone are of the session's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.char_padding import padded
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind, bind_predicate
from adelta.kernel.expressions.text_values import parse_timestamp

if TYPE_CHECKING:
    from datetime import datetime

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema import types as t

__all__ = ["condition_in", "moment_in", "value_in"]


def condition_in(zone: str, text: str, schema: t.StructType, *, pads: bool = False) -> Node:
    """What the condition `text` over a schema means in `zone`; with `pads` as `padded` has it.

    Raises:
        InvalidExpressionError: it cannot be parsed, or does not fit the schema.
    """
    node = parse_expression(text, zone=zone)
    return bind_predicate(padded(node, schema) if pads else node, schema, zone=zone)


def value_in(zone: str, text: str, schema: t.StructType, *, pads: bool = False) -> Node:
    """What the expression `text` over a schema means in `zone`, as for `condition_in`.

    Raises:
        InvalidExpressionError: as for `condition_in`.
    """
    node = parse_expression(text, zone=zone)
    return bind(padded(node, schema) if pads else node, schema, zone=zone)


def moment_in(text: str, zone: str) -> datetime:
    """The time that `text` names as Spark's casts read it, in `zone` where it names none itself.

    Raises:
        InvalidOptionError: it names none.
    """
    found = parse_timestamp(text, zone)
    if found is None:
        raise InvalidOptionError(
            f"The provided timestamp ({text!r}) cannot be converted to a valid timestamp: write "
            "one like '2024-06-01 12:00:00'",
            reason="timestamp_invalid",
        )
    return found
