"""The conditions that operations are given, made on the event loop only where they are short."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.kernel.expressions import dnf

if TYPE_CHECKING:
    from datetime import datetime

    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.expressions.nodes import Node

__all__ = ["condition_of"]


async def condition_of(where: Where | None, *, now: datetime, zone: str = "UTC") -> Node | None:
    """The node that a caller's predicate stands for, as `to_predicate` has it.

    Raises:
        InvalidExpressionError: the predicate is in no spelling of one.
    """
    if dnf.is_long(where):
        return await in_thread(dnf.to_predicate, where, zone=zone, now=now)
    return dnf.to_predicate(where, zone=zone, now=now)
