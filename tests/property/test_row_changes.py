"""Changes of rows, any in any order: the table, its change feed and its row ids agree with a model.

A table with random features takes random appends, deletes, updates, overwrites of rows under a
condition, compactions of nothing but the log (checkpoints), while a list in Python does the same.
After every step a fresh reader sees the list's rows; the change data feed turns the list before
into the list after; and each row that stayed, or only changed its values, has the id that it had.
"""

from __future__ import annotations

import os
import random
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta.sync
from tests.support.depth import cases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.s3_server import S3Location

SCHEMA = pa.schema([("key", pa.int64()), ("n", pa.int64()), ("p", pa.string())])
PARTS = ("x", "y z%", None)

Row = tuple[int, int | None, str | None]


@dataclass
class Condition:
    """A condition as SQL and as Python, in which None is what is neither true nor false."""

    sql: str
    holds: Callable[[Row], bool | None]


def keys_below(bound: int) -> Condition:
    return Condition(f"key < {bound}", lambda row: row[0] < bound)


def keys_from(bound: int) -> Condition:
    return Condition(f"key >= {bound}", lambda row: row[0] >= bound)


def remainder(by: int) -> Condition:
    return Condition(f"key % {by} = 0", lambda row: row[0] % by == 0)


def values_above(bound: int) -> Condition:
    return Condition(f"n > {bound}", lambda row: None if row[1] is None else row[1] > bound)


def part(value: str | None) -> Condition:
    if value is None:
        return Condition("p IS NULL", lambda row: row[2] is None)
    return Condition(f"p = '{value}'", lambda row: None if row[2] is None else row[2] == value)


def any_condition(source: random.Random) -> Condition:
    match source.randrange(5):
        case 0:
            return keys_below(source.randint(0, 40))
        case 1:
            return keys_from(source.randint(0, 60))
        case 2:
            return remainder(source.randint(2, 7))
        case 3:
            return values_above(source.randint(-2, 9))
        case _:
            return part(source.choice(PARTS))


def any_values(source: random.Random) -> list[tuple[int | None, str | None]]:
    return [
        (source.choice([None, *range(-3, 10)]), source.choice(PARTS))
        for _ in range(source.randint(1, 12))
    ]


def any_step(source: random.Random) -> tuple[Any, ...]:
    kinds = ("append", "delete", "update", "move", "replace", "checkpoint")
    kind = source.choices(kinds, weights=(4, 6, 4, 2, 4, 1))[0]
    match kind:
        case "append":
            return kind, any_values(source)
        case "delete":
            return kind, any_condition(source)
        case "update":
            return kind, any_condition(source), source.randint(-3, 9)
        case "move":
            return kind, any_condition(source), source.choice(PARTS)
        case "replace":
            return kind, any_condition(source), any_values(source)
        case _:
            return (kind,)


def any_features(source: random.Random) -> dict[str, str]:
    features = {
        "delta.enableDeletionVectors": ["true"],
        "delta.enableRowTracking": ["true"],
        "delta.enableChangeDataFeed": ["true"],
        "delta.columnMapping.mode": ["name", "id"],
        "delta.checkpointInterval": ["2"],
    }
    return {key: source.choice(v) for key, v in features.items() if source.random() < 0.5}


@dataclass
class Model:
    """The rows that there should be, and a key for each new one."""

    rows: list[Row] = field(default_factory=list)
    keys: int = 0

    def numbered(self, values: list[tuple[int | None, str | None]]) -> list[Row]:
        start, self.keys = self.keys, self.keys + len(values)
        return [(start + at, n, p) for at, (n, p) in enumerate(values)]


