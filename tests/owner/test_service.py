"""The service and its client, over sockets: commits, ownership, backfills and announcements."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from adelta._concurrency import map_concurrent, together
from adelta.commit.owner import ManagedTable
from adelta.commit.owner_client import AdeltaOwnerClient, backfill_tables, client_of
from adelta.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidTableError,
    InvalidUseError,
    StorageError,
    TableNotFoundError,
)
from adelta.kernel.log_path import MAX_VERSION, commit_path
from adelta.owner import announcements, backfiller
from adelta.owner.backfiller import Backfiller
from adelta.owner.limits import ServiceLimits
from adelta.owner.postgresql import PostgresDatabase
from adelta.owner.table_key import TableKey
from tests.support.depth import cases
from tests.support.owners import new_database, owned, proposal, running
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.owners import Owner
    from tests.support.postgres_server import PostgresServer


@pytest.fixture
async def owner(tmp_path: Path) -> AsyncIterator[Owner]:
    async with running(tmp_path) as owner:
        yield owner


async def test_a_commit_is_ratified_and_told_of_and_backfilled(owner: Owner) -> None:
    client = await owner.adopted()
    assert await client.wait_for_commit(MAX_VERSION, 0.0) is None
    assert (await client.commit(proposal(1, "x"))).ratified
    assert (await client.commit(proposal(1, "x"))).ratified
    lost = await client.commit(proposal(1, "y"))
    assert not lost.ratified
    assert lost.latest is not None
    assert [commit.content for commit in lost.latest.commits] == [proposal(1, "x").content]
    await client.backfill_to_version()
    assert owner.log() == {0: proposal(0, "first-of-orders").content, 1: proposal(1, "x").content}
    told = await client.get_commits()
    assert (told.latest_version, told.commits) == (1, ())
    assert [commit.version for commit in (await client.get_commits(1)).commits] == [1]


async def test_staged_commits_are_backfilled_from_their_files_of_which_few_are_in_memory(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await owner.adopted()
    contents, counts = Backfiller._contents, []

    async def counted(*asked: Any) -> Any:
        counts.append(len(asked[-1]))
        return await contents(*asked)

    monkeypatch.setattr(Backfiller, "_contents", staticmethod(counted))
    monkeypatch.setattr("adelta.owner.backfiller._BYTES", 2 * proposal(1, "1").size)
    log = owner.folder / "orders" / "_delta_log"
    (log / "_commits").mkdir()
    names = {v: f"{v:020d}.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json" for v in range(1, 6)}
    with monkeypatch.context() as patch:
        patch.setattr(owner.service.parts.backfiller, "wake", lambda _: None)
        for version, name in names.items():
            padding = 1000 if version == 3 else 0  # this one has more than all may have
            staged = proposal(version, f"{version}", staged_file=name, padding=padding)
            (log / "_commits" / name).write_bytes(staged.content)
            assert (await client.commit(staged)).ratified
    assert (await client.get_commits(1)).commits[0].staged_file == names[1]
    await client.backfill_to_version(5)
    for version, name in names.items():
        assert owner.log()[version] == (log / "_commits" / name).read_bytes()
    assert counts == [2, 1, 2]


async def test_a_long_commit_is_put_beside_the_log(tmp_path: Path) -> None:
    async with running(tmp_path, service=ServiceLimits(inline_bytes=1000)) as owner:
        client = await owner.adopted()
        long = proposal(1, "x", padding=1000)
        assert (await client.commit(long)).ratified
        (commit,) = (await client.get_commits(1)).commits
        assert commit.staged_file is not None
        file = owner.folder / "orders" / "_delta_log" / "_commits" / commit.staged_file
        assert file.read_bytes() == long.content
        await client.backfill_to_version()
        assert owner.log()[1] == long.content
        assert not (await client.commit(proposal(1, "y", padding=1000))).ratified
        assert len([*file.parent.iterdir()]) == 1


async def test_commits_of_several_tables_are_all_ratified_or_none(owner: Owner) -> None:
    token = await owner.token()
    orders, stock = await owner.adopted("orders", token), await owner.adopted("stock", token)
    assert orders.owner == stock.owner
    both = [(orders, proposal(1, "x")), (stock, proposal(1, "x"))]
    answers = await orders.owner.commit_together(both)
    assert [answer.ratified for answer in answers] == [True, True]
    half = [(orders, proposal(2, "y")), (stock, proposal(1, "y"))]
    answers = await orders.owner.commit_together(half)
    assert [answer.ratified for answer in answers] == [False, False]
    assert answers[1].latest is not None
    told = await orders.owner.get_commits_together([(orders, 1), (stock, None)])
    assert [one.latest_version for one in told] == [1, 1]
    other = AdeltaOwnerClient(ManagedTable("s3://lake/t", "t"), "http://127.0.0.1:1", "t")
    with pytest.raises(InvalidUseError, match="different commit owners"):
        await orders.owner.get_commits_together([(orders, 1), (other, 1)])


async def test_a_table_is_owned_once_its_log_says_so_though_nobody_told(owner: Owner) -> None:
    client = await owner.client()
    with pytest.raises(TableNotFoundError, match="does not know it"):
        await client.get_commits()
    await client.propose(proposal(0, "mine"))
    await client.propose(proposal(0, "another's"))
    with pytest.raises(
        TableNotFoundError, match="would if the commit that says so were in its log"
    ):
        await client.get_commits()
    with pytest.raises(TableNotFoundError, match="has no commit of version 0"):
        await client.accept(0)
    path = owner.folder / "orders" / commit_path(0)
    path.parent.mkdir(parents=True)
    path.write_bytes(proposal(0, "mine").content)
    assert (await client.get_commits()).latest_version == 0
    assert (await client.commit(proposal(1, "x"))).ratified
    await client.accept(0)
    with pytest.raises(CommitConflictError, match="has it already"):
        await client.propose(proposal(2, "again"))
    stock, first = await owner.client("stock"), proposal(0, "first")
    await stock.propose(first)
    path = owner.folder / "stock" / commit_path(0)
    path.parent.mkdir(parents=True)
    path.write_bytes(first.content)
    assert (await stock.release(proposal(1, "last"))).ratified
    key, fresh = (
        TableKey(str(owner.folder / "orders"), client.named["table_id"]),
        proposal(3, "new"),
    )
    assert (await owner.service.parts.ledger.release(key, proposal(2, "last"))).ratified
    await client.propose(fresh)  # when the last one has come into the log
    assert [*owner.log()] == [0, 1, 2]


async def test_a_table_is_owned_by_one_root_and_a_copy_of_it_is_another_table(
    owner: Owner,
) -> None:
    client = await owner.adopted()
    await client.backfill_to_version()
    (owner.folder / "link").symlink_to("orders")
    shutil.copytree(owner.folder / "orders", owner.folder / "copy")
    token = await owner.token()
    link, copy = (
        AdeltaOwnerClient(
            ManagedTable((owner.folder / name).as_uri(), client.named["table_id"]),
            owner.endpoint,
            token,
        )
        for name in ("link", "copy")
    )
    owner.clients += (link, copy)
    first = proposal(0, "first-of-orders")
    with pytest.raises(CommitConflictError, match="orders; open it by that root"):
        await link.propose(first)
    await copy.propose(first)
    await copy.accept(0)
    for one in (client, copy):
        assert (await one.commit(proposal(1, "x"))).ratified


async def test_a_promise_is_forgotten_when_another_commit_is_there(owner: Owner) -> None:
    client = await owner.client()
    await client.propose(proposal(0, "mine"))
    path = owner.folder / "orders" / commit_path(0)
    path.parent.mkdir(parents=True)
    path.write_bytes(proposal(0, "another's").content)
    with pytest.raises(TableNotFoundError):
        await client.get_commits()
    assert await owner.service.parts.ledger.promised() == []
    elsewhere = await owner.client("elsewhere")
    with pytest.raises(InvalidOptionError, match="the owner sees no log there"):
        await elsewhere.propose(proposal(5, "mine"))


async def test_a_table_is_given_up_with_all_of_it_in_its_log(owner: Owner) -> None:
    client = await owner.adopted()
    for version in (1, 2):
        await client.commit(proposal(version, "x"))
    lost = await client.release(proposal(2, "bye"))
    assert not lost.ratified
    assert (await client.release(proposal(3, "bye"))).ratified
    assert owner.log()[3] == proposal(3, "bye").content
    assert (await client.release(proposal(3, "bye"))).ratified
    for refused in (client.commit(proposal(4, "x")), client.get_commits()):
        with pytest.raises(TableNotFoundError, match="has released it"):
            await refused
    await client.propose(proposal(4, "back"))
    (owner.folder / "orders" / commit_path(4)).write_bytes(proposal(4, "back").content)
    assert (await client.commit(proposal(5, "x"))).ratified


async def test_whoever_waits_is_told_of_a_commit(owner: Owner) -> None:
    client = await owner.adopted()
    assert await client.wait_for_commit(-1 + 1, 0.01) is None

    async def later() -> bool:
        await anyio.sleep(0.1)
        return (await client.commit(proposal(1, "x"))).ratified

    with anyio.fail_after(60):
        latest, _ = await together(partial(client.wait_for_commit, 0, 30.0), later)
    assert latest == 1
    assert await client.wait_for_commit(0, 30.0) == 1
    owner.service.parts.stop()  # who is let go does not come back all the time
    asked = owner.asked()
    assert await client.wait_for_commit(1, 0.3) is None
    assert (owner.asked() - asked)["/api/v1/wait"] < 10


async def test_losers_of_a_race_are_told_one_after_the_other(owner: Owner) -> None:
    """Of many who lose at once each then wins at its next attempt, most of the time."""
    token = await owner.token()
    await owner.adopted("orders", token)
    attempts = 0

    async def writer(name: int) -> None:
        nonlocal attempts
        client, version = await owner.client("orders", token), 1
        for _ in range(cases(10, 4)):
            while True:
                attempts += 1
                answer = await client.commit(proposal(version, f"{name}.{version}"))
                version += 1
                if answer.ratified:
                    break
                assert answer.latest is not None
                version = answer.latest.latest_version + 1

    await map_concurrent(writer, range(12), limit=12)
    commits = 12 * cases(10, 4)
    assert (await owner.clients[0].get_commits(0)).latest_version == commits
    assert attempts < 4 * commits  # it would be 6 to 12 for each


async def test_commits_of_a_killed_service_are_backfilled_by_the_next(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        token = await owner.token()
        client = await owner.adopted(token=token)
        log = owner.folder / "orders" / "_delta_log"
        moved = log.rename(log.with_name("elsewhere"))
        for version in (1, 2, 3):
            assert (await client.commit(proposal(version, "x"))).ratified
        with pytest.raises(StorageError, match="not backfilled"):
            await owner.service.parts.backfiller.backfill(_key(owner), None, wait_seconds=0.5)
    moved.rename(log)
    async with running(tmp_path) as owner:
        client = await owner.client(token=token)
        await client.backfill_to_version()
        assert [*owner.log()] == [0, 1, 2, 3]


def _key(owner: Owner) -> TableKey:
    return TableKey.of((owner.folder / "orders").as_uri(), "id-of-orders")


async def test_a_file_that_somebody_else_put_is_left_and_stops_the_backfill(owner: Owner) -> None:
    client = await owner.adopted()
    await client.commit(proposal(1, "x"))
    path = owner.folder / "orders" / commit_path(2)
    path.write_bytes(b'{"commitInfo":{"txnId":"intruder"}}\n')
    await client.commit(proposal(2, "x"))
    await client.commit(proposal(3, "x"))
    with pytest.raises(StorageError, match="not backfilled"):
        await owner.service.parts.backfiller.backfill(_key(owner), None, wait_seconds=0.3)
    assert [*owner.log()] == [0, 1, 2]
    path.unlink()
    await client.backfill_to_version()
    assert owner.log()[2] == proposal(2, "x").content


async def test_a_ledger_that_is_behind_the_log_ratifies_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        client = await owner.adopted()
        token, backup = await owner.token(), tmp_path / "backup.db"
        with closing(sqlite3.connect(tmp_path / "owner.db")) as source:
            source.execute("VACUUM INTO ?", (str(backup),))
        await client.commit(proposal(1, "x"))
        await client.backfill_to_version()
    async with running(tmp_path, database=str(backup)) as owner:
        client = await owner.client(token=token)
        proposed = proposal(1, "y")
        for work in (client.commit(proposed), client.release(proposed)):
            with pytest.raises(InvalidTableError, match="restored from a backup"):
                await work
        (owner.folder / "orders" / commit_path(1)).unlink()
        assert (await client.commit(proposed)).ratified


async def test_nothing_is_backfilled_into_another_table_in_the_place(owner: Owner) -> None:
    client, path = await owner.adopted(), owner.folder / "orders" / commit_path(0)
    for version in (1, 2):
        path.write_bytes(proposal(version - 1, "of another table").content)
        assert (await client.commit(proposal(version, f"x{version}"))).ratified
        told = ""
        while "in the place" not in told:  # for as long as it has not tried
            with pytest.raises(StorageError) as refused:
                await owner.service.parts.backfiller.backfill(_key(owner), None, wait_seconds=0.3)
            told = str(refused.value)
        with pytest.raises(InvalidTableError, match=r"in the place .* nothing was committed"):
            await client.commit(proposal(version + 1, "nobody would see it"))
        mine = "first-of-orders" if version == 1 else "x1"
        path.write_bytes(proposal(version - 1, mine).content)
        await client.backfill_to_version()
        path = path.with_name(f"{version:020d}.json")
    assert [*owner.log()] == [0, 1, 2]


async def test_tables_that_cannot_be_backfilled_do_not_keep_others_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfiller, "_SWEPT", 1)
    async with running(tmp_path, sweep_seconds=0.01) as owner:
        ledger, gone = owner.service.parts.ledger, await owner.adopted("gone")
        await owner.adopted("orders")
        (owner.folder / "gone" / commit_path(0)).unlink()
        await gone.commit(proposal(1, "x"))
        assert (await ledger.commit(_key(owner), proposal(1, "x"))).ratified  # nobody is woken
        await until(lambda: 1 in owner.log())

        async def fail(self: AdeltaOwnerClient, _: int) -> None:
            asked.append(self.named["uri"])
            raise StorageError("it is gone")

        asked: list[str] = []
        monkeypatch.setattr(AdeltaOwnerClient, "backfill_to_version", fail)
        options = {"adelta_owner_endpoint": owner.endpoint}
        with pytest.raises(StorageError, match="it is gone"):
            await backfill_tables({**options, "adelta_owner_token": await owner.token()})
        assert len(asked) == 2


async def test_who_waits_for_a_table_that_was_replaced_is_told_so_at_once(owner: Owner) -> None:
    client, ledger = await owner.adopted(), owner.service.parts.ledger
    (owner.folder / "orders" / commit_path(0)).write_bytes(proposal(0, "of another table").content)
    assert (await client.commit(proposal(1, "x"))).ratified
    await owned(ledger, TableKey(_key(owner).uri, "another"))
    with anyio.fail_after(5), pytest.raises(TableNotFoundError, match="another table lies in"):
        await client.release(proposal(2, "y"))


async def test_several_instances_own_the_same_tables(
    tmp_path: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ratifies, announces and backfills what others ratified; all files are there once."""
    monkeypatch.setattr(announcements, "_LOOK", 1000.0)  # so that it is told, or never known
    database = await new_database(postgres_server)
    async with (
        running(tmp_path, database=database) as one,
        running(tmp_path, database=database) as other,
    ):
        token = await one.token()
        names = ["orders", "stock"]
        for name in names:
            await one.adopted(name, token)
        clients = {
            name: [await one.client(name, token), await other.client(name, token)] for name in names
        }
        ahead = clients["orders"][1].wait_for_commit(0, 30.0)

        async def commit(number: int) -> None:
            client, version = clients[names[number % 2]][number // 2 % 2], 1
            while not (await client.commit(proposal(version, f"{number}"))).ratified:
                version += 1

        commits = cases(40, 12)
        with anyio.fail_after(60):
            await map_concurrent(commit, range(commits), limit=8)
            latest = await ahead
        assert latest is not None
        for name in names:
            for client in clients[name]:
                await client.backfill_to_version()
            told = await clients[name][1].get_commits(0)
            assert [*one.log(name)] == [*range(told.latest_version + 1)]
            assert told.latest_version == commits / 2


async def test_all_that_waits_is_told_of_however_much_it_is(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adelta.storage.json_http._LONGEST", 100_000)  # of any other server
    client = await owner.adopted()
    monkeypatch.setattr(owner.service.parts.backfiller, "wake", lambda *_, **__: None)
    for version in (1, 2, 3):
        await client.commit(proposal(version, "x", padding=50_000))
    assert len((await client.get_commits()).commits) == 3


async def test_an_instance_takes_no_more_connections_than_it_may(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    database = await new_database(postgres_server)
    async with running(tmp_path, database=database, connections=1) as owner:
        token = await owner.token()
        names = [f"t{number}" for number in range(4)]
        clients = await map_concurrent(lambda name: owner.adopted(name, token), names, limit=4)
        answers = await map_concurrent(lambda c: c.commit(proposal(1, "x")), clients, limit=4)
        assert all(answer.ratified for answer in answers)
        superuser = await postgres_server.connect()
        counted = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"
        assert await superuser.fetchval(counted, database.rpartition("/")[2]) <= 2
        await superuser.close()


async def test_a_commit_that_was_not_heard_of_is_found(
    tmp_path: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def say_nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(PostgresDatabase, "announce", say_nothing)
    monkeypatch.setattr(announcements, "_LOOK", 0.05)
    database = await new_database(postgres_server)
    async with (
        running(tmp_path, database=database) as one,
        running(tmp_path, database=database) as other,
    ):
        client = await one.adopted()
        waiting = await other.client(token=await one.token())
        with anyio.fail_after(60):
            latest, _ = await together(
                partial(waiting.wait_for_commit, 0, 30.0),
                partial(client.commit, proposal(1, "x")),
            )
        assert latest == 1


async def test_a_broken_connection_to_the_database_loses_no_commit_and_doubles_none(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """The server is made to hang up again and again; whoever does not know asks once more."""
    address = await new_database(postgres_server)
    name = address.rpartition("/")[2]
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
    superuser = await postgres_server.connect()
    done = anyio.Event()

    committed = 0

    async def hang_up() -> None:
        while not done.is_set():
            before = committed
            await anyio.sleep(0.15)
            while committed == before and not done.is_set():  # noqa: ASYNC110 - some come through
                await anyio.sleep(0.001)
            await superuser.execute(kill, name)

    commits = cases(120, 25)
    async with running(tmp_path, database=address) as owner:
        client = await owner.adopted()
        async with anyio.create_task_group() as group:
            group.start_soon(hang_up)
            for version in range(1, commits + 1):
                while True:
                    try:
                        answer = await client.commit(proposal(version, f"{version}"))
                    except (CommitOutcomeUnknownError, StorageError):
                        continue
                    assert answer.ratified
                    committed = version
                    break
            done.set()
        await superuser.close()
        with anyio.fail_after(60):
            while True:
                try:
                    await client.backfill_to_version()
                    break
                except StorageError:  # connections that are found to be broken
                    await anyio.sleep(0.05)
        contents = [proposal(version, f"{version}").content for version in range(1, commits + 1)]
        assert [*owner.log().values()][1:] == contents


def test_a_client_is_found_by_its_name_and_sends_its_token_where_the_user_said() -> None:
    conf = {"endpoint": "https://owner.example/"}
    table = ManagedTable("s3://lake/orders", "a", conf)
    options = {"adelta_owner_token": "secret", "adelta_owner_endpoint": "https://owner.example"}
    client = client_of(table, options)
    assert "secret" not in repr(client) + repr(client.owner)
    assert pickle.loads(pickle.dumps(client)).owner == client.owner
    with pytest.raises(InvalidOptionError, match="whoever may write to the table chose"):
        client_of(table, {"adelta_owner_token": "secret"})
    with pytest.raises(InvalidOptionError, match="whoever may write to the table chose"):
        client_of(ManagedTable("s3://lake/orders", "a", {"endpoint": "https://evil"}), options)
    far = ManagedTable("s3://lake/orders", "a", {"endpoint": "http://owner.example"})
    named = {**options, "adelta_owner_endpoint": "http://owner.example, https://owner.example"}
    loud = replace(far, conf={"endpoint": "HTTP://owner.example"})
    with pytest.raises(InvalidOptionError, match="unencrypted"):
        client_of(loud, {**options, "adelta_owner_endpoint": "HTTP://owner.example"})
    with pytest.raises(InvalidOptionError, match="unencrypted"):
        client_of(far, named)
    assert client_of(far, {**named, "aws_allow_http": "true"}) is not None
    for name, is_near in {
        "127.0.0.1.owner.example": False,
        "127.1.2.3": True,
        "[::1]": True,
    }.items():
        endpoint = f"http://{name}:8787"
        asked = {**options, "adelta_owner_endpoint": endpoint}
        named_so = ManagedTable("s3://lake/orders", "a", {"endpoint": endpoint})
        with nullcontext() if is_near else pytest.raises(InvalidOptionError, match="unencrypted"):
            client_of(named_so, asked)
    several = {**named, "adelta_owner_token": "one, other"}
    assert client_of(table, several).owner.token == "other"
    with pytest.raises(InvalidOptionError, match="3 tokens of commit owners are given, and 2"):
        client_of(table, {**several, "adelta_owner_token": "a, b, c"})
    with pytest.raises(InvalidOptionError, match="wants a token"):
        client_of(table, {"adelta_owner_endpoint": "https://owner.example"})
    with pytest.raises(InvalidOptionError, match="named without"):
        client_of(ManagedTable("s3://lake/orders", "a"), options)
