"""Whether a table is what a model says: contents, changes, row ids, statistics, files, history."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import adelta
from adelta.errors import (
    ChangesNotAvailableError,
    MissingDataFileError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from adelta.kernel.actions.file_actions import decode_path
from adelta.storage.allowed_roots import ALLOWED_ROOTS
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.model.table import ModelTable, Moment, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.snapshot import Snapshot
    from adelta.storage.object_store import ObjectStore
    from tests.support.clock import ManualClock
    from tests.support.model.step import Effect

__all__ = ["FEED", "TRACKING", "Place", "check", "check_feed", "check_files", "contents", "ids_of"]

TRACKING = "delta.enableRowTracking"
FEED = "delta.enableChangeDataFeed"
_EXACT = 32  # letters of a text that statistics give at least


@dataclass
class Place:
    """Where a table is: a root in a space of memory, in which there may be others."""

    space: str
    clock: ManualClock
    root: str = "t0"
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    forgets: bool = False  # whether a checkpoint may have been told to have no statistics

    @property
    def store(self) -> MemoryStore:
        return MemoryStore(self.space, self.root, clock=self.clock)

    @property
    def whole(self) -> MemoryStore:
        """The space, with all of its tables."""
        return MemoryStore(self.space, clock=self.clock)

    def open(self, store: ObjectStore | None = None) -> Table:
        """A handle that may follow a shallow clone to its origin, and knows nothing yet."""
        roots = {ALLOWED_ROOTS: json.dumps([f"memory://{self.space}"])}
        store = store or self.store
        return Table(store.uri, roots, store=store, clock=self.clock)


async def contents(snapshot: Snapshot, key: str) -> dict[int, dict[str, Any]]:
    """The rows by key, of which each has to be there once."""
    found = (await snapshot.scan().to_arrow()).to_pylist()
    by_key = {row[key]: row for row in found}
    assert len(by_key) == len(found), f"rows are there twice: {sorted(r[key] for r in found)}"
    return by_key


async def ids_of(snapshot: Snapshot, key: str) -> dict[int, tuple[int, int]] | None:
    """Row id and commit version of every row, where the table tracks rows."""
    if snapshot.properties.get(TRACKING) != "true":
        return None
    found = (await snapshot.scan(columns=[key], with_row_ids=True).to_arrow()).to_pylist()
    ids = {row[key]: (row["_row_id"], row["_row_commit_version"]) for row in found}
    assert len({number for number, _ in ids.values()}) == len(ids), f"ids are not unique: {ids}"
    assert not any(None in each for each in ids.values()), f"rows without an id: {ids}"
    return ids


def check_ids(
    model: ModelTable, ids: dict[int, tuple[int, int]], effect: Effect, before: Moment, new: int
) -> None:
    """Rows that live on keep their ids, and those that were not written their versions."""
    if effect.ids == "new":
        return
    then = before.ids if effect.ids == "kept" else model.past[effect.ids].ids
    if then is None:
        return
    for key in ids.keys() & then.keys():
        assert ids[key][0] == then[key][0], f"row {key} had the id {then[key]}, and has {ids[key]}"
        if effect.ids != "kept" or key not in effect.touched:
            assert ids[key] == then[key], f"row {key} was {then[key]}, and is {ids[key]}"
        else:
            assert then[key][1] < ids[key][1] <= new


async def check_feed(
    table: Table, before: ModelTable, after: ModelTable, first: int, last: int
) -> bool:
    """The changes of these versions turn the rows before into those after; whether it was asked."""
    columns = [c for c in after.columns if any(c.uid == other.uid for other in before.columns)]
    key = after.key.name
    come: Counter[str] = Counter()
    try:
        async for batch in adelta.changes(table, since=first, until=last):
            for row in batch.to_pylist():
                if row[key] is None:  # of a table that this one has replaced
                    return False
                gone = row["_change_type"] in ("delete", "update_preimage")
                come[_said(row[c.name] for c in columns)] += -1 if gone else 1
    except (ChangesNotAvailableError, SchemaMismatchError, MissingDataFileError):
        return False
    for model, sign in ((before, 1), (after, -1)):
        for row in model.rows.values():
            come[_said(row.get(c.uid) for c in columns)] += sign
    wrong = {row: count for row, count in come.items() if count}
    assert not wrong, f"the change data feed of versions {first} to {last} is off by {wrong}"
    return True


def _said(values: Iterable[Any]) -> str:
    return repr([plain(value) for value in values])


# ------------------------------------------------------------------------------- files, statistics


async def check_files(place: Place, snapshot: Snapshot) -> None:
    """Every live file is there, and its statistics are those of its bytes."""
    known = place.facts
    texts = snapshot.properties.get("delta.checkpoint.writeStatsAsJson", "true")
    columns = snapshot.properties.get("delta.checkpoint.writeStatsAsStruct", "false")
    place.forgets |= (texts, columns) == ("false", "false")
    for file in await snapshot.add_files():
        path = decode_path(file.path)
        uri = path if path.startswith("memory:") else f"memory://{place.space}/{place.root}/{path}"
        if uri not in known:
            data = await place.whole.get(uri.removeprefix(f"memory://{place.space}/"))
            assert len(data) == file.size, f"{path} has {len(data)} bytes, not {file.size}"
            known[uri] = _facts(data)
        _check_statistics(file, known[uri], strict=not place.forgets)


def _facts(data: bytes) -> dict[str, Any]:
    rows = pq.ParquetFile(io.BytesIO(data)).read()
    leaves: dict[str, list[Any]] = {}
    for name in rows.column_names:
        values = rows.column(name).to_pylist()
        if values and any(isinstance(value, dict) for value in values):
            inner = {key for value in values if value for key in value}
            for key in inner:
                leaves[f"{name}\0{key}"] = [value and value.get(key) for value in values]
        else:
            leaves[name] = values
    return {"rows": rows.num_rows, "leaves": leaves}


def _check_statistics(file: AddFile, facts: dict[str, Any], *, strict: bool) -> None:
    stats = json.loads(file.stats or "{}")
    assert stats or not strict, f"{file.path} has no statistics"
    assert stats.get("numRecords", facts["rows"]) == facts["rows"]
    for kind in ("nullCount", "minValues", "maxValues"):
        for name, stated in _leaves(stats.get(kind) or {}):
            values = facts["leaves"].get(name)
            where = f"{kind} of {name!r} of {file.path}"
            if values is None:  # a column that the file lacks, or a struct of nulls alone
                assert kind == "nullCount", where
                assert stated == facts["rows"], where
                continue
            if kind == "nullCount":
                assert stated == sum(value is None for value in values), where
                continue
            present = [v for v in values if v is not None and v == v]
            assert present, f"{where}: there are no values"
            if kind == "minValues":
                _check_bound(where, stated, min(present), lower=True)
            else:
                _check_bound(where, stated, max(present), lower=False)


def _leaves(tree: dict[str, Any], above: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}\0")
        else:
            yield above + name, value


def _check_bound(where: str, stated: Any, actual: Any, *, lower: bool) -> None:
    if isinstance(actual, str):
        cut = len(actual) >= _EXACT
        assert (stated <= actual if lower else stated >= actual) if cut else stated == actual, where
        return
    if isinstance(actual, bool):
        assert stated == actual, where
        return
    if isinstance(actual, datetime):
        when = datetime.fromisoformat(stated).replace(tzinfo=UTC)
        gap = (actual.replace(tzinfo=UTC) - when).total_seconds()  # both bounds are cut off
        assert 0 <= gap < 0.001, f"{where}: {stated} is not {actual}"
        return
    if isinstance(actual, date):
        assert date.fromisoformat(stated[:10]) == actual, where
        return
    number = float(stated) if not isinstance(actual, Decimal) else float(str(stated))
    assert math.isclose(number, float(actual)), f"{where}: {stated} is not {actual}"


# ------------------------------------------------------------------------------------------ all


async def check(place: Place, model: ModelTable, handle: Table) -> Snapshot:
    """A reader that knows nothing, and the one that knows much, see what the model says."""
    async with place.open() as fresh:
        snapshot = await fresh.snapshot()
        assert (await handle.snapshot()).version == snapshot.version
        names = [each.name for each in snapshot.delta_schema.fields]
        assert names == model.names
        wrong = model.difference(await contents(snapshot, model.key.name))
        assert wrong is None, wrong
        await snapshot.verify()
        await check_files(place, snapshot)
    return snapshot


async def check_past(place: Place, version: int, then: Moment, *, lost: bool) -> None:
    """A version reads as it did; where it may have been lost it says so."""
    async with place.open() as table:
        try:
            snapshot = await table.snapshot(version=version)
            found = await contents(snapshot, then.table.key.name)
        except (MissingDataFileError, VersionNotFoundError):
            assert lost, f"version {version} is lost"
            return
        wrong = then.table.difference(found)
        assert wrong is None, f"version {version}: {wrong}"


__all__ += ["check_ids", "check_past"]
