"""Installs Azurite from npm, once: ``python -m tests.support.azure_installation``.

It needs nothing but Python, so that it can be under way while the tests' environment is made.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["PROGRAM", "install", "is_under_way"]

_VERSION = "3.35.0"
_FOLDER = Path(tempfile.gettempdir()) / f"adelta-azurite-{_VERSION}-{os.getuid()}"
_UNDER_WAY = _FOLDER.with_name(f"{_FOLDER.name}-under-way")

PROGRAM = _FOLDER / "node_modules/azurite/dist/src/blob/main.js"
"""What runs the server, where it is installed."""


def is_under_way() -> bool:
    """Whether some process is installing it."""
    try:
        os.kill(int(_UNDER_WAY.read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def install() -> None:
    """Install Azurite, unless it is there or another process does so."""
    if PROGRAM.exists() or is_under_way():
        return
    _UNDER_WAY.write_text(str(os.getpid()))
    options = ["--no-audit", "--no-fund", "--omit=optional", "--ignore-scripts"]
    try:
        with tempfile.TemporaryDirectory(prefix="adelta-install-") as fresh:
            command = ["npm", "install", *options, "--prefix", fresh, f"azurite@{_VERSION}"]
            subprocess.run(command, cwd=fresh, check=True, timeout=1500, capture_output=True)
            with contextlib.suppress(OSError):  # another one was faster
                shutil.move(fresh, _FOLDER)
                Path(fresh).mkdir()
    finally:
        _UNDER_WAY.unlink(missing_ok=True)


if __name__ == "__main__":
    install()
