"""Conditions that operations are given: on the event loop only where they are short."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._concurrency import in_thread

if TYPE_CHECKING:
    from datetime import datetime

    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.expressions.nodes import Node

__all__ = ["condition_of", "said_of"]


async def condition_of(where: Where | None, *, now: datetime, zone: str = "UTC") -> Node | None:
    """The node that a caller's predicate stands for, as `to_predicate` has it.

    Raises:
        InvalidExpressionError: the predicate is in no spelling of one.
    """
    if where is None:
        return None
    from adelta.kernel.expressions import dnf  # not loaded by what has no condition

    if dnf.is_long(where):
        return await in_thread(dnf.to_predicate, where, zone=zone, now=now)
    return dnf.to_predicate(where, zone=zone, now=now)


async def said_of(condition: Node | None) -> list[str]:
    """What the history says of a condition: its text; nothing of none."""
    if condition is None:
        return []
    from adelta.kernel.expressions.sql import to_sql

    return [await in_thread(to_sql, condition)]
