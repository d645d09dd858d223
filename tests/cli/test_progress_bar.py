"""The bar of a long command, on a terminal of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

PROGRAM = """
from adelta.console.progress_bar import progress_bar
from adelta.progress import Meter
with progress_bar() as on_progress:
    print(on_progress is not None, flush=True)
    files = Meter(on_progress, "rewriting", total=3)
    for _ in range(3):
        files.advance()
    Meter(on_progress, "deleting", unit="bytes").advance(2048)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudoterminals")
def test_each_phase_is_a_line_on_the_terminal_and_nothing_goes_into_a_pipe() -> None:
    terminal, its_end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-c", PROGRAM]
    with os.fdopen(terminal, "rb", buffering=0) as shown:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=its_end, env=environment, check=True
        )
        os.close(its_end)
        text = b""
        while piece := _read(shown.fileno()):
            text += piece
    assert done.stdout == b"True\n"
    for said in (b"rewriting", b"3/3", b"deleting", b"kB"):
        assert said in text
    piped = subprocess.run(command, capture_output=True, check=True)
    assert (piped.stdout, piped.stderr) == (b"False\n", b"")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # what Linux says at the end of a terminal
        return b""
