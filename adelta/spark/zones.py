"""Conditions and values as a session means them: times that name no zone are of the session's."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind, bind_predicate
from adelta.kernel.expressions.text_values import time_zone

if TYPE_CHECKING:
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema import types as t

__all__ = ["condition_in", "moment_in", "value_in"]


def condition_in(zone: str, text: str, schema: t.StructType) -> Node:
    """What the condition `text` over a schema means in `zone`.

    Raises:
        InvalidExpressionError: it cannot be parsed, or does not fit the schema.
    """
    return bind_predicate(parse_expression(text, zone=zone), schema, zone=zone)


def value_in(zone: str, text: str, schema: t.StructType) -> Node:
    """What the expression `text` over a schema means in `zone`.

    Raises:
        InvalidExpressionError: as for `condition_in`.
    """
    return bind(parse_expression(text, zone=zone), schema, zone=zone)


def moment_in(text: str, zone: str) -> datetime | str:
    """The time that `text` names, in `zone` where it names none itself; other text as it is."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return text
    return found if found.tzinfo is not None else found.replace(tzinfo=time_zone(zone))