def table_of(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


def carry_out(table: Any, model: Model, step: tuple[Any, ...]) -> None:
    """Do one step to the table and to the model."""
    match step:
        case ("append", values):
            rows = model.numbered(values)
            adelta.sync.write_table(table, table_of(rows))
            model.rows += rows
        case ("delete", condition):
            gone = [row for row in model.rows if condition.holds(row)]
            done = adelta.sync.delete(table, condition.sql)
            assert (done.num_deleted_rows, done.version is None) == (len(gone), not gone)
            model.rows = [row for row in model.rows if not condition.holds(row)]
        case ("update", condition, by):
            hit = [row for row in model.rows if condition.holds(row)]
            done = adelta.sync.update(table, {"n": f"n + ({by})"}, condition.sql)
            assert done.num_updated_rows == len(hit)
            model.rows = [
                (k, None if n is None else n + by, p) if condition.holds((k, n, p)) else (k, n, p)
                for k, n, p in model.rows
            ]
        case ("move", condition, to):
            text = "NULL" if to is None else f"'{to}'"
            adelta.sync.update(table, {"p": text}, condition.sql)
            model.rows = [
                (k, n, to) if condition.holds((k, n, p)) else (k, n, p) for k, n, p in model.rows
            ]
        case ("replace", condition, values):
            rows = [row for row in model.numbered(values) if condition.holds(row)]
            if not rows:
                return
            adelta.sync.write_table(
                table, table_of(rows), mode="overwrite", replace_where=condition.sql
            )
            model.rows = [row for row in model.rows if not condition.holds(row)] + rows
        case ("checkpoint",):
            adelta.sync.checkpoint(table)


def told(uri: str, options: dict[str, str], version: int) -> tuple[Counter[Row], Counter[Row]]:
    """What the feed says went, and what came, in one version."""
    gone: Counter[Row] = Counter()
    come: Counter[Row] = Counter()
    with adelta.sync.open_table(uri, options) as table:
        for batch in adelta.sync.changes(table, since=version, until=version):
            for row in batch.to_pylist():
                target = gone if row["_change_type"] in ("delete", "update_preimage") else come
                target[(row["key"], row["n"], row["p"])] += 1
    return gone, come


def read(uri: str, options: dict[str, str], *, tracked: bool) -> tuple[list[Row], dict[int, int]]:
    with adelta.sync.open_table(uri, options) as table:
        found = table.snapshot().scan(with_row_ids=tracked).to_arrow().to_pydict()
    rows = list(zip(found["key"], found["n"], found["p"], strict=True))
    ids = dict(zip(found["key"], found["_row_id"], strict=True)) if tracked else {}
    return rows, ids


@pytest.mark.parametrize("seed", range(int(os.environ.get("ADELTA_TEST_SEEDS", cases(60, 12)))))
def test_tables_feeds_and_ids_agree_with_a_model(seed: int) -> None:
    follow(f"memory://{uuid.uuid4()}/table", {}, seed)


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_they_agree_on_local_disk(seed: int, tmp_path: Path) -> None:
    follow(str(tmp_path / "table"), {}, seed)


@pytest.mark.parametrize("seed", range(2000, 2003))
def test_they_agree_on_s3(seed: int, s3_location: S3Location) -> None:
    follow(s3_location.uri, s3_location.storage_options, seed)


def follow(uri: str, options: dict[str, str], seed: int) -> None:
    """Take a table through random steps, and hold it against a model after each of them."""
    source = random.Random(seed)
    properties = any_features(source)
    partition_by = ["p"] if source.random() < 0.5 else []
    feed = "delta.enableChangeDataFeed" in properties
    tracked = "delta.enableRowTracking" in properties
    model = Model()
    with adelta.sync.create_table(
        uri, SCHEMA, partition_by=partition_by, properties=properties, storage_options=options
    ) as table:
        ids: dict[int, int] = {}
        steps = [("append", any_values(source)), *(any_step(source) for _ in range(9))]
        for step in steps:
            before, version = list(model.rows), table.snapshot().version
            carry_out(table, model, step)
            rows, now = read(uri, options, tracked=tracked)
            assert sorted(rows, key=repr) == sorted(model.rows, key=repr)
            assert len(set(now.values())) == len(now)
            assert all(now[key] == ids[key] for key in now.keys() & ids.keys())
            ids = now
            after = table.snapshot().version
            if feed and after > version:
                gone, come = told(uri, options, after)
                assert not gone - Counter(before)
                assert Counter(before) - gone + come == Counter(model.rows)
