"""Streams that begin with the rows of a table in the order of their event times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.changes.event_time import EventTimeColumn
from adelta.changes.source_rules import Admission, SourceRules
from adelta.changes.table_source import TableSource
from adelta.errors import InvalidOptionError, UnsupportedFeatureError
from adelta.read.data_files import read_pieces
from adelta.table import roots_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from adelta.changes.source_offset import SourceOffset

START = datetime(2024, 5, 1, tzinfo=UTC)
ZONED, PLAIN = pa.timestamp("us", "UTC"), pa.timestamp("us")


def rows(minutes: Sequence[int | None], kind: pa.DataType = ZONED) -> pa.Table:
    times = [None if n is None else START + timedelta(minutes=n) for n in minutes]
    if kind == PLAIN:
        times = [None if each is None else each.replace(tzinfo=None) for each in times]
    ids = [-1 if n is None else n for n in minutes]
    return pa.table({"id": pa.array(ids, pa.int64()), "at": pa.array(times, kind)})


async def written(path: Path, files: Sequence[Sequence[int | None]], **told: Any) -> adelta.Table:
    """A table with a file, and a version, of each of the `files`, whose ids are their minutes."""
    kind = told.pop("kind", ZONED)
    await (await adelta.create_table(path, rows([], kind).schema, **told)).aclose()
    for minutes in files:
        await adelta.write_table(path, rows(minutes, kind), mode="append")
    return adelta.open_table(path)


async def ids(table: adelta.Table, source: TableSource, begin: SourceOffset, end: Any) -> list[int]:
    found: list[int] = []
    for part in await source.parts(begin, end):
        plan = source.plan(["id"], part.where)
        async for _, read in read_pieces(roots_of(table), plan, part.pieces):
            found += read.column("id").to_pylist()
    return sorted(found)


async def stream(
    table: adelta.Table, most: Any = (1, None), column: str = "at", **more: Any
) -> tuple[list[list[int]], list[Any]]:
    """The ids of every micro-batch, read by a source of its own each; where they end."""
    rules = SourceRules(event_time=column, max_files=most[0], max_bytes=most[1], **more)
    at = await (await TableSource.open(table, rules)).initial_offset()
    found, ends = [], []
    while True:
        source = await TableSource.open(table, rules)
        begin = source.offset(at.to_json())
        end = await source.latest_offset(begin, Admission(*most))
        if end == begin:
            return found, ends
        again = await TableSource.open(table, rules)
        found.append(await ids(table, again, begin, again.offset(end.to_json())))
        ends.append(end)
        at = end


async def test_each_micro_batch_has_the_next_times_out_of_all_files(tmp_path):
    files = [range(200, 300), range(100), [*range(50, 150)], range(300, 310), [None, 250]]
    async with await written(tmp_path / "t", files) as table:
        found, ends = await stream(table)
        assert found[0][0] == -1  # what has no time is never late
        known = [id for batch in found for id in batch if id >= 0]
        assert known == sorted(n for file in files for n in file if n is not None)
        assert 4 <= len(found) <= 7
        assert ends[-1].to_json()["sourceVersion"] == 1
        assert not ends[-1].is_initial
        # Bytes limit as well, and without a limit all come at once.
        by_bytes, _ = await stream(table, (None, 2_000))
        assert len(by_bytes) > 2
        assert [id for batch in by_bytes for id in batch if id >= 0] == known
        whole, _ = await stream(table, (None, None))
        assert len(whole) == 1


async def test_rows_that_come_later_follow_as_they_are_committed(tmp_path):
    async with await written(tmp_path / "t", [[5], [3], [1]]) as table:
        rules = SourceRules(event_time="at", max_files=1)
        source = await TableSource.open(table, rules)
        at = await source.initial_offset()
        await adelta.write_table(tmp_path / "t", rows([2, 4]), mode="append")
        found = []
        while (end := await source.latest_offset(at, Admission(1, None))) != at:
            found.append(await ids(table, source, at, end))
            at = end
        assert found == [[1], [3], [5], [2, 4]]


@pytest.mark.parametrize("kind", [ZONED, PLAIN], ids=["zoned", "plain"])
async def test_partitions_and_files_without_statistics_are_divided_too(tmp_path, kind):
    by_parts = await written(tmp_path / "p", [[7, 2], [9, 4]], kind=kind, partition_by=["at"])
    without = await written(
        tmp_path / "s",
        [[7, 2], [9, 4]],
        kind=kind,
        properties={"delta.dataSkippingNumIndexedCols": "0"},
    )
    async with by_parts, without:
        assert (await stream(by_parts))[0] == [[2], [4], [7], [9]]
        assert (await stream(without))[0] == [[2, 4, 7, 9]]


async def test_a_file_that_spans_all_is_read_in_pieces(tmp_path):
    spanning = [range(0, 1000, 10) for _ in range(8)]
    async with await written(tmp_path / "t", spanning) as table:
        found, _ = await stream(table, (2, None))
        assert [id for batch in found for id in batch] == sorted([*range(0, 1000, 10)] * 8)
        assert [len(batch) for batch in found] == pytest.approx([200] * 4, abs=16)


async def test_the_order_cannot_change_in_its_midst(tmp_path):
    async with await written(tmp_path / "t", [[5], [3], [1]]) as table:
        _, ends = await stream(table)
        plain = await TableSource.open(table, SourceRules())
        with pytest.raises(InvalidOptionError, match="with withEventTimeOrder"):
            plain.offset(ends[0].to_json())
        middle = await plain.latest_offset(await plain.initial_offset(), Admission(1, None))
        ordered = await TableSource.open(table, SourceRules(event_time="at"))
        with pytest.raises(InvalidOptionError, match="without withEventTimeOrder"):
            ordered.offset(middle.to_json())
        assert plain.offset(ends[-1].to_json()) == ends[-1]
        said = ends[0].to_json()
        assert said["sourceVersion"] not in (1, 3)  # no other source takes it for files
        for wrong in ({"eventTime": "x"}, {"isStartingVersion": False}):
            with pytest.raises(UnsupportedFeatureError, match="go on with what wrote it"):
                ordered.offset({**said, **wrong})


async def test_columns_that_have_no_times_are_refused(tmp_path):
    async with await written(tmp_path / "t", [[1]]) as table:
        configuration = (await table.snapshot())._configuration
        assert EventTimeColumn.named("AT", configuration).path == ("at",)
        for name in ("id", "at + interval 1 day"):
            with pytest.raises(InvalidOptionError, match="no column of timestamps"):
                EventTimeColumn.named(name, configuration)
