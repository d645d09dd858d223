"""MERGE against a model: plain rows, judged one by one as Delta's rules say (C6-03 to C6-08)."""

from __future__ import annotations

import pickle
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adelta.changes import changes
from adelta.errors import InvariantViolationError
from adelta.operations import create_table, merge, write_table
from adelta.table import Table, open_table
from adelta.write.task_executor import InProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adelta.storage.roots import StoreRoots

SCHEMA = pa.schema([("id", pa.float64()), ("p", pa.string()), ("n", pa.int64())])
Row = tuple[Any, Any, Any]
NAN = float("nan")
IDS = st.sampled_from([None, NAN, -0.0, 0.0, 1.0, 2.0, 3.0, 4.0])
PARTITIONS = st.sampled_from([None, "x", "y"])
NUMBERS = st.one_of(st.none(), st.integers(0, 5))
ROWS = st.lists(st.tuples(IDS, PARTITIONS, NUMBERS), max_size=7)
PROPERTIES = st.sampled_from(
    [
        {},
        {"delta.enableDeletionVectors": "true"},
        {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"},
    ]
)


def key(value: Any) -> Any:
    """What equals another one where Spark takes the two for equal."""
    return "NaN" if value != value else value


def equal(left: Any, right: Any) -> bool | None:
    return None if left is None or right is None else key(left) == key(right)


def same(left: Any, right: Any) -> bool:
    return left is right is None or equal(left, right) is True


def less(left: Any, right: Any) -> bool | None:
    return None if left is None or right is None else left < right


def both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


@dataclass(frozen=True)
class Condition:
    """SQL, and what it says of a row of the target and one of the source."""

    sql: str
    holds: Callable[[Row, Row], bool | None]

    def __repr__(self) -> str:
        return self.sql


ON = [
    Condition("target.id = source.id", lambda t, s: equal(t[0], s[0])),
    Condition("source.id <=> target.id", lambda t, s: same(t[0], s[0])),
    Condition(
        "target.id = source.id AND target.p = source.p",
        lambda t, s: both(equal(t[0], s[0]), equal(t[1], s[1])),
    ),
    Condition(
        "target.p <=> source.p AND target.id = source.id AND target.n < source.n + 2",
        lambda t, s: both(
            both(same(t[1], s[1]), equal(t[0], s[0])),
            less(t[2], None if s[2] is None else s[2] + 2),
        ),
    ),
    Condition("target.n < source.n", lambda t, s: less(t[2], s[2])),
    Condition(
        "target.id = source.id AND target.p = 'x'",
        lambda t, s: both(equal(t[0], s[0]), equal(t[1], "x")),
    ),
    Condition("false", lambda t, s: False),
]
MATCHED = [
    Condition("target.n < source.n", lambda t, s: less(t[2], s[2])),
    Condition("source.p = 'y'", lambda t, s: equal(s[1], "y")),
    Condition("target.p IS NULL", lambda t, s: t[1] is None),
]
OF_SOURCE = [
    Condition("source.n < 3", lambda t, s: less(s[2], 3)),
    Condition("source.p = 'x'", lambda t, s: equal(s[1], "x")),
]
OF_TARGET = [
    Condition("target.n < 3", lambda t, s: less(t[2], 3)),
    Condition("target.p = 'x'", lambda t, s: equal(t[1], "x")),
]
UPDATES: list[tuple[dict[str, Any] | None, Callable[[Row, Row], Row]]] = [
    (None, lambda t, s: s),
    ({"n": "source.n"}, lambda t, s: (t[0], t[1], s[2])),
    ({"target.p": "source.p", "n": 9}, lambda t, s: (t[0], s[1], 9)),
]
INSERTS: list[tuple[dict[str, Any] | None, Callable[[Row, Row], Row]]] = [
    (None, lambda t, s: s),
    ({"n": "source.n", "id": "source.id"}, lambda t, s: (s[0], None, s[2])),
]
OWN_UPDATES: list[tuple[dict[str, Any] | None, Callable[[Row, Row], Row]]] = [
    ({"n": "n + 100"}, lambda t, s: (t[0], t[1], None if t[2] is None else t[2] + 100)),
    ({"p": None}, lambda t, s: (t[0], None, t[2])),
]


@dataclass(frozen=True)
class Clause:
    """A clause of the model: whom it takes, and what it makes of them; None where rows go."""

    condition: Condition | None
    values: dict[str, Any] | None = None
    made: Callable[[Row, Row], Row] | None = None

    def takes(self, target: Row, source: Row) -> bool:
        return self.condition is None or self.condition.holds(target, source) is True


def clauses(
    conditions: Sequence[Condition],
    actions: Sequence[tuple[dict[str, Any] | None, Callable[[Row, Row], Row]]],
    *,
    deletes: bool,
) -> st.SearchStrategy[list[Clause]]:
    made = [st.sampled_from(actions)] + [st.just((None, None))] * deletes
    action = st.one_of(*made)
    named = st.tuples(st.sampled_from(conditions), action)
    last = st.tuples(st.one_of(st.none(), st.sampled_from(conditions)), action)
    found = st.one_of(
        st.just([]),
        st.tuples(st.lists(named, max_size=1), last).map(lambda pair: [*pair[0], pair[1]]),
    )
    return found.map(lambda all_: [Clause(c, *a) for c, a in all_])


Takes = tuple[list[Clause], list[Clause], list[Clause]]
CLAUSES: st.SearchStrategy[Takes] = st.tuples(
    clauses(MATCHED, UPDATES, deletes=True),
    clauses(OF_SOURCE, INSERTS, deletes=False),
    clauses(OF_TARGET, OWN_UPDATES, deletes=True),
).filter(any)
NOTHING: Row = (None, None, None)


def first(some: list[Clause], target: Row, source: Row) -> Clause | None:
    return next((clause for clause in some if clause.takes(target, source)), None)


def modelled(
    targets: list[Row], sources: list[Row], on: Condition, takes: Takes
) -> tuple[list[Row], Counter[tuple[str, Row]]] | None:
    """The rows afterwards, and what the change data feed tells; None where rows are ambiguous."""
    matched, not_matched, by_source = takes
    after: list[Row] = []
    told: Counter[tuple[str, Row]] = Counter()
    met: set[int] = set()
    for target in targets:
        pairs = [n for n, s in enumerate(sources) if on.holds(target, s) is True]
        met.update(pairs)
        found = [(first(matched, target, sources[n]), sources[n]) for n in pairs]
        acting = [(clause, source) for clause, source in found if clause is not None]
        if not pairs and (clause := first(by_source, target, NOTHING)) is not None:
            acting = [(clause, NOTHING)]
        if len(acting) > 1 and matched != [Clause(None)]:
            return None
        if not acting:
            after.append(target)
            continue
        clause, source = acting[0]
        if clause.made is None:
            told["delete", printable(target)] += 1
            continue
        row = clause.made(target, source)
        after.append(row)
        told["update_preimage", printable(target)] += 1
        told["update_postimage", printable(row)] += 1
    for n, source in enumerate(sources):
        taken = None if n in met else first(not_matched, NOTHING, source)
        if taken is not None and taken.made is not None:
            row = taken.made(NOTHING, source)
            after.append(row)
            told["insert", printable(row)] += 1
    return after, told


def printable(row: Row) -> Row:
    return (key(row[0]), row[1], row[2])


def table_of(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table([list(c) for c in columns], schema=SCHEMA)


class Elsewhere(InProcess):
    """Runs tasks that were sent somewhere: one for each file, and none knows the others' values."""

    bytes_a_task = 1

    async def run(self, roots: StoreRoots, tasks: Sequence[Any], **options: Any) -> list[Any]:
        sent = [pickle.loads(pickle.dumps(task)) for task in tasks]
        return await super().run(roots, sent, **options)


async def contents(table: Table) -> Counter[Row]:
    found = await (await open_table(table.uri).snapshot()).scan().to_arrow()
    return Counter(printable(tuple(row.values())) for row in found.to_pylist())  # type: ignore[arg-type]


async def ids_of_rows(table: Table) -> dict[int, int]:
    found = await (await open_table(table.uri).snapshot()).scan(with_row_ids=True).to_arrow()
    return {row["_row_id"]: row["_row_commit_version"] for row in found.to_pylist()}


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(
    ROWS,
    ROWS,
    ROWS,
    st.sampled_from(ON),
    CLAUSES,
    PROPERTIES,
    st.sampled_from([(), ("p",)]),
    st.booleans(),
    st.booleans(),
)
async def test_a_merge_does_what_the_model_does(
    early: list[Row],
    late: list[Row],
    sources: list[Row],
    on: Condition,
    takes: Takes,
    properties: dict[str, str],
    partition_by: tuple[str, ...],
    feeds: bool,
    large: bool,
) -> None:
    properties = {**properties, "delta.enableRowTracking": "true"}
    if feeds:
        properties["delta.enableChangeDataFeed"] = "true"
    uri = f"memory://{uuid.uuid4()}/table"
    table = await create_table(uri, SCHEMA, partition_by=partition_by, properties=properties)
    for rows in (early, late):
        await write_table(table, table_of(rows))
    before = await ids_of_rows(table)
    parts = table_of(sources).to_batches(max_chunksize=2)
    source = pa.Table.from_batches(parts, SCHEMA)
    builder = merge(Table(uri, executor=Elsewhere()), source, on.sql)
    if large:  # as a source that the memory does not hold
        builder = replace(builder, _options=replace(builder._options, source_memory=1))
    for clause in takes[0]:
        condition = None if clause.condition is None else clause.condition.sql
        if clause.made is None:
            builder = builder.when_matched_delete(condition)
        elif clause.values is None:
            builder = builder.when_matched_update_all(condition)
        else:
            builder = builder.when_matched_update(clause.values, condition)
    for clause in takes[1]:
        condition = None if clause.condition is None else clause.condition.sql
        if clause.values is None:
            builder = builder.when_not_matched_insert_all(condition)
        else:
            builder = builder.when_not_matched_insert(clause.values, condition)
    for clause in takes[2]:
        condition = None if clause.condition is None else clause.condition.sql
        if clause.values is None:
            builder = builder.when_not_matched_by_source_delete(condition)
        else:
            builder = builder.when_not_matched_by_source_update(clause.values, condition)
    expected = modelled([*early, *late], sources, on, takes)
    if expected is None:
        with pytest.raises(InvariantViolationError, match="several rows of the source"):
            await builder.execute()
        assert await contents(table) == Counter(map(printable, [*early, *late]))
        return
    rows, told = expected
    done = await builder.execute()
    assert await contents(table) == Counter(map(printable, rows))
    assert done.num_source_rows == len(sources)
    counts = Counter(kind for kind, _ in told.elements())
    assert done.num_target_rows_inserted == counts["insert"]
    assert done.num_target_rows_updated == counts["update_postimage"]
    assert done.num_target_rows_deleted == counts["delete"]
    assert (done.version is None) == (not told)
    if done.version is None:
        return
    after = await ids_of_rows(table)
    lived = set(before) & set(after)
    assert len(lived) == len(before) - counts["delete"]
    assert sum(after[each] != before[each] for each in lived) == counts["update_postimage"]
    assert len(after) - len(lived) == counts["insert"]
    if feeds:
        found = [
            (row["_change_type"], printable((row["id"], row["p"], row["n"])))
            async for batch in changes(table, since=done.version)
            for row in batch.to_pylist()
        ]
        assert Counter(found) == told
