"""ANALYZE: what files come to say of their rows, and what others may do meanwhile."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.errors import InvalidOptionError
from adelta.operations import analyze_files
from adelta.operations.analyze_stats import merged_stats, wanted_columns
from adelta.table import latest_state

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from adelta.progress import Progress

ROWS = pa.table(
    {
        "id": pa.array([3, 1, None], pa.int64()),
        "float": [1.5, float("nan"), 2.5],
        "plain": [1.5, -0.0, 2.5],
        "list": pa.array([[1], None, []]),
        "inside": pa.array([{"x": 1, "d": Decimal("1.50")}, None, {"x": None, "d": None}]),
        "text": ["a" * 40, None, "b"],
        "p": ["x", "x", "y"],
    }
)


async def stats(uri: Any) -> list[dict[str, Any]]:
    async with adelta.open_table(uri) as table:
        files = await (await table.snapshot()).files()
    return [orjson.loads(text or "{}") for text in files.column("stats").to_pylist()]


async def bare_copy(root: Path, **properties: str) -> None:
    """A table of the same rows whose files say nothing."""
    none = {"delta.dataSkippingNumIndexedCols": "0"}
    await adelta.write_table(root, ROWS, partition_by=["p"], properties={**none, **properties})
    await adelta.unset_properties(root, list(none))


async def test_statistics_come_to_be_those_that_a_write_states(tmp_path: Path) -> None:
    await adelta.write_table(tmp_path / "whole", ROWS, partition_by=["p"])
    await bare_copy(tmp_path / "bare")
    assert all(set(each) - {"numRecords"} for each in await stats(tmp_path / "whole"))
    counted = await adelta.analyze(tmp_path / "bare", dry_run=True)
    assert (counted.version, counted.num_files, counted.num_files_lacking) == (None, 2, 2)
    told: list[Progress] = []
    done = await adelta.analyze(tmp_path / "bare", on_progress=told.append)
    assert (done.version, done.num_files_updated, done.num_files_read) == (2, 2, 2)
    assert (told[-1].done, told[-1].total) == (2, 2)

    def key(found: dict[str, Any]) -> bytes:
        return orjson.dumps(found, option=orjson.OPT_SORT_KEYS)

    assert sorted(await stats(tmp_path / "bare"), key=key) == sorted(
        await stats(tmp_path / "whole"), key=key
    )
    entry = (await adelta.history(tmp_path / "bare"))[0]
    assert (entry.operation, entry.operation_parameters) == ("COMPUTE STATS", {"predicate": "[]"})
    async for commit in adelta.tail(tmp_path / "bare", since=2):
        assert commit.adds.column("data_change").to_pylist() == [False, False]
        assert commit.removes.num_rows == 0
        break
    again = await adelta.analyze(tmp_path / "bare")  # of a NaN nothing more can be said
    assert again == adelta.AnalyzeMetrics(None, num_files=2, num_files_lacking=0)


async def test_columns_that_have_no_bounds_are_not_read_again(tmp_path: Path) -> None:
    rows = pa.table({"f": [float("nan"), 1.0], "t": ["\U0010ffff" * 40] * 2, "n": [1, 2]})
    pq.write_table(rows, tmp_path / "a.parquet")
    await adelta.convert(tmp_path, collect_statistics=False)
    for columns, updated in ((["n"], 1), (["f"], 1), (None, 1), (["t", "f"], 0), (None, 0)):
        done = await adelta.analyze(tmp_path, columns=columns)
        assert (done.num_files_lacking, done.num_files_updated) == (updated, updated)
        again = await adelta.analyze(tmp_path, columns=columns, dry_run=True)
        assert again.num_files_lacking == 0
    (found,) = await stats(tmp_path)
    assert found["maxValues"] == {"n": 2}
    await adelta.checkpoint(tmp_path)
    await adelta.set_properties(tmp_path, {"delta.enableDeletionVectors": "true"})
    await adelta.delete(tmp_path, "n = 1")
    assert (await adelta.analyze(tmp_path)).num_files_lacking == 0
    longer = {"delta.dataSkippingStringPrefixLength": "50"}
    await adelta.set_properties(tmp_path, longer)  # all of the text, which is a bound
    assert (await adelta.analyze(tmp_path)).num_files_updated == 1
    (found,) = await stats(tmp_path)
    assert found["maxValues"] == {"n": 2, "t": "\U0010ffff" * 40}
    assert (await adelta.analyze(tmp_path)).num_files_lacking == 0


async def test_footers_alone_suffice_for_whole_numbers_and_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(ROWS.select(["id", "text", "plain"]), tmp_path / "a.parquet")
    await adelta.convert(tmp_path, collect_statistics=False)

    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("a column is read")

    with monkeypatch.context() as patched:
        patched.setattr(analyze_files, "read_pieces", refuse)
        done = await adelta.analyze(tmp_path, columns=["ID", "text"])
    assert (done.num_files_updated, done.num_files_read) == (1, 0)
    (found,) = await stats(tmp_path)
    assert found["minValues"] == {"id": 1, "text": "a" * 32}
    done = await adelta.analyze(tmp_path)
    assert (done.num_files_lacking, done.num_files_read) == (1, 1)
    (found,) = await stats(tmp_path)
    assert found["maxValues"] == {"id": 3, "text": "b", "plain": 2.5}


async def test_only_files_and_columns_that_were_asked_for(tmp_path: Path) -> None:
    await bare_copy(tmp_path)
    done = await adelta.analyze(tmp_path, columns=["inside", "id"], where="p = 'x'")
    assert (done.num_files, done.num_files_updated) == (1, 1)
    found = sorted(await stats(tmp_path), key=len)
    assert found[0].get("nullCount") in (None, {})
    assert found[1]["minValues"] == {"id": 1, "inside": {"x": 1, "d": 1.5}}
    assert found[1]["nullCount"] == {"id": 0, "inside": {"x": 1, "d": 1}}
    for wrong, why in (("p", "partition column"), ("nothing", "no column")):
        with pytest.raises(InvalidOptionError, match=why):
            await adelta.analyze(tmp_path, columns=[wrong])


async def test_columns_are_named_as_everywhere(tmp_path: Path) -> None:
    schema = pa.schema([("a.b", pa.int64()), ("s", pa.struct([("b c", pa.int64())]))])
    unindexed = {"delta.dataSkippingNumIndexedCols": "0", "delta.columnMapping.mode": "name"}
    await adelta.create_table(tmp_path, schema, properties=unindexed)
    await adelta.write_table(tmp_path, pa.table({"a.b": [1], "s": [{"b c": 2}]}, schema=schema))
    with pytest.raises(InvalidOptionError, match=r"`a\.b`, between backticks"):
        await adelta.analyze(tmp_path, columns=["a.b"])
    for name in ("`a.b`", "S.`b c`"):
        assert (await adelta.analyze(tmp_path, columns=[name])).num_files_updated == 1
    (found,) = await stats(tmp_path)
    assert len(found["minValues"]) == 2
    await adelta.write_table(tmp_path, pa.table({"a.b": [1], "s": [{"b c": 2}]}, schema=schema))
    named = {"t": str(tmp_path)}
    await adelta.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS `a.b`", tables=named)
    await adelta.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", tables=named)
    assert [len(each["minValues"]) for each in await stats(tmp_path)] == [2, 2]


async def test_rows_keep_their_ids_and_vectors_and_streams_see_nothing(tmp_path: Path) -> None:
    tracked = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}
    mapped = {"delta.columnMapping.mode": "name"}
    await bare_copy(tmp_path, **tracked, **mapped)
    await adelta.rename_column(tmp_path, "id", "number")
    await adelta.delete(tmp_path, "number = 1")

    async def rows() -> list[dict[str, Any]]:
        async with adelta.open_table(tmp_path) as table:
            found = await (await table.snapshot()).scan(with_row_ids=True).to_arrow()
        return sorted(found.drop_columns(["float"]).to_pylist(), key=str)

    before = await rows()
    done = await adelta.analyze(tmp_path)
    assert done.num_files_updated == 2
    assert await rows() == before
    found = {each["numRecords"]: each for each in await stats(tmp_path)}
    assert found[2]["tightBounds"] is False  # the deleted row counts, and its values do
    assert "tightBounds" not in found[1]
    async with adelta.open_table(tmp_path) as table:
        assert await (await table.snapshot()).scan(where="number = 3").count() == 1


Meanwhile = "Callable[[Path], Awaitable[object]]"


@pytest.mark.parametrize(
    ("meanwhile", "updated"),
    [
        (lambda root: adelta.delete(root, "p = 'x'"), 1),
        (lambda root: adelta.delete(root, "id = 3"), 1),  # a rewrite, or a deletion vector
        (lambda root: adelta.write_table(root, ROWS), 2),
        (lambda root: adelta.set_properties(root, {"mine": "1"}), 2),
        (lambda root: adelta.analyze(root), 0),
        (lambda root: adelta.delete(root), 0),
    ],
)
@pytest.mark.parametrize("vectors", ["true", "false"])
async def test_a_file_that_others_have_changed_meanwhile_loses_its_new_statistics_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[Path], Awaitable[object]],
    updated: int,
    vectors: str,
) -> None:
    await bare_copy(tmp_path, **{"delta.enableDeletionVectors": vectors})
    run = analyze_files.AnalyzeTask.run

    async def late(self: Any, roots: Any) -> Any:
        done = await run(self, roots)
        monkeypatch.undo()
        await meanwhile(tmp_path)
        return done

    monkeypatch.setattr(analyze_files.AnalyzeTask, "run", late)
    done = await adelta.analyze(tmp_path)
    assert done.num_files_updated == updated
    assert (done.version is None) == (updated == 0)
    async with adelta.open_table(tmp_path) as table:
        others = await table.snapshot(version=2)
        assert await (await table.snapshot()).scan().count() == await others.scan().count()


async def test_numbers_of_other_columns_stay_as_they_are_written(tmp_path: Path) -> None:
    async with await adelta.create_table(tmp_path, ROWS.schema) as table:
        columns = wanted_columns((await latest_state(table)).configuration, ["id"])
    old = '{"numRecords":3,"minValues":{"d":1.230000000000000000009,"id":9},"nullCount":{"id":1}}'
    new = '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":3},"nullCount":{"id":0}}'
    assert merged_stats(old, new, columns, wide=False) == (
        '{"numRecords":3,"minValues":{"d":1.230000000000000000009,"id":1},"maxValues":{"id":3},'
        '"nullCount":{"id":0}}'
    )


async def test_bounds_of_other_columns_that_are_wide_stay_so(tmp_path: Path) -> None:
    async with await adelta.create_table(tmp_path, ROWS.schema) as table:
        columns = wanted_columns((await latest_state(table)).configuration, ["id"])
    new = '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":3},"nullCount":{"id":0}}'
    for other, wide in (('"d":0.5,', True), ("", False)):
        old = f'{{"numRecords":3,"tightBounds":false,"minValues":{{{other}"id":0}}}}'
        found = orjson.loads(merged_stats(old, new, columns, wide=False))
        assert found["minValues"]["id"] == 1
        assert ("tightBounds" in found) == wide
