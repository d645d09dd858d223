"""Steps that change rows: DELETE, UPDATE and MERGE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import adelta
from tests.support.model.step import Effect, Step, any_condition, columns_of, new_rows
from tests.support.model.table import (
    WHOLE,
    Condition,
    ModelTable,
    Refused,
    any_value,
    quoted,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from adelta.table import Table

__all__ = ["Delete", "Merge", "Update"]

Named = dict[str, Any]


@dataclass(frozen=True)
class Delete(Step):
    condition: Condition | None

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        return cls(None if source.random() < 0.05 else any_condition(source, model))

    async def run(self, table: Table) -> object:
        return await adelta.delete(table, self.condition and self.condition.sql())

    def apply(self, model: ModelTable) -> Effect:
        gone = model.matching(self.condition)
        for key in gone:
            del model.rows[key]
        return Effect("DELETE", commits=bool(gone))


def _any_set(source: random.Random, model: ModelTable) -> dict[str, tuple[str, Any]]:
    """Columns, and how each is set: by ``add`` or to a ``value``."""
    free = [c for c in model.columns if c.given and c.uid != 0]
    free = [c for c in free if c.kind in (*WHOLE, "string", "boolean", "double")]
    found: dict[str, tuple[str, Any]] = {}
    for column in source.sample(free, min(len(free), source.randint(1, 2))):
        if column.kind in ("int", "bigint") and source.random() < 0.5:
            found[column.name] = ("add", source.randint(-3, 9))
        else:
            value = any_value(source, column)
            found[column.name] = ("value", None if value != value else value)
    return found


def _set_sql(values: Mapping[str, tuple[str, Any]], of: str = "") -> dict[str, Any]:
    return {
        quoted(name): f"{of}{quoted(name)} + ({value})" if how == "add" else _literal(value)
        for name, (how, value) in values.items()
    }


def _literal(value: Any) -> Any:
    if isinstance(value, str):
        return "'" + value + "'"
    return "CAST('Infinity' AS DOUBLE)" if value == float("inf") else value


def _set(values: Mapping[str, tuple[str, Any]], row: Named) -> Named:
    found = {}
    for name, (how, value) in values.items():
        if name not in row:
            raise Refused(f"there is no column {name!r}")
        before = row[name]
        found[name] = value if how == "value" else None if before is None else before + value
    return found


@dataclass(frozen=True)
class Update(Step):
    values: dict[str, tuple[str, Any]]
    condition: Condition

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        values = _any_set(source, model)
        return cls(values, any_condition(source, model)) if values else None

    async def run(self, table: Table) -> object:
        values = {name: _set_sql({name: how}) for name, how in self.values.items()}
        values = {name: next(iter(each.values())) for name, each in values.items()}
        return await adelta.update(table, values, self.condition.sql())

    def apply(self, model: ModelTable) -> Effect:
        hit = model.matching(self.condition)
        _set(self.values, dict.fromkeys(model.names))
        for key in hit:
            row = model.rows[key]
            model.store(_set(self.values, model.named(row)), row)
        return Effect("UPDATE", frozenset(hit), commits=bool(hit))


@dataclass(frozen=True)
class Clause:
    """A clause of a merge: `kind` is whom it takes and what it does."""

    kind: Literal[
        "update all", "update", "delete", "insert all", "insert", "own update", "own delete"
    ]
    condition: Condition | None
    values: dict[str, tuple[str, Any]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Merge(Step):
    rows: list[Named]
    data: Any = field(repr=False)
    key: str
    clauses: list[Clause]

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        full = [{**_blank(model), **row} for row in new_rows(source, model, keys, 3)]
        for key in source.sample(sorted(model.rows), min(len(model.rows), source.randint(0, 4))):
            full += [{**row, model.key.name: key} for row in new_rows(source, model, keys, 1)]
        rows = [{**_blank(model), **row} for row in full]
        values = _any_set(source, model)
        kinds = ["update all", "delete", "insert all", "insert", "own delete"]
        kinds += ["update", "own update"] if values else []
        chosen = source.sample(kinds, source.randint(1, 4))
        given = [c.name for c in model.columns if c.given and c.uid and c.nullable]
        columns = tuple(source.sample(given, source.randint(0, len(given))))
        clauses = [Clause(k, _of_clause(source, k, model), values, columns) for k in chosen]  # type: ignore[arg-type]
        return cls(rows, model.data(rows, columns_of(rows)), model.key.name, _ordered(clauses))

    async def run(self, table: Table) -> object:
        key = quoted(self.key)
        builder = adelta.merge(table, self.data, f"target.{key} = source.{key}")
        for clause in self.clauses:
            of = "source." if clause.kind.startswith("insert") else "target."
            where = clause.condition and clause.condition.sql(of)
            match clause.kind:
                case "update all":
                    builder = builder.when_matched_update_all(where)
                case "update":
                    builder = builder.when_matched_update(_set_sql(clause.values, "target."), where)
                case "delete":
                    builder = builder.when_matched_delete(where)
                case "insert all":
                    builder = builder.when_not_matched_insert_all(where)
                case "insert":
                    names = (self.key, *clause.columns)
                    values = {quoted(name): f"source.{quoted(name)}" for name in names}
                    builder = builder.when_not_matched_insert(values, where)
                case "own update":
                    builder = builder.when_not_matched_by_source_update(
                        _set_sql(clause.values), where
                    )
                case "own delete":
                    builder = builder.when_not_matched_by_source_delete(where)
        return await builder.execute()

    def apply(self, model: ModelTable) -> Effect:
        if self.key != model.key.name:
            raise Refused(f"there is no column {self.key!r}")
        for name in (name for row in self.rows for name in row):
            model.column(name)
        for clause in self.clauses:
            _set(clause.values, dict.fromkeys(model.names))
        if any(clause.kind.endswith(" all") for clause in self.clauses):
            lacking = {c.name for c in model.columns if c.given} - set(self.data.column_names)
            if lacking:  # which the table got since the source was made
                raise Refused(f"the source lacks {sorted(lacking)}")
        touched, gone = set(), set()
        before = dict(model.rows)
        sources = {row[self.key]: row for row in self.rows}
        for key, row in before.items():
            named, source = model.named(row), sources.get(key)
            own = source is None
            clause = next(
                (c for c in self.clauses if self._takes(c, named, "own" if own else "")), None
            )
            if clause is None:
                continue
            if clause.kind.endswith("delete"):
                del model.rows[key]
                gone.add(key)
                continue
            if clause.kind == "update all":
                changes = {n: v for n, v in (source or {}).items() if model.column(n).given}
            else:
                changes = _set(clause.values, named)
            model.store(changes, row)
            touched.add(key)
        for key in sources.keys() - before.keys():
            source = sources[key]
            clause = next((c for c in self.clauses if self._takes(c, source, "insert")), None)
            if clause is not None:
                names = {self.key, *clause.columns} if clause.kind == "insert" else source.keys()
                touched.add(model.store({name: source[name] for name in names}))
        return Effect("MERGE", frozenset(touched), commits=bool(touched or gone))

    def _takes(self, clause: Clause, row: Named, whom: str) -> bool:
        kind = clause.kind.split()[0]
        if (kind if kind in ("own", "insert") else "") != whom:
            return False
        return clause.condition is None or clause.condition.holds(row) is True


def _blank(model: ModelTable) -> Named:
    """A row of a merge's source, in which nothing is left out."""
    return {c.name: c.default for c in model.columns if c.given}


def _of_clause(source: random.Random, kind: str, model: ModelTable) -> Condition | None:
    if source.random() < 0.4:
        return None
    for _ in range(5):
        condition = any_condition(source, model)
        if not kind.startswith("insert") or model.column(condition.column).given:
            return condition
    return None


def _ordered(clauses: list[Clause]) -> list[Clause]:
    """Of each kind of row, those without a condition last: after them none is allowed."""
    found: list[Clause] = []
    for kinds in (
        ("update all", "update", "delete"),
        ("insert all", "insert"),
        ("own update", "own delete"),
    ):
        mine = [clause for clause in clauses if clause.kind in kinds]
        found += [clause for clause in mine if clause.condition is not None]
        found += [clause for clause in mine if clause.condition is None][:1]
    return found
