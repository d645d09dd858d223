"""Steps that write rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import adelta
from tests.support.model.step import Effect, Step, any_condition, columns_of, new_rows
from tests.support.model.table import (
    Column,
    Condition,
    ModelTable,
    Refused,
    any_column,
    any_value,
)

if TYPE_CHECKING:
    import random

    from adelta.table import Table

__all__ = ["Append", "DynamicOverwrite", "Overwrite", "ReplaceWhere"]

Named = dict[str, Any]


@dataclass(frozen=True)
class Append(Step):
    rows: list[Named]
    data: Any = field(repr=False)
    column: Column | None = None

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        rows, column = new_rows(source, model, keys), None
        if source.random() < 0.15:
            column = any_column(source, keys[-1] + 1000, model)
        if column is None or column.kind in ("struct", "array<int>"):
            return cls(rows, model.data(rows, columns_of(rows)))
        wider = model.copy()
        column = replace(column, kind={"int": "bigint"}.get(column.kind, column.kind))
        if column.kind not in ("bigint", "string", "double", "boolean", "binary", "date"):
            column = replace(column, kind="bigint")
        wider.columns.append(column)
        for row in rows:
            row[column.name] = any_value(source, column)
        return cls(rows, wider.data(rows, columns_of(rows), exact=True), column)

    async def run(self, table: Table) -> object:
        mode = "merge" if self.column is not None else None
        return await adelta.write_table(table, self.data, schema_mode=mode)  # type: ignore[arg-type]

    def apply(self, model: ModelTable) -> Effect:
        if self.column is not None and self.column.name not in model.names:
            model.columns.append(self.column)
        return Effect("WRITE", frozenset(model.store(row) for row in self.rows))


@dataclass(frozen=True)
class Overwrite(Step):
    rows: list[Named]
    data: Any = field(repr=False)

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        rows = new_rows(source, model, keys)
        return cls(rows, model.data(rows, columns_of(rows)))

    async def run(self, table: Table) -> object:
        return await adelta.write_table(table, self.data, mode="overwrite")

    def apply(self, model: ModelTable) -> Effect:
        model.rows.clear()
        return Effect("WRITE", frozenset(model.store(row) for row in self.rows))


@dataclass(frozen=True)
class ReplaceWhere(Step):
    condition: Condition
    rows: list[Named]
    data: Any = field(repr=False)

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        condition = any_condition(source, model)
        if not model.column(condition.column).given:
            return None
        rows = new_rows(source, model, keys)
        if condition.column not in rows[0]:
            return None
        trial = model.copy()
        trial.constraints = {}
        trial.columns = [replace(column, nullable=True) for column in model.columns]
        stored = [(row, trial.rows[trial.store(row)]) for row in rows]
        rows = [row for row, kept in stored if condition.holds(trial.named(kept)) is True]
        return cls(condition, rows, model.data(rows, columns_of(rows))) if rows else None

    async def run(self, table: Table) -> object:
        where = self.condition.sql()
        return await adelta.write_table(table, self.data, mode="overwrite", replace_where=where)

    def apply(self, model: ModelTable) -> Effect:
        for key in model.matching(self.condition):
            del model.rows[key]
        return Effect("WRITE", frozenset(model.store(row) for row in self.rows))


@dataclass(frozen=True)
class DynamicOverwrite(Step):
    rows: list[Named]
    data: Any = field(repr=False)

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        if not model.partition_by:
            return None
        rows = new_rows(source, model, keys, 3)
        return cls(rows, model.data(rows, columns_of(rows)))

    async def run(self, table: Table) -> object:
        return await adelta.write_table(
            table, self.data, mode="overwrite", partition_overwrite="dynamic"
        )

    def apply(self, model: ModelTable) -> Effect:
        if not model.partition_by:
            raise Refused("there are no partitions")
        before = dict(model.rows)
        new = {model.store(row) for row in self.rows}
        met = {model.partition(model.rows[key]) for key in new}
        for key, row in before.items():
            if model.partition(row) in met and key not in new:
                del model.rows[key]
        return Effect("WRITE", frozenset(new))
