"""What generated handles do, on the sample package."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from adelta.errors import InvalidUseError
from adelta.sync._portal import call, current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def opened(lake: ModuleType, name: str) -> Callable[[], list[str]]:
    """What has happened to the async handles on this test's table: each opening and closing."""

    def happened() -> list[str]:
        gc.collect()
        call(settle)
        events = sys.modules["lake.table"].OPENED
        return [event.partition(" ")[0] for event in events if event.endswith(f" {name}")]

    return happened


def test_a_table_is_opened_read_and_closed(
    lake: ModuleType, name: str, opened: Callable[[], list[str]]
) -> None:
    with lake.open_table(name) as table:
        assert isinstance(table, lake.Table)
        assert table.name == name
        assert not table.closed
        snapshot = table.snapshot()
        assert isinstance(snapshot, lake.Snapshot)
        assert (snapshot.version, snapshot.price(2)) == (2, 6)
        assert snapshot.scan().rows() == [1, 2, 3]
        assert snapshot.everything.rows() == [1, 2, 3]
    assert opened() == ["open", "close"]
    assert table.closed


def test_facades_come_wrapped_alone_in_lists_and_as_none(lake: ModuleType, name: str) -> None:
    table = lake.open_table(name)
    assert [s.version for s in table.snapshots()] == [0, 1, 2]
    assert all(isinstance(s, lake.Snapshot) for s in table.snapshots())
    assert isinstance(table.snapshot_or_none(1), lake.Snapshot)
    assert table.snapshot_or_none(9) is None
    assert isinstance(lake.create_table(name + "2", 1, 2, kind="x"), lake.Table)


def test_facades_are_unwrapped_as_arguments(lake: ModuleType, name: str) -> None:
    table = lake.open_table(name)
    assert lake.history(table) == lake.history(name) == [lake.Metrics(2), lake.Metrics(1)]
    assert lake.history(table, limit=1) == [lake.Metrics(2)]


def test_a_block_of_a_transaction_commits_and_an_error_in_it_does_not(
    lake: ModuleType, name: str
) -> None:
    table = lake.open_table(name)
    with table.transaction() as tx:
        tx.append([4, 5])
        tx.discard(4)
    assert tx.version == 3
    with contextlib.suppress(ZeroDivisionError), table.transaction() as tx:
        tx.append([6])
        raise ZeroDivisionError
    assert tx.version is None
    assert table.snapshot().scan().rows() == [1, 2, 3, 5]


def test_an_error_of_the_commit_is_raised_by_the_block(lake: ModuleType, name: str) -> None:
    with (
        pytest.raises(OSError, match="the disk is full"),
        lake.open_table(name).transaction(fail=True),
    ):
        pass


def test_a_block_cannot_be_left_before_it_is_entered(lake: ModuleType, name: str) -> None:
    with pytest.raises(InvalidUseError, match="enter it with `with`"):
        lake.open_table(name).transaction().__exit__(None, None, None)


def test_a_generator_of_rows_is_accepted_and_runs_in_the_callers_thread(
    lake: ModuleType, name: str
) -> None:
    table = lake.open_table(name)
    threads: set[int] = set()

    def rows() -> Iterator[int]:
        threads.add(threading.get_ident())
        yield from lake.open_table(name).snapshot().scan().each()

    with table.transaction() as tx:
        tx.append(rows())
        tx.append(table.snapshot().scan().each())
    assert table.snapshot().scan().rows() == [1, 2, 3] * 3
    assert threads == {threading.get_ident()}


def test_a_generator_that_is_read_after_its_call_is_refused(lake: ModuleType, name: str) -> None:
    with pytest.raises(InvalidUseError, match="that call has ended"):  # noqa: SIM117
        with lake.open_table(name).transaction() as tx:
            tx.append_later(row for row in (1, 2))


def test_iterators_of_methods_and_functions_are_plain(lake: ModuleType, name: str) -> None:
    assert list(lake.open_table(name).snapshot().scan().each()) == [1, 2, 3]
    assert list(lake.tail(lake.open_table(name), 1)) == [(2, [1, 2, 3])]
    with pytest.raises(ValueError, match="-1"):
        lake.tail(lake.open_table(name), -1)


def test_a_class_with_a_public_constructor_is_made_by_calling_it(
    lake: ModuleType, name: str
) -> None:
    with lake.Consumer(lake.open_table(name), name="billing") as consumer:
        assert next(iter(consumer)) == [1, 2]
        assert consumer.acknowledge() == 1
        assert list(consumer) == [[1, 2, 3]]
        assert consumer.acknowledge() == 2


def test_a_class_that_is_handed_out_cannot_be_called(lake: ModuleType) -> None:
    with pytest.raises(InvalidUseError, match="a Table is not made by calling its class"):
        lake.Table("name")


def test_a_builder_gives_itself(lake: ModuleType, name: str) -> None:
    merge = lake.merge(lake.open_table(name), 7)
    assert merge.when_matched("update") is merge
    assert merge.when_matched("delete").execute() == ["update", "delete"]


def test_a_handle_left_alone_is_closed_but_not_before_what_was_made_of_it(
    lake: ModuleType, name: str, opened: Callable[[], list[str]]
) -> None:
    scan = lake.open_table(name).snapshot().scan()
    gc.collect()
    assert scan.rows() == [1, 2, 3]
    assert opened() == ["open"]
    del scan
    assert opened() == ["open", "close"]


def test_an_iteration_keeps_its_table_open_until_it_ends(
    lake: ModuleType, name: str, opened: Callable[[], list[str]]
) -> None:
    steps = lake.tail(lake.open_table(name))
    gc.collect()
    assert next(steps) == (1, [1, 2])
    assert opened() == ["open"]
    assert list(steps) == [(2, [1, 2, 3])]
    assert opened() == ["open", "close"]


def test_a_handle_collected_on_the_loops_own_thread_is_closed_without_blocking(
    lake: ModuleType, name: str, opened: Callable[[], list[str]]
) -> None:
    kept = [lake.open_table(name)]

    async def collect() -> None:
        kept.clear()

    call(collect)
    assert opened() == ["open", "close"]


def test_closing_twice_closes_once(
    lake: ModuleType, name: str, opened: Callable[[], list[str]]
) -> None:
    table = lake.open_table(name)
    table.close()
    table.close()
    del table
    assert opened() == ["open", "close"]


def test_a_transaction_left_open_is_given_up_when_it_is_collected(
    lake: ModuleType, name: str
) -> None:
    table = lake.open_table(name)
    tx = table.transaction()
    tx.__enter__()
    tx.append([9])
    del tx
    gc.collect()
    call(settle)
    assert table.snapshot().version == 2


def test_a_handle_says_what_it_stands_for(lake: ModuleType, name: str) -> None:
    assert repr(lake.open_table(name)) == f"<adelta.sync.Table of Table({name!r})>"


def test_the_portal_forgets_what_is_closed(lake: ModuleType, name: str) -> None:
    gc.collect()
    call(settle)
    before = len(current()._open)
    tables: list[Any] = [lake.open_table(name) for _ in range(3)]
    assert len(current()._open) == before + 3
    tables.pop().close()
    with tables.pop():
        pass
    del tables[:]
    gc.collect()
    call(settle)
    assert len(current()._open) == before
