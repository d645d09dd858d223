"""How deep an expression may nest: as deep as is looked through without too much of a stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.nodes import Column, Literal, children_of

if TYPE_CHECKING:
    from adelta.kernel.expressions.nodes import Node

__all__ = ["MAX_DEPTH", "TOO_DEEP", "check_depth"]

MAX_DEPTH = 100
"""How deep an expression may nest."""

TOO_DEEP = (
    f"the expression nests deeper than {MAX_DEPTH} levels, as a sum of more terms does: put groups "
    "of them in parentheses, as in (a + b) + (c + d), and write IN instead of nested conditions"
)
"""What is told of one that nests deeper."""


def check_depth(node: Node) -> Node:
    """The node itself, which does not nest too deeply.

    Raises:
        InvalidExpressionError: it does.
    """
    level, depth = [node], 0
    while level:
        if (depth := depth + 1) > MAX_DEPTH:
            raise InvalidExpressionError(TOO_DEEP)
        inner = [node for node in level if not isinstance(node, Literal | Column)]
        level = [child for parent in inner for child in children_of(parent)]
    return node
