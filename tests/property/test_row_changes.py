"""Changes of rows, any in any order: the table, its change feed and its row ids agree with a model.

A table with random features takes random appends, deletes, updates, overwrites of rows under a
condition, compactions of nothing but the log (checkpoints), while a list in Python does the same.
After every step a fresh reader sees the list's rows; the change data feed turns the list before
into the list after; and each row that stayed, or only changed its values, has the id that it had.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adelta.sync

if TYPE_CHECKING:
    from collections.abc import Callable

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


CONDITIONS = st.one_of(
    st.integers(0, 60).map(keys_below),
    st.integers(0, 60).map(keys_from),
    st.integers(2, 7).map(remainder),
    st.integers(-2, 9).map(values_above),
    st.sampled_from(PARTS).map(part),
)
ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(-3, 9)), st.sampled_from(PARTS)),
    min_size=1,
    max_size=12,
)


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


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), ROWS),
        st.tuples(st.just("append"), ROWS),
        st.tuples(st.just("delete"), CONDITIONS),
        st.tuples(st.just("update"), CONDITIONS, st.integers(-3, 9)),
        st.tuples(st.just("move"), CONDITIONS, st.sampled_from(PARTS)),
        st.tuples(st.just("replace"), CONDITIONS, ROWS),
        st.tuples(st.just("checkpoint")),
    ),
    min_size=2,
    max_size=9,
)
FEATURES = st.fixed_dictionaries(
    {},
    optional={
        "delta.enableDeletionVectors": st.just("true"),
        "delta.enableRowTracking": st.just("true"),
        "delta.columnMapping.mode": st.sampled_from(["name", "id"]),
        "delta.checkpointInterval": st.just("2"),
    },
)


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


def told(uri: str, version: int) -> tuple[Counter[Row], Counter[Row]]:
    """What the feed says went, and what came, in one version."""
    gone: Counter[Row] = Counter()
    come: Counter[Row] = Counter()
    with adelta.sync.open_table(uri) as table:
        for batch in adelta.sync.changes(table, since=version, until=version):
            for row in batch.to_pylist():
                target = gone if row["_change_type"] in ("delete", "update_preimage") else come
                target[(row["key"], row["n"], row["p"])] += 1
    return gone, come


def read(uri: str, *, tracked: bool) -> tuple[list[Row], dict[int, int]]:
    with adelta.sync.open_table(uri) as table:
        found = table.snapshot().scan(with_row_ids=tracked).to_arrow().to_pydict()
    rows = list(zip(found["key"], found["n"], found["p"], strict=True))
    ids = dict(zip(found["key"], found["_row_id"], strict=True)) if tracked else {}
    return rows, ids


@pytest.mark.timeout(600)
@settings(max_examples=60)
@given(features=FEATURES, feed=st.booleans(), partitioned=st.booleans(), steps=STEPS)
def test_tables_feeds_and_ids_agree_with_a_model(
    features: dict[str, str], feed: bool, partitioned: bool, steps: list[tuple[Any, ...]]
) -> None:
    uri = f"memory://{uuid.uuid4()}/table"
    properties = {**features, **({"delta.enableChangeDataFeed": "true"} if feed else {})}
    partition_by = ["p"] if partitioned else []
    tracked = "delta.enableRowTracking" in features
    model = Model()
    with adelta.sync.create_table(
        uri, SCHEMA, partition_by=partition_by, properties=properties
    ) as table:
        ids: dict[int, int] = {}
        for step in steps:
            before, version = list(model.rows), table.snapshot().version
            carry_out(table, model, step)
            rows, now = read(uri, tracked=tracked)
            assert sorted(rows, key=repr) == sorted(model.rows, key=repr)
            assert len(set(now.values())) == len(now)
            assert all(now[key] == ids[key] for key in now.keys() & ids.keys())
            ids = now
            after = table.snapshot().version
            if feed and after > version:
                gone, come = told(uri, after)
                assert Counter(before) - gone + come == Counter(model.rows)
                assert not gone - Counter(before)
