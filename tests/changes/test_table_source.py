"""A table as a source of micro-batches: what each of them has, and what ends a stream."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pytest

import adelta
from adelta.changes.source_offset import SourceOffset
from adelta.changes.source_rules import Admission, SourceRules
from adelta.changes.table_source import TableSource
from adelta.errors import (
    AdeltaError,
    ChangesNotAvailableError,
    InvalidOptionError,
    InvalidUseError,
    ObjectNotFoundError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from adelta.kernel.log_path import commit_path
from adelta.storage.memory import MemoryStore
from tests.support.data_tables import described, inline_vector, opened
from tests.support.logs import Line, add, metadata, put_commit, remove
from tests.support.sources import pieces_of
from tests.support.stores import DenyingStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.stores import Request

R = TypeVar("R")

ID = "8e2f2a1c-5a0e-4f0a-9c55-3f1f8f4d7a11"
IDS = pa.schema([("id", pa.int64())])
ON = {"delta.enableChangeDataFeed": "true"}
TABLE = described(IDS)
FED = described(IDS, writer_features=("changeDataFeed",), configuration=ON)


def adds(*names: str, **more: Any) -> list[Line]:
    return [add(name, **more) for name in names]


def gone(*names: str) -> list[Line]:
    return [remove(name) for name in names]


def offset(version: int, index: int = -1, *, initial: bool = False, **more: Any) -> dict[str, Any]:
    """As a checkpoint has it."""
    found = {"sourceVersion": 1, "reservoirId": ID, "reservoirVersion": version}
    return {**found, "index": index, "isStartingVersion": initial, **more}


async def source(table: adelta.Table, **rules: Any) -> TableSource:
    return await TableSource.open(table, SourceRules(**rules))


async def stream(table: adelta.Table, start: Any = None, **rules: Any) -> list[tuple[Any, ...]]:
    """Every micro-batch: where it ends, and its files, planned by a source that was just made."""
    from_here = await source(table, **rules)
    at = await from_here.initial_offset() if start is None else from_here.offset(start)
    found = []
    while True:
        limits = Admission(rules.get("max_files"), rules.get("max_bytes"))
        end = await from_here.latest_offset(at, limits)
        if end == at:
            return found
        again = await source(table, **rules)
        begin = at if found or start is not None else await again.initial_offset()
        pieces = await pieces_of(again, again.offset(begin.to_json()), again.offset(end.to_json()))
        assert pieces == await pieces_of(from_here, at, end)
        found.append((end.to_json(), [piece.file.path for piece in pieces]))
        at = end


async def files_of(table: adelta.Table, start: Any = None, **rules: Any) -> list[list[str]]:
    return [files for _, files in await stream(table, start, **rules)]


async def test_a_stream_begins_with_the_files_by_time_and_path_and_goes_on_with_commits():
    first = [
        add("b", modificationTime=1),
        add("a", modificationTime=2),
        add("c", modificationTime=1),
    ]
    table = await opened(MemoryStore(), [*TABLE, *first], adds("z", "y", modificationTime=3))
    started = await source(table)
    await put_commit(table.store, 2, *adds("x", "w", "v"))
    await put_commit(table.store, 3, *adds("u"))
    at, found = await started.initial_offset(), []
    assert at.to_json() == offset(1, initial=True)
    while (end := await started.latest_offset(at, Admission(3, None))) != at:
        found.append((end.to_json(), [p.file.path for p in await pieces_of(started, at, end)]))
        at = end
    assert found == [
        (offset(1, 2, initial=True), ["b", "c", "a"]),
        (offset(2, 0), ["y", "z", "x"]),
        (offset(4), ["w", "v", "u"]),
    ]


async def test_what_a_stream_reads_is_limited_by_files_and_by_bytes_but_one_comes_always():
    table = await opened(MemoryStore(), TABLE, adds("a", "b", size=10), adds("c", size=99))
    one_by_one = [["a"], ["b"], ["c"]]
    assert await files_of(table, max_files=1) == one_by_one
    assert await files_of(table, max_bytes=1) == one_by_one
    assert await files_of(table, max_bytes=11) == [["a", "b"], ["c"]]
    assert await files_of(table, max_files=2, max_bytes=1000) == [["a", "b"], ["c"]]
    assert await files_of(table) == [["a", "b", "c"]]
    assert await files_of(table, offset(1, 0), max_files=5) == [["b", "c"]]


async def test_a_first_micro_batch_that_is_run_again_has_the_same_files_though_the_table_grew():
    table = await opened(MemoryStore(), [*TABLE, *adds("a", "b")], adds("c"))
    before = await source(table)
    start = await before.initial_offset()
    part = await before.latest_offset(start, Admission(2, None))
    whole = await before.latest_offset(start, Admission(9, None))
    await put_commit(table.store, 2, *adds("d"))
    again = await source(table)
    restarted = await again.initial_offset()
    assert restarted.version == 2
    for end, files in ((part, ["a", "b"]), (whole, ["a", "b", "c"])):
        assert [p.file.path for p in await pieces_of(again, restarted, end)] == files
    assert [p.file.path for p in await pieces_of(again, part, whole)] == ["c"]
    assert await pieces_of(again, whole, whole) == []


async def test_a_stream_begins_with_a_version_a_time_or_what_is_new():
    table = await opened(MemoryStore(), TABLE, adds("a"), adds("b"))
    assert await files_of(table, max_files=5) == [["a", "b"]]
    assert await stream(table, offset(2)) == [(offset(3), ["b"])]
    began = await source(table, start=2)
    assert (await began.initial_offset()).to_json() == offset(2)
    for start, says in ((3, "'latest'"), (datetime(2999, 1, 1, tzinfo=UTC), "2999")):
        with pytest.raises(VersionNotFoundError, match=says):
            await (await source(table, start=start)).initial_offset()
    early = await source(table, start=datetime(2000, 1, 1, tzinfo=UTC))
    assert (await early.initial_offset()).to_json() == offset(0)
    new = await source(table, start="latest")
    pinned = await new.initial_offset()
    await put_commit(table.store, 3, *adds("c"))
    # "latest" is written down by a micro-batch without rows; else a restart would mean another one.
    assert await new.latest_offset(pinned, Admission(None, None)) == pinned
    end = await new.latest_offset(pinned, Admission(None, None))
    assert [p.file.path for p in await pieces_of(new, pinned, end)] == ["c"]
    restarted = await source(table, start="latest")
    assert await pieces_of(restarted, await restarted.initial_offset(), pinned) == []


async def test_rearranged_files_are_nothing_new():
    moved = [add("c", dataChange=False), {"remove": {"path": "a", "dataChange": False}}]
    table = await opened(MemoryStore(), [*TABLE, *adds("a")], adds("b"), moved, adds("d"))
    assert await files_of(table, offset(1)) == [["b", "d"]]
    assert [end for end, _ in await stream(table, offset(2), max_files=1)] == [offset(4)]


DELETED, CHANGED = gone("a"), [*gone("a"), *adds("c")]
SKIP, NO_DELETES, NO_CHANGES = (
    {"skip_change_commits": True}, {"ignore_deletes": True}, {"ignore_changes": True}
)  # fmt: skip


@pytest.mark.parametrize(
    ("commit", "rules", "files"),
    [
        (DELETED, {}, "deletes rows.*skipChangeCommits .or ignoreDeletes"),
        (CHANGED, {}, "changes rows.*skipChangeCommits"),
        (CHANGED, NO_DELETES, "changes rows"),
        (DELETED, NO_DELETES, ["d"]),
        (DELETED, NO_CHANGES, ["d"]),
        (CHANGED, NO_CHANGES, ["c", "d"]),
        (DELETED, SKIP, ["d"]),
        (CHANGED, SKIP, ["d"]),
    ],
)
async def test_commits_that_delete_or_change_rows_end_a_stream_unless_they_are_allowed(
    commit, rules, files
):
    table = await opened(MemoryStore(), [*TABLE, *adds("a", "b")], commit, adds("d"))
    if isinstance(files, str):
        with pytest.raises(InvalidUseError, match=files):
            await files_of(table, offset(1), **rules)
    else:
        assert await files_of(table, offset(1), **rules) == [files]


async def test_files_that_an_expression_finds_are_left_out():
    table = await opened(MemoryStore(), [*TABLE, *adds("p=1/a", "p=2/b")], adds("p=1/c"))
    assert await files_of(table, exclude=re.compile("p=1"), max_files=2) == [[], ["p=2/b"]]


# ------------------------------------------------------------------------------------ the feed


def cdc(name: str, size: int = 1) -> Line:
    file = {"path": name, "partitionValues": {}, "size": size, "dataChange": False}
    return {"cdc": file}


async def changed(table, start, **rules) -> list[list[tuple[str, str | None]]]:
    rules["read_changes"] = True
    from_here, found = await source(table, **rules), []
    at = from_here.offset(start)
    while (end := await from_here.latest_offset(at, Admission(rules.get("max_files"), None))) != at:
        pieces = await pieces_of(from_here, at, end)
        found.append([(piece.file.path, piece.tag.kind) for piece in pieces])
        at = end
    return found


async def test_the_feed_begins_with_inserts_and_goes_on_with_what_commits_changed():
    table = await opened(
        MemoryStore(), [*FED, *adds("a", "b")], [cdc("x"), cdc("y"), *gone("a"), *adds("c")]
    )
    await put_commit(table.store, 2, *gone("b"))
    assert await changed(table, offset(0, initial=True)) == [
        [("a", "insert"), ("b", "insert"), ("x", None), ("y", None), ("b", "delete")]
    ]
    # Files of changes are never parted: before and after of a row stay together.
    assert await changed(table, offset(0, initial=True), max_files=1) == [
        [("a", "insert")], [("b", "insert")], [("x", None), ("y", None)], [("b", "delete")]
    ]  # fmt: skip


async def test_added_and_removed_files_of_the_feed_are_counted_as_their_lines_stand():
    commit = [*gone("a"), *adds("d"), *gone("b"), *adds("e")]
    table = await opened(MemoryStore(), [*FED, *adds("a", "b")], commit)
    assert await changed(table, offset(1, 1)) == [[("b", "delete"), ("e", "insert")]]
    assert await changed(table, offset(1, 0), max_files=2) == [
        [("b", "delete"), ("d", "insert")], [("e", "insert")]
    ]  # fmt: skip


async def test_the_feed_has_to_be_on_from_where_the_stream_begins():
    on = [metadata(schemaString=FED[1]["metaData"]["schemaString"], configuration=ON)]
    table = await opened(MemoryStore(), [FED[0], TABLE[1], *adds("a")], on, adds("b"))
    assert await changed(table, offset(1)) == [[("b", "insert")]]
    with pytest.raises(ChangesNotAvailableError, match="not enabled at version 0"):
        await changed(table, offset(0))
    off = metadata(schemaString=FED[1]["metaData"]["schemaString"])
    await put_commit(table.store, 3, off)
    with pytest.raises(ChangesNotAvailableError, match="not enabled at version 3"):
        await changed(table, offset(1))


async def test_rows_under_new_vectors_are_read_as_changes_of_one_micro_batch():
    vector = {"deletionVector": inline_vector([0, 1])}
    table = await opened(
        MemoryStore(), [*FED, *adds("a", "b")], [*gone("a"), add("a", **vector), *gone("b")]
    )
    assert await changed(table, offset(1), max_files=1) == [[("b", "delete"), ("a", "delete")]]


# ---------------------------------------------------------------------------------- the columns


def columns(**types: pa.DataType) -> list[Line]:
    return [described(pa.schema(list(types.items())))[1]]


async def test_later_columns_end_a_stream_which_goes_on_when_it_is_started_again():
    table = await opened(MemoryStore(), [*TABLE, *adds("a")])
    running = await source(table)
    at = await running.latest_offset(await running.initial_offset(), Admission(None, None))
    await put_commit(table.store, 1, *columns(id=pa.int64(), more=pa.string()), *adds("b"))
    with pytest.raises(SchemaMismatchError, match="start the stream again, with the same"):
        await running.latest_offset(at, Admission(None, None))
    assert await files_of(table, at.to_json()) == [["b"]]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ({"id": pa.int64(), "b": pa.int64()}, {"id": pa.int64()}, "cannot read"),
        ({"id": pa.string()}, {"id": pa.int64()}, "cannot read"),
        ({"id": pa.int32()}, {"id": pa.int64()}, None),
    ],
)
async def test_earlier_columns_are_read_where_nothing_is_lost(before, after, says):
    table = await opened(
        MemoryStore(), [TABLE[0], *columns(**before), *adds("a")], columns(**after), adds("b")
    )
    if says is None:
        assert await files_of(table, offset(0)) == [["a", "b"]]
    else:
        with pytest.raises(SchemaMismatchError, match=says):
            await files_of(table, offset(0))
        assert await files_of(table, offset(1)) == [["b"]]


@pytest.mark.parametrize("renames", [True, False])
async def test_renamed_and_dropped_columns_need_a_new_checkpoint(tmp_path, renames):
    path = str(tmp_path / "t")
    schema, by_name = pa.schema([("a", pa.int64()), ("b", pa.int64())]), {
        "delta.columnMapping.mode": "name"
    }  # fmt: skip
    async with await adelta.create_table(path, schema, properties=by_name) as table:
        await adelta.write_table(table, pa.table({"a": [1], "b": [2]}), mode="append")
        running = await source(table)
        at = await running.latest_offset(await running.initial_offset(), Admission(None, None))
        if renames:
            await adelta.rename_column(table, "b", "c")
        else:
            await adelta.drop_columns(table, ["b"])
        says = "b was renamed to c" if renames else "b was dropped"
        with pytest.raises(SchemaMismatchError, match=says):
            await running.latest_offset(at, Admission(None, None))
        with pytest.raises(SchemaMismatchError, match=says):
            await files_of(table, {**at.to_json(), "reservoirVersion": 1})


# ------------------------------------------------------------------------- offsets and lost data


@pytest.mark.parametrize(
    ("raw", "error", "says"),
    [
        (offset(0, reservoirId="other"), ChangesNotAvailableError, "made anew, or another one"),
        (offset(0, sourceVersion=2), UnsupportedFeatureError, "source version 2"),
        (offset(0, sourceVersion=4), UnsupportedFeatureError, "source version 4"),
        ({"version": 1}, InvalidOptionError, "no offset of a Delta table"),
        (offset(0, isStartingVersion="yes"), InvalidOptionError, "no offset of a Delta table"),
    ],
)
async def test_offsets_of_others_are_refused(raw, error, says):
    table = await opened(MemoryStore(), TABLE)
    with pytest.raises(error, match=says):
        (await source(table)).offset(raw)


def test_offsets_are_written_as_they_were_read():
    for raw in (offset(3), offset(3, 7), offset(0, 5, initial=True)):
        assert SourceOffset.from_json(raw, ID).to_json() == raw
    stopped = offset(3, -20, sourceVersion=3)
    assert SourceOffset.from_json(stopped, ID).to_json() == stopped
    assert SourceOffset.from_json(offset(3, -100, sourceVersion=3), ID).to_json() == offset(3)


async def test_commits_that_were_cleaned_up_are_an_error_unless_their_loss_is_accepted(tmp_path):
    path = str(tmp_path / "t")
    async with await adelta.create_table(path, IDS) as table:
        for number in range(5):
            await adelta.write_table(table, pa.table({"id": [number]}), mode="append")
        await adelta.checkpoint(table)
        id = (await table.snapshot()).metadata.id
    for version in range(4):
        (tmp_path / "t" / commit_path(version)).unlink()
    async with adelta.open_table(path) as table:
        start = {**offset(2), "reservoirId": id}
        with pytest.raises(AdeltaError, match="cleaned up"):
            await files_of(table, start)
        assert [len(f) for f in await files_of(table, start, fail_on_data_loss=False)] == [2]
        with pytest.raises(ChangesNotAvailableError, match="cleaned up"):
            await (await source(table, start=1)).initial_offset()


async def test_a_stream_that_ends_with_what_is_there_reads_no_later_commit():
    table = await opened(MemoryStore(), [*TABLE, *adds("a", "b")], adds("c"))
    running = await source(table)
    start = await running.initial_offset()
    until = await running.latest_offset(start, Admission.unlimited())
    await put_commit(table.store, 2, *adds("d"))
    at, files = start, []
    while (end := await running.latest_offset(at, Admission(2, None), until)) != at:
        files.append([piece.file.path for piece in await pieces_of(running, at, end)])
        at = end
    assert files == [["a", "b"], ["c"]]
    assert at == until


async def test_a_table_that_takes_the_place_of_the_one_that_is_read_ends_the_stream():
    table = await opened(MemoryStore(), TABLE, adds("a"), adds("b"))
    running = await source(table)
    at = await running.latest_offset(await running.initial_offset(), Admission.unlimited())
    assert await running.latest_offset(at, Admission.unlimited()) == at
    another = [TABLE[0], {"metaData": {**TABLE[1]["metaData"], "id": "another"}}]
    for version, lines in enumerate((another, adds("w", "x"), adds("y", "z"), adds("w"))):
        await table.store.delete([commit_path(version)])
        await put_commit(table.store, version, *lines)
    with pytest.raises(ChangesNotAvailableError, match="another one was made, with the id another"):
        await running.latest_offset(at, Admission.unlimited())


async def begun_and_denied() -> tuple[TableSource, DenyingStore]:
    """A stream of a table of four commits, and the store, which does not deny one of them yet."""
    inner = MemoryStore()
    await opened(inner, TABLE, adds("a"), adds("b"), adds("c"))
    store = DenyingStore(inner, commit_path(2), 0)
    begun = await source(adelta.Table("memory://data", store=store))
    return begun, store


@pytest.mark.parametrize("times", [1, 4])
async def test_a_commit_that_is_shown_and_denied_is_asked_for_again(times: int) -> None:
    begun, store = await begun_and_denied()
    store.left = times
    at = begun.offset(offset(0))
    end = await begun.latest_offset(at, Admission(None, None))
    assert [piece.file.path for piece in await pieces_of(begun, at, end)] == ["a", "b", "c"]
    assert not store.left


async def test_but_not_for_ever_and_it_has_not_been_cleaned_up() -> None:
    begun, store = await begun_and_denied()
    store.left = 1000
    with pytest.raises(ObjectNotFoundError, match="shows the commits of the versions"):
        await begun.latest_offset(begun.offset(offset(0)), Admission(None, None))
    assert store.left > 980


async def test_one_that_is_gone_when_it_is_read_has_been_cleaned_up() -> None:
    begun, store = await begun_and_denied()
    inner = store.inner

    class Late(DenyingStore):
        """Where the first commits are deleted once they have been listed."""

        async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
            if request.kind == "get":
                await inner.delete([commit_path(0), commit_path(1), commit_path(2)])
            return await run()

    begun._log._store = Late(inner)
    with pytest.raises(ChangesNotAvailableError, match="cleaned up meanwhile"):
        await begun.latest_offset(begun.offset(offset(0)), Admission(None, None))
