"""Rows in any of Arrow's layouts are read, changed and written like rows in plain ones.

Views, large offsets, dictionaries and the like are how other engines hold rows, and what they say
in their data files that rows were written from.
"""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import adelta

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.table import Table

PLAIN = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("few", pa.string()),
        ("list", pa.list_(pa.string())),
        ("struct", pa.struct([("x", pa.string()), ("l", pa.list_(pa.string()))])),
        ("map", pa.map_(pa.string(), pa.string())),
        ("p", pa.string()),
    ]
)
IN_FILES = {
    "text": pa.string_view(),
    "bytes": pa.binary_view(),
    "few": pa.dictionary(pa.int8(), pa.string()),
    "list": pa.list_view(pa.large_string()),
    "struct": pa.struct([("x", pa.string_view()), ("l", pa.large_list(pa.string()))]),
    "map": pa.map_(pa.string_view(), pa.large_string()),
}
IN_MEMORY = {
    **IN_FILES,
    "few": pa.run_end_encoded(pa.int32(), pa.string()),
    "list": pa.large_list_view(pa.string_view()),
    "struct": pa.struct([("x", pa.string_view()), ("l", pa.list_view(pa.string_view()))]),
    "map": pa.map_(pa.string_view(), pa.string_view()),
    "p": pa.string_view(),
}
LONG = "more than the twelve bytes that a view holds by itself: "


def values(number: int) -> dict[str, Any]:
    if number % 5 == 4:
        return {"id": number, "p": "ab"[number % 2]}
    return {
        "id": number,
        "text": LONG + str(number),
        "bytes": f"b{number}".encode(),
        "few": f"f{number // 4}",
        "list": [LONG + str(number), None, ""][: number % 4],
        "struct": {"x": LONG + str(number), "l": None if number % 3 else ["l", None]},
        "map": [("k", LONG), ("l", None)][: number % 3],
        "p": "ab"[number % 2],
    }


def plain(numbers: range) -> pa.Table:
    return pa.Table.from_pylist([values(number) for number in numbers], schema=PLAIN)


def laid_out(rows: pa.Table, layouts: dict[str, pa.DataType]) -> pa.Table:
    columns = []
    for name in rows.column_names:
        kind = layouts.get(name)
        if kind is None:
            columns.append(rows[name])
        elif pa.types.is_run_end_encoded(kind):
            columns.append(pc.run_end_encode(rows[name].combine_chunks()))
        else:
            columns.append(pa.array(rows[name].to_pylist(), kind))
    return pa.table(columns, rows.column_names)


def numbered(rows: pa.Table) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in rows.to_pylist()}


async def read(table: Table, **options: Any) -> pa.Table:
    return await (await table.snapshot()).scan(**options).to_arrow()


class Stream:
    """A data frame of another library: all that is known of it is the stream that it exports."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


async def table_of_another_engine(properties: dict[str, str]) -> Table:
    """A table whose files say that they were written from the layouts of `IN_FILES`."""
    uri = f"memory://{uuid.uuid4()}/table"
    table = await adelta.create_table(uri, PLAIN, properties=properties)
    for numbers in (range(10), range(10, 20)):
        await adelta.write_table(table, plain(numbers))
    for add in (await (await table.snapshot()).files()).to_pylist():
        stored = pq.read_table(pa.BufferReader(await table.store.get(add["path"])))
        sink = io.BytesIO()
        pq.write_table(laid_out(stored, IN_FILES), sink)
        await table.store.put(add["path"], sink.getvalue())
        assert pq.read_schema(pa.BufferReader(sink.getvalue())).field("text").type != pa.string()
    return table


@pytest.fixture(params=["vectors", "copies"])
async def table(request: pytest.FixtureRequest) -> AsyncIterator[Table]:
    """A table of which rows are deleted by vectors, or by copying the others."""
    vectors = str(request.param == "vectors").lower()
    asked = {
        "delta.enableDeletionVectors": vectors,
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
    }
    async with await table_of_another_engine(asked) as made:
        yield made


async def test_files_of_other_layouts_are_read(table: Table) -> None:
    found = await read(table)
    assert found.schema == PLAIN
    assert numbered(found) == numbered(plain(range(20)))
    assert (await read(table, columns=["struct", "text"])).num_rows == 20
    some = await read(table, where=f"text = '{LONG}7' or struct.x = '{LONG}8'")
    assert set(numbered(some)) == {7, 8}


async def test_rows_of_other_layouts_are_deleted(table: Table) -> None:
    await adelta.delete(table, "id % 4 = 1")
    await adelta.delete(table, f"few = 'f0' and text >= '{LONG}'")
    left = [n for n in range(20) if n % 4 != 1 and not (n < 4 and n % 5 != 4)]
    expected = {n: values for n, values in numbered(plain(range(20))).items() if n in left}
    found = await read(table, with_row_ids=True)
    assert {row["id"]: row["_row_id"] for row in found.to_pylist()} == {n: n for n in left}
    assert numbered(found.drop_columns(["_row_id", "_row_commit_version"])) == expected
    assert set(numbered(await read(table, where=f"text >= '{LONG}1'"))) <= set(left)


async def test_rows_of_other_layouts_are_changed_and_the_others_kept(table: Table) -> None:
    await adelta.update(table, {"text": "concat(text, '!')", "few": "'new'"}, "id between 8 and 11")
    expected = numbered(plain(range(20)))
    for n in range(8, 12):
        text = expected[n]["text"]
        expected[n] |= {"text": text and text + "!", "few": "new"}
    assert numbered(await read(table)) == expected
    feed = pa.Table.from_batches([batch async for batch in adelta.changes(table, 3)])
    seen = [
        (row.pop("_change_type"), row)
        for row in feed.drop_columns(["_commit_version", "_commit_timestamp"]).to_pylist()
    ]
    before = {row["id"]: row for kind, row in seen if kind == "update_preimage"}
    after = {row["id"]: row for kind, row in seen if kind == "update_postimage"}
    assert before == {n: numbered(plain(range(20)))[n] for n in range(8, 12)}
    assert after == {n: expected[n] for n in range(8, 12)}


@pytest.mark.parametrize("as_stream", [False, True])
@pytest.mark.parametrize("partition_by", [(), ("p",), ("few", "p")])
async def test_rows_of_any_layout_are_written(
    partition_by: tuple[str, ...], as_stream: bool
) -> None:
    uri = f"memory://{uuid.uuid4()}/table"
    rows = laid_out(plain(range(20)), IN_MEMORY)
    first: Any = Stream(rows) if as_stream else rows
    async with adelta.open_table(uri) as table:
        await adelta.write_table(table, first, partition_by=partition_by)
        found = await read(table)
        assert found.schema == PLAIN
        assert numbered(found) == numbered(plain(range(20)))
        await adelta.write_table(table, rows.slice(7, 6), mode="overwrite")
        assert numbered(await read(table)) == numbered(plain(range(7, 13)))
        more: Any = Stream(rows.slice(13)) if as_stream else rows.slice(13)
        await adelta.write_table(table, more, mode="overwrite", replace_where="id >= 13")
        assert numbered(await read(table)) == numbered(plain(range(7, 20)))
