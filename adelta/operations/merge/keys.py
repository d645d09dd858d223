"""The equalities in a merge's condition by which its two sides are joined.

A key is a comparison by ``=`` or ``<=>`` of an expression over the target with one over the source.
Both sides of it become columns that are equal bit by bit where Spark takes the values for equal:
NaN is NaN, -0.0 is 0.0, decimals have one scale, and nulls that equal each other are told apart
from values by a column of their own.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import scalar_of
from adelta._dataclasses import dataclass
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.nodes import (
    Case,
    Comparison,
    Literal,
    Or,
    conjunction,
    split_conjuncts,
)
from adelta.kernel.expressions.resolve import type_of
from adelta.kernel.schema.types import DecimalType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import DataType
    from adelta.operations.merge.names import Side, Sides

__all__ = ["JoinKey", "filler", "key_columns", "split_condition"]


_DECIMAL128, _DECIMAL256 = 38, 76


@dataclass(frozen=True, slots=True)
class JoinKey:
    """One equality; `null_safe` is whether two nulls are equal.

    The expressions are bound to both sides, and have `type`; `common` is the type in which
    decimals are compared, where they have two.
    """

    target: Node
    source: Node
    null_safe: bool
    type: DataType
    common: pa.DataType | None = None

    def of(self, side: Side) -> Node:
        """The expression over one side."""
        return self.target if side == "target" else self.source


def split_condition(condition: Node, sides: Sides) -> tuple[tuple[JoinKey, ...], Node | None]:
    """The keys of a bound condition, and what else has to be true."""
    keys: list[JoinKey] = []
    rest: list[Node] = []
    for part in _of_truth(condition):
        key = _key(part, sides)
        if key is None:
            rest.append(part)
        else:
            keys.append(key)
    return tuple(keys), conjunction(*rest)


def _of_truth(condition: Node) -> Iterator[Node]:
    """What all has to be true for the condition to be, without what never is."""
    for part in split_conjuncts(condition):
        operands = part.operands if isinstance(part, Or) else ()
        may_be = [each for each in operands if not _is_never_true(each)]
        if len(may_be) == 1:
            yield from _of_truth(may_be[0])
        else:
            yield part


def _is_never_true(node: Node) -> bool:
    if isinstance(node, Case):
        values = [value for _, value in node.branches]
        return all(
            map(_is_never_true, values if node.otherwise is None else [*values, node.otherwise])
        )
    return isinstance(node, Literal) and not node.value


def _key(node: Node, sides: Sides) -> JoinKey | None:
    if not isinstance(node, Comparison) or node.op not in ("=", "<=>"):
        return None
    left, right = sides.sides_of(node.left), sides.sides_of(node.right)
    if left == {"target"} and right == {"source"}:
        target, source = node.left, node.right
    elif left == {"source"} and right == {"target"}:
        target, source = node.right, node.left
    else:
        return None
    one, other = type_of(target, sides.schema), type_of(source, sides.schema)
    common: pa.DataType | None = None
    if isinstance(one, DecimalType) and isinstance(other, DecimalType) and one != other:
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        if whole + scale <= _DECIMAL128:
            common = pa.decimal128(whole + scale, scale)
        else:
            common = pa.decimal256(min(whole + scale, _DECIMAL256), scale)
    return JoinKey(target, source, node.op == "<=>", other, common)


def key_columns(keys: Sequence[JoinKey], side: Side, rows: pa.RecordBatch) -> list[pa.Array[Any]]:
    """The columns to join `rows` by, as `Sides.paired` makes them; rows with null never match.

    Raises:
        InvalidExpressionError: a key cannot be computed.
    """
    columns: list[pa.Array[Any]] = []
    for key in keys:
        values = _comparable(evaluate(key.of(side), rows), key)
        if key.null_safe:
            columns.append(pc.is_null(values).cast(pa.int8()))
            values = pc.fill_null(values, filler(values.type))
        columns.append(values)
    return columns


def _comparable(values: Any, key: JoinKey) -> Any:
    if key.common is not None:
        return values.cast(key.common)
    kind = values.type
    if pa.types.is_floating(kind):
        values = pc.add(values, scalar_of(0.0, kind))  # and -0.0 is 0.0
        values = pc.if_else(pc.is_nan(values), scalar_of(float("nan"), kind), values)
        return values.view(pa.int64() if kind == pa.float64() else pa.int32())
    if pa.types.is_boolean(kind):
        return values.cast(pa.int8())
    if pa.types.is_date32(kind):
        return values.view(pa.int32())
    return values.view(pa.int64()) if pa.types.is_timestamp(kind) else values


def filler(kind: pa.DataType) -> Any:
    """Some value of a type that keys have."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return scalar_of("" if pa.types.is_string(kind) else b"", kind)
    return scalar_of(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)
