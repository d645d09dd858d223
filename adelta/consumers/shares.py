"""Which rows of a table belong to one of several consumers that share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta import _compute as pc
from adelta.errors import InvalidExpressionError, SchemaMismatchError
from adelta.kernel.expressions.compute import filter_mask
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind_predicate

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.consumers.request import Share
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType

__all__ = ["rows_of_share", "share_predicate"]


def share_predicate(share: Share, schema: StructType) -> Node:
    """What is true of the rows of a share. The key is hashed as text, so that it may become wider.

    Raises:
        SchemaMismatchError: the table has no such column, or one that has no text.
    """
    key, number, of = share
    name = key.replace("`", "``")
    text = f"pmod(xxhash64(CAST(`{name}` AS STRING)), CAST({of} AS BIGINT)) = {number}"
    try:
        return bind_predicate(parse_expression(text), schema)
    except InvalidExpressionError as error:
        raise SchemaMismatchError(
            f"rows cannot be shared by the column {key!r}: {error}"
        ) from error


def rows_of_share(predicate: Node, rows: pa.Table) -> pa.Array[Any]:
    """The indices of the rows for which a share's predicate is true. CPU-heavy."""
    indices: pa.Array[Any] = pc.indices_nonzero(filter_mask(predicate, rows))
    return indices
