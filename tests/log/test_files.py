"""Lists of files: what a predicate leaves unread, and that every way to one gives the same."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from contextlib import aclosing
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adelta.errors import MissingCheckpointPartError
from adelta.kernel.actions.file_schemas import ADD_SCHEMA, DELETION_VECTOR
from adelta.kernel.data_skipping.prune import Skipping
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.file_id import file_ids
from adelta.kernel.schema.json import schema_from_string
from adelta.log import checkpoint_row_group as groups_module
from adelta.log import row_group_reader as reader_module
from adelta.log import version_replay as replay_module
from adelta.log.load import load_state
from adelta.log.refresh import refresh_state
from adelta.parquet.reader import ParquetFile
from adelta.storage.memory import MemoryStore
from tests.parquet.recording_store import RecordingStore
from tests.support.logs import (
    Line,
    add,
    metadata,
    protocol,
    put_checkpoint,
    put_commit,
    put_v2_checkpoint,
    remove,
)
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from adelta.log.state import LogState

FIELDS = [("part", "string"), ("day", "date"), ("id", "long"), ("name", "string")]
SCHEMA_STRING = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": n, "type": k, "nullable": True, "metadata": {}} for n, k in FIELDS],
    }
)
SCHEMA = schema_from_string(SCHEMA_STRING)
PARTITIONS = ("part", "day")
ROOT = "memory://lake/t"
VALUES = pa.struct([("id", pa.int64()), ("name", pa.string())])
STATS = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", VALUES),
        ("maxValues", VALUES),
        ("nullCount", pa.struct([("id", pa.int64()), ("name", pa.int64())])),
    ]
)
VECTOR = ("deletionVector", DELETION_VECTOR)
PARSED = [("stats_parsed", STATS), VECTOR]
TYPED = [
    ("partitionValues_parsed", pa.struct([("part", pa.string()), ("day", pa.date32())])),
    *PARSED,
]
TABLE = [protocol(), metadata(schemaString=SCHEMA_STRING, partitionColumns=list(PARTITIONS))]


def skipping(where: str) -> Skipping:
    predicate = to_predicate(where)
    assert predicate is not None
    return Skipping.of(predicate, SCHEMA, PARTITIONS)


def stats(low: int, high: int, **more: Any) -> dict[str, Any]:
    return {
        "numRecords": 10,
        "minValues": {"id": low, "name": f"{low:04}"},
        "maxValues": {"id": high, "name": f"{high:04}"},
        "nullCount": {"id": 0, "name": 0},
    } | more


def file(number: int, *, part: str | None = "a", json_stats: bool = True) -> Line:
    """A file with the ids `10 * number` to `10 * number + 9`."""
    found = stats(number * 10, number * 10 + 9)
    values = {"part": part, "day": "2024-01-01"}
    body = add(f"{number:05}.parquet", partitionValues=values)
    said = {"stats": json.dumps(found)} if json_stats else {"stats_parsed": found}
    return {"add": body["add"] | said}


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture(autouse=True)
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """No checkpoint is small enough to be read whole, and row groups are decoded in many slices."""
    monkeypatch.setattr(replay_module, "_KEPT_WHOLE", 0)
    monkeypatch.setattr(reader_module, "_LOOKED_AT", 100)
    for size in ("_KEPT", "_TYPED"):
        monkeypatch.setattr(groups_module, size, 100)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[Any, ...], tuple[int, ...]]]:
    """Columns and row groups of everything that is fetched of a Parquet file."""
    seen: list[tuple[tuple[Any, ...], tuple[int, ...]]] = []
    original = ParquetFile.fetch

    async def fetch(self: ParquetFile, columns: Any, *, row_groups: Any, **rest: Any) -> Any:
        seen.append((tuple(columns), tuple(row_groups)))
        return await original(self, columns, row_groups=row_groups, **rest)

    monkeypatch.setattr(ParquetFile, "fetch", fetch)
    return seen


async def names(state: LogState, where: str) -> list[str]:
    found = await state.files_matching(skipping(where))
    return sorted(path.removesuffix(".parquet") for path in found.table.column("path").to_pylist())


def fields(read: tuple[tuple[Any, ...], tuple[int, ...]]) -> set[str]:
    return {column[1] for column in read[0]}


async def test_partition_values_decide_first_and_alone(store: CountingStore, reads: Any) -> None:
    lines = [file(n, part="ab"[n // 50]) for n in range(100)]
    await put_checkpoint(store, 3, [*TABLE, *lines], row_group_size=10)
    state = await load_state(store)
    reads.clear()
    assert await names(state, "part = 'c'") == []
    assert all(fields(read) == {"partitionValues"} for read in reads)
    reads.clear()
    assert len(await names(state, "part = 'b'")) == 50
    groups = [group for read in reads if "path" in fields(read) for group in read[1]]
    assert sorted(groups) == [5, 6, 7, 8, 9, 10], "groups of the other partition stay unread"


async def test_typed_statistics_exclude_row_groups_by_the_footer_alone(
    store: CountingStore, reads: Any
) -> None:
    lines = [file(n, json_stats=False) for n in range(100)]
    await put_checkpoint(
        store, 3, [*TABLE, *lines], row_group_size=10, add_fields=PARSED, without=["stats"]
    )
    state = await load_state(store)
    reads.clear()
    assert await names(state, "id = 555") == ["00055"]
    assert {group for _, groups in reads for group in groups} == {5}
    named = [column for column in reads[0][0] if len(column) > 3]
    assert named
    assert all(column[3] == "id" for column in named), "only what the predicate names"
    reads.clear()
    assert await names(state, "id = 10000") == []
    assert reads == []


async def test_json_is_parsed_for_files_that_their_partition_leaves(
    store: CountingStore, reads: Any
) -> None:
    lines = [file(n, part="ab"[n // 50]) for n in range(100)]
    await put_checkpoint(store, 3, [*TABLE, *lines], row_group_size=10)
    state = await load_state(store)
    reads.clear()
    assert await names(state, "part = 'b' AND id = 555") == ["00055"]
    for read in reads:
        if "stats" in fields(read):
            assert read[1][0] >= 5
        if "path" in fields(read):
            assert read[1] == (5,)


async def test_columns_that_nobody_asks_for_are_not_read(store: CountingStore, reads: Any) -> None:
    await put_checkpoint(store, 3, [*TABLE, *(file(n) for n in range(9))])
    state = await load_state(store)
    reads.clear()
    found = await state.files_matching(columns=("size",))
    assert found.table.schema.names == ["size"]
    assert found.num_files == 9
    assert [fields(read) for read in reads] == [{"path", "size"}]


async def test_what_a_predicate_was_answered_by_is_not_fetched_again() -> None:
    store = RecordingStore()
    noise = random.Random(0)
    lines = [file(n, part="ab"[n // 50]) for n in range(100)]
    for line in lines:  # so much that the footer's read brings none of what is asked for
        line["add"]["path"] += noise.randbytes(2000).hex()
        said = json.loads(line["add"]["stats"]) | {"noise": noise.randbytes(2000).hex()}
        line["add"]["stats"] = json.dumps(said)
    await put_checkpoint(store, 3, [*TABLE, *lines])
    state = await load_state(store)
    store.asked()
    columns = ["path", "partition_values", "stats", "size"]
    found = await state.files_matching(skipping("part = 'b' and id = 555"), columns)
    assert found.num_files == 1
    ranges = [r for kind, asked in store.asked() if kind == "ranges" for r in asked]
    assert len(ranges) >= 2
    for (_, end), (start, _) in pairwise(sorted(ranges)):
        assert end <= start


@pytest.mark.parametrize(
    "values",
    [
        {"part": "a", "day": "2024-01-01"},
        {"part": None, "day": "2024-01-01"},
        {"day": "2024-01-01", "part": "a"},
        {"part": "a"},
        {},
    ],
)
async def test_partition_values_are_as_the_log_has_them(
    store: CountingStore, values: dict[str, str | None]
) -> None:
    lines = [file(n) for n in range(40)]
    lines[27]["add"]["partitionValues"] = values
    await put_checkpoint(store, 3, [*TABLE, *lines])
    table = (await (await load_state(store)).files()).table
    usual = {"part": "a", "day": "2024-01-01"}
    paths = table.column("path").to_pylist()
    found = [dict(pairs) for pairs in table.column("partition_values").to_pylist()]
    expected = {f"{n:05}.parquet": usual if n != 27 else values for n in range(40)}
    assert dict(zip(paths, found, strict=True)) == expected
    table.validate(full=True)


async def test_statistics_come_as_text_from_wherever_they_are(store: CountingStore) -> None:
    lines = [file(n, json_stats=n % 3 == 0) for n in range(60)]
    await put_checkpoint(store, 3, [*TABLE, *lines], row_group_size=25, add_fields=PARSED)
    state = await load_state(store)
    table = (await state.files()).table
    texts = [json.loads(text) for text in table.column("stats").to_pylist()]
    assert [text["minValues"]["id"] for text in texts] == [n * 10 for n in range(60)]
    assert await names(state, "id = 555") == ["00055"]
    assert await names(state, "id = 573") == ["00057"]


async def test_files_that_statistics_leave_out_are_kept(store: CountingStore) -> None:
    lines = [file(n, json_stats=False) for n in range(20)]
    lines[15]["add"]["stats_parsed"] = None
    lines[16]["add"]["stats_parsed"] |= {"minValues": None}
    await put_checkpoint(
        store, 3, [*TABLE, *lines], row_group_size=5, add_fields=PARSED, without=["stats"]
    )
    assert await names(await load_state(store), "id = 12") == ["00001", "00015", "00016"]


async def test_either_form_of_statistics_is_used_file_by_file(store: CountingStore) -> None:
    lines = [file(n, json_stats=n % 2 == 0) for n in range(20)]
    await put_checkpoint(store, 3, [*TABLE, *lines], row_group_size=7, add_fields=PARSED)
    state = await load_state(store)
    assert await names(state, "id >= 95 AND id < 115") == ["00009", "00010", "00011"]
    texts = (await state.files()).table.column("stats").to_pylist()
    assert [json.loads(text)["minValues"]["id"] for text in texts] == [n * 10 for n in range(20)]


async def test_typed_statistics_come_as_text_where_there_is_no_other(store: CountingStore) -> None:
    lines = [file(n, json_stats=False) for n in range(3)]
    await put_checkpoint(store, 3, [*TABLE, *lines], add_fields=PARSED, without=["stats"])
    files = (await (await load_state(store)).files()).table
    assert [json.loads(text) for text in files.column("stats").to_pylist()] == [
        stats(n * 10, n * 10 + 9) for n in range(3)
    ]


async def test_batches_hold_no_more_than_a_row_group_and_read_no_further_than_asked(
    store: CountingStore, reads: Any
) -> None:
    lines = [file(n) for n in range(400)]
    await put_checkpoint(store, 3, [*TABLE, *lines], row_group_size=10)
    state = await load_state(store)
    reads.clear()
    async with aclosing(state.file_batches()) as batches:
        first = await anext(batches)
    assert first.num_rows <= 10
    assert len(reads) < 20
    sizes = [batch.num_rows async for batch in state.file_batches()]
    assert sum(sizes) == 400
    assert max(sizes) <= 10
    assert not state.files_loaded


async def test_small_checkpoints_are_read_once_for_all_questions(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_module, "_KEPT_WHOLE", 1 << 20)
    await put_checkpoint(store, 3, [*TABLE, *(file(n) for n in range(9))])
    state = await load_state(store)
    assert await names(state, "id = 12") == ["00001"]
    store.requests.clear()
    assert await names(state, "id = 25") == ["00002"]
    assert (await state.files()).num_files == 9
    assert store.count == 0


async def test_a_part_that_is_lost_later_is_made_up_for_by_an_earlier_checkpoint(
    store: CountingStore,
) -> None:
    await put_commit(store, 0, *TABLE, file(0))
    await put_commit(store, 1, file(1))
    await put_v2_checkpoint(store, 1, TABLE, [file(0)], [file(1)])
    await put_commit(store, 2, file(2))
    state = await load_state(store)
    await store.delete([m.path async for page in store.list("_delta_log/_sidecars/") for m in page])
    assert (await state.files()).num_files == 3
    assert await names(state, "id < 15") == ["00000", "00001"]


async def test_a_lost_part_that_nothing_makes_up_for_is_an_error_that_names_it(
    store: CountingStore,
) -> None:
    await put_v2_checkpoint(store, 9, TABLE, [file(0)], [file(1)])
    state = await load_state(store)
    lost = "_delta_log/_sidecars/00000000000000000009-1.parquet"
    await store.delete([lost])
    with pytest.raises(MissingCheckpointPartError, match=lost):
        await state.files()


async def test_a_carried_list_is_brought_up_to_date_without_reading(store: CountingStore) -> None:
    await put_checkpoint(store, 3, [*TABLE, *(file(n) for n in range(40))], row_group_size=10)
    state = await load_state(store)
    before = (await state.files()).table
    await put_commit(store, 4, remove("00012.parquet"), file(99))
    later = await refresh_state(state)
    store.requests.clear()
    after = (await later.files()).table
    assert store.count == 0
    assert after.num_rows == before.num_rows
    assert await names(later, "id < 135 AND id >= 110") == ["00011", "00013"]
    assert await names(later, "id = 995") == ["00099"]


# ------------------------------------------------------------------- against replaying everything

NUMBERS = st.integers(0, 7)
VECTORS = st.sampled_from([None, None, "v1", "v2"])
WHERE = st.sampled_from(
    [
        "part = 'a'",
        "part IS NULL",
        "day = '2024-01-02'",
        "day > '2024-01-01' AND id < 30",
        "id = 25",
        "id IN (5, 61)",
        "id <> 25",
        "NOT (id < 40)",
        "id IS NULL",
        "id IS NOT NULL",
        "name = '0025'",
        "name LIKE '003%'",
        "part = 'b' OR id > 50",
        "part = 'b' AND id < 45",
        "part IS NULL AND id > 20",
        "id > 1000",
        "TRUE",
    ]
)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Line]]:
    """Commits of adds and removes, of files with and without vectors and statistics."""
    live: dict[tuple[int, str | None], Line] = {}
    commits: list[list[Line]] = []
    for _ in range(draw(st.integers(1, 6))):
        lines: list[Line] = []
        for number in draw(st.lists(NUMBERS, max_size=5, unique=True)):
            old = next((key for key in live if key[0] == number), None)
            if old is not None:
                del live[old]
                lines.append(_named("remove", number, old[1]))
            if old is None or draw(st.booleans()):
                vector = draw(VECTORS)
                line = _named("add", number, vector)
                part = draw(st.sampled_from(["a", "b", None]))
                day = draw(st.sampled_from(["2024-01-01", "2024-01-02", None]))
                line["add"]["partitionValues"] = {"part": part, "day": day}
                known = draw(st.sampled_from(["all", "all", "some", "none"]))
                if known != "none":
                    said = stats(number * 10, number * 10 + 9)
                    if known == "some":
                        said |= {"minValues": {}, "maxValues": {"id": number * 10 + 9}}
                    line["add"]["stats"] = json.dumps(said)
                lines.append(line)
                live[number, vector] = line
        commits.append(lines)
    return commits


def _named(kind: str, number: int, vector: str | None) -> Line:
    path = f"x%20{number}.parquet"
    line = add(path) if kind == "add" else remove(path)
    if vector is not None:
        line[kind]["deletionVector"] = {
            "storageType": "i",
            "pathOrInlineDv": vector,
            "sizeInBytes": 1,
            "cardinality": 1,
        }
    return line


def _live(commits: list[list[Line]]) -> list[Line]:
    """The live files, action after action."""
    found: dict[tuple[str, str | None], Line] = {}
    for line in (line for lines in commits for line in lines):
        ((kind, body),) = line.items()
        key = body["path"], (body.get("deletionVector") or {}).get("pathOrInlineDv")
        found.pop(key, None)
        if kind == "add":
            found[key] = line
    return list(found.values())


def _parsed(line: Line, *, keep_text: bool) -> Line:
    body = dict(line["add"])
    text = body.get("stats") if keep_text else body.pop("stats", None)
    if text is not None:
        body["stats_parsed"] = json.loads(text)
    values = body["partitionValues"]
    day = values["day"] and pa.scalar(values["day"]).cast(pa.date32()).as_py()
    return {"add": body | {"partitionValues_parsed": {"part": values["part"], "day": day}}}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(commits=histories(), where=WHERE, data=st.data())
def test_every_way_to_a_list_of_files_gives_what_replaying_all_gives(
    commits: list[list[Line]], where: str, data: st.DataObject
) -> None:
    asyncio.run(check_every_way(commits, where, data))


async def check_every_way(commits: list[list[Line]], where: str, data: st.DataObject) -> None:
    store = MemoryStore()
    for version, lines in enumerate(commits):
        await put_commit(store, version, *(TABLE if version == 0 else ()), *lines)
    at = data.draw(st.none() | st.integers(0, len(commits) - 1), "checkpoint")
    if at is not None:
        await _put_some_checkpoint(store, at, _live(commits[: at + 1]), data)
    state = await load_state(store)

    table = _table(_live(commits))
    wanted = skipping(where)
    expected = Counter(file_ids(wanted.candidates(table), ROOT).to_pylist())
    lazily = await state.files_matching(wanted)
    assert Counter(file_ids(lazily.table, ROOT).to_pylist()) == expected
    streamed = [b async for b in state.file_batches(wanted, ["path", "deletion_vector"])]
    assert Counter(key for b in streamed for key in file_ids(b, ROOT).to_pylist()) == expected
    sizes = [b async for b in state.file_batches(wanted, ["size"])]
    assert sum(b.num_rows for b in sizes) == sum(expected.values())
    whole = (await state.files()).table
    assert whole.schema.equals(ADD_SCHEMA)
    assert Counter(file_ids(whole, ROOT).to_pylist()) == Counter(file_ids(table, ROOT).to_pylist())
    assert _by_key(whole, "partition_values") == _by_key(table, "partition_values")
    assert _stats(whole) == _stats(table)
    again = await state.files_matching(wanted)
    assert Counter(file_ids(again.table, ROOT).to_pylist()) == expected


async def _put_some_checkpoint(
    store: MemoryStore, version: int, live: list[Line], data: st.DataObject
) -> None:
    form = data.draw(st.sampled_from(["json", "parsed", "both"]), "statistics")
    kind = data.draw(st.sampled_from(["classic", "parts", "v2"]), "kind")
    if kind == "v2":  # its writer knows the plain form alone
        half = len(live) // 2
        if any("deletionVector" in one["add"] for one in live):
            kind = "classic"
        else:
            await put_v2_checkpoint(store, version, TABLE, live[:half], live[half:])
            return
    options: dict[str, Any] = {"row_group_size": data.draw(st.integers(1, 4), "rows")}
    options["add_fields"] = [VECTOR] if form == "json" else TYPED
    if form != "json":
        live = [_parsed(line, keep_text=form == "both") for line in live]
        options["without"] = [] if form == "both" else ["stats"]
    half = len(live) // 2
    parts = [[*TABLE, *live]] if kind == "classic" else [live[:half], [*live[half:], *TABLE]]
    await put_checkpoint(store, version, *parts, **options)


def _table(lines: list[Line]) -> pa.Table:
    rows = [
        {
            "path": line["add"]["path"],
            "partition_values": list(line["add"]["partitionValues"].items()),
            "stats": line["add"].get("stats"),
            "deletion_vector": line["add"].get("deletionVector"),
        }
        for line in lines
    ]
    return pa.Table.from_pylist(rows, schema=ADD_SCHEMA)


def _by_key(table: pa.Table, column: str) -> dict[str, Any]:
    keys, values = file_ids(table, ROOT).to_pylist(), table.column(column).to_pylist()
    return dict(zip(keys, values, strict=True))


def _stats(table: pa.Table) -> dict[str, Any]:
    return {
        key: text and {k: v for k, v in orjson.loads(text).items() if v}
        for key, text in _by_key(table, "stats").items()
    }
