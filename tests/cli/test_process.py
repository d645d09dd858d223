"""The command as a process: pipes that close early, interrupts, start-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa
import pytest

import adelta

if TYPE_CHECKING:
    from pathlib import Path

ADELTA = [sys.executable, "-m", "adelta"]


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """A table of more rows than a pipe holds."""
    path = tmp_path / "numbers"
    anyio.run(adelta.write_table, str(path), pa.table({"n": range(200_000)}))
    return path


def test_a_reader_that_has_seen_enough_is_no_failure(numbers: Path) -> None:
    with subprocess.Popen(
        [*ADELTA, "read", numbers, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'{"n":0}\n'
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_an_interrupt_ends_a_tail_without_a_word(numbers: Path) -> None:
    with subprocess.Popen(
        [*ADELTA, "tail", numbers, "--since", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"version":0')  # it waits for version 1 now
        os.kill(process.pid, signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait(60) == 130


def test_help_names_every_command() -> None:
    done = subprocess.run([*ADELTA, "--help"], capture_output=True, text=True, check=True)
    for command in ("show", "files", "schema", "detail", "history", "read", "tail", "demo"):
        assert f"\n    {command} " in done.stdout


def test_nothing_but_the_demo_loads_pyspark() -> None:
    program = "import adelta.cli.main, sys; print('pyspark' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_the_demo_says_what_is_not_installed() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from adelta.cli.main import main; sys.exit(main(['demo', 'lake']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "adelta: the demo needs pyspark, which is not installed: pip install 'adelta[demo]'\n"
    )
