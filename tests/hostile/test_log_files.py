"""Damaged commits, checkpoints and hints."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import anyio
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import (
    AdeltaError,
    InvalidTableError,
    MissingCommitError,
    UnsupportedFeatureError,
)
from adelta.kernel.last_checkpoint import MAX_BYTES
from adelta.kernel.log_path import checkpoint_part_path, checkpoint_path, commit_path
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.hostile.reading import everything, failure_of, parquet, table_with
from tests.support import logs

if TYPE_CHECKING:
    from pathlib import Path

ADD = orjson.dumps(logs.add("a.parquet", size=len(parquet())))
DAMAGED_COMMITS = {
    "cut short": ADD[:-7],
    "not UTF-8": ADD.replace(b"a.parquet", b"\xff\xfe.parquet"),
    "half a surrogate": ADD.replace(b"a.parquet", rb"\ud800.parquet"),
    "nested lists": b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "nested objects": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    "open lists": b"[" * 1_000_000,
    "a list": b"[1,2]",
    "a number": b"7",
    "NaN": ADD.replace(b'"size":', b'"size":NaN,"x":'),
    "zeros": bytes(4096),
    "UTF-16": ADD.decode().encode("utf-16"),
    "two actions without a line between": ADD + ADD,
    "Parquet": parquet(),
    "gzip": b"\x1f\x8b\x08\x00" + ADD,
}


@pytest.mark.parametrize("kind", DAMAGED_COMMITS)
async def test_a_damaged_commit_is_one_error_that_names_it(kind: str) -> None:
    failure = await failure_of(await table_with(ADD, DAMAGED_COMMITS[kind]))
    assert isinstance(failure, InvalidTableError)
    assert "version 2" in str(failure)
    assert "restore" in str(failure)


@pytest.mark.parametrize(
    "content",
    [
        ADD + b"\r\n",
        b"\n\n  \n" + ADD,
        b'{"ghost":{"path":7}}\n' + ADD,
        ADD + b'\n{"x":' + b"[" * 500 + b"]" * 500 + b"}",
        ADD + b'\n{"x":[' + b"1," * 500_000 + b"1]}",
    ],
)
async def test_what_the_protocol_does_not_name_is_passed_over(content: bytes) -> None:
    assert (await everything(await table_with(content))).num_rows == 40


async def test_an_empty_commit_changes_nothing() -> None:
    assert (await everything(await table_with(ADD, b""))).num_rows == 40


MEASURED = """
import sys
import adelta.sync
from tests.support.memory import peak_bytes

