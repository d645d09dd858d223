"""MergePlan: a merge understood on one version of its target, as a plain value for its tasks."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._arrow_values import array_of, empty_batch
from adelta._dataclasses import dataclass
from adelta.errors import ColumnNotFoundError, InvalidOptionError, SchemaMismatchError
from adelta.kernel.expressions.char_padding import padded
from adelta.kernel.expressions.nodes import Column, Literal, Node, Not, conjunction
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind, type_of
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.table_features import (
    ALLOW_COLUMN_DEFAULTS,
    DEFAULT_KEY,
    DELETION_VECTORS,
    GENERATED_COLUMNS,
    TYPE_WIDENING,
    identities_of,
)
from adelta.operations.assigned_rows import AssignedRows
from adelta.operations.merge.assignments import Insertion, Update
from adelta.operations.merge.evolution import columns_to_take_in
from adelta.operations.merge.keys import JoinKey, split_condition
from adelta.operations.merge.names import BOTH, SOURCE, TARGET, Sides
from adelta.operations.merge.targets import covers
from adelta.operations.nested_values import (
    StructValue,
    column_path,
    field_at,
    nested,
    nodes_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.operations.merge.clauses import Clause, ClauseKind
    from adelta.operations.merge.names import Side
    from adelta.operations.nested_values import Assigned

__all__ = ["BoundClause", "MergePlan", "MergeRequest", "plan_merge", "to_take_in"]

_MAY_NAME = {"matched": BOTH, "not_matched": SOURCE, "not_matched_by_source": TARGET}
_WORD_DEFAULT = Column(("default",))
_GENERATION = "delta.generationExpression"


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """What is asked of a merge, whatever the target is like; its clocks tell the time `now`.

    Columns `beside` those that the source was given with say what was found of both sides, and are
    no part of ``*``. Where one of them, `stands_in`, is true, the source row stands for none: it
    is there for rows of the target that no source row matches.

    With `replaces` all rows that match go and all rows of the source come, whether they match or
    not: it is what the history says of that, as of a WRITE. With `pads` the target's columns of
    ``char(n)`` are compared as `padded` has it.
    """

    on: Node
    clauses: tuple[Clause, ...]
    source_alias: str
    target_alias: str
    evolves: bool
    zone: str
    now: datetime
    beside: frozenset[str] = frozenset()
    stands_in: str | None = None
    replaces: Mapping[str, str] | None = None
    pads: bool = False

    def given(self, source: t.StructType) -> t.StructType:
        """The columns that the source was given with."""
        return t.StructType(tuple(field for field in source if field.name not in self.beside))


@dataclass(frozen=True, slots=True)
class BoundClause:
    """A clause that fits the target: rows for which `condition` is true, and what becomes of them.

    Without either, rows go. `unmatched` is whether it takes rows that match one which stands in.
    """

    condition: Node | None
    update: Update | None = None
    insertion: Insertion | None = None
    unmatched: bool = False


@dataclass(frozen=True)
class MergePlan:
    """What to join by, and what becomes of rows.

    Expressions are bound to the rows of `sides`. Two rows match where all `keys` are equal and
    `residual` is true. `vectors` is whether rows are taken out of files by deletion vectors, and
    `tells` whether the table has a change data feed. With `inserts_all` source rows that match come
    as well as those that do not.
    """

    configuration: TableConfiguration
    sides: Sides
    condition: Node
    keys: tuple[JoinKey, ...]
    residual: Node | None
    matched: tuple[BoundClause, ...]
    not_matched: tuple[BoundClause, ...]
    not_matched_by_source: tuple[BoundClause, ...]
    vectors: bool
    tells: bool
    inserts_all: bool = False

    @cached_property
    def changes_rows(self) -> bool:
        """Whether rows of the target may change, and not only new ones come."""
        return bool(self.matched or self.not_matched_by_source)

    @cached_property
    def deletes_all_matched(self) -> bool:
        """Whether matched rows go whatever matches them, however often."""
        return self.matched == (BoundClause(None),)

    @cached_property
    def asked_side(self) -> Side | None:
        """The side of which alone it is asked which rows match; None where pairs are needed."""
        by_keys = bool(self.keys) and self.residual is None
        if not by_keys or (self.matched and not self.deletes_all_matched):
            return None
        if bool(self.not_matched) == self.changes_rows and not self.inserts_all:
            return None
        return "target" if self.changes_rows else "source"

    @cached_property
    def target_columns(self) -> tuple[str, ...]:
        """The columns of the target by which it is decided what becomes of its rows."""
        needed = self.sides.columns(self._deciding(), "target")
        return tuple(name for name in self.sides.target.names if name in needed)

    @cached_property
    def deciding_source_columns(self) -> tuple[str, ...]:
        """The columns of the source by which it is decided what becomes of the target's rows."""
        needed = self.sides.columns(self._deciding(), "source")
        return tuple(name for name in self.sides.source.names if name in needed)

    @cached_property
    def source_columns(self) -> tuple[str, ...]:
        """All columns of the source that anything needs."""
        nodes = [*self._deciding(), *(clause.condition for clause in self.not_matched)]
        for clause in (*self.matched, *self.not_matched):
            if clause.update is not None:
                nodes += [node for _, value in clause.update.values for node in nodes_of(value)]
            if clause.insertion is not None:
                nodes += [node for _, node in clause.insertion.values]
        needed = self.sides.columns(nodes, "source")
        return tuple(name for name in self.sides.source.names if name in needed)

    def _deciding(self) -> list[Node | None]:
        clauses = (*self.matched, *self.not_matched_by_source)
        return [self.condition, *(clause.condition for clause in clauses)]


