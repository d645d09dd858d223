from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from adelta.errors import InvalidUseError
from adelta.sync import _portal
from adelta.sync._iterate import iterate
from adelta.sync._portal import call, current
from tests.sync.test_exit import WARNINGS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path
    from types import ModuleType

    InChild = Callable[[Callable[[], Any]], Any]

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]


async def process() -> int:
    await asyncio.sleep(0)
    return os.getpid()


async def numbers() -> AsyncIterator[int]:
    for number in range(3):
        yield number


def test_a_child_has_a_portal_of_its_own(in_child: InChild) -> None:
    assert call(process) == os.getpid()
    assert in_child(lambda: call(process) == os.getpid())
    assert call(process) == os.getpid()


def test_a_child_forked_before_the_first_call_works(lake_root: Path) -> None:
    script = """
import os
from adelta.sync._portal import call
async def one(): return 1
child = os.fork()
assert call(one) == 1
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)


def test_a_child_of_a_child_works(in_child: InChild) -> None:
    call(process)

    def forks() -> bool:
        call(process)
        return in_child(lambda: call(process) == os.getpid())

    assert in_child(forks)


def test_a_child_forked_while_a_call_waits_works(in_child: InChild) -> None:
    waiting, go = threading.Event(), threading.Event()

    async def wait() -> int:
        waiting.set()
        await asyncio.to_thread(go.wait, 30)
        return os.getpid()

    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(call(wait)))
    thread.start()
    assert waiting.wait(60)
    assert in_child(lambda: call(process) == os.getpid())
    go.set()
    thread.join(60)
    assert found == [os.getpid()]


def test_a_child_forked_while_another_thread_starts_the_portal_works(in_child: InChild) -> None:
    with _portal._starting:
        assert in_child(lambda: call(process) == os.getpid())


def test_many_workers_forked_by_busy_threads_all_work(in_child: InChild) -> None:
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            call(process)

    threads = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            assert in_child(lambda: call(process) == os.getpid())
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_workers_of_a_forking_daemon_work_one_after_another(in_child: InChild) -> None:
    """As in pyspark.daemon: a daemon that has used adelta itself forks a worker per task."""

    def daemon() -> list[bool]:
        call(process)
        return [in_child(lambda: call(process) == os.getpid()) for _ in range(5)]

    call(process)
    assert in_child(daemon) == [True] * 5


def test_a_worker_of_multiprocessing_works() -> None:
    call(process)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = [pool.apply(_process_in_worker) for _ in range(4)]
    assert os.getpid() not in found


def _process_in_worker() -> int:
    found = call(process)
    assert found == os.getpid()
    return found


def test_the_parents_portal_is_never_collected_in_the_child(in_child: InChild) -> None:
    call(process)
    parents = id(current())

    def held() -> bool:
        gc.collect()
        return any(id(thing) == parents for thing in _portal._abandoned)

    assert in_child(held)
    assert not _portal._abandoned


def test_what_is_abandoned_outlives_even_the_interpreters_last_sweep() -> None:
    script = """
import os, sys
from adelta.sync._portal import abandon
class Loud:
    def __del__(self, write=os.write): write(2, b"collected")
abandon(Loud())
loud = Loud()
loud.me = loud
abandon(loud)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_that_belongs_to_the_parents_loop_is_collected_in_the_child(
    lake: ModuleType, name: str, in_child: InChild
) -> None:
    """Neither what handles stand for when they open anew, nor what they did when they vanish."""
    table = lake.open_table(name)
    kept = {"used": table.snapshot(), "dropped": table.snapshot(), "never used": table.snapshot()}
    steps = [lake.tail(table)]
    next(steps[0])
    live = [weakref.ref(handle._live) for handle in kept.values()]
    live.append(weakref.ref(steps[0]._pump))

    def use() -> list[bool]:
        kept["used"].scan().rows()
        kept.clear()
        steps.clear()
        gc.collect()
        return [ref() is not None for ref in live]

    assert in_child(use) == [True] * 4


def test_an_iterator_of_the_parent_is_refused_in_the_child_and_goes_on_in_the_parent(
    in_child: InChild,
) -> None:
    steps = iterate((), numbers)
    assert next(steps) == 0

    def use() -> str:
        with pytest.raises(InvalidUseError, match="process that forked this one") as caught:
            next(steps)
        steps.close()
        return str(caught.value)

    assert "start the iteration again" in in_child(use)
    assert list(steps) == [1, 2]


def test_a_table_opens_anew_in_the_child(lake: ModuleType, name: str, in_child: InChild) -> None:
    table = lake.open_table(name, {"key": "value"})
    assert table.snapshot().version == 2
    assert in_child(lambda: (table.process == os.getpid(), table.snapshot().version)) == (True, 2)
    assert table.process == os.getpid()


