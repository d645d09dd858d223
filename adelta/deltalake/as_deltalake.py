"""adelta in the place of the package `deltalake`, for libraries that import it themselves."""

from __future__ import annotations

import sys
from importlib import import_module

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


def install_as_deltalake() -> None:
    """Let ``import deltalake`` find `adelta.deltalake`, in this process. Doing it again is free.

    Call it before anything has imported deltalake.

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
