"""Processes whose calls of the C library fail when they are told to, or whose clock is wrong.

The library ``faulty_calls.c`` is compiled once a session and preloaded into the processes. It makes
calls about files below one folder fail, by chance or because the disk is full, and moves the time
of day; so a process meets that from Python and from Arrow alike. What it is to do is changed while
it runs.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FaultyCalls", "faulty_library"]

_SOURCE = Path(__file__).with_suffix(".c")
_FIELDS = ("room", "share", "error", "applied", "shift", "failed")
_MILLION = 1_000_000


@pytest.fixture(scope="session")
def faulty_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, compiled."""
    compiler = shutil.which("cc")
    if sys.platform != "linux":
        pytest.skip("libraries are preloaded on Linux, and with glibc")
    if compiler is None:
        unavailable("there is no C compiler (cc)")
    made = tmp_path_factory.mktemp("library") / "faulty_calls.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return made


@dataclass
class FaultyCalls:
    """What processes with the `environment` meet below `folder`, from the next call on."""

    library: Path
    folder: str
    orders: Path

    def __post_init__(self) -> None:
        self.orders.write_bytes(struct.pack("@6q", -1, 0, 0, 0, 0, 0))
        with self.orders.open("r+b") as file:
            self._orders = mmap.mmap(file.fileno(), 0)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "LD_PRELOAD": str(self.library),
            "ADELTA_TEST_ORDERS": str(self.orders),
            "ADELTA_TEST_BELOW": os.path.realpath(self.folder),
        }

    @property
    def failed(self) -> int:
        """How many calls were made to fail."""
        return int(struct.unpack_from("@q", self._orders, 8 * _FIELDS.index("failed"))[0])

    def leave_room(self, count: int | None) -> None:
        """Let so many bytes more fit on the disk; None is no end of them."""
        self._set(room=-1 if count is None else count)

    def fail(self, share: float, error: int = 0, *, applied: float = 0.0) -> None:
        """Let that share of the calls fail, and of these a share after they took effect."""
        self._set(error=error, applied=round(100 * applied))
        self._set(share=round(_MILLION * share))

    def shift_clock(self, seconds: float) -> None:
        """Let the time of day be wrong by so much."""
        self._set(shift=round(seconds * 1e9))

    def _set(self, **fields: int) -> None:
        for name, value in fields.items():
            struct.pack_into("@q", self._orders, 8 * _FIELDS.index(name), value)
