"""CommitOptions: what the commits of a handle say beside, and how they are made."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta import CommitOptions, SetTransaction
from adelta.errors import CommitConflictError, InvalidOptionError, InvalidUseError

ROWS = pa.table({"n": [1, 2, 3]})


def lines(uri: str, version: int) -> str:
    return Path(f"{uri}/_delta_log/{version:020}.json").read_text(encoding="utf-8")


def commit_info(uri: str, version: int) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(lines(uri, version).splitlines()[0])["commitInfo"]
    return found


async def test_every_operation_of_the_handle_says_what_they_say(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    options = CommitOptions(
        commit_info={"userName": "ada", "job": {"run": 7}},
        parameters={"why": "test", "mode": "theirs"},
        user_metadata="um",
        set_transactions=[SetTransaction("loader", 3), SetTransaction("other", 1, 5)],
    )
    await adelta.create_table(uri, ROWS.schema, commits=options)
    async with adelta.open_table(uri) as table:
        told = table.committing(options)
        await adelta.write_table(told, ROWS)
        await adelta.delete(told, "n = 1")
        await adelta.update(told, {"n": "n + 1"})
        await adelta.write_table(table, ROWS)
        snapshot = await table.snapshot()
    for version in range(4):
        info = commit_info(uri, version)
        assert (info["userName"], info["job"], info["userMetadata"]) == ("ada", {"run": 7}, "um")
        assert info["operationParameters"]["why"] == "test"
    assert commit_info(uri, 1)["operationParameters"]["mode"] == "Append"  # the operation's own
    assert "userName" not in commit_info(uri, 4)
    assert snapshot.version == 4
    entry = (await adelta.history(uri, 2))[1]
    assert (entry.user_name, entry.job) == ("ada", {"run": 7})


async def test_applications_are_recorded_and_nothing_is_skipped(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    once = CommitOptions(set_transactions=[SetTransaction("loader", 3)])
    async with adelta.open_table(uri) as table:
        for _ in range(2):
            written = await adelta.write_table(table.committing(once), ROWS)
            assert not written.skipped
            assert '"txn":{"appId":"loader","version":3' in lines(uri, 0)
        skipped = await adelta.write_table(table, ROWS, txn=("loader", 3))
    assert skipped.skipped  # who asks for it is held to what they recorded


async def test_changes_of_rows_are_done_once_for_an_application(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    await adelta.write_table(uri, ROWS)
    async with adelta.open_table(uri) as table:
        for number, change in enumerate(
            (
                lambda told: adelta.write_table(told, pa.table({"n": [9]})),
                lambda told: adelta.update(told, {"n": "n + 1"}),
                lambda told: adelta.delete(told, "n > 9"),
                lambda told: (
                    adelta.merge(told, pa.table({"n": [2]}), "source.n = target.n")
                    .when_matched_update({"n": "target.n + 10"})
                    .execute()
                ),
            )
        ):
            told = table.committing(CommitOptions(txn=("job", number)))
            done = [await change(told), await change(told)]
            assert (await table.snapshot()).version == number + 1, number
            assert (done[0].version, done[1].version) == (number + 1, None)
            assert f'"txn":{{"appId":"job","version":{number}' in lines(uri, number + 1)
            found = (await (await table.snapshot()).scan().to_arrow()).column("n").to_pylist()
        assert sorted(found) == [3, 4, 12]
        dry = await adelta.delete(told, "n = 3", dry_run=True)
        assert (dry.num_deleted_rows, dry.version) == (0, None)
        assert (await adelta.update(told, {"n": "1"}, dry_run=True)).num_updated_rows == 0
        await adelta.set_properties(told, {"mine": "1"})  # no change of rows
        await adelta.write_table(table, ROWS)
        next_one = table.committing(CommitOptions(txn=("job", 99)))
        await adelta.optimize(next_one)
        assert (await table.snapshot()).version == 7
        assert '"txn"' not in lines(uri, 7)
        assert (await adelta.delete(next_one, "n = 1")).version == 8
    with pytest.raises(InvalidOptionError, match="an application's id and its version"):
        CommitOptions(txn="job")  # type: ignore[arg-type]


async def test_who_has_not_seen_that_a_change_is_done_does_not_do_it_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    await adelta.write_table(uri, ROWS)
    once = CommitOptions(txn=("job", 1))
    async with adelta.open_table(uri) as mine, adelta.open_table(uri) as other:
        await mine.snapshot()
        await adelta.update(other.committing(once), {"n": "n + 1"}, "n = 1")
        for late in (
            await adelta.delete(mine.committing(once), "n = 3"),
            await adelta.update(mine.committing(once), {"n": "n + 1"}, "n = 3"),
        ):
            assert late.version is None
        assert (await other.snapshot()).version == 1


async def test_so_many_races_may_be_lost_and_no_more(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    await adelta.write_table(uri, ROWS)

    async def lose_one(retries: int) -> int | None:
        async with adelta.open_table(uri) as mine:
            await mine.snapshot()
            told = mine.committing(CommitOptions(max_retries=retries))
            async with told.transaction() as tx:
                await tx.append(ROWS)
                await asyncio.to_thread(adelta.sync.write_table, uri, ROWS)
            return tx.version

    with pytest.raises(CommitConflictError, match=r"\(0 retries\)"):
        await lose_one(0)
    assert await lose_one(1) == 3


async def test_checkpoints_are_left_out_where_that_is_asked(tmp_path: Path) -> None:
    every = {"delta.checkpointInterval": "1"}
    for asked in (True, False):
        uri = str(tmp_path / f"{asked}")
        await adelta.create_table(uri, ROWS.schema, properties=every)
        async with adelta.open_table(uri) as table:
            await adelta.write_table(table.committing(CommitOptions(checkpoint=asked)), ROWS)
        log = tmp_path / f"{asked}" / "_delta_log"
        assert bool(list(log.glob("*.checkpoint.parquet"))) is asked


async def test_the_handle_lives_by_the_one_that_it_comes_from(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    await adelta.write_table(uri, ROWS)
    table = adelta.open_table(uri)
    told = table.committing(CommitOptions(user_metadata="um"))
    await told.aclose()
    with pytest.raises(InvalidUseError, match="closed"):
        await told.snapshot()
    again = table.committing(CommitOptions(user_metadata="um"))
    assert (await again.snapshot()).version == 0
    copied = pickle.loads(pickle.dumps(again))
    await adelta.write_table(copied, ROWS)
    await copied.aclose()
    assert commit_info(uri, 1)["userMetadata"] == "um"
    await table.aclose()
    with pytest.raises(InvalidUseError, match="closed"):
        await again.snapshot()


@pytest.mark.parametrize(
    "wrong",
    [
        {"commit_info": {"engineInfo": "mine"}},
        {"commit_info": {"x": object()}},
        {"parameters": 3},
        {"user_metadata": 3},
        {"set_transactions": [("loader", 3)]},
        {"max_retries": -1},
        {"checkpoint": "no"},
        {"clean_up": 1},
    ],
)
def test_what_is_no_option_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        replace(CommitOptions(), **wrong)


def codecs(uri: str) -> set[str]:
    files = adelta.sync.open_table(uri).snapshot().files().column("path").to_pylist()
    return {pq.read_metadata(f"{uri}/{path}").row_group(0).column(0).compression for path in files}


async def test_data_files_are_written_as_they_say_by_whatever_writes_them(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    gzip = CommitOptions(data_files=adelta.DataFileOptions(compression="gzip"))
    await adelta.write_table(uri, ROWS)
    assert codecs(uri) == {"ZSTD"}
    async with adelta.open_table(uri) as table:
        told = table.committing(gzip)
        await adelta.update(told, {"n": "n + 1"}, "n = 1")
        assert codecs(uri) == {"GZIP"}
        await adelta.write_table(table, ROWS, mode="overwrite")
        await adelta.delete(told, "n = 1")
        assert codecs(uri) == {"GZIP"}
        for _ in range(2):
            await adelta.write_table(table, ROWS)
        await adelta.optimize(told)
        assert codecs(uri) == {"GZIP"}
        own = adelta.WriterOptions(compression="snappy")
        await adelta.write_table(told, ROWS, mode="overwrite", writer_options=own)
        assert codecs(uri) == {"SNAPPY"}  # who is told by itself goes by that
