from __future__ import annotations

import importlib
import os
import pickle
import shutil
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tools.blocking_face.program import generate, write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType


class Interrupt:
    """A signal whose handler raises `error`."""

    error: type[BaseException] = KeyboardInterrupt

    def __call__(self) -> None:
        os.kill(os.getpid(), signal.SIGALRM)

    def handle(self, *_: object) -> None:
        raise self.error


@pytest.fixture(scope="session")
def lake_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the sample package and the blocking twin generated from it."""
    root = tmp_path_factory.mktemp("sample")
    shutil.copytree(Path(__file__).parent / "sample" / "lake", root / "lake")
    write_files(generate("lake", root, ()))
    sys.path.insert(0, str(root))
    yield root
    sys.path.remove(str(root))


@pytest.fixture(scope="session")
def lake(lake_root: Path) -> ModuleType:
    """The blocking twin of the sample package."""
    return importlib.import_module("lake.sync")


@pytest.fixture
def name(lake: ModuleType, request: pytest.FixtureRequest) -> str:
    """The name of a table of this test's own, with versions 1 and 2."""
    table = sys.modules["lake.table"]
    table.COMMITS[request.node.name] = [[1, 2], [3]]
    return request.node.name


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    """Raises in the main thread, whatever it does, as Ctrl-C or a signal-based timeout would.

    Called from any thread: a test that has the interrupted work call it depends on no clock.
    """
    interrupt = Interrupt()
    before = signal.signal(signal.SIGALRM, interrupt.handle)
    yield interrupt
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def in_child() -> Callable[[Callable[[], Any]], Any]:
    """Runs a function in a forked child: its result, or AssertionError with the child's trace."""

    def run(function: Callable[[], Any]) -> Any:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)  # a child that hangs dies
            try:
                answer = pickle.dumps((function(), None))
            except BaseException:
                answer = pickle.dumps((None, traceback.format_exc()))
            os.write(writing, answer)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        assert status == 0, f"the child ended by signal {status}: it hung"
        result, failure = pickle.loads(answer)
        assert failure is None, failure
        return result

    return run
