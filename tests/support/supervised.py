"""Operations in processes whose every call about files of one folder is looked at, and may fail.

A process takes the cases and runs each in a process forked from itself, so that what was imported
need not be imported again. The calls are counted in the order in which they are made, by whatever
thread.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adelta.errors import AdeltaError, CommitOutcomeUnknownError
from adelta.table import Table
from tests.support.disk import Change
from tests.support.system_calls import Call, Listener, hand_over
from tests.support.victim import OPERATIONS, import_ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["Case", "Fault", "Report", "Supervised", "is_commit", "supervised"]

_ROOT = Path(__file__).resolve().parents[2]
_HANGS = 60.0
_SUPERVISE = "import sys; from tests.support import supervised as s; s._serve(int(sys.argv[1]))"
_TABLE = "table"
_APPLIED: Mapping[str, Callable[[str, str], None]] = {
    "linkat": os.link,
    "renameat": os.replace,
    "unlinkat": lambda path, _: os.unlink(path),
    "mkdirat": lambda path, _: os.mkdir(path),
}


@dataclass(frozen=True)
class Fault:
    """The call number `number`, counted from 0, fails with `error`.

    Counted are those of `names`, or all. `lasting`, each later one of them fails too. `applied`, it
    fails after it has taken effect, as on a file server whose answer is lost.
    """

    number: int
    error: int
    names: frozenset[str] = frozenset()
    lasting: bool = False
    applied: bool = False

    def meets(self, call: Call, number: int) -> bool:
        return number >= self.number if self.lasting else number == self.number

    def counts(self, call: Call) -> bool:
        if self.applied:
            return call.name in _APPLIED
        names = {call.name, "create"} if call.creates else {call.name}
        return not self.names or not self.names.isdisjoint(names)


@dataclass(frozen=True)
class Case:
    """Operations on the table ``table`` in `folder`, one after the other, each with a handle."""

    folder: str
    operations: Sequence[str]
    fault: Fault | None = None
    journal: bool = False


@dataclass
class Report:
    """What has become of a case.

    Attributes:
        error: the name of the error that was raised; empty where there was none.
        message: what it says.
        expected: whether it is one of adelta's own.
        unknown: whether it says that the commit may be there.
        calls: every call about the folder, as text, up to the end of the operations.
        failed: the numbers of those that were made to fail.
        committed_at: the number of the call that gave the last commit its name.
        descriptors: files that are still open, among those that the faults are not to blame for.
        journal: what was changed in the folder, and when which operation had ended.
    """

    error: str = ""
    message: str = ""
    expected: bool = True
    unknown: bool = False
    calls: list[str] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    committed_at: int | None = None
    descriptors: list[str] = field(default_factory=list)
    journal: list[Change] = field(default_factory=list)


# ------------------------------------------------------------------------- the process looked at


def _perform(case: Case, channel: socket.socket) -> None:
    listener = hand_over()
    socket.send_fds(channel, [b"listener"], [listener])
    os.close(listener)
    before = _open_files()
    said: dict[str, Any] = {"error": "", "message": "", "expected": True}
    try:
        asyncio.run(_operate(case, channel))
    except BaseException as error:
        said["error"], said["message"] = type(error).__name__, f"{error}"[:500]
        said["expected"] = isinstance(error, AdeltaError)
        said["unknown"] = isinstance(error, CommitOutcomeUnknownError)
    said["descriptors"] = {n: f for n, f in _open_files().items() if n not in before}
    _say(channel, said)


def _open_files() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


async def _operate(case: Case, channel: socket.socket) -> None:
    for operation in case.operations:
        async with Table(f"{case.folder}/{_TABLE}") as table:
            await OPERATIONS[operation](table)
        _say(channel, {"ended": operation})


def _say(channel: socket.socket, what: dict[str, Any]) -> None:
    channel.sendall(pickle.dumps(what))
    channel.recv(1)  # it has been taken note of


# -------------------------------------------------------------------------------- the supervisor


class _Supervisor:
    def __init__(self, case: Case, pid: int, listener: Listener, channel: socket.socket) -> None:
        self.case = case
        self.pid = pid
        self.listener = listener
        self.channel = channel
        self.report = Report()
        self.counted = 0
        self.kept_open: set[int] = set()  # by a close that was made to fail
        self.over = False

    def run(self) -> Report:
        poll = select.poll()
        poll.register(self.listener.descriptor, select.POLLIN)
        poll.register(self.channel, select.POLLIN)
        end = time.monotonic() + _HANGS
        while not self.over:
            ready = dict(poll.poll(1000))
            if ready.get(self.listener.descriptor, 0) & select.POLLIN:
                call = self.listener.receive()
                if call is not None:
                    self.decide(call)
            elif ready.get(self.channel.fileno(), 0):
                self.listen()
            elif time.monotonic() > end:
                raise TimeoutError(f"{self.case} hangs")
        return self.report

    def listen(self) -> None:
        message = self.channel.recv(1 << 20)
        if not message:
            raise RuntimeError(f"{self.case} ended without a word")
        said = pickle.loads(message)
        if "ended" in said:
            self.report.journal.append(Change("ended", said["ended"]))
        else:
            open_files = said.pop("descriptors")
            for name, value in said.items():
                setattr(self.report, name, value)
            left = {n: f for n, f in open_files.items() if n not in self.kept_open}
            self.report.descriptors = [f for f in left.values() if not f.startswith("/proc/")]
            self.over = True
        self.channel.sendall(b"k")

    def decide(self, call: Call) -> None:
        if not any(self.inside(path) for path in (call.path, call.other)):
            self.listener.resume(call)
            return
        report, fault = self.report, self.case.fault
        number = len(report.calls)
        report.calls.append(str(call).replace(f"{self.case.folder}/", ""))
        if is_commit(call.publishes):
            report.committed_at = number
        if self.case.journal:
            report.journal += Change.of(call, self.listener)
        if fault is not None and fault.counts(call):
            self.counted += 1
            if fault.meets(call, self.counted - 1):
                report.failed.append(number)
                self.fail(call, fault)
                return
        self.listener.resume(call)

    def fail(self, call: Call, fault: Fault) -> None:
        error = fault.error
        if fault.applied:
            try:
                _APPLIED[call.name](call.path, call.other)
            except OSError as refused:
                error = refused.errno or error
        if call.name == "close":
            self.kept_open.add(call.arguments[0])  # the system would have closed it
        self.listener.fail(call, error)

    def inside(self, path: str) -> bool:
        return path == self.case.folder or path.startswith(f"{self.case.folder}/")


def is_commit(path: str) -> bool:
    """Whether it is the path of a commit's file."""
    name = Path(path)
    return name.parent.name == "_delta_log" and name.suffix == ".json" and len(name.stem) == 20


