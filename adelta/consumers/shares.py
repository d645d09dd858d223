"""Which rows of a table belong to one of several consumers that share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from adelta import _compute as pc
from adelta.errors import InvalidExpressionError, InvalidOptionError, SchemaMismatchError
from adelta.kernel.expressions.compute import filter_mask
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind_predicate

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.consumers.request import Share
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.position import Position
    from adelta.kernel.schema.types import StructType

__all__ = ["check_same_share", "rows_of_share", "share_predicate", "share_text"]


def share_text(share: Share | None) -> str | None:
    """A share as positions have it: ``city:0/4``."""
    if share is None:
        return None
    key, number, of = share
    return f"{quote(key, safe='')}:{number}/{of}"


def check_same_share(name: str, kept: Position, share: Share | None) -> None:
    """Refuse to go on from where other rows were read up to.

    Raises:
        InvalidOptionError: the position that is kept is of another share.
    """
    wanted = share_text(share)
    if kept.share == wanted:
        return
    before, now = (text or "all rows" for text in (kept.share, wanted))
    raise InvalidOptionError(
        f"the consumer {name!r} has read up to {kept} for the share {before}, and is opened for "
        f"{now}: rows before that which were not its own would be missed. Open it with the share "
        "that it had. To share the rows anew, let all consumers that share them get past the rows "
        "that were there at first (until no position is in_snapshot), stop them, and open others "
        "under new names, with start=min(...) of the positions of all: nothing is missed then, and "
        "nothing comes twice where all have read everything that was there"
    )


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