def to_take_in(
    configuration: TableConfiguration, source: t.StructType, request: MergeRequest
) -> t.StructType:
    """The columns and fields of the source that are to be merged into the target's schema.

    Raises:
        InvalidOptionError: a column of a clause is no name of one.
    """
    aliases = request.target_alias
    assigned: list[tuple[str, ...]] = []
    star = False
    for clause in request.clauses:
        if clause.kind == "not_matched_by_source" or clause.action == "delete":
            continue
        if clause.values is None:
            star = True
            continue
        for name, _ in clause.values:
            known = column_path(name, configuration.schema, aliases)
            assigned.append(known or column_path(name, source, aliases) or (name,))
    return columns_to_take_in(
        configuration.schema,
        request.given(source),
        assigned,
        star=star,
        widening=configuration.uses(TYPE_WIDENING),
    )


def plan_merge(
    configuration: TableConfiguration, source: t.StructType, request: MergeRequest
) -> MergePlan:
    """What `request` means on a table of this configuration, from a source of this schema.

    Raises:
        InvalidExpressionError: an expression does not fit the columns.
        InvalidOptionError: a column is set twice, or the aliases are one.
        SchemaMismatchError: a column is not there, cannot be set, or cannot hold what it is to.
    """
    if request.pads:
        request = _padded(request, configuration.schema)
    if request.source_alias.lower() == request.target_alias.lower():
        raise InvalidOptionError(
            f"source and target are both called {request.source_alias!r}; give one another alias"
        )
    return _Planner(configuration, source, request).plan()


