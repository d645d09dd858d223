"""How the interpreter exits: promptly, with everything closed, and with nothing on stderr."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

WARNINGS = ("-W", "always::ResourceWarning", "-W", "always::RuntimeWarning")
"""Whatever is left unclosed or never awaited shows on stderr."""

_PREAMBLE = """
import asyncio, atexit, gc, os, sys, threading, time
import aiohttp
import adelta.sync._portal
from adelta.errors import InvalidUseError
from adelta.sync._portal import call, current
from adelta.sync._iterate import iterate
from adelta.sync._enter import enter

adelta.sync._portal._CLEANUP_SECONDS = 3600.0  # so what takes so long is seen as a hang
under_way = threading.Event()

class Resource:
    "Holds a real session, which complains when it is not closed."
    async def open(self):
        self.session = aiohttp.ClientSession()
        current().adopt(self)
    async def aclose(self):
        await asyncio.sleep(0.01)
        await self.session.close()
        print("closed", flush=True)
    async def __aenter__(self):
        self.session = aiohttp.ClientSession()
    async def __aexit__(self, *_):
        await self.aclose()

async def wait():
    print("waiting", flush=True)
    under_way.set()
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0.01)
        print("ended", flush=True)

async def ticks():
    try:
        while True:
            yield 1
            under_way.set()
            await asyncio.sleep(0.01)
    finally:
        await asyncio.sleep(0.01)
        print("ended", flush=True)

async def one():
    return 1
"""

_CASES = {
    "nothing was opened": ("call(one)", ""),
    "a resource was left open": ("r = Resource(); call(r.open)", "closed\n"),
    "a block was left open": ("r = Resource(); enter(r).__enter__()", "closed\n"),
    "an iterator was left open": ("steps = iterate((), ticks); next(steps)", "ended\n"),
    "a daemon thread waits": (
        "threading.Thread(target=call, args=(wait,), daemon=True).start(); under_way.wait()",
        "waiting\nended\n",
    ),
    "a daemon thread iterates": (
        "threading.Thread(target=lambda: list(iterate((), ticks)), daemon=True).start()\n"
        "under_way.wait()",
        "ended\n",
    ),
    "worker threads are idle": ("call(asyncio.to_thread, int)", ""),
    "anyio's worker threads are idle": (
        "from adelta._concurrency import in_thread\ncall(in_thread, int)",
        "",
    ),
    "an exit handler uses the face": (
        "call(one); atexit.register(lambda: print(call(one)))",
        "1\n",
    ),
    "a thread goes on after the main one": (
        "call(one)\ndef late(): time.sleep(0.3); print(call(one))\n"
        "threading.Thread(target=late).start()",
        "1\n",
    ),
    "references form a cycle": (
        "r = Resource(); call(r.open); r.me = r; r.steps = iterate((), ticks); next(r.steps)",
        "ended\nclosed\n",
    ),
    "sys.exit is called in a block": ("with enter(Resource()): sys.exit(0)", "closed\n"),
}


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *WARNINGS, "-c", _PREAMBLE + script],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("case", _CASES)
def test_the_exit_is_clean_and_silent_when(case: str) -> None:
    script, printed = _CASES[case]
    done = run(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


def test_a_call_after_the_exit_handler_is_refused_and_names_the_remedy() -> None:
    script = """
def late():
    try:
        call(one)
    except InvalidUseError as error:
        print(error)
"""
    # Handlers run last in, first out: this one was registered before adelta's.
    done = subprocess.run(
        [sys.executable, "-c",
         f"import atexit\natexit.register(lambda: late())\n{_PREAMBLE}{script}call(one)"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "interpreter is exiting" in done.stdout
    assert "registered after its first use" in done.stdout


@pytest.mark.parametrize("before", ["call(one)", ""], ids=["used before", "never used"])
def test_a_daemon_thread_that_calls_after_the_exit_handler_vanishes_in_silence(before: str) -> None:
    script = f"""
{before}
exiting = threading.Event()
def work():
    exiting.wait()
    call(one)
thread = threading.Thread(target=work, daemon=True)
thread.start()
def late():
    exiting.set()
    thread.join(0.3)
"""
    done = subprocess.run(
        [sys.executable, "-c",
         f"import atexit\natexit.register(lambda: late())\n{_PREAMBLE}{script}"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_first_call_in_an_exit_handler_works_or_is_refused_by_name() -> None:
    done = run("""
def late():
    try:
        print(call(one))
    except InvalidUseError as error:  # Python 3.12 starts no thread any more
        print(error)
atexit.register(late)
""")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1\n" or "interpreter is exiting" in done.stdout


def test_ctrl_c_ends_a_waiting_program_with_nothing_but_its_own_traceback() -> None:
    # Python heeds Ctrl-C only where it did not inherit that it is ignored, as a shell's job does.
    heeded = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script = heeded + _PREAMBLE + "r = Resource(); call(r.open); call(wait)"
    with subprocess.Popen(
        [sys.executable, *WARNINGS, "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waiting\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert out == "ended\nclosed\n"
    assert err.strip().endswith("KeyboardInterrupt")
    assert err.count("Traceback") == 1
    assert "never retrieved" not in err


def test_handles_left_open_are_closed(lake_root: Path) -> None:
    script = f"""
import sys
sys.path.insert(0, {str(lake_root)!r})
import lake.sync
from lake.table import COMMITS, OPENED
COMMITS["t"] = [[1]]
import atexit
table = lake.sync.open_table("t")
other = lake.sync.open_table("t")
other.snapshot().scan().each().__next__()
tx = table.transaction(); tx.__enter__()
"""
    checked = "\nimport adelta.sync._portal as p\np._stop_at_exit()\nprint(*OPENED, sep=', ')"
    done = run(script + checked)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "open t, open t, close t, close t\n"


def test_ctrl_c_between_two_looks_for_an_answer_tells_of_nothing_else() -> None:
    script = """
import adelta.sync._portal as portal
class Interrupted(portal.suppress):
    def __exit__(self, *what):
        if what[0] is not None: raise KeyboardInterrupt
portal.suppress = Interrupted
call(wait)
"""
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", _PREAMBLE + script],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout == "waiting\nended\n"
    assert done.stderr.strip().endswith("KeyboardInterrupt")
    assert done.stderr.count("Traceback") == 1
