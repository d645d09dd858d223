"""The source of a MERGE: rows that share keys, and sources that a merge cannot take."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from adelta.errors import InvalidUseError, InvariantViolationError, SchemaMismatchError
from adelta.operations import merge
from adelta.table import open_table
from tests.operations.test_merge import SAME, contents, numbers, table_of


@pytest.mark.parametrize("source_memory", [1, 1 << 28])
@pytest.mark.parametrize("kind", ["delete", "by source", "insert", "both", "update"])
async def test_one_key_may_be_that_of_every_row(kind: str, source_memory: int) -> None:
    """Of 40,000 rows on both sides, so that nobody could hold all pairs, nor wait for them."""
    count = 2000 if kind == "both" else 40_000
    table = await table_of(numbers(id=[*([7] * count), None], n=[0] * (count + 1)))
    same = numbers(id=[*([7] * count), 8, None], n=[1] * (count + 2))
    builder = merge(table, same, SAME)
    match kind:
        case "delete":
            builder = builder.when_matched_delete()
        case "by source":
            builder = builder.when_not_matched_by_source_delete()
        case "insert":
            builder = builder.when_not_matched_insert_all()
        case "both":
            builder = builder.when_matched_delete().when_not_matched_insert_all()
        case _:
            builder = builder.when_matched_update_all()
    builder = replace(builder, _options=replace(builder._options, source_memory=source_memory))
    if kind == "update":
        with pytest.raises(InvariantViolationError, match="several rows of the source"):
            await builder.execute()
        return
    await builder.execute()
    found = [row["id"] for row in await contents(table) if row["id"] != 7]
    kept = {"delete": [None], "by source": [], "insert": [8, None, None], "both": [8, None, None]}
    assert found == kept[kind]
    rest = await (await open_table(table.uri).snapshot()).scan(where="id = 7").count()
    assert rest == (0 if kind in ("delete", "both") else count)


async def test_a_source_that_can_be_read_once_is_not_taken_for_an_empty_one() -> None:
    table = await table_of(numbers(id=[1, 2], n=[0, 0]))
    reader = numbers(id=[1, 2], n=[5, 5]).to_reader()
    builder = merge(table, reader, SAME).when_matched_update_all()
    builder = builder.when_not_matched_by_source_delete()
    await builder.execute()
    with pytest.raises(InvalidUseError, match="read once"):
        await builder.execute()
    assert [row["n"] for row in await contents(table)] == [5, 5]


@pytest.mark.parametrize("names", [["id", "n", "n"], ["id", "n", "N"]])
async def test_columns_of_one_name_in_the_source_are_refused(names: list[str]) -> None:
    table = await table_of(numbers(id=[1], n=[0]))
    builder = merge(table, pa.table([[1], [2], [3]], names), SAME).when_matched_update_all()
    with pytest.raises(SchemaMismatchError, match="2 columns that are called 'n'"):
        await builder.execute()
