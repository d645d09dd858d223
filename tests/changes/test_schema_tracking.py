"""Streams that track schemas: where they stop, what they note, and how they go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.changes.schema_log import SchemaTracking
from adelta.changes.source_rules import Admission, SourceRules
from adelta.changes.table_source import TableSource
from adelta.errors import (
    ChangesNotAvailableError,
    InvalidOptionError,
    InvalidTableError,
    SchemaMismatchError,
)
from tests.support.sources import pieces_of

if TYPE_CHECKING:
    from pathlib import Path

MAPPED = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}


class Query:
    """A stream whose checkpoint is a folder: each `run` is a start of it, as Spark has it."""

    def __init__(self, folder: Path) -> None:
        self.uri, self.checkpoint = str(folder / "t"), folder / "c"
        self.checkpoint.mkdir()
        (self.checkpoint / "metadata").write_text("{}")
        self.at: dict[str, Any] | None = None
        self.ends = False  # as a trigger that reads what is there

    async def run(self, *, read_changes: bool = False, start: Any = None, **accepts: str) -> Any:
        """What was read until the stream ended, or stopped: columns, and files of each version."""
        tracking = SchemaTracking(str(self.checkpoint), **accepts)
        rules = SourceRules(start=start, read_changes=read_changes, tracking=tracking)
        async with adelta.open_table(self.uri) as table:
            columns = (await TableSource.open_for_columns(table, rules)).configuration.metadata
            source = await TableSource.open(table, rules)
            assert source.configuration.metadata.schema == columns.schema
            begin = source.offset(self.at) if self.at else await source.initial_offset()
            files: list[int] = []
            try:
                until = None
                if self.ends:
                    until = await source.latest_offset(begin, Admission.unlimited())
                while (
                    end := await source.latest_offset(begin, Admission(1, None), until)
                ) != begin:
                    files.append(len(await pieces_of(source, begin, end)))
                    self.at, begin = end.to_json(), end
            except SchemaMismatchError as error:
                if "goes on with the new columns" not in str(error):
                    raise
                return list(columns.schema.names), sum(files), "stopped"
            return list(columns.schema.names), sum(files), "ended"

    def log(self) -> list[dict[str, Any]]:
        (folder,) = self.checkpoint.glob("_schema_log_*")
        found = sorted(folder.iterdir(), key=lambda file: int(file.name))
        texts = [file.read_text().split("\n") for file in found]
        assert all(kind == "v1" for kind, _ in texts)
        return [json.loads(text) for _, text in texts]


@pytest.fixture
async def query(tmp_path: Path) -> Query:
    query = Query(tmp_path)
    schema = pa.schema([("id", pa.int32()), ("a", pa.string()), ("b", pa.string())])
    await (await adelta.create_table(query.uri, schema, properties=MAPPED)).aclose()
    await append(query, id=1, a="x", b="y")
    return query


async def append(query: Query, **columns: Any) -> None:
    types = {"id": pa.int32()}
    rows = pa.table({k: pa.array([v], types.get(k)) for k, v in columns.items()})
    await adelta.write_table(query.uri, rows, mode="append")


@pytest.mark.parametrize("ends", [False, True])
async def test_a_stream_goes_on_after_columns_were_renamed_dropped_and_widened(
    query: Query, ends: bool
):
    query.ends = ends
    assert await query.run() == (["id", "a", "b"], 1, "ended")
    await append(query, id=2, a="x", b="y")
    await adelta.rename_column(query.uri, "a", "z")
    await append(query, id=3, z="x", b="y")
    assert await query.run() == (["id", "a", "b"], 1, "stopped")
    assert query.at is not None
    assert (query.at["sourceVersion"], query.at["index"]) == (3, -20)
    for accepts in ({}, {"drops": "always"}, {"renames": "2"}):
        with pytest.raises(SchemaMismatchError, match=r"renamed a to z.*allowSourceColumnRename"):
            await query.run(**accepts)
    assert await query.run(renames="3") == (["id", "z", "b"], 1, "ended")
    await adelta.drop_columns(query.uri, ["b"])
    await adelta.change_column(query.uri, "id", type="long")
    await append(query, id=4, z="x")
    assert await query.run(renames="3") == (["id", "z", "b"], 0, "stopped")
    # Both changes, with no rows between them, are one.
    with pytest.raises(SchemaMismatchError, match=r"dropped b; widened the types of id.*'6'"):
        await query.run(renames="3")
    with pytest.raises(
        SchemaMismatchError, match=r"somebody widened .*allowSourceColumnTypeChange"
    ):
        await query.run(drops="always")
    assert await query.run(drops="6", type_changes="always") == (["id", "z"], 1, "ended")
    found = query.log()
    assert [entry["deltaCommitVersion"] for entry in found] == [1, 3, 5, 6]
    assert [entry.get("previousMetadataSeqNum") for entry in found] == [None, None, None, 1]
    source = f"file:{query.checkpoint}/sources/0"
    assert {entry["sourceMetadataPath"] for entry in found} == {source}
    assert json.loads(found[1]["dataSchemaJson"])["fields"][1]["name"] == "z"
    assert json.loads(found[0]["protocolJson"])["protocol"]["minReaderVersion"] == 3


async def test_a_stream_from_an_early_version_begins_with_the_columns_of_that(query: Query):
    await adelta.rename_column(query.uri, "a", "z")
    await append(query, id=2, z="x", b="y")
    assert await query.run(start=1) == (["id", "z", "b"], 0, "stopped")
    assert await query.run(start=1) == (["id", "a", "b"], 1, "stopped")
    assert await query.run(start=1, renames="always") == (["id", "z", "b"], 1, "ended")


async def test_changes_that_are_nothing_to_a_stream_do_not_stop_it(query: Query):
    assert await query.run() == (["id", "a", "b"], 1, "ended")
    await adelta.set_properties(query.uri, {"owner": "me"})
    await append(query, id=2, a="x", b="y")
    assert await query.run() == (["id", "a", "b"], 1, "ended")
    await adelta.add_columns(query.uri, pa.schema([("more", pa.string())]))
    await append(query, id=3, a="x", b="y", more="m")
    assert await query.run() == (["id", "a", "b"], 0, "stopped")
    assert await query.run() == (["id", "a", "b", "more"], 1, "ended")  # nobody has to accept that


async def test_a_first_micro_batch_that_was_not_read_begins_with_later_columns(query: Query):
    rules = SourceRules(tracking=SchemaTracking(str(query.checkpoint)))
    async with adelta.open_table(query.uri) as table:
        source = await TableSource.open(table, rules)
        await source.latest_offset(await source.initial_offset(), Admission(1, None))
    await adelta.rename_column(query.uri, "a", "z")
    await append(query, id=2, z="x", b="y")
    assert await query.run() == (["id", "a", "b"], 0, "stopped")
    assert await query.run() == (["id", "z", "b"], 2, "ended")


async def test_change_data_are_read_on_with_new_columns(query: Query):
    await adelta.set_properties(query.uri, {"delta.enableChangeDataFeed": "true"})
    assert await query.run(read_changes=True) == (["id", "a", "b"], 1, "ended")
    await append(query, id=2, a="x", b="y")
    await adelta.rename_column(query.uri, "a", "z")
    await adelta.update(query.uri, {"z": "'new'"})
    assert await query.run(read_changes=True) == (["id", "a", "b"], 1, "stopped")
    names, files, how = await query.run(read_changes=True, renames="always")
    assert (names, how) == (["id", "z", "b"], "ended")
    assert files > 0


async def test_what_deltas_own_source_left_is_gone_on_from(query: Query):
    assert await query.run() == (["id", "a", "b"], 1, "ended")
    await adelta.rename_column(query.uri, "a", "z")
    await append(query, id=2, z="x", b="y")
    assert await query.run() == (["id", "a", "b"], 0, "stopped")
    assert query.at is not None
    query.at["index"] = -19  # the second barrier, which Delta's own source needs
    (folder,) = query.checkpoint.glob("_schema_log_*")
    entry = json.loads((folder / "1").read_text().split("\n")[1])
    del entry["protocolJson"]  # as early versions wrote it
    entry["sourceMetadataPath"] = "hdfs://n/c/sources/3"
    (folder / "1").write_text("v1\n" + json.dumps(entry))
    assert await query.run(renames="always") == (["id", "z", "b"], 1, "ended")
    await adelta.drop_columns(query.uri, ["b"])
    assert await query.run(renames="always") == (["id", "z", "b"], 0, "stopped")
    assert query.log()[-1]["sourceMetadataPath"] == "hdfs://n/c/sources/3"


async def test_logs_that_are_not_this_streams_are_refused(query: Query, tmp_path: Path):
    outside = SourceRules(tracking=SchemaTracking(str(tmp_path / "outside")))
    async with adelta.open_table(query.uri) as table:
        source = await TableSource.open(table, outside)
        with pytest.raises(InvalidOptionError, match="not in the checkpoint"):
            await source.latest_offset(await source.initial_offset(), Admission(1, None))
        rules = SourceRules(tracking=SchemaTracking(str(query.checkpoint)))
        first, second = [await TableSource.open(table, rules) for _ in range(2)]
        begin = await first.initial_offset()
        await first.latest_offset(begin, Admission(1, None))
        with pytest.raises(InvalidOptionError, match="streamingSourceTrackingId"):
            await second.latest_offset(begin, Admission(1, None))
        (folder,) = query.checkpoint.glob("_schema_log_*")
        text = (folder / "0").read_text()
        (folder / "0").write_text(text.replace(begin.table_id, "another"))
        with pytest.raises(ChangesNotAvailableError, match="id another"):
            await TableSource.open(table, rules)
        (folder / "0").write_text("v1\n{}")
        with pytest.raises(InvalidTableError, match="damaged"):
            await TableSource.open(table, rules)


async def test_a_type_that_became_another_one_cannot_be_accepted(query: Query):
    assert await query.run() == (["id", "a", "b"], 1, "ended")
    rows = pa.table({"id": ["1"], "a": ["x"], "b": ["y"]})
    await adelta.write_table(query.uri, rows, mode="overwrite", schema_mode="overwrite")
    everything = {"renames": "always", "drops": "always", "type_changes": "always"}
    assert await query.run(**everything) == (["id", "a", "b"], 0, "stopped")
    with pytest.raises(SchemaMismatchError, match=r"type of the column id|dropped"):
        await query.run()
