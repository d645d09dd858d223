"""What commands show on a terminal of 80 columns."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
import pytest

import adelta

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudoterminals")
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def shown(*arguments: str) -> list[str]:
    """The lines that the command writes on a terminal of 80 columns."""
    terminal, its_end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "adelta", *arguments]
    with (
        os.fdopen(terminal, "rb", buffering=0) as screen,
        subprocess.Popen(command, stdout=its_end, env=environment) as process,
    ):
        os.close(its_end)
        text = b""
        while piece := _read(screen.fileno()):
            text += piece
        assert process.wait(60) == 0
    return STYLE.sub("", text.decode()).splitlines()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # what Linux says at the end of a terminal
        return b""


@pytest.fixture
def changed(trips: Path) -> str:
    """The table after changes whose entries are long."""

    async def change() -> None:
        properties = {"delta.logRetentionDuration": "interval 90 days", "own.purpose": "x" * 200}
        await adelta.set_properties(str(trips), properties)
        await adelta.delete(str(trips), "km > 10 AND city IN ('Oslo', 'Bergen', 'Stavanger')")

    anyio.run(change)
    return str(trips)


def test_history_fits_and_each_entry_begins_with_what_it_was(changed: str) -> None:
    lines = shown("history", changed)
    assert max(map(len, lines)) <= 80
    begun = [line for line in lines if re.match(r"\s+\d \s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", line)]
    assert [line.split()[0] for line in begun] == ["4", "3", "2", "1", "0"]
    assert begun[0].split()[3:5] == ["DELETE", "predicate=km"]
    assert len(lines) < 35  # no column is a word wide


def test_show_fits_and_has_a_property_a_line(changed: str) -> None:
    lines = shown("show", changed)
    assert max(map(len, lines)) <= 80
    assert any(line.strip().startswith("own.purpose=xxx") for line in lines)
    assert any("delta.logRetentionDuration=interval 90 days" in line for line in lines)
