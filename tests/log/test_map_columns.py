"""Checkpoints whose maps are lists of pairs, as some writers have them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidTableError
from adelta.kernel.log_path import checkpoint_path
from adelta.log.map_columns import as_maps, pairs_of
from adelta.storage.memory import MemoryStore
from adelta.table import Table, latest_state
from tests.support import logs

NAMES = [("key", "value"), ("k", "v"), ("_1", "_2"), ("value", "key")]
SCHEMA = (
    '{"type":"struct","fields":['
    '{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"p","type":"integer","nullable":true,"metadata":{}}]}'
)


def _kind(kind: pa.DataType, pair: Any) -> pa.DataType:
    if pa.types.is_map(kind):
        return pa.list_(pa.struct([(name, pa.string()) for name in pair]))
    if isinstance(kind, pa.StructType):
        return pa.struct([field.with_type(_kind(field.type, pair)) for field in kind])
    return kind


def _value(value: Any, kind: pa.DataType, pair: tuple[str, str]) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        first, second = pair[::-1] if pair[1] == "key" else pair
        return [{first: key, second: item} for key, item in value]
    if isinstance(kind, pa.StructType):
        return {field.name: _value(value[field.name], field.type, pair) for field in kind}
    return value


def listed(data: bytes, pair: tuple[str, str]) -> bytes:
    """The checkpoint with every map as a list of pairs of these names."""
    table = pq.read_table(pa.BufferReader(data))
    columns = [
        pa.array(
            [_value(value, field.type, pair) for value in table.column(field.name).to_pylist()],
            _kind(field.type, pair),
        )
        for field in table.schema
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, names=table.column_names), sink)
    return sink.getvalue().to_pybytes()


LINES = [
    logs.protocol(1, 2),
    logs.metadata(
        schemaString=SCHEMA, partitionColumns=["p"], configuration={"delta.appendOnly": "true"}
    ),
    logs.add("a.parquet", partitionValues={"p": "1"}, tags={"t": "u"}),
    logs.add("b.parquet", partitionValues={"p": None}, tags={}),
    logs.remove("c.parquet"),
]
TAGS = {"add_fields": [("tags", pa.map_(pa.string(), pa.string()))]}


@pytest.mark.parametrize("pair", NAMES)
async def test_maps_that_are_lists_of_pairs_are_read_as_maps(pair: tuple[str, str]) -> None:
    plain, other = logs.checkpoint_bytes(LINES, **TAGS), MemoryStore()
    store = MemoryStore()
    await store.put(checkpoint_path(1), plain)
    await other.put(checkpoint_path(1), listed(plain, pair))
    answers = []
    for one in (store, other):
        async with Table("memory://of/tests", store=one) as table:
            snapshot = await table.snapshot()
            files = await snapshot.files()
            some = await snapshot.files(where="p = 1")
            state = await latest_state(table)
            tombstones = await state.tombstones()
            answers.append((snapshot.properties, files, some, tombstones))
    assert answers[0] == answers[1]
    assert answers[1][1].column("partition_values").to_pylist() == [[("p", "1")], [("p", None)]]
    assert answers[1][2].column("path").to_pylist() == ["a.parquet"]
    assert answers[1][1].column("tags").to_pylist() == [[("t", "u")], []]


async def test_a_pair_without_a_key_is_one_error_that_names_the_column() -> None:
    bad = pa.table(
        {"add": [{"path": "a", "size": 1, "partitionValues": [{"k": None, "v": "x"}]}]},
        pa.schema(
            {
                "add": pa.struct(
                    {
                        "path": pa.string(),
                        "size": pa.int64(),
                        "partitionValues": _kind(pa.map_(pa.string(), pa.string()), ("k", "v")),
                    }
                )
            }
        ),
    )
    rest = pq.read_table(pa.BufferReader(logs.checkpoint_bytes(LINES[:2])))
    rest = rest.select(["protocol", "metaData"])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables([rest, bad], promote_options="default"), sink)
    store = MemoryStore()
    await store.put(checkpoint_path(1), sink.getvalue().to_pybytes())
    async with Table("memory://of/tests", store=store) as table:
        snapshot = await table.snapshot()
        with pytest.raises(InvalidTableError, match=r"checkpoint\.parquet: add\.partitionValues"):
            await snapshot.files()


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.list_(pa.struct({"a": pa.string(), "b": pa.int64()})),
        pa.list_(pa.struct({"a": pa.string()})),
        pa.string(),
    ],
)
def test_what_is_no_list_of_pairs_of_texts_stays_what_it_is(kind: pa.DataType) -> None:
    values = pa.nulls(3, kind)
    assert as_maps(values) is values


def test_slices_and_nulls_of_lists_stay_in_place() -> None:
    kind = pa.list_(pa.struct({"k": pa.string(), "v": pa.string()}))
    rows = [[{"k": "a", "v": "1"}], None, [], [{"k": "b", "v": None}, {"k": "c", "v": "3"}]]
    wanted = [[("a", "1")], None, [], [("b", None), ("c", "3")]]
    for start in range(4):
        assert as_maps(pa.array(rows, kind).slice(start)).to_pylist() == wanted[start:]
    both = pa.chunked_array([pa.array(rows, kind), pa.array(rows, kind).slice(2)])
    assert as_maps(both).to_pylist() == wanted + wanted[2:]
    assert as_maps(pa.chunked_array([], kind)).to_pylist() == []


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        ([("a", "b")], {"a": "b"}),
        ([{"k": "a", "v": "b"}], {"a": "b"}),
        ([{"value": "b", "key": "a"}], {"a": "b"}),
        ([], {}),
        (None, None),
        (["a"], ["a"]),
        ([{"k": "a"}], [{"k": "a"}]),
        (
            [{"k": "a", "v": "b"}, {"k": "a", "w": "b"}],
            [{"k": "a", "v": "b"}, {"k": "a", "w": "b"}],
        ),
    ],
)
def test_lists_of_pairs_become_dictionaries(value: Any, pairs: Any) -> None:
    assert pairs_of(value) == pairs