adelta.sync.open_table(sys.argv[1]).snapshot().files()
before = peak_bytes()
files = adelta.sync.open_table(sys.argv[2]).snapshot().files()
print(files.num_rows, peak_bytes() - before)
"""


async def test_a_line_of_a_hundred_megabytes_is_read_in_a_few_times_its_size(tmp_path) -> None:
    line = b'{"commitInfo":{"userMetadata":"' + b"x" * (100 << 20) + b'"}}\n'
    for name, filler in (("small", b""), ("large", line)):
        store = LocalStore(tmp_path / name)
        await logs.put_commit(store, 0, logs.protocol(), logs.metadata())
        await store.put(commit_path(1), filler + ADD)
    child = [sys.executable, "-c", MEASURED, str(tmp_path / "small"), str(tmp_path / "large")]
    done = await anyio.run_process(child)
    rows, grown = map(int, done.stdout.split())
    assert rows == 1
    assert grown < 600 << 20  # the bytes, the line, the parser's copy and the text


@pytest.mark.parametrize("missing", [1, 2])
async def test_a_gap_is_an_error_that_names_the_version(missing: int) -> None:
    store = await table_with(ADD, ADD, ADD)
    await store.delete([commit_path(missing)])
    failure = await failure_of(store)
    assert isinstance(failure, MissingCommitError)
    assert str(missing) in str(failure)


async def test_versions_beyond_64_bits_are_no_versions() -> None:
    store = await table_with(ADD)
    for name in ("9" * 20 + ".json", "9" * 20 + ".checkpoint.parquet", "9" * 25 + ".json"):
        await store.put(f"_delta_log/{name}", b"x")
    assert (await everything(store)).num_rows == 40


async def test_a_commit_of_the_largest_version_far_away_is_a_gap() -> None:
    store = await table_with(ADD)
    await store.put(f"_delta_log/{2**63 - 1:020d}.json", ADD)
    assert isinstance(await failure_of(store), MissingCommitError)


# ------------------------------------------------------------------------------------- schemas


def _nested(depth: int) -> str:
    text = '"long"'
    for _ in range(depth):
        text = '{"type":"array","elementType":' + text + ',"containsNull":true}'
    return '{"type":"struct","fields":[{"name":"id","type":' + text + ',"nullable":true}]}'


def _columns(*names: str) -> str:
    fields = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in names]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "{",
        "null",
        "[]",
        '"long"',
        '{"type":"struct"}',
        '{"type":"struct","fields":7}',
        '{"type":"struct","fields":[7]}',
        '{"type":"struct","fields":[{"name":"id"}]}',
        '{"type":"struct","fields":[{"type":"long"}]}',
        '{"type":"struct","fields":[{"name":7,"type":"ghost"}]}',
        '{"type":"struct","fields":[{"name":"id","type":"decimal(99,3)"}]}',
        '{"type":"struct","fields":[{"name":"id","type":"decimal(9999999999999999999999,3)"}]}',
        '{"type":"struct","fields":[{"name":"id","type":"long","metadata":7}]}',
        '{"type":"struct","fields":[{"name":"id","type":"long","metadata":["a"]}]}',
        '{"type":"array","elementType":"long"}',
        _nested(250),
        _nested(10_000),
        _columns("id", "ID"),
        _columns("id", "id"),
    ],
)
async def test_a_damaged_schema_is_one_error(schema: str) -> None:
    store = await table_with(orjson.dumps(logs.metadata(schemaString=schema)))
    failure = await failure_of(store)
    assert isinstance(failure, InvalidTableError | UnsupportedFeatureError)
    assert "schema" in str(failure) or "ghost" in str(failure)
    assert "memory:" in str(failure) or "ghost" in str(failure)


async def test_a_schema_of_very_many_columns_is_read() -> None:
    names = [f"c{i}" for i in range(20_000)]
    store = await table_with(orjson.dumps(logs.metadata(schemaString=_columns("id", *names))))
    async with Table("memory://of/tests", store=store) as table:
        snapshot = await table.snapshot()
        assert len(snapshot.schema) == 20_001
        assert await snapshot.scan(columns=["c7"], where="id > 5").count() == 0


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.columnMapping.mode": "sideways"},
        {"delta.checkpointInterval": "-3"},
        {"delta.enableDeletionVectors": "perhaps"},
        {"delta.inCommitTimestampEnablementVersion": "x"},
        {
            "delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "9" * 40,
        },
        {"delta.columnMapping.maxColumnId": "x"},
        {"delta.dataSkippingStatsColumns": "`"},
        {"delta.logRetentionDuration": "interval -1 fortnight"},
        {"delta.minReaderVersion": "\x00"},
        {"": ""},
    ],
)
async def test_damaged_properties_are_one_error_or_do_not_matter(
    properties: dict[str, str],
) -> None:
    features: dict[str, Any] = {"readerFeatures": ["columnMapping"]}
    features["writerFeatures"] = ["columnMapping", "inCommitTimestamp"]
    lines = [logs.protocol(3, 7, **features), logs.metadata(configuration=properties)]
    await failure_of(await table_with(ADD, b"\n".join(map(orjson.dumps, lines))))


# --------------------------------------------------------------------------------- checkpoints

LIVE = [logs.protocol(), logs.metadata(), logs.add("a.parquet", size=len(parquet()))]


async def _checkpointed(content: bytes, *, with_commits: bool) -> MemoryStore:
    store = MemoryStore()
    await store.put("a.parquet", parquet())
    await logs.put_commit(store, 0, *LIVE)
    await logs.put_commit(store, 1, logs.txn("a", 1))
    await store.put(checkpoint_path(1), content)
    await logs.put_hint(store, 1)
    if not with_commits:
        await store.delete([commit_path(0), commit_path(1)])
    return store


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


GOOD = logs.checkpoint_bytes(LIVE)
DAMAGED_CHECKPOINTS = {
    "no Parquet": b"PAR1 nothing of the kind PAR1",
    "cut in half": GOOD[: len(GOOD) // 2],
    "without its last byte": GOOD[:-1],
    "without its first bytes": GOOD[100:],
    "a footer beyond its start": GOOD[:-8] + b"\xff\xff\xff\x7fPAR1",
    "a footer of nothing": GOOD[:-8] + b"\0\0\0\0PAR1",
    "JSON": ADD,
}


@pytest.mark.parametrize("kind", DAMAGED_CHECKPOINTS)
async def test_a_damaged_checkpoint_is_passed_over_where_the_commits_are_there(kind: str) -> None:
    store = await _checkpointed(DAMAGED_CHECKPOINTS[kind], with_commits=True)
    assert (await everything(store)).num_rows == 40


@pytest.mark.parametrize("kind", DAMAGED_CHECKPOINTS)
async def test_a_damaged_checkpoint_without_commits_is_one_error_that_names_it(kind: str) -> None:
    store = await _checkpointed(DAMAGED_CHECKPOINTS[kind], with_commits=False)
    failure = await failure_of(store)
    assert isinstance(failure, InvalidTableError)
    assert "00000000000000000001.checkpoint.parquet" in str(failure)


def _table(**columns: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _rewritten(action: str, name: str, kind: pa.DataType, value: Any) -> bytes:
    """The good checkpoint, a field of one action replaced by one of another type."""
    table = pq.read_table(io.BytesIO(GOOD))
    column = table.column(action).combine_chunks()
    fields = {f.name: column.field(f.name) for f in column.type}
    rows = [value if there else None for there in column.is_valid().to_pylist()]
    fields[name] = pa.array(rows, kind)
    changed = pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=column.is_null())
    return _table(**{n: changed if n == action else table.column(n) for n in table.column_names})


_PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_TEXTS, _NUMBERS = pa.list_(pa.string()), pa.list_(pa.int64())
ODD_CHECKPOINTS = {
    "path is a number": _rewritten("add", "path", pa.int64(), 7),
    "path is null": _rewritten("add", "path", pa.string(), None),
    "path is bytes that are no text": _rewritten("add", "path", pa.binary(), b"\xff\xfe"),
    "size is text": _rewritten("add", "size", pa.string(), "many"),
    "size is a list": _rewritten("add", "size", pa.list_(pa.int64()), [1]),
    "size is a struct": _rewritten("add", "size", pa.struct([("a", pa.int64())]), {"a": 1}),
    "dataChange is a number": _rewritten("add", "dataChange", pa.int64(), 7),
    "partitionValues is a list": _rewritten("add", "partitionValues", _PAIRS, []),
    "partitionValues is text": _rewritten("add", "partitionValues", pa.string(), "{}"),
    "partitionValues holds numbers": _rewritten(
        "add", "partitionValues", pa.map_(pa.string(), pa.int64()), [("a", 1)]
    ),
    "stats is a struct": _rewritten("add", "stats", pa.struct([("a", pa.int64())]), {"a": 1}),
    "deletionVector is text": _rewritten("add", "deletionVector", pa.string(), "x"),
    "deletionVector is hollow": _rewritten(
        "add", "deletionVector", pa.struct([("storageType", pa.string())]), {"storageType": "u"}
    ),
    "schemaString is a number": _rewritten("metaData", "schemaString", pa.int64(), 7),
    "schemaString is damaged": _rewritten("metaData", "schemaString", pa.string(), "{"),
    "format is text": _rewritten("metaData", "format", pa.string(), "parquet"),
    "configuration is text": _rewritten("metaData", "configuration", pa.string(), "x"),
    "configuration is a list": _rewritten("metaData", "configuration", _TEXTS, ["x"]),
    "partitionColumns is text": _rewritten("metaData", "partitionColumns", pa.string(), "id"),
    "partitionColumns has numbers": _rewritten("metaData", "partitionColumns", _NUMBERS, [1]),
    "minReaderVersion is text": _rewritten("protocol", "minReaderVersion", pa.string(), "1"),
    "minReaderVersion is null": _rewritten("protocol", "minReaderVersion", pa.int32(), None),
    "readerFeatures is text": _rewritten("protocol", "readerFeatures", pa.string(), "x"),
    "add is text": _table(add=pa.array(["x"]), protocol=pa.array(["x"]), metaData=pa.array(["x"])),
    "no protocol": logs.checkpoint_bytes(LIVE[1:]),
    "no metadata": logs.checkpoint_bytes(LIVE[::2]),
    "no columns": _table(),
    "other columns": _table(x=pa.array([1, 2])),
    "no rows": logs.checkpoint_bytes([]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD_CHECKPOINTS)
async def test_a_checkpoint_of_another_shape_is_one_error_or_is_read(kind: str) -> None:
    store = await _checkpointed(ODD_CHECKPOINTS[kind], with_commits=False)
    failure = await failure_of(store)
    if failure is not None:
        assert isinstance(failure, InvalidTableError), repr(failure)
        said = str(failure)
        assert "checkpoint" in said or "damaged" in said, said


async def test_a_checkpoint_damaged_at_any_byte_is_one_error_or_is_read() -> None:
    outcomes = set()
    for place in range(0, len(GOOD) - 4000, 97):
        store = await _checkpointed(_flipped(GOOD, place), with_commits=False)
        outcomes.add(type(await failure_of(store)))
    assert InvalidTableError in outcomes


async def test_parts_that_are_missing_or_empty_make_no_checkpoint() -> None:
    store = await _checkpointed(GOOD, with_commits=True)
    await store.delete([checkpoint_path(1)])
    await store.put(checkpoint_part_path(1, 1, 2), GOOD)
    assert (await everything(store)).num_rows == 40
    await store.put(checkpoint_part_path(1, 2, 2), b"")
    assert (await everything(store)).num_rows == 40


@pytest.mark.parametrize(
    "hint",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"version":-1,"size":1}',
        b'{"version":9223372036854775807,"size":1}',
        b'{"version":1e400,"size":1}',
        b'{"version":' + b"9" * 5000 + b',"size":1}',
        b'{"version":1,"version":2,"size":1}',
        b'{"version":1,"size":1,"checksum":"00000000000000000000000000000000"}',
        b'{"version":1,"size":1,"parts":9999999999}',
        b'{"version":"1","size":{}}',
        b'{"version":1,"size":1,"v2Checkpoint":{"path":"../../x"}}',
        b'{"version":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"version":1,"x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    ],
)
async def test_a_bad_hint_is_never_an_error(hint: bytes) -> None:
    store = await _checkpointed(GOOD, with_commits=True)
    await store.put("_delta_log/_last_checkpoint", hint)
    assert (await everything(store)).num_rows == 40


async def test_of_a_hint_no_more_is_read_than_one_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata())
    hint = tmp_path / "_delta_log" / "_last_checkpoint"
    with hint.open("wb") as file:
        file.write(b'{"version":0,"size":1')
        file.truncate(1 << 40)  # it takes no place on the disk
    asked: list[tuple[int, int]] = []
    get_range = LocalStore.get_range

    async def watched(self: LocalStore, path: str, start: int, end: int) -> bytes:
        asked.append((start, end))
        return await get_range(self, path, start, end)

    monkeypatch.setattr(LocalStore, "get_range", watched)
    assert (await everything(store)).num_rows == 0
    assert asked == [(0, MAX_BYTES + 1)]
    hint.unlink()  # others who look at the table would read all of it


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"tableSizeBytes":-1}',
        b"\xff",
        b"{}" * 9,
        b'{"metadata":7,"protocol":[]}',
        b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2},"metadata":{"id":7}}',
        b"[" * 100_000,
    ],
)
async def test_a_damaged_checksum_file_is_never_an_error(content: bytes) -> None:
    store = await _checkpointed(GOOD, with_commits=True)
    await store.put(f"_delta_log/{1:020d}.crc", content)
    assert (await everything(store)).num_rows == 40


async def test_a_message_stays_short_whatever_the_log_says() -> None:
    for line in (
        logs.add("a" * 1_000_000, size="x"),
        logs.metadata(schemaString="x" * 1_000_000),
        logs.metadata(partitionColumns=["y" * 1_000_000]),
        logs.protocol(3, 7, readerFeatures=["z" * 1_000_000], writerFeatures=[]),
        {"protocol": {"minReaderVersion": "q" * 1_000_000, "minWriterVersion": 1}},
        {"protocol": logs.protocol(3, 7)["protocol"] | {"readerFeatures": "w" * 1_000_000}},
    ):
        failure = await failure_of(await table_with(orjson.dumps(line)))
        assert isinstance(failure, AdeltaError)


async def test_a_checkpoint_whose_texts_unfold_beyond_memory_is_one_error(monkeypatch) -> None:
    """Statistics that a dictionary holds once and every file repeats."""
    store = await table_with()
    stats = "x" * 100_000
    lines = [logs.protocol(), logs.metadata()]
    lines += [logs.add(f"{n}.parquet", stats=stats) for n in range(2000)]
    await logs.put_checkpoint(store, 1, lines)
    assert (await store.head(checkpoint_path(1))).size < 500_000
    monkeypatch.setattr("adelta.parquet.guard.decoding._LARGEST_ROW_GROUP", 100_000_000)
    async with Table("memory://of/tests", store=store) as table:
        snapshot = await table.snapshot()
        with pytest.raises(InvalidTableError, match=r"00001\.checkpoint\.parquet: its row group 0"):
            await snapshot.files()
