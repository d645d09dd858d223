"""The lowest versions of what adelta asks for, as constraints that pip takes.

    python tests/lowest_versions.py FILE

The tests run with them in tox's environment ``unit-lowest``, so that each lower bound in
pyproject.toml is one that works.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

__all__ = ["constraints"]

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(
    r"(?P<name>[\w-]+)(\[\w+\])?>=(?P<version>[\d.]+)(,<\S+)?(; (?P<marker>.+))?"
)


def constraints(project: str) -> list[str]:
    """A line for each requirement of the text of a pyproject.toml, those of extras included."""
    tables = tomllib.loads(project)["project"]
    groups = (tables["dependencies"], *tables["optional-dependencies"].values())
    lines = []
    for requirement in (each for group in groups for each in group):
        if requirement.startswith("adelta["):
            continue
        found = REQUIREMENT.fullmatch(requirement)
        if found is None:
            raise ValueError(f"{requirement!r} has no lower bound of the form name>=version")
        marker = f"; {found['marker']}" if found["marker"] else ""
        lines.append(f"{found['name']}=={found['version']}{marker}")
    return lines


if __name__ == "__main__":
    lines = constraints(PROJECT.read_text(encoding="utf-8"))
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")
