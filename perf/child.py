"""A measurement in a process of its own: what one engine leaves behind is not the next one's."""

from __future__ import annotations

import json
import subprocess
import sys

__all__ = ["run_child"]


def run_child(program: str, *arguments: str) -> dict[str, float]:
    """What `program`, run with ``--child`` and `arguments`, prints as a JSON object.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, program, "--child", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found