def test_a_snapshot_and_a_scan_in_the_child_are_pinned_to_their_version(
    lake: ModuleType, name: str, in_child: InChild
) -> None:
    snapshot = lake.open_table(name).snapshot()
    scan = snapshot.scan([2], limit=5)
    commits = sys.modules["lake.table"].COMMITS

    def use() -> Any:
        commits[name].append([4])  # a later version is not what they are of
        return scan.rows(), snapshot.version, snapshot.scan().rows()

    assert in_child(use) == ([1, 3], 2, [1, 2, 3])


def test_a_transaction_cannot_be_ended_or_used_in_the_child(
    lake: ModuleType, name: str, in_child: InChild
) -> None:
    table = lake.open_table(name)

    def use() -> list[str]:
        messages = []
        for use_it in (lambda: tx.append([9]), lambda: tx.__exit__(None, None, None)):
            with pytest.raises(InvalidUseError) as caught:
                use_it()
            messages.append(str(caught.value))
        return messages

    with table.transaction() as tx:
        tx.append([4])
        first, second = in_child(use)
    assert "make another one in this process" in first
    assert "only that process can end it" in second
    assert table.snapshot().version == 3
    assert table.snapshot().scan().rows() == [1, 2, 3, 4]


def test_a_child_that_leaves_its_parents_blocks_by_an_error_closes_nothing(
    lake: ModuleType, name: str, in_child: InChild
) -> None:
    opened = sys.modules["lake.table"].OPENED

    def leave() -> list[str]:
        del opened[:]
        error = SystemExit(0)
        assert not tx.__exit__(SystemExit, error, None)
        table.__exit__(SystemExit, error, None)
        return opened

    with lake.open_table(name) as table:
        with table.transaction() as tx:
            assert in_child(leave) == []
        assert table.snapshot().version == 3


def test_a_child_closes_the_table_that_it_opened_anew(
    lake: ModuleType, name: str, in_child: InChild
) -> None:
    opened = sys.modules["lake.table"].OPENED

    def use() -> list[str]:
        del opened[:]
        table.snapshot()
        table.__exit__(None, None, None)
        return opened

    with lake.open_table(name) as table:
        table.snapshot()
        assert in_child(use) == [f"open {name}", f"close {name}"]


def test_collecting_the_parents_handles_in_the_child_closes_nothing(
    lake: ModuleType, name: str, in_child: InChild
) -> None:
    opened = sys.modules["lake.table"].OPENED
    handles = [lake.open_table(name)]
    handles[0].__enter__()
    steps = [lake.tail(handles[0])]
    next(steps[0])

    def collect() -> list[str]:
        del opened[:]
        steps.clear()
        handles.clear()
        call(process)
        return opened

    assert in_child(collect) == []
    assert [version for version, _ in steps[0]] == [2]


def test_a_pickled_table_opens_anew_and_a_snapshot_is_pinned(lake: ModuleType, name: str) -> None:
    snapshot = lake.open_table(name, {"key": "value"}).snapshot()
    copy, scan = pickle.loads(pickle.dumps((snapshot, snapshot.scan(limit=1))))
    assert "not used in this process yet" in repr(copy)
    sys.modules["lake.table"].COMMITS[name].append([4])
    assert copy.version == 2
    assert scan.rows() == [1]


def test_a_pickled_transaction_is_refused(lake: ModuleType, name: str) -> None:
    with (
        lake.open_table(name).transaction() as tx,
        pytest.raises(InvalidUseError, match="Transaction cannot be pickled"),
    ):
        pickle.dumps(tx)


_SESSION = """
import gc, http.server, os, sys, threading
import aiohttp
from adelta.sync._portal import call, current

class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *_): pass

server = http.server.ThreadingHTTPServer(("localhost", 0), Answer)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://localhost:{server.server_port}/"

class Store:
    async def open(self):
        self.session = aiohttp.ClientSession()
    async def get(self):
        async with self.session.get(url, timeout=aiohttp.ClientTimeout(5)) as answer:
            return await answer.read(), answer.connection
    async def aclose(self):
        await self.session.close()

async def one(): return 1

store = Store()
call(store.open)
current().adopt(store)
assert call(store.get)[0] == b"hello"
child = os.fork()
if child == 0:
    del store
    gc.collect()
    if {use}: assert call(one) == 1
    sys.exit(0)          # the interpreter's own way out, with its last sweep
status = os.waitpid(child, 0)[1]
assert status == 0, status
assert call(store.get)[0] == b"hello"   # over the same socket, which must still be polled
"""


@pytest.mark.parametrize("use", [True, False])
def test_a_child_that_exits_disturbs_neither_its_parents_sockets_nor_stderr(use: bool) -> None:
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-W", "ignore::DeprecationWarning", "-c",
         _SESSION.replace("{use}", str(use))],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_child_killed_by_a_signal_leaves_the_parent_working() -> None:
    call(process)
    child = os.fork()
    if child == 0:
        call(process)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert call(process) == os.getpid()
