"""Steps that arrange files, give up or bring back versions, and see to the log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import adelta
from adelta.kernel.schema.types import StructField, StructType
from tests.support.model.step import Effect, Step
from tests.support.model.table import (
    Column,
    Condition,
    ModelTable,
    Refused,
    any_column,
    quoted,
)

if TYPE_CHECKING:
    import random

    from adelta.table import Table

__all__ = ["Optimize", "Reorg", "ReplaceTable", "Restore", "Upkeep", "Vacuum"]


@dataclass(frozen=True)
class Optimize(Step):
    zorder_by: tuple[str, ...] = ()
    where: Condition | None = None
    full: bool = False

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        parts = [c for c in model.columns if c.uid in model.partition_by and c.kind == "string"]
        where = Condition(source.choice(parts).name, "=", "x") if parts else None
        where = where if source.random() < 0.4 else None
        free = [c.name for c in model.columns if c.uid in (0, 1)]
        free = [name for name in free if model.column(name).uid not in model.partition_by]
        if model.cluster_by:
            return cls(full=source.random() < 0.5)
        some = source.sample(free, source.randint(1, len(free))) if source.random() < 0.5 else []
        return cls(tuple(some), where)

    async def run(self, table: Table) -> object:
        return await adelta.optimize(
            table,
            where=self.where and self.where.sql(),
            zorder_by=[quoted(name) for name in self.zorder_by] or None,
            full=self.full,
        )

    def apply(self, model: ModelTable) -> Effect:
        for name in self.zorder_by:
            model.column(name)
        if self.zorder_by and model.cluster_by:
            raise Refused("it is clustered")
        if self.where is not None and model.column(self.where.column).uid not in model.partition_by:
            raise Refused("it is not about partitions")
        return Effect("OPTIMIZE", commits=None)


@dataclass(frozen=True)
class Reorg(Step):
    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        return cls()

    async def run(self, table: Table) -> object:
        return await adelta.reorg_purge(table)

    def apply(self, model: ModelTable) -> Effect:
        return Effect("REORG", commits=None)


@dataclass(frozen=True)
class Vacuum(Step):
    mode: Literal["full", "lite"]
    at_once: bool

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        return cls("lite" if source.random() < 0.3 else "full", source.random() < 0.5)

    async def run(self, table: Table) -> object:
        if not self.at_once:
            return await adelta.vacuum(table, mode=self.mode)
        return await adelta.vacuum(
            table, mode=self.mode, retention=timedelta(0), enforce_retention=False
        )

    def apply(self, model: ModelTable) -> Effect:
        return Effect("VACUUM END", commits=None)


@dataclass(frozen=True)
class Restore(Step):
    version: int

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        earlier = sorted(model.past)[:-1]
        return cls(source.choice(earlier)) if earlier else None

    async def run(self, table: Table) -> object:
        return await adelta.restore(table, version=self.version)

    def apply(self, model: ModelTable) -> Effect:
        then = model.past[self.version].table
        model.columns, model.rows = list(then.columns), dict(then.rows)
        model.constraints = dict(then.constraints)
        model.partition_by, model.cluster_by = then.partition_by, then.cluster_by
        return Effect("RESTORE", ids=self.version)


@dataclass(frozen=True)
class ReplaceTable(Step):
    properties: dict[str, str]
    columns: list[Column]
    partition_by: tuple[int, ...]

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        columns = [Column(0, "key", "bigint"), Column(1, "n", "bigint")]
        text = Column(keys[-1] + 100_000, "p", "string")
        more = any_column(source, keys[-1] + 1000, replace(model, columns=columns))
        assert more is not None
        mode = source.choice(["none", "name", "id"])
        properties = {} if mode == "none" else {"delta.columnMapping.mode": mode}
        if source.random() < 0.5:
            properties["delta.enableChangeDataFeed"] = "true"
        if mode == "none":
            more = replace(more, name="a")
        return cls(properties, [*columns, text, more], source.choice([(), (text.uid,)]))

    async def run(self, table: Table) -> object:
        fields = StructType(tuple(StructField(c.name, c.type) for c in self.columns))
        partition_by = [c.name for c in self.columns if c.uid in self.partition_by]
        return await adelta.replace_table(
            table, fields, partition_by=partition_by, properties=self.properties
        )

    def apply(self, model: ModelTable) -> Effect:
        model.columns, model.rows, model.constraints = list(self.columns), {}, {}
        model.partition_by, model.cluster_by = self.partition_by, ()
        return Effect("REPLACE TABLE", ids="new")


@dataclass(frozen=True)
class Upkeep(Step):
    """What commits nothing, or statistics alone."""

    what: str

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        return cls(
            source.choice(["checkpoint", "compact_log", "cleanup_log", "analyze", "manifest"])
        )

    async def run(self, table: Table) -> object:
        match self.what:
            case "checkpoint":
                return await adelta.checkpoint(table)
            case "compact_log":
                return await adelta.compact_log(table)
            case "cleanup_log":
                return await adelta.cleanup_log(table, retention=timedelta(days=1))
            case "analyze":
                return await adelta.analyze(table)
        return await adelta.generate_manifest(table)

    def apply(self, model: ModelTable) -> Effect:
        commits = None if self.what == "analyze" else False
        return Effect("COMPUTE STATS", commits=commits)
