"""Steps that change columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import adelta
from adelta.kernel.schema.types import StructField, StructType
from tests.support.model.step import Effect, Step
from tests.support.model.table import (
    WIDER,
    Column,
    ModelTable,
    Refused,
    any_column,
    quoted,
)

if TYPE_CHECKING:
    import random

    from adelta.table import Table

__all__ = [
    "AddColumn",
    "DropColumn",
    "MoveColumn",
    "RenameColumn",
    "RequireValues",
    "SetDefault",
    "Widen",
]


@dataclass(frozen=True)
class AddColumn(Step):
    column: Column
    after: str | None

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        column = any_column(source, keys[-1] + 1000, model)
        after = source.choice([None, *model.names])
        return cls(column, after) if column is not None else None

    async def run(self, table: Table) -> object:
        fields = StructType((StructField(self.column.name, self.column.type),))
        return await adelta.add_columns(table, fields, after=self.after)

    def apply(self, model: ModelTable) -> Effect:
        if self.column.name.lower() in {name.lower() for name in model.names}:
            raise Refused("there is such a column")
        names = model.names
        if self.after is not None:
            model.column(self.after)
        at = len(names) if self.after is None else names.index(self.after) + 1
        model.columns.insert(at, self.column)
        return Effect("ADD COLUMNS")


@dataclass(frozen=True)
class RenameColumn(Step):
    feature = "columnMapping"
    name: str
    to: str

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        new = any_column(source, 0, model)
        return cls(source.choice(model.names), new.name) if new is not None else None

    async def run(self, table: Table) -> object:
        return await adelta.rename_column(table, quoted(self.name), self.to)

    def apply(self, model: ModelTable) -> Effect:
        column = model.column(self.name)
        if self.to in model.names or (
            model.needed(column.uid) and column.uid not in (*model.partition_by, *model.cluster_by)
        ):
            raise Refused("another column is called so, or something depends on this one")
        if any(c.generated and c.generated[1] == column.uid for c in model.columns):
            raise Refused("a column is generated from it")
        if any(rule.column == column.name for rule in model.constraints.values()):
            raise Refused("a constraint names it")
        model.alter(column, name=self.to)
        return Effect("RENAME COLUMN")


@dataclass(frozen=True)
class DropColumn(Step):
    feature = "columnMapping"
    name: str

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        free = [c.name for c in model.columns if c.uid not in (0, 1)]
        return cls(source.choice(free)) if free else None

    async def run(self, table: Table) -> object:
        return await adelta.drop_columns(table, [quoted(self.name)])

    def apply(self, model: ModelTable) -> Effect:
        column = model.column(self.name)
        if model.needed(column.uid):
            raise Refused("it is needed")
        model.columns.remove(column)
        return Effect("DROP COLUMNS")


@dataclass(frozen=True)
class Widen(Step):
    feature = "typeWidening"
    name: str
    kind: str

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        free = [c for c in model.columns if c.kind in WIDER and not model.needed(c.uid)]
        # Dates become timestamps only where the table supports these, which is tested by itself.
        free = [c for c in free if c.given and c.uid > 1 and c.default is None and c.kind != "date"]
        if not free:
            return None
        column = source.choice(free)
        return cls(column.name, source.choice(WIDER[column.kind]))

    async def run(self, table: Table) -> object:
        return await adelta.change_column(table, quoted(self.name), type=self.kind)

    def apply(self, model: ModelTable) -> Effect:
        column = model.column(self.name)
        if self.kind not in WIDER.get(column.kind, ()):
            raise Refused(f"{column.kind} does not widen to {self.kind}")
        model.alter(column, kind=self.kind)
        return Effect("CHANGE COLUMN")


@dataclass(frozen=True)
class MoveColumn(Step):
    name: str
    after: str | None

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        name = source.choice(model.names)
        return cls(name, source.choice([None, *(n for n in model.names if n != name)]))

    async def run(self, table: Table) -> object:
        name = quoted(self.name)
        if self.after is None:
            return await adelta.change_column(table, name, first=True)
        return await adelta.change_column(table, name, after=self.after)

    def apply(self, model: ModelTable) -> Effect:
        column = model.column(self.name)
        if self.after is not None:
            model.column(self.after)
        before = list(model.columns)
        model.columns.remove(column)
        at = 0 if self.after is None else model.names.index(self.after) + 1
        model.columns.insert(at, column)
        return Effect("CHANGE COLUMN", commits=None if before == model.columns else True)


@dataclass(frozen=True)
class SetDefault(Step):
    name: str
    default: int | None

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        free = [c.name for c in model.columns if c.kind == "bigint" and c.given and c.uid]
        return cls(source.choice(free), source.choice([None, 3, 8])) if free else None

    async def run(self, table: Table) -> object:
        text = "" if self.default is None else str(self.default)
        return await adelta.change_column(table, quoted(self.name), default=text)

    def apply(self, model: ModelTable) -> Effect:
        column = model.column(self.name)
        model.alter(column, default=self.default)
        return Effect("CHANGE COLUMN", commits=None)


@dataclass(frozen=True)
class RequireValues(Step):
    name: str
    nullable: bool

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        free = [c.name for c in model.columns if c.given and c.kind != "struct"]
        return cls(source.choice(free), source.random() < 0.5)

    async def run(self, table: Table) -> object:
        return await adelta.change_column(table, quoted(self.name), nullable=self.nullable)

    def apply(self, model: ModelTable) -> Effect:
        column = model.column(self.name)
        if not self.nullable and any(r.get(column.uid) is None for r in model.rows.values()):
            raise Refused("there are nulls")
        commits = column.nullable != self.nullable
        model.alter(column, nullable=self.nullable)
        return Effect("CHANGE COLUMN", commits=None if not commits else True)
