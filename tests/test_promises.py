"""Every command of docs/promises.md runs tests that there are."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ +((?:pytest|python -m|tox -e) .*?)(?:  +#.*)?$", PAGE, re.MULTILINE)


def functions_of(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [each.name for each in tree.body if isinstance(each, functions)]


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("pytest")])
def test_a_command_selects_tests(command: str) -> None:
    _, *words = shlex.split(command)
    chosen = words[words.index("-k") + 1] if "-k" in words else ""
    files = [ROOT / word for word in words if word.startswith("tests/")]
    assert files
    names = [name for file in files for name in functions_of(file) if name.startswith("test_")]
    for part in re.split(" or | and ", chosen) if chosen else []:
        parameters = "".join(file.read_text(encoding="utf-8") for file in files)
        assert any(part in name for name in names) or f'"{part}"' in parameters, part
    assert names


def test_what_else_it_names_is_there() -> None:
    assert len(COMMANDS) > 15
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    for command in COMMANDS:
        if command.startswith("tox -e"):
            assert f"[testenv:{command.split()[2]}]" in tox
        if command.startswith("python -m"):
            assert (ROOT / command.split()[2].replace(".", "/") / "__main__.py").exists()
    for path in re.findall(r"`(tests/[\w/.]+)`", PAGE):
        assert (ROOT / path).exists(), path
