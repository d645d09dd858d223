"""The ledger, on SQLite and on PostgreSQL: what is ratified, for whom, and how often."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest

from adelta._concurrency import MOST_THREADS, in_io_thread, map_concurrent
from adelta.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidTableError,
    StorageError,
    TableNotFoundError,
    ThrottledError,
)
from adelta.owner import schema
from adelta.owner.catalog_names import CatalogNames
from adelta.owner.database import Statement, open_database
from adelta.owner.ledger import Ledger, LedgerLimits, UnsettledError
from adelta.owner.schema import MIGRATIONS
from adelta.owner.table_key import TableKey
from tests.support.depth import cases
from tests.support.owners import COMMITS, new_database, owned, proposal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from adelta.owner.database import Program
    from tests.support.postgres_server import PostgresServer

ORDERS = TableKey("s3://lake/orders", "a")
STOCK = TableKey("s3://lake/stock", "b")


@pytest.fixture(params=["sqlite", "postgresql"])
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new database."""
    if request.param == "sqlite":
        return str(tmp_path / "owner.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return await new_database(server)


@pytest.fixture
async def ledger(address: str) -> AsyncIterator[Ledger]:
    """A ledger that owns two tables, each up to version 0."""
    database = await open_database(address)
    ledger = Ledger(database, LedgerLimits(waiting_commits=50, kept_commits=2))
    for table in (ORDERS, STOCK):
        await owned(ledger, table)
    yield ledger
    await database.aclose()


async def test_a_version_is_ratified_once_and_after_the_one_before_it(ledger: Ledger) -> None:
    assert (await ledger.commit(ORDERS, proposal(1, "x"))).ratified
    lost = await ledger.commit(ORDERS, proposal(1, "y"))
    assert not lost.ratified
    assert lost.latest is not None
    assert [commit.content for commit in lost.latest.commits] == [proposal(1, "x").content]
    with pytest.raises(InvalidTableError, match="version 2 comes next, not 3"):
        await ledger.commit(ORDERS, proposal(3, "z"))
    assert (await ledger.get_commits(ORDERS)).latest_version == 1
    assert (await ledger.get_commits(STOCK)).latest_version == 0


async def test_a_commit_whose_answer_was_lost_is_ratified_when_it_is_asked_again(
    ledger: Ledger,
) -> None:
    for version in (1, 2):
        await ledger.commit(ORDERS, proposal(version, f"x{version}"))
    assert (await ledger.commit(ORDERS, proposal(1, "x1"))).ratified
    assert (await ledger.get_commits(ORDERS)).latest_version == 2


async def test_of_racing_commits_one_has_each_version(address: str) -> None:
    """By several connections, and each the owner of the same tables."""
    ledgers = [Ledger(await open_database(address)) for _ in range(3)]
    await owned(ledgers[0], ORDERS)
    last = cases(40, 12)

    async def writer(name: int) -> list[int]:
        ledger, mine, version = ledgers[name % 3], [], 1
        while version <= last:
            response = await ledger.commit(ORDERS, proposal(version, f"{name}.{version}"))
            if response.ratified:
                mine.append(version)
            elif response.latest is not None:
                version = response.latest.latest_version
            version += 1
        return mine

    won = await map_concurrent(writer, range(6), limit=6)
    told = await ledgers[0].get_commits(ORDERS)
    assert sorted(version for mine in won for version in mine) == [*range(1, last + 1)]
    assert [commit.version for commit in told.commits] == [*range(1, last + 1)]
    for ledger in ledgers:
        await ledger.database.aclose()


async def test_commits_of_several_tables_are_all_ratified_or_none(ledger: Ledger) -> None:
    both = [(ORDERS, proposal(1, "x")), (STOCK, proposal(1, "x"))]
    assert [answer.ratified for answer in await ledger.commit_together(both)] == [True, True]
    assert [answer.ratified for answer in await ledger.commit_together(both)] == [True, True]
    half = [(STOCK, proposal(2, "y")), (ORDERS, proposal(1, "y"))]
    answers = await ledger.commit_together(half)
    assert [answer.ratified for answer in answers] == [False, False]
    assert [answer.latest and answer.latest.latest_version for answer in answers] == [1, 1]
    told = await ledger.get_commits_together([(ORDERS, 1), (STOCK, 1)])
    assert [(one.latest_version, len(one.commits)) for one in told] == [(1, 1), (1, 1)]
    with pytest.raises(InvalidOptionError, match="twice"):
        await ledger.commit_together([(ORDERS, proposal(2, "z")), (ORDERS, proposal(3, "z"))])


@pytest.mark.parametrize("together", [False, True])
async def test_a_proposal_that_came_twice_is_in_doubt_where_nobody_can_say_why_it_is_refused(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """A gateway may bring a request twice, and give back the second answer."""
    proposed, calls = proposal(1, "a"), list[str]()
    assert (await ledger.commit(ORDERS, proposed)).ratified

    def failing_later(name: str) -> None:
        real = getattr(ledger.database, name)

        async def call(*given: object, **named: object) -> object:
            calls.append(name)
            if len(calls) > 1:
                raise StorageError("there is no connection; nothing was changed")
            return await real(*given, **named)

        monkeypatch.setattr(ledger.database, name, call)

    failing_later("run")
    if not together:
        failing_later("ask")
    one, several = partial(ledger.commit, ORDERS, proposed), [(ORDERS, proposed)]
    with pytest.raises(CommitOutcomeUnknownError, match="no connection"):
        await (ledger.commit_together(several) if together else one())


async def test_commits_of_several_tables_in_opposite_order_do_not_wait_for_each_other(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    """None is broken off by PostgreSQL as a deadlock, and tried again."""
    caplog.set_level("INFO", "adelta.owner")

    async def one(name: int) -> int:
        tables = [ORDERS, STOCK] if name % 2 else [STOCK, ORDERS]
        version = 1
        while True:
            together = [(table, proposal(version, str(name))) for table in tables]
            answers = await ledger.commit_together(together)
            if answers[0].ratified:
                return version
            version += 1

    names = range(cases(24, 8))
    assert sorted(await map_concurrent(one, names, limit=8)) == [n + 1 for n in names]
    assert [record.message for record in caplog.records] == []


async def test_a_table_is_owned_when_its_promise_is_kept_and_by_no_other_root(
    ledger: Ledger,
) -> None:
    fresh = TableKey("s3://lake/fresh", "c")
    with pytest.raises(TableNotFoundError, match="does not know it"):
        await ledger.get_commits(fresh)
    await ledger.promise(fresh, COMMITS, proposal(4, "p"))
    await ledger.promise(fresh, COMMITS, proposal(4, "q"))
    with pytest.raises(UnsettledError):
        await ledger.commit(fresh, proposal(5, "x"))
    await ledger.keep_promise(fresh, 4)
    await ledger.keep_promise(fresh, 4)
    assert await ledger.promises(fresh) == []
    assert (await ledger.commit(fresh, proposal(5, "x"))).ratified
    copy = TableKey("s3://lake/copy", "c")
    with pytest.raises(TableNotFoundError, match="does not know it"):
        await ledger.commit(copy, proposal(6, "x"))
    with pytest.raises(CommitConflictError, match="has it already, up to version 5"):
        await ledger.promise(fresh, COMMITS, proposal(6, "r"))


async def test_a_promise_for_a_later_version_outlives_what_was_about_earlier_ones(
    ledger: Ledger,
) -> None:
    fresh = TableKey("s3://lake/fresh", "c")
    await ledger.promise(fresh, COMMITS, proposal(4, "p"))
    await ledger.promise(fresh, COMMITS, proposal(5, "p"))
    await ledger.promise(fresh, COMMITS, proposal(4, "p"))  # which was on its way for long
    await ledger.forget_promise(fresh, "p", 4)  # by one who has read of that one
    assert await ledger.promises(fresh) == [("p", 5)]
    await ledger.forget_promise(fresh, "p", 5)
    assert await ledger.promises(fresh) == []


async def test_another_table_in_the_place_of_one_ends_it(ledger: Ledger) -> None:
    for version in (1, 2):
        await ledger.commit(ORDERS, proposal(version, "x"))
    found = await ledger.find(ORDERS)
    assert found is not None
    assert await ledger.note_backfilled(found.table_key, 0, 1, 0)
    again = TableKey(ORDERS.uri, "c")
    await owned(ledger, again)
    kept = await ledger.database.ask(Statement("SELECT version FROM owner_commits"))
    assert [tuple(row) for row in kept] == [(2,)], "what is nowhere else"
    with pytest.raises(TableNotFoundError, match="another table lies in its place"):
        await ledger.commit(ORDERS, proposal(3, "y"))
    assert [table.table_id for table in await ledger.backlog()] == []
    assert (await ledger.commit(again, proposal(1, "z"))).ratified


async def test_a_ledger_that_was_set_back_goes_on_where_it_is_told(ledger: Ledger) -> None:
    with pytest.raises(CommitConflictError):
        await ledger.promise(ORDERS, COMMITS, proposal(7, "x"))
    await ledger.promise(ORDERS, COMMITS, proposal(7, "x"), again=True)
    assert (await ledger.get_commits(ORDERS)).latest_version == 0
    await ledger.keep_promise(ORDERS, 7)
    assert (await ledger.commit(ORDERS, proposal(8, "x"))).ratified
    await ledger.promise(ORDERS, COMMITS, proposal(20, "x"), again=True)
    await ledger.keep_promise(ORDERS, 20)  # not over a commit that waits to be backfilled
    told = await ledger.get_commits(ORDERS)
    assert (told.latest_version, [each.version for each in told.commits]) == (8, [8])


async def test_nothing_is_ratified_after_the_last_commit(ledger: Ledger) -> None:
    last = proposal(1, "bye")
    assert (await ledger.release(ORDERS, last)).ratified
    assert (await ledger.release(ORDERS, last)).ratified
    with pytest.raises(TableNotFoundError, match="has released it"):
        await ledger.commit(ORDERS, proposal(2, "x"))
    found = await ledger.find(ORDERS)
    assert found is not None
    assert (await ledger.get_commits(ORDERS)).latest_version == 1
    assert await ledger.note_backfilled(found.table_key, 0, 1, 0)
    with pytest.raises(TableNotFoundError, match="has released it"):
        await ledger.get_commits(ORDERS)
    await ledger.promise(ORDERS, COMMITS, proposal(7, "again"))
    await ledger.keep_promise(ORDERS, 7)
    assert (await ledger.commit(ORDERS, proposal(8, "x"))).ratified


async def test_too_much_that_waits_stops_commits_until_it_is_backfilled(ledger: Ledger) -> None:
    ledger.limits = LedgerLimits(waiting_commits=2, kept_commits=1)
    for version in (1, 2):
        await ledger.commit(ORDERS, proposal(version, "x"))
    with pytest.raises(ThrottledError, match="wait to be backfilled"):
        await ledger.commit(ORDERS, proposal(3, "x"))
    with pytest.raises(ThrottledError, match="wait to be backfilled"):
        await ledger.commit_together([(STOCK, proposal(1, "y")), (ORDERS, proposal(3, "y"))])
    assert (await ledger.get_commits(STOCK)).latest_version == 0
    found = await ledger.find(ORDERS)
    assert found is not None
    size = 2 * len(proposal(1, "x").content)
    assert await ledger.note_backfilled(found.table_key, 0, 2, size)
    assert not await ledger.note_backfilled(found.table_key, 0, 2, size)
    assert (await ledger.commit(ORDERS, proposal(3, "x"))).ratified
    assert [commit.version for commit in (await ledger.get_commits(ORDERS)).commits] == [3]
    kept = (await ledger.get_commits(ORDERS, 0)).commits
    assert [commit.version for commit in kept] == [1, 2, 3]
    ledger.limits = LedgerLimits(waiting_bytes=2 * len(proposal(3, "x").content) - 1)
    with pytest.raises(ThrottledError):
        await ledger.commit(ORDERS, proposal(4, "x"))


async def test_commits_are_kept_for_a_while_after_they_have_been_backfilled(
    ledger: Ledger,
) -> None:
    found = await ledger.find(ORDERS)
    assert found is not None
    last = 45
    for version in range(1, last + 1):
        proposed = proposal(version, "x")
        assert (await ledger.commit(ORDERS, proposed)).ratified
        size = len(proposed.content)
        assert await ledger.note_backfilled(found.table_key, version - 1, version, size)
    kept = [commit.version for commit in (await ledger.get_commits(ORDERS, 0)).commits]
    assert kept == [*range(kept[0], last + 1)]
    assert last - 40 < len(kept) < last
    assert (await ledger.get_commits(ORDERS)).commits == ()


async def test_of_places_that_are_set_aside_for_one_name_at_once_the_last_has_it(
    ledger: Ledger,
) -> None:
    names = CatalogNames(ledger.database)
    places = [TableKey(f"s3://lake/place-{number}", "a") for number in range(3)]
    stage = partial(names.stage_name, "main.default.trips")
    await map_concurrent(lambda place: stage(place, COMMITS), places, limit=3)
    found = await names.find_named("main.default.trips")
    assert found is not None
    assert found.table.uri in {place.uri for place in places}


async def test_sql_in_names_is_text(ledger: Ledger) -> None:
    odd = TableKey("s3://lake/'; DROP TABLE owner_tables; --", "x' OR '1'='1")
    with pytest.raises(TableNotFoundError):
        await ledger.commit(odd, proposal(1, "'); DELETE FROM owner_commits; --"))
    await ledger.commit(ORDERS, proposal(1, "'); DELETE FROM owner_commits; --"))
    assert len((await ledger.get_commits(ORDERS)).commits) == 1


async def test_what_a_failed_program_has_done_is_undone(ledger: Ledger) -> None:
    def program() -> Program[None]:
        yield Statement("UPDATE owner_tables SET latest = 99")
        yield Statement("SELECT nothing FROM nowhere")

    with pytest.raises(StorageError):
        await ledger.database.run(program)
    assert (await ledger.get_commits(ORDERS)).latest_version == 0

    async def commit(version: int) -> bool:
        return (await ledger.commit(ORDERS, proposal(version, "x"))).ratified

    async def fail(_: int) -> bool:
        with pytest.raises(StorageError):
            await ledger.database.run(program)
        return False

    work = [partial(commit, 1), partial(fail, 0), partial(fail, 0)]
    assert await map_concurrent(lambda one: one(), work, limit=3) == [True, False, False]


async def test_a_full_disk_undoes_what_shares_the_transaction_and_says_so_of_nothing_else(
    tmp_path: Path,
) -> None:
    """SQLite gives up the whole transaction by itself; those that were to come get another one."""
    database = await open_database(str(tmp_path / "owner.db"))
    await database.ask(Statement("CREATE TABLE rows (name TEXT, content BLOB)"))
    ((pages,),) = await database.ask(Statement("PRAGMA page_count"))
    await database.ask(Statement(f"PRAGMA max_page_count = {pages + 5}"))

    async def insert(name: str) -> str:
        arguments = (name, b"x" * (100_000 if name == "long" else 10))
        try:
            await database.ask(Statement("INSERT INTO rows VALUES ($1, $2)", arguments))
        except StorageError as error:
            return str(error)
        return name

    names = ["first", "second", "long", "third", "last"]
    kept = await map_concurrent(insert, names, limit=len(names))
    assert kept[2].endswith("full; nothing was changed")
    assert kept[3:] == ["third", "last"]
    found = [name for (name,) in await database.ask(Statement("SELECT name FROM rows"))]
    assert found == [name for name in kept if name in names]
    await database.aclose()


async def test_who_gives_up_waiting_takes_nobody_elses_work_with_it(tmp_path: Path) -> None:
    """Commits that share a transaction of SQLite, whose first one is cancelled before it begins."""
    database = await open_database(str(tmp_path / "owner.db"))
    ledger = Ledger(database)
    for table in (ORDERS, STOCK):
        await owned(ledger, table)
    threads_are_free = threading.Event()
    scope = anyio.CancelScope()

    async def give_up() -> None:
        with scope:
            await ledger.commit(STOCK, proposal(1, "x"))

    answers: list[bool] = []

    async def commit() -> None:
        both = [(table, proposal(1, "y")) for table in (ORDERS, STOCK)]
        answers.extend(answer.ratified for answer in await ledger.commit_together(both))

    async with anyio.create_task_group() as group:
        for _ in range(MOST_THREADS["adelta-io"]):
            group.start_soon(in_io_thread, threads_are_free.wait)
        group.start_soon(give_up)
        group.start_soon(commit)
        await anyio.sleep(0.05)
        scope.cancel()
        await anyio.sleep(0.05)
        threads_are_free.set()
    told = await ledger.get_commits_together([(ORDERS, None), (STOCK, None)])
    latest = [one.latest_version for one in told]
    assert (answers, latest) in (([True, True], [1, 1]), ([False, False], [0, 1]))
    await database.aclose()


async def test_instances_that_start_at_once_make_the_tables_once(address: str) -> None:
    databases = await map_concurrent(open_database, [address] * 4, limit=4)
    for database in databases:
        rows = await database.ask(Statement("SELECT version FROM owner_schema"))
        assert [tuple(row) for row in rows] == [(1,)]
        await database.aclose()


async def opened_and_closed(path: str) -> None:
    await (await open_database(path)).aclose()


async def test_a_file_that_another_holds_when_its_mode_is_to_change_is_waited_for(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "owner.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE others (id)")
        other.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as group:
            group.start_soon(opened_and_closed, path)
            await anyio.sleep(0.2)
            other.execute("COMMIT")
    with closing(sqlite3.connect(path)) as base:
        assert base.execute("PRAGMA journal_mode").fetchall() == [("wal",)]


async def test_a_ledger_of_an_earlier_version_becomes_one_of_this_or_stays_as_it_is(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await open_database(address)
    await owned(Ledger(database), ORDERS)
    await database.aclose()
    later = (("ALTER TABLE owner_tables ADD COLUMN note TEXT",), ())
    monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, later, (("no SQL",), ())))
    with pytest.raises(StorageError):
        await open_database(address)
    monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, later))  # which is not there yet
    for database in await map_concurrent(open_database, [address] * 2, limit=2):
        assert (await Ledger(database).get_commits(ORDERS)).latest_version == 0
        rows = await database.ask(Statement("SELECT version, note FROM owner_schema, owner_tables"))
        assert [tuple(row) for row in rows] == [(len(MIGRATIONS) + 1, None)]
        await database.aclose()