def _supervise(case: Case) -> Report:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _perform(case, theirs)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    theirs.close()
    try:
        _, descriptors, _, _ = socket.recv_fds(ours, 16, 1)
        listener = Listener(descriptors[0], pid)
        try:
            return _Supervisor(case, pid, listener, ours).run()
        finally:
            listener.close()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        ours.close()


class Supervised:
    """Runs operations under supervision."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def run(self, case: Case) -> Report:
        """Run the operations of the case.

        Raises:
            AssertionError: it hangs, or its process died.
        """
        self._connection.send(case)
        report = self._connection.recv()
        assert isinstance(report, Report), report
        return report


@contextmanager
def supervised() -> Iterator[Supervised]:
    """A process that forks processes and supervises them, until the block is left."""
    ours, theirs = Pipe()
    with subprocess.Popen(
        [sys.executable, "-c", _SUPERVISE, str(theirs.fileno())],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        pass_fds=[theirs.fileno()],
    ):
        theirs.close()
        with ours:
            yield Supervised(ours)


def _serve(descriptor: int) -> None:
    import_ahead()
    with Connection(descriptor) as connection:
        while True:
            try:
                case = connection.recv()
            except EOFError:
                return
            try:
                connection.send(_supervise(case))
            except (TimeoutError, RuntimeError, OSError) as error:
                connection.send(repr(error))
