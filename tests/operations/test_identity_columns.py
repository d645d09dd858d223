"""Identity columns: the table numbers its rows, once each, in any order of writers."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    InvalidOptionError,
    InvariantViolationError,
    MetadataChangedError,
    SchemaMismatchError,
)
from adelta.kernel.schema.types import INTEGER, LONG, STRING, StructField, StructType
from adelta.operations import change_column, create_table, write_table
from adelta.table import Table, open_table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MARK = "delta.identity.highWaterMark"


async def new_table(uri: str | None = None, **identity: Any) -> Table:
    schema = pa.schema([adelta.identity_column("id", **identity), ("city", pa.string())])
    return await create_table(uri or f"memory://{uuid.uuid4()}/table", schema)


def cities(*names: str) -> pa.Table:
    return pa.table({"city": list(names)})


async def numbers(table: Table) -> dict[str, int]:
    found = (await (await table.snapshot()).scan().to_arrow()).to_pydict()
    return dict(zip(found["city"], found["id"], strict=True))


async def mark(table: Table) -> Any:
    field = (await table.snapshot()).delta_schema.field("id")
    assert field is not None
    return field.metadata.get(MARK)


async def test_rows_are_numbered_on_and_on_and_the_mark_goes_with_the_commit(
    tmp_path: Path,
) -> None:
    # A0-52
    table = await new_table(str(tmp_path))
    assert await mark(table) is None
    await write_table(table, cities("Bern", "Oslo"))
    assert await mark(table) == 2
    await write_table(table, cities("Rome"))
    assert await numbers(table) == {"Bern": 1, "Oslo": 2, "Rome": 3}
    assert await mark(table) == 3
    snapshot = await table.snapshot()
    assert (snapshot.protocol.min_writer_version, snapshot.protocol.writer_features) == (
        7,
        ("appendOnly", "identityColumns", "invariants"),
    )
    raw = (tmp_path / "_delta_log" / f"{2:020}.json").read_bytes().split(b"\n")
    actions = {key: value for line in raw if line for key, value in orjson.loads(line).items()}
    assert actions["commitInfo"]["tags"] == {"delta.identity.schemaUpdate": "true"}
    assert actions["commitInfo"]["isBlindAppend"] is True
    schema = orjson.loads(actions["metaData"]["schemaString"])
    assert schema["fields"][0]["metadata"] == {
        "delta.identity.start": 1,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": False,
        MARK: 3,
    }
    peer = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert sorted(peer["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("start", "step", "expected"),
    [(10, 3, [10, 13, 16, 19]), (0, -5, [0, -5, -10, -15]), (-2, 1, [-2, -1, 0, 1])],
)
async def test_values_start_and_step_as_they_are_told(
    start: int, step: int, expected: list[int]
) -> None:
    table = await new_table(start=start, step=step)
    await write_table(table, cities("a", "b", "c"))
    await write_table(table, cities("d"))
    assert list((await numbers(table)).values()) == expected
    assert await mark(table) == expected[-1]


async def test_values_cannot_be_brought_along_where_the_table_always_makes_them() -> None:
    table = await new_table()
    with pytest.raises(SchemaMismatchError, match="GENERATED ALWAYS"):
        await write_table(table, pa.table({"id": [7], "city": ["Bern"]}))
    assert (await table.snapshot()).version == 0


async def test_values_may_be_brought_along_by_default_and_move_no_mark() -> None:
    table = await new_table(always=False)
    await write_table(table, pa.table({"id": [7], "city": ["Bern"]}))
    assert await mark(table) is None
    await write_table(table, cities("Oslo"))
    assert await numbers(table) == {"Bern": 7, "Oslo": 1}


@pytest.mark.parametrize(
    ("start", "step", "given", "marked", "follows"),
    [
        (1, 1, [7, 3, None], 7, 8),
        (10, 3, [17, 11], 19, 22),
        (0, -5, [-12, 4], -15, -20),
        (10, 3, [9], None, 10),
        (1, 1, [None], None, 1),
    ],
)
async def test_a_column_goes_on_behind_the_values_that_users_gave_once_it_is_synchronised(
    start: int, step: int, given: list[int | None], marked: int | None, follows: int
) -> None:
    table = await new_table(always=False, start=start, step=step)
    names = [f"c{n}" for n in range(len(given))]
    await write_table(table, pa.table({"id": pa.array(given, pa.int64()), "city": names}))
    await change_column(table, "id", sync_identity=True)
    assert await mark(table) == marked
    await write_table(table, cities("Oslo"))
    assert (await numbers(table))["Oslo"] == follows
    done = await change_column(table, "ID", sync_identity=True)
    assert await mark(table) == follows  # which it never falls behind
    assert done.version in (None, (await table.snapshot()).version)
    with pytest.raises(SchemaMismatchError, match=r"'city' is no identity column.*such are id"):
        await change_column(table, "city", sync_identity=True)


async def test_a_stream_larger_than_a_batch_is_numbered_through() -> None:
    schema = pa.schema([adelta.identity_column("id"), ("p", pa.string()), ("n", pa.int64())])
    table = await create_table(f"memory://{uuid.uuid4()}/t", schema, partition_by=["p"])

    async def batches() -> AsyncIterator[pa.RecordBatch]:
        for start in range(0, 5000, 1000):
            n = range(start, start + 1000)
            yield pa.record_batch({"p": [str(i % 2) for i in n], "n": list(n)})

    await write_table(table, batches())
    found = (await (await table.snapshot()).scan().to_arrow()).to_pydict()
    assert dict(zip(found["n"], found["id"], strict=True)) == {n: n + 1 for n in range(5000)}
    assert await mark(table) == 5000


async def test_one_transaction_may_number_several_appends() -> None:
    table = await new_table()
    async with table.transaction() as tx:
        await tx.append(cities("a", "b"))
        await tx.append(cities("c"))
    assert await numbers(table) == {"a": 1, "b": 2, "c": 3}
    assert (await mark(table), tx.version) == (3, 1)


async def test_of_two_writers_that_number_rows_at_once_one_has_to_do_it_again() -> None:
    # C3-11
    table = await new_table()

    async def late() -> None:
        async with open_table(table.uri).transaction() as tx:
            await tx.append(cities("late"))
            await write_table(table, cities("early"))

    with pytest.raises(MetadataChangedError):
        await late()
    assert await numbers(table) == {"early": 1}


async def test_a_commit_that_numbers_nothing_goes_behind_one_that_does() -> None:
    table = await new_table(always=False)
    await write_table(table, cities("a", "b"))
    async with open_table(table.uri).transaction() as tx:
        await tx.append(pa.table({"id": [70], "city": ["own"]}))
        await write_table(table, cities("c"))
    assert tx.version == 3
    assert await numbers(table) == {"a": 1, "b": 2, "c": 3, "own": 70}
    assert await mark(table) == 3


async def test_values_end_where_64_bits_do() -> None:
    top = 2**63 - 1
    table = await new_table(start=top - 2, step=2)
    await write_table(table, cities("a", "b"))
    assert list((await numbers(table)).values()) == [top - 2, top]
    with pytest.raises(InvariantViolationError, match="run out of 64-bit values"):
        await write_table(table, cities("c"))
    bottom = await new_table(start=0, step=-(2**62))
    await write_table(bottom, cities("a", "b", "c"))
    assert list((await numbers(bottom)).values()) == [0, -(2**62), -(2**63)]
    with pytest.raises(InvariantViolationError, match="run out"):
        await write_table(bottom, cities("d"))


async def test_an_overwrite_counts_on_and_copied_rows_keep_their_numbers() -> None:
    table = await new_table()
    await write_table(table, cities("a", "b", "c"))
    await write_table(table, cities("b2"), mode="overwrite", replace_where="city LIKE 'b%'")
    assert await numbers(table) == {"a": 1, "c": 3, "b2": 4}
    await write_table(table, cities("x"), mode="overwrite")
    assert await numbers(table) == {"x": 5}


async def test_columns_that_are_merged_in_leave_the_numbers_alone() -> None:
    table = await new_table()
    await write_table(table, cities("a"))
    more = pa.table({"city": ["b"], "size": [3]})
    await write_table(table, more, schema_mode="merge")
    assert await numbers(table) == {"a": 1, "b": 2}
    assert await mark(table) == 2
    await write_table(table, more, schema_mode="overwrite", mode="overwrite")
    assert (await table.snapshot()).schema.names == ["city", "size"]


async def test_a_mark_off_the_grid_is_passed() -> None:
    # Other writers may leave any mark: values stay start + k * step, and beyond it.
    metadata = {
        "delta.identity.start": 1,
        "delta.identity.step": 3,
        MARK: 8,
        "delta.identity.allowExplicitInsert": False,
    }
    fields = (StructField("id", LONG, metadata=metadata), StructField("city", STRING))
    table = await create_table(f"memory://{uuid.uuid4()}/table", StructType(fields))
    await write_table(table, cities("a", "b"))
    assert list((await numbers(table)).values()) == [10, 13]


def test_a_step_of_zero_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="step 0"):
        adelta.identity_column("id", step=0)
    with pytest.raises(InvalidOptionError, match="64 bits"):
        adelta.identity_column("id", start=2**63)


ONE = {"delta.identity.start": 1, "delta.identity.step": 1}


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("id", INTEGER, metadata=ONE), "long"),
        (StructField("id", LONG, metadata={**ONE, "delta.identity.step": 0}), "step 0"),
        (StructField("s", StructType((StructField("i", LONG, metadata=ONE),))), "nested"),
        (StructField("id", LONG, metadata={**ONE, "CURRENT_DEFAULT": "1"}), "default"),
    ],
)
async def test_columns_that_cannot_number_rows_are_refused(
    field: StructField, message: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        await create_table(f"memory://{uuid.uuid4()}/table", StructType((field,)))


async def test_a_table_is_not_partitioned_by_its_numbers() -> None:
    schema = pa.schema([adelta.identity_column("id"), ("city", pa.string())])
    with pytest.raises(SchemaMismatchError, match="partition"):
        await create_table(f"memory://{uuid.uuid4()}/t", schema, partition_by=["id"])
