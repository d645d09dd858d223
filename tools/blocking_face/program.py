"""What ``python -m tools.blocking_face`` does."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from adelta.errors import InvalidUseError
from tools.blocking_face.emit import HEADER, emit
from tools.blocking_face.grammar import read
from tools.blocking_face.source import Package

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BY_HAND", "PARTS", "check_files", "generate", "main", "write_files"]

_ROOT = Path(__file__).resolve().parents[2]

PARTS = {
    "table": ("table",),
    "snapshot": ("snapshot",),
    "scan": ("scan",),
    "transaction": ("transaction",),
    "operations": ("operations",),
    "merge": ("operations.merge",),
    "changes": ("changes",),
    "consumers": ("consumers",),
    "lake": ("lake",),
    "sql": ("sql",),
}
"""Which modules of the async face go into which module of the blocking one; a package into one."""


LEFT_OUT = ("Table.store",)
"""What gets no twin: the store is a seam between adelta's layers, with no use in blocking code."""
MIXINS = {"Scan": "ArrowStream", "Snapshot": "ArrowTable"}
"""What twins are besides: Arrow streams, which other libraries read in threads of their own."""
BY_HAND = ("retry",)
"""What has a twin that is written by hand: a callback of the user's blocks or waits as they do."""


def generate(
    name: str = "adelta",
    root: Path = _ROOT,
    left_out: tuple[str, ...] = LEFT_OUT,
    by_hand: tuple[str, ...] = BY_HAND,
    mixins: Mapping[str, str] = MIXINS,
) -> dict[Path, str]:
    """The blocking face of package `name` below `root`: text by path.

    Raises:
        InvalidUseError: the async face offers something that has no blocking twin.
    """
    package = Package(name, root)
    parts = {part: tuple(f"{name}.{module}" for module in below) for part, below in PARTS.items()}
    face = read(
        package,
        [module for below in parts.values() for module in below],
        left_out,
        by_hand,
        mixins,
    )
    folder = root.joinpath(*name.split("."), "sync")
    return {folder / file: text for file, text in emit(face, package, parts).items()}


def main(arguments: list[str] | None = None) -> int:
    """Run the program; its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.blocking_face", description="Write the blocking face."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    check = parser.parse_args(arguments).check
    try:
        files = generate()
    except InvalidUseError as error:
        print(error, file=sys.stderr)
        return 1
    return check_files(files) if check else write_files(files)


def write_files(files: dict[Path, str]) -> int:
    """Write what differs, remove what is no longer generated."""
    for path in _outdated(files):
        path.unlink()
        print(f"removed {path}")
    for path, text in files.items():
        if _stored(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 0


def check_files(files: dict[Path, str]) -> int:
    """Print how the stored files differ from `files`; 1 if they do."""
    different = 0
    for path, text in [*files.items(), *((path, "") for path in _outdated(files))]:
        stored = _stored(path)
        if stored != text:
            different = 1
            lines = (stored.splitlines(keepends=True), text.splitlines(keepends=True))
            sys.stderr.writelines(difflib.unified_diff(*lines, f"{path}", "as generated"))
    if different:
        print("adelta/sync is stale: run `python -m tools.blocking_face`", file=sys.stderr)
    return different


def _stored(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _outdated(files: dict[Path, str]) -> list[Path]:
    folder = min(files, key=lambda path: len(path.parts)).parent
    generated = (path for path in sorted(folder.rglob("*.py")) if _stored(path).startswith(HEADER))
    return [path for path in generated if path not in files]
