"""Tables of `adelta serve` from end to end: created, taken over, written, moved and released."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa
import pytest

import adelta
from adelta.commit.owner_client import AdeltaOwnerClient, backfill_tables
from adelta.commit.owner_commit import OwnerCoordinator
from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidTableError,
    InvalidUseError,
    MissingCommitError,
    ProtocolChangedError,
)
from adelta.owner.database import Statement
from adelta.owner.table_logs import TableLog
from tests.support.local_servers import free_port
from tests.support.owners import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from adelta.commit.owner import CommitResponse, ProposedCommit
    from adelta.table import Table
    from tests.support.owners import Owner
    from tests.support.s3_server import S3Location

OWNER = "delta.managedCommit.commitOwner"
CONF = "delta.managedCommit.commitOwnerConf"


@pytest.fixture
async def owner(tmp_path: Path) -> AsyncIterator[Owner]:
    async with running(tmp_path) as service:
        yield service


async def options_of(owner: Owner) -> dict[str, str]:
    return {"adelta_owner_endpoint": owner.endpoint, "adelta_owner_token": await owner.token()}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


async def ids(table: Table) -> list[int]:
    return sorted((await (await table.snapshot()).scan().to_arrow())["id"].to_pylist())


async def append(table: Table, *ids: int) -> int | None:
    return (await adelta.write_table(table, rows(*ids), mode="append")).version


async def test_a_table_is_made_with_an_owner_and_goes_back_to_the_filesystem(
    owner: Owner,
) -> None:
    uri, options = str(owner.folder / "sales"), await options_of(owner)
    conf = f'{{"endpoint": "{owner.endpoint}"}}'
    async with await adelta.create_table(
        uri,
        rows().schema,
        properties={OWNER: "adelta", CONF: conf},
        storage_options=options,
    ) as table:
        assert [await append(table, n) for n in range(1, 6)] == [1, 2, 3, 4, 5]
        async with adelta.open_table(uri, options) as other:
            assert await ids(other) == [1, 2, 3, 4, 5]
        with pytest.raises(ProtocolChangedError):
            await append_during(table, adelta.release_table(uri, storage_options=options))
        assert sorted(owner.log("sales")) == [0, 1, 2, 3, 4, 5, 6]
        assert await append(table, 7) == 7
    async with adelta.open_table(uri) as plain:  # nobody needs the owner any more
        assert await ids(plain) == [1, 2, 3, 4, 5, 7]


async def test_a_long_commit_is_backfilled_from_the_folder_of_delta_sparks_feature(
    owner: Owner,
) -> None:
    uri, options = str(owner.folder / "long"), await options_of(owner)
    await adelta.write_table(uri, rows(0))
    async with adelta.open_table(uri, options) as table:
        conf, feature = {"endpoint": owner.endpoint}, "coordinatedCommits-preview"
        await adelta.adopt_table(table, "adelta", conf, feature=feature)
        async with table.transaction() as tx:
            await tx.append(rows(2))
            tx.set_transaction("x" * (1 << 20), 2)
        assert await append(table, 3) == 3
        await adelta.checkpoint(table)
    assert sorted(owner.log("long")) == [0, 1, 2, 3]
    assert len([*(owner.folder / "long" / "_delta_log" / "_staged_commits").iterdir()]) == 1


async def test_a_commit_waits_for_a_service_that_is_started_anew(tmp_path: Path) -> None:
    uri = str(tmp_path / "patient")
    await adelta.write_table(uri, rows(0))
    port = free_port()
    async with running(tmp_path, port=port) as owner:
        options = await options_of(owner)
        table = adelta.open_table(uri, options)
        await adelta.adopt_table(table, "adelta", {"endpoint": owner.endpoint})
        begun = table.transaction()
        await (await begun.__aenter__()).append(rows(1))

    async def serve_again() -> None:
        await anyio.sleep(0.2)
        async with running(tmp_path, port=port):
            await done.wait()

    done = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(serve_again)
        await begun.__aexit__(None, None, None)
        assert begun.version == 2
        assert await ids(table) == [0, 1]
        await table.aclose()
        done.set()


@pytest.mark.parametrize("kept", [0, 1, 3])
async def test_an_owner_whose_database_was_lost_goes_on_with_what_is_published(
    tmp_path: Path, kept: int
) -> None:
    """Lost altogether, or restored from a backup that was made when a version was the latest."""
    uri, backup = str(tmp_path / "old"), tmp_path / "backup.db"
    await adelta.write_table(uri, rows(0))
    async with running(tmp_path) as owner:
        options, port = await options_of(owner), int(owner.endpoint.rpartition(":")[2])
        conf = {"endpoint": owner.endpoint}
        await adelta.adopt_table(uri, "adelta", conf, storage_options=options)
        async with adelta.open_table(uri, options) as table:
            for version in range(1, 6):
                if version == kept:
                    with closing(sqlite3.connect(tmp_path / "owner.db")) as base:
                        base.execute("VACUUM INTO ?", [str(backup)])
                if version > 1:
                    await append(table, version)
            assert await adelta.recover_table(table) == 5  # which changes nothing
        await backfill_tables(options)
    lose_database(tmp_path, backup)
    async with running(tmp_path, port=port) as owner:
        options |= {"adelta_owner_token": await owner.token()}
        async with adelta.open_table(uri, options) as table:
            with pytest.raises(InvalidTableError, match=r"recover|restored from a backup"):
                await append(table, 6)
            assert await adelta.recover_table(table) == 5
            assert await append(table, 6) == 6
            assert await ids(table) == [0, 2, 3, 4, 5, 6]
        await backfill_tables(options)
        with pytest.raises(InvalidUseError, match="names no commit owner"):
            await adelta.recover_table(await made(tmp_path / "plain"))
    assert sorted(owner.log("old")) == [*range(7)]


def lose_database(folder: Path, backup: Path) -> None:
    for file in folder.glob("owner.db*"):
        file.unlink()
    if backup.exists():
        backup.rename(folder / "owner.db")


async def made(folder: Path) -> str:
    await adelta.write_table(str(folder), rows(1))
    return str(folder)


async def append_during(table: Table, change: object) -> None:
    async with table.transaction() as tx:
        await tx.append(rows(99))
        await change  # type: ignore[misc]


async def test_a_table_is_taken_over_while_it_is_written_and_given_to_no_endpoint_but_those_named(
    owner: Owner,
) -> None:
    uri, options = str(owner.folder / "moving"), await options_of(owner)
    await adelta.write_table(uri, rows(0))
    async with adelta.open_table(uri, options) as table:
        async with table.transaction() as tx:
            await tx.append(rows(1))
            conf = {"endpoint": owner.endpoint}
            await adelta.adopt_table(uri, "adelta", conf, storage_options=options)
        assert tx.version == 2
        assert await append(table, 2) == 3
        with pytest.raises(InvalidOptionError, match="adelta_owner_endpoint"):
            await adelta.adopt_table(table, "adelta", {"endpoint": "http://127.0.0.1:9"})
        assert await ids(table) == [0, 1, 2]


async def test_every_writer_of_several_commits_once(owner: Owner) -> None:
    uri, options = str(owner.folder / "busy"), await options_of(owner)
    await adelta.write_table(uri, rows(0))
    await adelta.adopt_table(uri, "adelta", {"endpoint": owner.endpoint}, storage_options=options)

    async def write(writer: int) -> None:
        async with adelta.open_table(uri, {**options, "max_concurrency": str(writer)}) as table:
            for n in range(4):
                await append(table, writer * 10 + n)

    async with anyio.create_task_group() as group:
        for writer in range(1, 5):
            group.start_soon(write, writer)
    async with adelta.open_table(uri, options) as table:
        assert await ids(table) == [0, *(w * 10 + n for w in range(1, 5) for n in range(4))]
        assert (await table.snapshot()).version == 17
        await adelta.checkpoint(table)
    assert sorted(owner.log("busy")) == [*range(18)]


async def test_who_does_not_name_the_owner_reads_what_is_backfilled(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    uri, options = str(owner.folder / "shown"), await options_of(owner)
    await adelta.write_table(uri, rows(0))
    await adelta.adopt_table(uri, "adelta", {"endpoint": owner.endpoint}, storage_options=options)
    async with adelta.open_table(uri, options) as table:
        await append(table, 1)
        assert not (await table.snapshot()).may_be_stale
        await adelta.checkpoint(table)  # by now it is backfilled
    shutil.copytree(uri, f"{uri}-copy")
    for place in (uri, f"{uri}-copy"):
        async with adelta.open_table(place) as table:
            assert await ids(table) == [0, 1]
            assert (await table.snapshot()).may_be_stale
            assert f"adelta_owner_endpoint={owner.endpoint}" in caplog.text
            with pytest.raises(InvalidOptionError, match="adelta_owner_endpoint"):
                await append(table, 2)
            with pytest.raises(InvalidOptionError, match="adelta_owner_endpoint"):
                await adelta.vacuum(table)


async def test_a_ratified_commit_that_has_gone_from_the_log_is_had_from_the_owner_or_missed(
    owner: Owner,
) -> None:
    uri, options = str(owner.folder / "torn"), await options_of(owner)
    await adelta.write_table(uri, rows(0))
    await adelta.adopt_table(uri, "adelta", {"endpoint": owner.endpoint}, storage_options=options)
    async with adelta.open_table(uri, options) as table:
        await append(table, 1)
        await adelta.checkpoint(table)
    log = owner.folder / "torn" / "_delta_log"
    for file in {*log.glob("*checkpoint*"), *log.glob("*2.*")}:
        file.unlink()
    async with adelta.open_table(uri, options) as table:
        assert await ids(table) == [0, 1]  # the owner still keeps it
        assert await append(table, 2) == 3
    ledger = owner.service.parts.database
    await ledger.ask(Statement("DELETE FROM owner_commits"))
    for file in log.glob("*3.*"):
        file.unlink()
    async with adelta.open_table(uri, options) as table:
        with pytest.raises(MissingCommitError, match="has ratified version 3"):
            await table.snapshot()


async def test_of_two_who_release_a_table_one_meets_a_conflict(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options = str(owner.folder / "freed"), await options_of(owner)
    await adelta.write_table(uri, rows(0))
    await adelta.adopt_table(uri, "adelta", {"endpoint": owner.endpoint}, storage_options=options)
    published = OwnerCoordinator.publish_all

    async def behind_another(self: OwnerCoordinator) -> int | None:
        monkeypatch.setattr(OwnerCoordinator, "publish_all", published)
        other = {**options, "max_concurrency": "2"}
        await adelta.release_table(uri, storage_options=other)
        return await published(self)

    monkeypatch.setattr(OwnerCoordinator, "publish_all", behind_another)
    with pytest.raises(ProtocolChangedError):
        await adelta.release_table(uri, storage_options=options)
    async with adelta.open_table(uri) as plain:
        assert (await plain.snapshot()).version == 2


async def test_who_looks_while_a_table_comes_and_goes_again_sees_who_owns_it(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options = str(owner.folder / "restless"), await options_of(owner)
    accept, other = AdeltaOwnerClient.accept, {**options, "max_concurrency": "2"}

    async def adopt() -> None:
        conf = {"endpoint": owner.endpoint}
        await adelta.adopt_table(uri, "adelta", conf, storage_options=other)

    async def given_up_first(self: AdeltaOwnerClient, version: int) -> None:
        monkeypatch.setattr(AdeltaOwnerClient, "accept", accept)
        await adelta.release_table(uri, storage_options=other)
        await accept(self, version)

    await adelta.write_table(uri, rows(0))
    await adopt()
    async with adelta.open_table(uri, options) as table:
        assert await ids(table) == [0]
        await adelta.release_table(uri, storage_options=other)
        assert (await table.snapshot()).version == 2
        await adopt()
        monkeypatch.setattr(AdeltaOwnerClient, "accept", given_up_first)
        assert (await table.snapshot()).version == 4
        assert OWNER not in (await table.snapshot()).metadata.configuration


async def test_who_goes_behind_a_release_that_is_not_in_the_log_yet_puts_it_there_first(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options = str(owner.folder / "gapless"), await options_of(owner)
    await adelta.write_table(uri, rows(0))
    await adelta.adopt_table(uri, "adelta", {"endpoint": owner.endpoint}, storage_options=options)
    backfill, is_asked, may_be = TableLog.backfill, anyio.Event(), anyio.Event()

    async def late(self: TableLog, version: int, data: bytes) -> bool:
        if version == 2:
            is_asked.set()
            await may_be.wait()
        return await backfill(self, version, data)

    async def behind_a_release(self: AdeltaOwnerClient, proposed: ProposedCommit) -> CommitResponse:
        monkeypatch.setattr(AdeltaOwnerClient, "commit", commit)
        other = {**options, "max_concurrency": "2"}
        group.start_soon(partial(adelta.release_table, uri, storage_options=other))
        await is_asked.wait()
        return await commit(self, proposed)

    commit = AdeltaOwnerClient.commit
    monkeypatch.setattr(TableLog, "backfill", late)
    monkeypatch.setattr(AdeltaOwnerClient, "commit", behind_a_release)
    async with adelta.open_table(uri, options) as table, anyio.create_task_group() as group:
        group.start_soon(adelta.vacuum, table)  # its commits go behind changes of the protocol
        await is_asked.wait()
        await anyio.sleep(0.3)
        seen = sorted(owner.log("gapless"))
        may_be.set()
    assert seen == [0, 1]
    assert sorted(owner.log("gapless")) == [0, 1, 2, 3, 4]


async def test_a_writer_finds_who_came_first_with_the_owner_that_a_table_has_moved_to(
    owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options = str(owner.folder / "moved"), await options_of(owner)
    (tmp_path / "second").mkdir()
    await adelta.write_table(uri, rows(0))
    async with running(tmp_path / "second") as second:
        tokens = [options["adelta_owner_token"], await second.token(prefix="*")]
        both = {
            "adelta_owner_endpoint": f"{owner.endpoint},{second.endpoint}",
            "adelta_owner_token": ",".join(tokens),
        }
        conf = {"endpoint": owner.endpoint}
        await adelta.adopt_table(uri, "adelta", conf, storage_options=options)
        async with (
            adelta.open_table(uri, both) as table,
            adelta.open_table(uri, {**both, "max_concurrency": "2"}) as other,
        ):
            assert await append(table, 1) == 2
            await adelta.adopt_table(other, "adelta", {"endpoint": second.endpoint})
            backfiller = second.service.parts.backfiller
            monkeypatch.setattr(backfiller, "wake", lambda *_, **__: None)
            assert await append(other, 2) == 4
            assert await append(table, 3) == 5
            assert await ids(table) == [0, 1, 2, 3]


async def test_an_answer_that_got_lost_while_the_table_was_released_is_cleared_up(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options = str(owner.folder / "left"), await options_of(owner)
    await adelta.write_table(uri, rows(0))
    await adelta.adopt_table(uri, "adelta", {"endpoint": owner.endpoint}, storage_options=options)
    committed, commits = AdeltaOwnerClient.commit, [True, False]  # whether the owner gets it

    async def lost(self: AdeltaOwnerClient, proposed: ProposedCommit) -> CommitResponse:
        monkeypatch.setattr(AdeltaOwnerClient, "commit", committed)
        if arrives:
            await committed(self, proposed)
        await adelta.release_table(uri, storage_options={**options, "max_concurrency": "2"})
        raise CommitOutcomeUnknownError("the answer got lost")

    for arrives in commits:
        async with adelta.open_table(uri, options) as table:
            await table.snapshot()
            monkeypatch.setattr(AdeltaOwnerClient, "commit", lost)
            if arrives:
                assert await append(table, 1) == 2
            else:
                with pytest.raises(ProtocolChangedError):
                    await append(table, 2)
            conf = {"endpoint": owner.endpoint}
            await adelta.adopt_table(table, "adelta", conf)
            assert await ids(table) == [0, 1]


async def test_a_store_without_conditional_puts_is_backfilled_too(
    tmp_path: Path, s3_location: S3Location
) -> None:
    uri = s3_location.uri
    without = {**s3_location.storage_options, "aws_conditional_put": "disabled"}
    alone = {**without, "unsafe_single_writer": "true"}
    async with running(tmp_path, storage_options=without) as owner:
        token = {"adelta_owner_endpoint": owner.endpoint}
        token["adelta_owner_token"] = await owner.token(prefix=uri)
        await adelta.write_table(uri, rows(0), storage_options=alone)
        conf = {"endpoint": owner.endpoint}
        await adelta.adopt_table(uri, "adelta", conf, storage_options={**alone, **token})
        async with (
            adelta.open_table(uri, {**without, **token}) as table,
            adelta.open_table(uri, without) as plain,
        ):
            assert await append(table, 1) == 2
            await adelta.checkpoint(table)
            assert await ids(plain) == [0, 1]
