"""What a table demands of each row that is written to it (PROTOCOL.md, "Writer Requirements").

Columns that the data leaves out are computed, by their generation expression or their default, and
then every row has to satisfy the CHECK constraints, the invariants of columns, the lengths that
Spark's char and varchar columns allow, and the generation expressions of columns that the data did
give. A condition that is NULL for a row is not satisfied.

Expressions are Spark SQL of the closed set that adelta evaluates; another one is refused by name
before any row is written, since a rule that cannot be checked would be a rule that is broken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import scalar_of
from adelta._dataclasses import dataclass
from adelta.errors import (
    InvalidExpressionError,
    InvalidTableError,
    InvariantViolationError,
    NullNotAllowedError,
    RowsOutsideError,
)
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.nodes import Cast, Column, Comparison, columns_of
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind, bind_predicate, type_of
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.expressions.store_assignment import assign_rows, assign_values, times_in_zone
from adelta.kernel.schema.cast import cast_to_schema
from adelta.kernel.schema.char_types import declared_type, longest
from adelta.kernel.schema.geospatial import holds_shapes
from adelta.kernel.schema.names import walk_fields
from adelta.kernel.schema.types import BINARY, STRING, StructType
from adelta.kernel.table_features import DEFAULT_KEY
from adelta.kernel.table_properties import CONSTRAINT_PREFIX
from adelta.parquet.write.geospatial import first_damaged
from adelta.write.generated_columns import GENERATION
from adelta.write.text_lengths import TOO_LONG, LengthCheck, has_limits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructField

__all__ = ["Check", "RowRules", "check_constraints"]

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


_INVARIANT = "delta.invariants"
_SHOWN = 100
_MAY_BE_EMPTY = (STRING, BINARY)


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that every row must satisfy; `what` is what messages call it."""

    what: str
    condition: Node
    error: type[InvariantViolationError] = InvariantViolationError
    reason: str | None = None

    def apply(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Refuse `rows` where one of them does not satisfy the condition.

        Raises:
            InvariantViolationError: there is such a row; the message shows the first one.
            InvalidExpressionError: the condition cannot be computed for a row.
        """
        try:
            satisfied = pc.fill_null(evaluate(self.condition, rows), False)
        except InvalidExpressionError as error:
            raise InvalidExpressionError(f"{self.what} cannot be checked: {error}") from error
        if pc.all(satisfied).as_py() is not False:
            return
        broken = pc.indices_nonzero(pc.invert(satisfied))
        raise self.error(
            f"{self.what} is violated by {len(broken)} of {len(satisfied)} rows, the first with "
            f"{_shown(rows, self.condition, broken[0].as_py())}; correct these rows, or leave them "
            "out",
            reason=self.reason,
        )


@dataclass(frozen=True, slots=True)
class _Computed:
    """A column that is computed where the data leaves it out."""

    field: StructField
    text: str
    what: str
    zone: str
    now: datetime | None = None

    def bound(self, schema: StructType) -> Node:
        """Its expression, in the type of the column.

        Raises:
            InvalidExpressionError: it is not one that adelta evaluates.
        """
        where = f"the {self.what} of column {self.field.name!r} ({self.text})"
        try:
            node = parse_expression(self.text, zone=self.zone, now=self.now)
            if type_of(node, schema) != self.field.type:
                node = Cast(node, self.field.type)
            return bind(node, schema, zone=self.zone)
        except InvalidExpressionError as error:
            raise _not_evaluated(where, error) from error


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules of one table, in the order in which they apply.

    `generated` are the columns with a generation expression, and that expression bound. Defaults
    are bound when they are needed: one that adelta cannot evaluate harms no row that has a value.
    `shapes` are the columns that hold some, at any depth, and `texts` the partition columns whose
    values may be empty, which is null to a table: rules are of what will be there. Dates and times
    become times of the other kind by the clocks of `zone`. With `assigns`, the rows
    are computed by a statement, and their values are cast to the table's types; without it, they
    are a caller's data, and a value that does not fit is refused.
    """

    schema: StructType
    defaults: tuple[_Computed, ...] = ()
    generated: tuple[tuple[StructField, Node], ...] = ()
    checks: tuple[Check | LengthCheck, ...] = ()
    shapes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    zone: str = "UTC"
    assigns: bool = False

    @classmethod
    def of(
        cls,
        schema: StructType,
        properties: Mapping[str, str],
        *,
        generates: bool,
        has_defaults: bool,
        where: Node | None = None,
        zone: str = "UTC",
        now: datetime | None = None,
        partition_by: Collection[str] = (),
        assigns: bool = False,
    ) -> RowRules:
        """The rules of a table with this schema and these properties.

        `generates` and `has_defaults` say whether the table supports generated columns and
        defaults; `where` is a condition of the caller's. Dates and clocks of times, and texts that
        become times without naming a zone, are of `zone`. Defaults are of the time `now`; those
        that tell the time are refused without it.

        Raises:
            InvalidExpressionError: a rule is not an expression that adelta evaluates.
            InvalidTableError: the metadata of a column that holds an expression is damaged.
        """
        defaults = [
            _Computed(f, str(f.metadata[DEFAULT_KEY]), "default", zone, now)
            for f in schema
            if has_defaults and DEFAULT_KEY in f.metadata
        ]
        computed = [
            _Computed(f, str(f.metadata[GENERATION]), "generation expression", zone)
            for f in schema
            if generates and GENERATION in f.metadata
        ]
        checks: list[Check | LengthCheck] = [
            *check_constraints(schema, properties, zone=zone),
            *_invariants(schema, zone),
            *_lengths(schema),
        ]
        if where is not None:
            what = f"the condition {to_sql(where)} of this write"
            condition = bind_predicate(where, schema, zone=zone)
            checks.append(Check(what, condition, RowsOutsideError))
        generated = tuple((each.field, each.bound(schema)) for each in computed)
        shapes = tuple(f.name for f in schema if holds_shapes(f.type))
        texts = tuple(f.name for f in schema if f.name in partition_by and f.type in _MAY_BE_EMPTY)
        return cls(schema, tuple(defaults), generated, tuple(checks), shapes, texts, zone, assigns)

    def apply(self, rows: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
        """`rows` in the table's schema, `target` in Arrow's types, complete and checked.

        Raises:
            SchemaMismatchError: a column is not the table's, or holds what it cannot hold.
            InvariantViolationError: a column that must not be null holds a null, or a row does not
                satisfy a rule.
            InvalidExpressionError: a value cannot be computed.
        """
        rows = (assign_rows if self.assigns else times_in_zone)(rows, target, self.zone)
        given = {name.lower() for name in rows.schema.names}
        for default in self.defaults:
            if default.field.name.lower() not in given:
                values = evaluate(default.bound(StructType()), _no_columns(rows.num_rows))
                values = assign_values(values, target.field(default.field.name), self.zone)
                rows = rows.append_column(default.field.name, values)
        absent = [(f, node) for f, node in self.generated if f.name.lower() not in given]
        if absent:
            loose = target
            for field, _ in absent:
                place = loose.get_field_index(field.name)
                loose = loose.set(place, loose.field(place).with_nullable(True))
            rows = self._without_empty(cast_to_schema(rows, loose))
            rows = self._without_empty(_with_computed(rows, absent, target))
        else:
            rows = self._without_empty(cast_to_schema(rows, target))
        for name in self.shapes:
            _check_shapes(rows.column(name), target.field(name))
        for field, node in self.generated:
            if field.name.lower() in given:
                _agreement(field, node).apply(rows)
        for check in self.checks:
            check.apply(rows)
        return rows

    def _without_empty(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """`rows` with null in place of partition values that are empty.

        Raises:
            InvariantViolationError: a column that must not be null holds one.
        """
        for name in self.texts:
            values = rows.column(name)
            empty = pc.equal(pc.binary_length(values), 0)
            if not pc.any(empty).as_py():
                continue
            field = rows.schema.field(name)
            if not field.nullable:
                raise NullNotAllowedError(
                    f"column {name!r} may not be null, and an empty value is null in a partition "
                    f"column; {pc.sum(empty)} rows hold one: correct these rows, or leave them out"
                )
            nulls = pc.if_else(empty, scalar_of(None, values.type), values)
            rows = rows.set_column(rows.schema.get_field_index(name), field, nulls)
        return rows


def _check_shapes(values: pa.Array[Any], field: pa.Field[Any]) -> None:
    row = first_damaged(values, field)
    if row is not None:
        shown = str(values[row].as_py())[:_SHOWN]
        raise InvariantViolationError(
            f"column {field.name!r} holds shapes as well-known binary (WKB), and one of them is "
            f"damaged behind its header, too short or too long for what it says: {shown}"
        )


def check_constraints(
    schema: StructType, properties: Mapping[str, str], *, zone: str = "UTC"
) -> Iterator[Check]:
    """The CHECK constraints among `properties`, bound to `schema`.

    Raises:
        InvalidExpressionError: one is not an expression that adelta evaluates, or names a column
            that is not there.
    """
    for key, text in properties.items():
        if key.lower().startswith(CONSTRAINT_PREFIX):
            yield _check(
                f"the CHECK constraint {key[len(CONSTRAINT_PREFIX) :]!r}", text, schema, zone
            )


def _invariants(schema: StructType, zone: str) -> Iterator[Check]:
    for path, field in walk_fields(schema):
        raw = field.metadata.get(_INVARIANT)
        if raw is None:
            continue
        shown = ".".join(path)
        try:
            text = orjson.loads(raw)["expression"]["expression"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise InvalidTableError(
                f"column {shown!r} has the invariant {str(raw)[:_SHOWN]}, which holds no "
                "expression; the table's metadata is damaged"
            ) from error
        yield _check(f"the invariant of column {shown!r}", str(text), schema, zone)


def _lengths(schema: StructType) -> Iterator[Check | LengthCheck]:
    """That texts of char and varchar types, which are strings to Delta, are not too long."""
    for field in schema:
        declared = declared_type(field)
        if declared is None or not has_limits(declared):
            continue
        most = longest(declared)
        if most is None:
            yield LengthCheck(field.name, declared)
        elif field.type == STRING:
            name = field.name.replace("`", "``")
            condition = f"`{name}` IS NULL OR length(`{name}`) <= {most}"
            check = _check(f"the type {declared} of column {field.name!r}", condition, schema)
            yield replace(check, reason=TOO_LONG)


def _check(what: str, text: str, schema: StructType, zone: str = "UTC") -> Check:
    what = f"{what} ({text})"
    try:
        return Check(what, bind_predicate(parse_expression(text, zone=zone), schema, zone=zone))
    except InvalidExpressionError as error:
        raise _not_evaluated(what, error) from error


def _not_evaluated(what: str, error: InvalidExpressionError) -> InvalidExpressionError:
    return InvalidExpressionError(
        f"{what} cannot be evaluated by adelta, so no row can be written under it: {error}"
    )


def _agreement(field: StructField, node: Node) -> Check:
    """That what the data gives for a generated column is what would have been computed."""
    same = Comparison("<=>", Column((field.name,)), node)
    return Check(f"the generation expression of column {field.name!r} ({to_sql(node)})", same)


def _with_computed(
    rows: pa.RecordBatch, columns: list[tuple[StructField, Node]], target: pa.Schema
) -> pa.RecordBatch:
    for field, node in columns:
        try:
            values = evaluate(node, rows)
        except InvalidExpressionError as error:
            raise InvalidExpressionError(
                f"the generated column {field.name!r} cannot be computed: {error}"
            ) from error
        if not field.nullable and values.null_count:
            raise NullNotAllowedError(
                f"column {field.name!r} may not be null, and {to_sql(node)}, by which it is "
                f"generated, is null for {values.null_count} of {len(values)} rows"
            )
        place = rows.schema.get_field_index(field.name)
        rows = rows.set_column(place, target.field(place), values)
    return rows


def _no_columns(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count)], [""])


def _shown(rows: pa.RecordBatch | pa.Table, condition: Node, index: int) -> str:
    """The values that the condition looks at, in one row."""
    names = sorted({path[0] for path in columns_of(condition)})
    values = (f"{name} = {rows.column(name)[index].as_py()!r}"[:_SHOWN] for name in names)
    return ", ".join(values) or "any values"