class _Planner:
    def __init__(
        self, configuration: TableConfiguration, source: t.StructType, request: MergeRequest
    ) -> None:
        self._configuration = configuration
        self._request = request
        self._target = configuration.schema
        self._sides = Sides(
            self._target,
            source,
            request.target_alias,
            request.source_alias,
            request.zone,
            request.beside,
        )
        self._identities = {each.name: each for each in identities_of(self._target)}
        generates = configuration.supports(GENERATED_COLUMNS)
        self._generated = {f.name for f in self._target if generates and _GENERATION in f.metadata}

    def plan(self) -> MergePlan:
        sides, configuration = self._sides, self._configuration
        condition = sides.bind_predicate(self._request.on, BOTH, "the merge condition")
        keys, residual = split_condition(condition, sides)
        matched, others = self._stood_in_for(
            tuple(self._clauses("matched")), tuple(self._clauses("not_matched_by_source"))
        )
        made = MergePlan(
            configuration,
            sides,
            condition,
            keys,
            residual,
            matched,
            tuple(self._clauses("not_matched")),
            others,
            configuration.uses(DELETION_VECTORS),
            configuration.change_data_feed_enabled,
            self._request.replaces is not None,
        )
        self._try_out(made)
        return made

    def _stood_in_for(
        self, matched: tuple[BoundClause, ...], others: tuple[BoundClause, ...]
    ) -> tuple[tuple[BoundClause, ...], tuple[BoundClause, ...]]:
        """The clauses of rows that match, and of others, which match what stands in if any does."""
        if self._request.stands_in is None:
            return matched, others
        none = Column((self._sides.source_alias, self._request.stands_in))
        return (
            *(replace(each, condition=conjunction(Not(none), each.condition)) for each in matched),
            *(
                replace(each, condition=conjunction(none, each.condition), unmatched=True)
                for each in others
            ),
        ), ()

    def _clauses(self, kind: ClauseKind) -> Iterator[BoundClause]:
        may_name = _MAY_NAME[kind]
        for clause in self._request.clauses:
            if clause.kind != kind:
                continue
            condition = None
            if clause.condition is not None:
                what = f"the condition of {clause.shown}"
                condition = self._sides.bind_predicate(clause.condition, may_name, what)
            if clause.action == "delete":
                yield BoundClause(condition)
            elif clause.action == "insert":
                yield BoundClause(condition, insertion=Insertion(tuple(self._insert(clause))))
            else:
                values = dict(self._update(clause))
                assigned = AssignedRows.of(self._configuration, values, self._request.zone)
                yield BoundClause(condition, update=Update(tuple(values.items()), assigned))

    # ---------------------------------------------------------------------------------- values

    def _insert(self, clause: Clause) -> Iterator[tuple[str, Node]]:
        if clause.values is None:
            self._check_all_known()
            for field, value in self._all_columns(clause):
                self._check_not_numbered(field.name)
                yield field.name, value
            return
        seen: set[str] = set()
        for name, node in clause.values:
            path = self._path(name, clause)
            if len(path) > 1:
                raise SchemaMismatchError(
                    f"{clause.shown} gives a value to {name!r}, a field of a column; give the "
                    f"column {path[0]!r} as a whole"
                )
            self._check_not_numbered(path[0])
            if path[0] in seen:
                raise InvalidOptionError(
                    f"{clause.shown} sets column {path[0]!r} twice", reason="inserted_twice"
                )
            seen.add(path[0])
            given = self._value(node, path, clause)
            if given is not None:
                yield path[0], given

    def _update(self, clause: Clause) -> Iterator[tuple[str, Assigned]]:
        if clause.values is None:
            for field, value in self._all_columns(clause):
                self._check_may_change(field.name)
                source_type = type_of(value, self._sides.schema)
                yield field.name, self._star(field, source_type, (field.name,), value)
            return
        found: dict[tuple[str, ...], Node] = {}
        for name, node in clause.values:
            path = self._path(name, clause)
            self._check_may_change(path[0])
            twice = next((o for o in found if o[: len(path)] == path[: len(o)]), None)
            if twice is not None:
                raise InvalidOptionError(
                    f"{clause.shown} sets {'.'.join(path)!r} twice, or together with a part of it",
                    reason="set_twice",
                )
            given = self._value(node, path, clause)
            field = field_at(self._target, path)
            found[path] = Literal(None, field.type) if given is None else given
        yield from nested(self._target, found, self._sides.target_alias)

    def _all_columns(self, clause: Clause) -> Iterator[tuple[t.StructField, Node]]:
        """What ``*`` stands for: columns of the target, with those of the source so called."""
        source, alias = self._request.given(self._sides.source), self._sides.source_alias
        for field in self._target:
            given = source.field(field.name)
            if given is not None:
                value = Column((alias, given.name))
                self._check_fits(field, value, clause)
                yield field, value
            elif not (
                self._request.evolves
                or self._request.replaces is not None
                or field.name in self._identities
                or field.name in self._generated
            ):
                raise SchemaMismatchError(
                    f"{clause.shown} of all columns needs {field.name!r}, which the source does "
                    f"not have; it has {', '.join(source.names)}. Name the columns to set, or pass "
                    'schema_mode="merge"',
                    reason="merge_of_all_lacks_column",
                )

    def _star(
        self, target: t.StructField, source: t.DataType, path: tuple[str, ...], value: Node
    ) -> Assigned:
        """A column as ``UPDATE *`` sets it: fields that only the target has stay as they are."""
        if not (isinstance(target.type, t.StructType) and isinstance(source, t.StructType)):
            return value
        if not _has_target_only(target.type, source):
            return value
        assert isinstance(value, Column)
        kept = Column((self._sides.target_alias, *path))
        fields: list[tuple[str, Assigned]] = []
        for field in target.type:
            given = source.field(field.name)
            inner = (*path, field.name)
            if given is None:
                fields.append((field.name, Column((self._sides.target_alias, *inner))))
            else:
                part = Column((*value.path, given.name))
                fields.append((field.name, self._star(field, given.type, inner, part)))
        return StructValue(kept, tuple(fields), source=value)

    def _value(self, node: Node, path: tuple[str, ...], clause: Clause) -> Node | None:
        """The bound value of a column; None where the table is to give it."""
        may_name = _MAY_NAME[clause.kind]
        field = field_at(self._target, path)
        if self._is_default(node):
            return self._default(field, path, clause)
        bound = self._sides.bind(node, may_name, f"{clause.shown}, the value of {'.'.join(path)}")
        self._check_fits(field, bound, clause)
        return bound

    def _is_default(self, node: Node) -> bool:
        if not isinstance(node, Column) or tuple(map(str.lower, node.path)) != _WORD_DEFAULT.path:
            return False
        return not any(
            schema.field(node.path[0]) for schema in (self._sides.target, self._sides.source)
        )

    def _default(self, field: t.StructField, path: tuple[str, ...], clause: Clause) -> Node | None:
        computed = field.name in self._identities or field.name in self._generated
        if len(path) == 1 and computed and clause.action == "insert":
            return None
        known = len(path) == 1 and self._configuration.supports(ALLOW_COLUMN_DEFAULTS)
        text = field.metadata.get(DEFAULT_KEY) if known else None
        if text is None:
            return Literal(None, field.type)
        zone, now = self._request.zone, self._request.now
        return bind(parse_expression(str(text), zone=zone, now=now), t.StructType(), zone=zone)

    # ---------------------------------------------------------------------------------- checks

    def _path(self, name: str, clause: Clause) -> tuple[str, ...]:
        path = column_path(name, self._target, self._sides.target_alias)
        if path is None:
            raise ColumnNotFoundError(
                f"{clause.shown} sets {name!r}, which the table does not have; it has "
                f"{', '.join(self._target.names)}. A column of the source is added by "
                'schema_mode="merge"'
            )
        return path

    def _check_may_change(self, name: str) -> None:
        if name in self._identities:
            raise SchemaMismatchError(
                f"column {name!r} is an identity column: numbers that rows were given stay; leave "
                "it out, and name the columns to set",
                reason="identity_column_set",
            )

    def _check_not_numbered(self, name: str) -> None:
        identity = self._identities.get(name)
        if identity is not None and not identity.allows_explicit:
            raise SchemaMismatchError(
                f"column {name!r} is GENERATED ALWAYS AS IDENTITY: the table numbers its rows "
                "itself; leave the column out",
                reason="identity_values_given",
            )

    def _check_all_known(self) -> None:
        """Refuse rows of a WRITE that have more columns than the target."""
        if self._request.replaces is None:
            return
        unknown = [name for name in self._sides.source.names if self._target.field(name) is None]
        if unknown:
            raise SchemaMismatchError(
                f"the rows have columns that the table does not have: {', '.join(unknown)}; it has "
                f"{', '.join(self._target.names)}. Leave them out, or take them in by "
                'schema_mode="merge"'
            )

    def _check_fits(self, field: t.StructField, value: Node, clause: Clause) -> None:
        """Refuse structs that lack fields of the target, unless the schema may change."""
        if self._request.evolves:
            return
        lacking = covers(field.type, type_of(value, self._sides.schema), field.name)
        if lacking is not None:
            raise SchemaMismatchError(
                f"{clause.shown} has no value for the field {lacking!r} of the table; give structs "
                'with all fields, or pass schema_mode="merge"'
            )

    def _try_out(self, plan: MergePlan) -> None:
        """Have every clause make rows of none: what cannot hold what it is to is refused now."""
        schema = to_arrow_schema(self._target)
        hidden = self._configuration.row_id_columns or ()
        target = empty_batch(schema)
        for name in hidden:
            target = target.append_column(name, array_of([], pa.int64()))
        source = empty_batch(to_arrow_schema(self._sides.source))
        for clause in plan.matched:
            if clause.update is not None:
                clause.update.apply(target, self._sides.paired(target.select(schema.names), source))
        for clause in plan.not_matched_by_source:
            if clause.update is not None:
                clause.update.apply(target, self._sides.paired(target.select(schema.names), None))
        for clause in plan.not_matched:
            if clause.insertion is not None:
                clause.insertion.apply(self._sides.paired(None, source))


def _padded(request: MergeRequest, target: t.StructType) -> MergeRequest:
    """The merge, in which columns of ``char(n)`` are as Spark compares them."""

    def blanks(node: Node) -> Node:
        return padded(node, target, request.target_alias, but=request.source_alias)

    def clause(given: Clause) -> Clause:
        values = given.values and tuple((name, blanks(node)) for name, node in given.values)
        condition = None if given.condition is None else blanks(given.condition)
        return replace(given, condition=condition, values=values)

    return replace(request, on=blanks(request.on), clauses=tuple(map(clause, request.clauses)))


def _has_target_only(target: t.StructType, source: t.StructType) -> bool:
    """Whether the target has a field, at any depth of structs, that the source does not have."""
    for field in target:
        given = source.field(field.name)
        if given is None:
            return True
        match field.type, given.type:
            case t.StructType() as inner, t.StructType() as other:
                if _has_target_only(inner, other):
                    return True
    return False
