"""MERGE INTO: clauses, sources and zones, by the operation."""

from __future__ import annotations

import datetime as dt
import uuid

import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidExpressionError, InvalidOptionError, InvalidUseError

ROWS = pa.table({"id": [1, 2, 3, 4], "v": ["a", "b", "c", "d"]})
CHANGES = pa.table({"id": [2, 3, 9], "v": ["B", "C", "I"], "gone": [False, True, False]})


@pytest.fixture
async def tables() -> dict[str, object]:
    uri = f"memory://{uuid.uuid4()}/t"
    await adelta.sql(f"CREATE TABLE '{uri}' (id BIGINT, v STRING DEFAULT 'none', at TIMESTAMP)")
    await adelta.write_table(uri, ROWS)
    return {"db.t": uri, "changes": CHANGES}


async def rows(tables) -> list[tuple[int, str]]:
    found = await adelta.sql("SELECT id, v FROM db.t ORDER BY id", tables=tables)
    return [tuple(row.values()) for row in found.to_pylist()]


async def test_clauses_take_rows_in_their_order(tables):
    done = await adelta.sql(
        "MERGE INTO db.t USING changes AS s ON t.id = s.id "
        "WHEN MATCHED AND gone THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.v = concat(t.v, s.v) "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, DEFAULT) "
        "WHEN NOT MATCHED BY SOURCE AND t.id > 3 THEN UPDATE SET v = DEFAULT",
        tables=tables,
    )
    assert done.to_pylist() == [
        {
            "num_affected_rows": 4,
            "num_updated_rows": 2,
            "num_deleted_rows": 1,
            "num_inserted_rows": 1,
        }
    ]
    assert await rows(tables) == [(1, "a"), (2, "bB"), (4, "none"), (9, "none")]


async def test_a_source_is_a_query_a_version_or_rows_at_hand(tables):
    merge = "MERGE INTO db.t AS o USING {} ON o.id = n.id WHEN MATCHED THEN UPDATE SET v = n.v"
    query = "(SELECT id, upper(v) AS v FROM db.t WHERE id < 3) n"
    await adelta.sql(merge.format(query), tables=tables)
    assert await rows(tables) == [(1, "A"), (2, "B"), (3, "c"), (4, "d")]
    await adelta.sql(merge.format("db.t VERSION AS OF 1 AS n"), tables=tables)
    assert await rows(tables) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    done = await adelta.sql(merge.format("(SELECT id, v FROM changes LIMIT 0) n"), tables=tables)
    assert done["num_affected_rows"].to_pylist() == [0]
    evolving = (
        "MERGE WITH SCHEMA EVOLUTION INTO db.t o USING changes n ON o.id = n.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    await adelta.sql(evolving, tables=tables)
    assert await rows(tables) == [(1, "a"), (2, "B"), (3, "C"), (4, "d"), (9, "I")]
    found = await adelta.sql("SELECT gone FROM db.t WHERE id = 3", tables=tables)
    assert found["gone"].to_pylist() == [True]
    with pytest.raises(InvalidUseError, match="no versions"):
        await adelta.sql(merge.format("changes VERSION AS OF 1 n"), tables=tables)
    twice = merge.format("changes n") + ", o.v = 'x'"
    with pytest.raises(InvalidOptionError, match="set twice"):
        await adelta.sql(twice, tables=tables)


async def test_times_are_of_the_zone(tables):
    moment = dt.datetime(2024, 1, 1, 4, 30, tzinfo=dt.UTC)  # of the last year in New York
    changes = pa.table({"id": [1, 5], "at": [moment] * 2})
    await adelta.sql(
        "MERGE INTO db.t USING c ON t.id = c.id AND c.at < '2024-01-01' "
        "WHEN MATCHED THEN UPDATE SET v = CAST(date(c.at) AS STRING), at = TIMESTAMP '2024-01-01' "
        "WHEN NOT MATCHED AND c.at < '2024-01-01' THEN INSERT (id, v) VALUES (c.id, 'new')",
        tables={**tables, "c": changes},
        zone="America/New_York",
    )
    assert await rows(tables) == [(1, "2023-12-31"), (2, "b"), (3, "c"), (4, "d"), (5, "new")]
    found = await adelta.sql("SELECT at FROM db.t WHERE id = 1", tables=tables)
    assert found["at"].to_pylist() == [dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC)]


async def test_columns_are_named_by_the_full_names_of_tables(tables, tmp_path):
    other = f"{tmp_path}/other"
    await adelta.write_table(other, CHANGES)
    await adelta.sql(
        f"MERGE INTO db.t USING delta.`{other}` ON db.t.id = delta.`{other}`.id "
        f"WHEN MATCHED AND DELTA.`{other}`.gone THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET db.t.v = concat(db.t.v, delta.`{other}`.v) "
        f"WHEN NOT MATCHED BY SOURCE AND db.t.id = 4 THEN DELETE",
        tables=tables,
    )
    assert await rows(tables) == [(1, "a"), (2, "bB")]
    await adelta.sql("UPDATE db.t SET db.t.v = upper(db.t.v) WHERE db.t.id = 1", tables=tables)
    await adelta.sql("DELETE FROM db.t WHERE DB.t.id = 2", tables=tables)
    assert await rows(tables) == [(1, "A")]
    await adelta.sql(f"DELETE FROM delta.`{other}` WHERE delta.`{other}`.id < 9")
    assert (await adelta.sql(f"SELECT id FROM delta.`{other}`")).to_pylist() == [{"id": 9}]
    with pytest.raises(InvalidExpressionError, match="no column named"):
        await adelta.sql("DELETE FROM db.t AS x WHERE db.t.id = 2", tables=tables)
