"""Writes the blocking face, or checks that it is what would be written.

Usage: ``python -m adelta.sync._generate [--check]``. Run by path, ``python adelta/sync/_generate``,
it imports neither face, and so works also while the two do not fit together.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path


def _stand_in(name: str) -> None:
    """Let modules of package `name` be imported without importing the package."""
    package = types.ModuleType(name)
    package.__path__ = [str(Path(__file__).resolve().parents[3].joinpath(*name.split(".")))]
    sys.modules[name] = package


def _main() -> int:
    if not __package__:
        _stand_in("adelta")
        _stand_in("adelta.sync")
    from adelta.sync._generate.program import main

    return main()


if __name__ == "__main__":
    sys.exit(_main())
