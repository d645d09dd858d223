"""A table and its model, and the steps that they have taken together."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import adelta
from adelta.errors import (
    AdeltaError,
    InvalidTableError,
    MissingDataFileError,
    StorageError,
    VersionNotFoundError,
)
from adelta.kernel.log_path import LogFileKind, parse_log_path
from adelta.kernel.schema.types import StructField, StructType
from adelta.operations.create import new_table
from adelta.table import begin
from adelta.write.transaction_request import TransactionRequest
from tests.support.clock import ManualClock
from tests.support.depth import cases
from tests.support.model.checks import (
    FEED,
    Place,
    check,
    check_feed,
    check_ids,
    check_past,
    ids_of,
)
from tests.support.model.column_steps import DropColumn, RenameColumn, SetDefault, Widen
from tests.support.model.definition_steps import (
    SWITCHES,
    AddFeature,
    ClusterBy,
    DropFeature,
    SetProperties,
    UnsetProperties,
)
from tests.support.model.step import Effect, Step, any_condition
from tests.support.model.steps import ARRANGING, STEPS
from tests.support.model.table import Column, ModelTable, Moment, Refused
from tests.support.model.upkeep_steps import ReplaceTable, Restore, Upkeep, Vacuum

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from adelta.snapshot import Snapshot
    from adelta.table import Table

__all__ = ["Run", "any_table", "may_refuse"]

WEEK_MS = 7 * 86_400_000
MODE = "delta.columnMapping.mode"


def any_table(source: random.Random) -> tuple[ModelTable, dict[str, str]]:
    """A table without rows, and its properties."""
    columns = [
        Column(0, "key", "bigint", nullable=source.random() < 0.5),
        Column(1, "n", source.choice(["int", "bigint"])),
        Column(2, "p", "string"),
        Column(3, "s", "struct"),
        Column(4, "x", source.choice(["double", "float", "timestamp", "date", "binary"])),
        Column(5, "w", source.choice(["tinyint", "smallint", "int", "decimal(4,1)"])),
    ]
    if source.random() < 0.3:
        columns.append(Column(6, "g", "bigint", generated=("double", 1)))
    if source.random() < 0.3:
        columns.append(Column(7, "h", "bigint", generated=("rest", 0)))
    if source.random() < 0.3:
        columns.append(Column(8, "d", "bigint", default=7))
    if source.random() < 0.3:
        columns.append(Column(9, "i", "bigint", identity=True))
    uids = {column.uid for column in columns}
    layouts = [(), (2,), (1, 2), (7, 2), (7,)]
    partition_by = source.choice([each for each in layouts if uids.issuperset(each)])
    cluster_by = source.choice([(), (0,), (1, 0)]) if not partition_by else ()
    chosen = source.sample(sorted(SWITCHES), source.randint(0, 8))
    properties = {key: source.choice(SWITCHES[key]) for key in chosen}
    if MODE in properties:
        properties[MODE] = source.choice(["name", "id"])
    model = ModelTable(columns, partition_by=partition_by, cluster_by=cluster_by)
    return model, properties


def _field(model: ModelTable, column: Column) -> StructField:
    metadata: dict[str, Any] = {}
    if column.generated is not None:
        how, uid = column.generated
        name = model.of_uid(uid).name
        text = f"CAST({name} AS BIGINT) * 2" if how == "double" else f"{name} % 3"
        metadata["delta.generationExpression"] = text
    if column.default is not None:
        metadata["CURRENT_DEFAULT"] = str(column.default)
    if column.identity:
        metadata = {
            "delta.identity.start": 1,
            "delta.identity.step": 1,
            "delta.identity.allowExplicitInsert": False,
        }
    return StructField(column.name, column.type, column.nullable, metadata)


def may_refuse(step: Step, properties: dict[str, str]) -> bool:
    """Whether a step that the model can take may be refused for the table's features."""
    if isinstance(step, RenameColumn | DropColumn):
        return properties.get(MODE, "none") == "none"
    if isinstance(step, Widen):
        return properties.get("delta.enableTypeWidening") != "true"
    return isinstance(
        step,
        AddFeature
        | DropFeature
        | SetProperties
        | UnsetProperties
        | ReplaceTable
        | Upkeep
        | Vacuum
        | SetDefault
        | ClusterBy,
    )


