"""adelta in the place of the package `deltalake`, for libraries that import it themselves.

``python -m adelta.deltalake.as_deltalake`` prints the folder that does the same for every process
that has it in ``PYTHONPATH``.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

from adelta.errors import InvalidUseError

__all__ = ["install_as_deltalake"]

_MODULES = (
    "_internal",
    "_util",
    "exceptions",
    "fs",
    "query",
    "schema",
    "table",
    "transaction",
    "warnings",
    "writer",
    "writer._conversion",
    "writer._utils",
    "writer.convert_to",
    "writer.properties",
    "writer.writer",
)


_FOLDER = str(Path(__file__).parent / "_alias")
"""A folder whose package `deltalake` installs adelta in its own place."""


def install_as_deltalake() -> None:
    """Let ``import deltalake`` find `adelta.deltalake`, in this process and in its children.

    Call it before anything has imported deltalake. Calling it again has no effect. Children that
    start later inherit it by ``PYTHONPATH`` and ``sys.path``, however they are started.

    Raises:
        InvalidUseError: deltalake itself has been imported.
    """
    ours = import_module("adelta.deltalake")
    there = sys.modules.get("deltalake", ours)
    if there is not ours:
        raise InvalidUseError(
            "deltalake is imported already, and what uses it keeps it; call install_as_deltalake() "
            "before anything imports deltalake"
        )
    sys.modules["deltalake"] = ours
    for name in _MODULES:
        sys.modules[f"deltalake.{name}"] = import_module(f"adelta.deltalake.{name}")
    # Processes that multiprocessing spawns get sys.path, all others the environment. The first
    # entry stays the folder of the program.
    if _FOLDER not in sys.path:
        sys.path.insert(1, _FOLDER)
    folders = os.environ.get("PYTHONPATH")
    if not folders:
        os.environ["PYTHONPATH"] = _FOLDER
    elif _FOLDER not in folders.split(os.pathsep):
        os.environ["PYTHONPATH"] = f"{_FOLDER}{os.pathsep}{folders}"


if __name__ == "__main__":
    print(_FOLDER)
