"""adelta in the place of the package `deltalake`, for libraries that import it themselves.

``python -m adelta.deltalake.as_deltalake`` prints a folder. In every process that has it in
``PYTHONPATH``, ``import deltalake`` imports adelta.
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
"""A folder with an alias package `deltalake`, which imports adelta in its place."""


def install_as_deltalake() -> None:
    """Make ``import deltalake`` import `adelta.deltalake`, in this process and its children.

    Call it before anything imports deltalake. Calling it again has no effect. Child processes that
    start later inherit it through ``PYTHONPATH`` and ``sys.path``.

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
    # multiprocessing passes sys.path on to processes that it spawns; others inherit the
    # environment. The first entry of sys.path stays the folder of the program.
    if _FOLDER not in sys.path:
        sys.path.insert(1, _FOLDER)
    folders = os.environ.get("PYTHONPATH")
    if not folders:
        os.environ["PYTHONPATH"] = _FOLDER
    elif _FOLDER not in folders.split(os.pathsep):
        os.environ["PYTHONPATH"] = f"{_FOLDER}{os.pathsep}{folders}"


if __name__ == "__main__":
    print(_FOLDER)