@dataclass
class Run:
    """A table in memory and a model of it."""

    place: Place
    model: ModelTable
    properties: dict[str, str]
    handle: Table
    version: int = 0
    keys: int = 0
    others: list[tuple[Place, ModelTable]] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    fed_from: int | None = None
    schema_string: str = ""
    shallow: bool = False

    @classmethod
    async def begin(cls, source: random.Random, space: str | None = None) -> Run:
        """A table with any features."""
        model, properties = any_table(source)
        place = Place(space or uuid.uuid4().hex, ManualClock(tick_ms=1))
        handle = place.open()
        names = {column.uid: column.name for column in model.columns}
        new = new_table(
            StructType(tuple(_field(model, column) for column in model.columns)),
            partition_by=tuple(names[uid] for uid in model.partition_by),
            cluster_by=tuple(names[uid] for uid in model.cluster_by),
            properties=properties,
        )
        async with begin(handle, TransactionRequest(operation="CREATE TABLE"), creates=new):
            pass
        run = cls(place, model, properties, handle)
        snapshot = await check(place, model, handle)
        run.schema_string = snapshot.metadata.schema_string
        await run.seen(snapshot)
        return run

    async def aclose(self) -> None:
        await self.handle.aclose()

    def drawn(self, source: random.Random, *kinds: type[Step]) -> Step | None:
        """A step of any kind, or of these; None where none of its kind makes sense now."""
        (kind,) = source.choices(kinds or list(STEPS), None if kinds else list(STEPS.values()))
        keys = range(self.keys, self.keys + 50)
        self.keys += 50
        widens = self.properties.get("delta.enableTypeWidening") == "true"
        unable = (kind in (RenameColumn, DropColumn) and not self.model.mapped) or (
            kind is Widen and not widens
        )
        if unable and source.random() < 0.9:
            return None
        return kind.draw(source, self.model, keys)

    async def seen(self, snapshot: Snapshot) -> None:
        """Take note of the version that the table has now."""
        last = self.model.past.get(self.version)
        if last is not None and snapshot.version > self.version:
            followed = replace(last, followed_ms=self.place.clock.ms)
            self.model.past[self.version] = followed
        self.version = snapshot.version
        self.properties = dict(snapshot.properties)
        self.model.mapped = self.properties.get(MODE, "none") != "none"
        self.model.features = tuple(sorted(snapshot.protocol.writer_features or ()))
        ids = await ids_of(snapshot, self.model.key.name)
        then = replace(self.model.copy(), past={})
        self.model.past[self.version] = Moment(then, ids)
        if self.properties.get(FEED) != "true":
            self.fed_from = None
        elif self.fed_from is None:
            self.fed_from = self.version

    async def take(self, step: Step, source: random.Random) -> None:
        """Do a step to both, and see whether they agree."""
        clock, before, old = self.place.clock, self.model.past[self.version], self.version
        clock.advance(seconds=5)
        if source.random() < 0.1:
            clock.advance(days=source.choice([1, 8, 40]))
        fed = self.properties.get(FEED) == "true"
        trial, refused = self.model.copy(), None
        effect = Effect("", commits=None)
        try:
            effect = step.apply(trial)
        except Refused as reason:
            refused, trial = reason, self.model
        followed_ms = clock.ms
        try:
            await step.run(self.handle)
        except AdeltaError as error:
            lost = isinstance(step, Restore) and step.version in self.lost
            damaged = isinstance(error, StorageError | InvalidTableError)
            if damaged and not (lost and isinstance(error, MissingDataFileError)):
                raise
            gone = lost or (isinstance(step, Restore) and isinstance(error, VersionNotFoundError))
            if refused is None and not may_refuse(step, self.properties) and not gone:
                raise
            effect, trial = Effect("", commits=None), self.model
        else:
            assert refused is None, f"{step} was done, though {refused}"
        self.model = trial
        if isinstance(step, Vacuum):
            self._give_up(0 if step.at_once else WEEK_MS)
        snapshot = await check(self.place, self.model, self.handle)
        new = snapshot.version
        assert effect.commits in (None, new > old), f"{step}: {old} became {new}"
        earlier = self.model.past
        if new > old:
            await self._check_history(old, new, effect)
        await self.seen(snapshot)
        if new > old:
            self.model.past[old] = replace(earlier[old], followed_ms=followed_ms)
        moment = self.model.past[new]
        if moment.ids is not None:
            check_ids(self.model, dict(moment.ids), effect, before, new)
        if isinstance(step, ARRANGING):
            assert snapshot.metadata.schema_string == self.schema_string
        self.schema_string = snapshot.metadata.schema_string
        if fed and self.properties.get(FEED) == "true" and new > old:
            told = await check_feed(self.handle, before.table, moment.table, old + 1, new)
            if not told:
                assert isinstance(step, ReplaceTable | Restore), f"no feed of {step}"
                self.fed_from = new
        if isinstance(step, Vacuum) and self.fed_from is not None:
            self.fed_from = new
        condition = any_condition(source, self.model)
        count = await (await self.handle.snapshot()).scan(where=condition.sql()).count()
        assert count == len(self.model.matching(condition)), condition.sql()
        await self._check_past(source)

    def _give_up(self, retention_ms: int) -> None:
        """Versions that nobody may want any more, after a VACUUM."""
        until = self.place.clock.ms - retention_ms
        for version, moment in self.model.past.items():
            if moment.followed_ms is not None and moment.followed_ms <= until:
                self.lost.add(version)

    async def _check_history(self, old: int, new: int, effect: Effect) -> None:
        entries = await adelta.history(self.handle, limit=new - old)
        assert [entry.version for entry in entries] == list(range(new, old, -1))
        operations = [entry.operation for entry in entries]
        if effect.operation:
            assert effect.operation in operations, f"{operations} for {effect.operation}"

    async def _check_past(self, source: random.Random) -> None:
        """Some earlier versions read as they did."""
        pages = [meta async for page in self.place.store.list("_delta_log/") for meta in page]
        found = [path for meta in pages if (path := parse_log_path(meta.path)) is not None]
        oldest = min(path.version for path in found if path.kind is LogFileKind.COMMIT)
        self.lost |= {version for version in self.model.past if version < oldest}
        version = source.choice(sorted(self.model.past))
        moment = self.model.past[version]
        await check_past(self.place, version, moment, lost=version in self.lost)

    async def clone(self, *, shallow: bool) -> None:
        """Go on with a clone; the table stays as it is."""
        there = replace(self.place, root=f"t{len(self.others) + 1}")
        target = there.open()
        await adelta.clone(self.handle, target, shallow=shallow)
        self.others.append((self.place, self.model.copy()))
        await self.handle.aclose()
        self.place, self.handle, self.version = there, target, 0
        self.model = replace(self.model.copy(), past={})
        self.lost, self.fed_from = set(), None
        self.shallow |= shallow
        snapshot = await check(there, self.model, target)
        self.schema_string = snapshot.metadata.schema_string
        await self.seen(snapshot)

    async def put_on_disk(self, folder: Path) -> None:
        """Copy the table's objects to a folder, for other engines."""
        store = self.place.store
        async for page in store.list():
            for meta in page:
                file = folder / meta.path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(await store.get(meta.path))

    async def end(self) -> None:
        """Look at everything once more."""
        for version in list(self.model.past)[:: cases(1, 5)]:
            then = self.model.past[version]
            await check_past(self.place, version, then, lost=version in self.lost)
        if self.fed_from is not None and self.fed_from < self.version:
            before = self.model.past[self.fed_from].table
            await check_feed(self.handle, before, self.model, self.fed_from + 1, self.version)
        for place, model in self.others:
            async with place.open() as table:
                await check(place, model, table)
        report = await adelta.fsck(self.handle, deep=True)
        assert report.problems == (), report
        await self.handle.aclose()
