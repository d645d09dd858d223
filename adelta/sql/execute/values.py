"""VALUES: rows of constants → an Arrow table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._arrow_values import array_of
from adelta.errors import InvalidStatementError, SchemaMismatchError
from adelta.kernel.expressions.casts import cast_values
from adelta.kernel.expressions.coercion import widest
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.literals import NULL
from adelta.kernel.expressions.nodes import Literal
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind, type_of
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.types import VOID, StructType
from adelta.kernel.table_features import DEFAULT_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import DataType
    from adelta.sql.session import Session
    from adelta.sql.statements import Values

__all__ = ["default_of", "values_table"]

arrow: Any = pa  # the stubs do not know types that are known at run time only

_ONE_ROW = pa.RecordBatch.from_arrays([pa.nulls(1)], [""])
_NO_COLUMNS = StructType()
_COMPUTED = ("delta.generationExpression", "delta.identity.")


def values_table(
    values: Values, names: Sequence[str], schema: StructType | None, session: Session
) -> pa.Table:
    """The rows, under `names`; what is DEFAULT is as the columns of `schema` have it.

    A column that is DEFAULT in all rows is left out, but for one where all of them are.

    Raises:
        InvalidStatementError: a row has more or fewer values than others.
        SchemaMismatchError: the values of a column have no type in common.
        InvalidExpressionError: a value cannot be computed.
    """
    for place, row in enumerate(values.rows):
        if len(row) != len(names):
            raise InvalidStatementError(
                f"row {place + 1} of VALUES has {len(row)} values, and there are "
                f"{len(names)} columns"
            )
    columns: dict[str, Any] = {}
    for place, name in enumerate(names):
        nodes = [row[place] for row in values.rows]
        if all(node is None for node in nodes):
            continue
        default = NULL if schema is None else default_of(schema, name, session)
        given = [default if node is None else node for node in nodes]
        columns[name] = _column(name, given, session.zone)
    if not columns and schema is not None:  # what says how many rows there are
        given_name = next((name for name in names if not _is_computed(schema, name)), None)
        if given_name is not None:
            default = default_of(schema, given_name, session)
            columns[given_name] = _column(given_name, [default] * len(values.rows), session.zone)
    if not columns:
        raise InvalidStatementError("all values are DEFAULT: name a column, and give it a value")
    return pa.table(columns)


def default_of(schema: StructType, name: str, session: Session) -> Node:
    """The default of a column; NULL where it has none."""
    field = schema.field(name)
    text = None if field is None else field.metadata.get(DEFAULT_KEY)
    if text is None:
        return NULL
    return parse_expression(str(text), zone=session.zone, now=session.now)


def _is_computed(schema: StructType, name: str) -> bool:
    """Whether the table itself computes or numbers the values of a column."""
    field = schema.field(name)
    return field is None or any(key.startswith(_COMPUTED) for key in field.metadata)


def _column(name: str, nodes: Sequence[Node], zone: str) -> Any:
    bound = [bind(node, _NO_COLUMNS, zone=zone) for node in nodes]
    types: list[DataType] = [
        node.type if isinstance(node, Literal) else type_of(node, _NO_COLUMNS) for node in bound
    ]
    common = widest(types)
    if common is None:
        kinds = ", ".join(sorted({str(kind) for kind in types}))
        raise SchemaMismatchError(
            f"the values of column {name!r} are of the types {kinds}, which have none in common: "
            "cast them to one"
        )
    target = pa.null() if common == VOID else to_arrow_type(common)
    if all(isinstance(node, Literal) for node in bound) and len(set(types) - {VOID}) <= 1:
        return array_of([node.value for node in bound if isinstance(node, Literal)], target)
    parts = [_one(node, kind, common, zone) for node, kind in zip(bound, types, strict=True)]
    return arrow.chunked_array(parts, target)


def _one(node: Node, kind: DataType, common: DataType, zone: str) -> Any:
    if kind == VOID:
        return arrow.nulls(1, to_arrow_type(common))
    found = evaluate(node, _ONE_ROW)
    return found if kind == common else cast_values(found, common, zone=zone)
