"""Steps that change properties, constraints, features and clustering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import adelta
from tests.support.model.step import Effect, Step
from tests.support.model.table import (
    WHOLE,
    Condition,
    ModelTable,
    Refused,
    quoted,
)

if TYPE_CHECKING:
    import random

    from adelta.table import Table

__all__ = [
    "SWITCHES",
    "AddConstraint",
    "AddFeature",
    "ClusterBy",
    "DropConstraint",
    "DropFeature",
    "SetProperties",
    "UnsetProperties",
]

SWITCHES: dict[str, tuple[str, ...]] = {
    "delta.enableDeletionVectors": ("true", "false"),
    "delta.enableChangeDataFeed": ("true", "false"),
    "delta.enableRowTracking": ("true", "false"),
    "delta.enableInCommitTimestamps": ("true", "false"),
    "delta.checkpointPolicy": ("v2", "classic"),
    "delta.enableTypeWidening": ("true", "false"),
    "delta.columnMapping.mode": ("name",),
    "delta.checkpointInterval": ("2", "3", "10"),
    "delta.checkpoint.writeStatsAsStruct": ("true", "false"),
    "delta.checkpoint.writeStatsAsJson": ("true", "false"),
    "delta.autoOptimize.autoCompact": ("true", "false"),
    "delta.autoOptimize.optimizeWrite": ("true", "false"),
    "delta.randomizeFilePrefixes": ("true", "false"),
    "delta.targetFileSize": ("2kb", "128mb"),
    "delta.isolationLevel": ("Serializable",),
    "delta.parquet.compression.codec": ("zstd", "snappy", "uncompressed"),
    "adelta.logCompactionInterval": ("2", "3"),
    "adelta.checkpoint.partSize": ("2", "50000"),
    "adelta.checkpoint.v2Format": ("json", "parquet"),
}
"""Properties that may be changed at any time, and their values."""


@dataclass(frozen=True)
class SetProperties(Step):
    properties: dict[str, str]

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        chosen = source.sample(sorted(SWITCHES), source.randint(1, 2))
        return cls({key: source.choice(SWITCHES[key]) for key in chosen})

    async def run(self, table: Table) -> object:
        return await adelta.set_properties(table, self.properties)

    def apply(self, model: ModelTable) -> Effect:
        return Effect("SET TBLPROPERTIES", commits=None)


@dataclass(frozen=True)
class UnsetProperties(Step):
    key: str

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        return cls(source.choice(sorted(SWITCHES.keys() - {"delta.columnMapping.mode"})))

    async def run(self, table: Table) -> object:
        return await adelta.unset_properties(table, [self.key], if_exists=True)

    def apply(self, model: ModelTable) -> Effect:
        return Effect("UNSET TBLPROPERTIES", commits=None)


@dataclass(frozen=True)
class AddConstraint(Step):
    name: str
    rule: Condition

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        whole = [c for c in model.columns if c.kind in WHOLE and not c.identity]
        column = source.choice([c for c in whole if c.uid] or whole)
        bound = source.choice([50, 200, 200, 200])
        return cls(source.choice(["one", "two"]), Condition(column.name, "small", bound))

    async def run(self, table: Table) -> object:
        return await adelta.add_constraint(table, self.name, self.rule.sql())

    def apply(self, model: ModelTable) -> Effect:
        model.column(self.rule.column)
        if self.name in model.constraints:
            raise Refused("there is such a constraint")
        if len(model.matching(self.rule)) < len(model.rows):
            raise Refused("it does not hold")
        model.constraints[self.name] = self.rule
        return Effect("ADD CONSTRAINT")


@dataclass(frozen=True)
class DropConstraint(Step):
    name: str

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        return cls(source.choice(sorted(model.constraints))) if model.constraints else None

    async def run(self, table: Table) -> object:
        return await adelta.drop_constraint(table, self.name)

    def apply(self, model: ModelTable) -> Effect:
        if self.name not in model.constraints:
            raise Refused("there is no such constraint")
        del model.constraints[self.name]
        return Effect("DROP CONSTRAINT")


_LASTING = ("appendOnly", "identityColumns", "invariants", "generatedColumns")
FEATURES = (
    "deletionVectors",
    "changeDataFeed",
    "rowTracking",
    "inCommitTimestamp",
    "v2Checkpoint",
    "typeWidening",
    "columnMapping",
    "checkConstraints",
    "allowColumnDefaults",
    "generatedColumns",
    "identityColumns",
    "clustering",
    "domainMetadata",
    "vacuumProtocolCheck",
    "appendOnly",
    "invariants",
    "timestampNtz",
)


@dataclass(frozen=True)
class AddFeature(Step):
    name: str

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        return cls(source.choice(FEATURES))

    async def run(self, table: Table) -> object:
        return await adelta.add_feature(table, self.name)

    def apply(self, model: ModelTable) -> Effect:
        return Effect("SET TBLPROPERTIES", commits=None)


@dataclass(frozen=True)
class DropFeature(Step):
    name: str

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        there = [name for name in model.features if name not in _LASTING]
        return cls(source.choice(there or FEATURES))

    async def run(self, table: Table) -> object:
        return await adelta.drop_feature(table, self.name)

    def apply(self, model: ModelTable) -> Effect:
        return Effect("DROP FEATURE", commits=None)


@dataclass(frozen=True)
class ClusterBy(Step):
    names: tuple[str, ...]

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        free = [c.name for c in model.columns if c.uid in (0, 1)]
        return cls(tuple(source.sample(free, source.randint(0, 2))))

    async def run(self, table: Table) -> object:
        return await adelta.cluster_by(table, [quoted(name) for name in self.names])

    def apply(self, model: ModelTable) -> Effect:
        wanted = tuple(model.column(name).uid for name in self.names)
        if model.partition_by and wanted:
            raise Refused("it is partitioned")
        model.cluster_by = wanted
        return Effect("CLUSTER BY", commits=None)