async def test_tables_of_a_later_version_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "owner.db")
    await (await open_database(path)).aclose()
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("update owner_schema set version = 1000")
    with pytest.raises(InvalidOptionError, match="install the later adelta"):
        await open_database(path)
    (tmp_path / "text").write_text("no database at all, but a text of some length")
    with pytest.raises(InvalidOptionError, match="cannot be opened"):
        await open_database(str(tmp_path / "text"))


@pytest.mark.parametrize(
    "uri",
    [
        "s3://lake/../other", "s3://lake/a/./b", "file:///lake/%2e%2e/etc", "orders", "../orders",
        "s3://lake/a\nb", "s3://lake/a\0", "file:///lake/%00", "memory://lake/orders", "s3://lake",
        "s3:///orders", "http://169.254.169.254/latest", "file://host/lake", "",
        "s3://" + "a" * 3000, None, 7,
    ],
)  # fmt: skip
def test_what_is_no_root_of_a_table_is_refused(uri: object) -> None:
    with pytest.raises(InvalidOptionError):
        TableKey.of(uri, "a")


@pytest.mark.parametrize("table_id", ["", "../a", "a b", "a\n", None, 7, "a" * 200, "'; --"])
def test_what_is_no_id_of_a_table_is_refused(table_id: object) -> None:
    with pytest.raises(InvalidOptionError, match="no id of a table"):
        TableKey.of("s3://lake/orders", table_id)
