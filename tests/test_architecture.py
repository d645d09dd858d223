"""The pages beside the README: what ARCHITECTURE.md names is there, and links lead somewhere."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES

ROOT = Path(__file__).parents[1]
PAGE = " ".join((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split())
PATH = re.compile(r"`((?:adelta|tests|docs)/[\w./]+)`")
NAMES = re.compile(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?: and )?)+)")
BEFORE = re.compile(r"`([\w.]+)`(?: in | \()`([\w/]+\.py)`")
KNOWN = {  # that are no names of the package
    "ADELTA_SNAPPY",
    "_delta_log",
    "_last_checkpoint",
    "adelta.sync",
    "async",
    "examples",
    "pyproject.toml",
    "tests",
}
BARE = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)?)`")


def defined(path: Path) -> set[str]:
    """The names that a module defines, those of methods behind their class's."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (ast.FunctionDef, ast.AsyncFunctionDef)
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, methods)}
    return found


@pytest.mark.parametrize("path", sorted(set(PATH.findall(PAGE))))
def test_every_file_that_it_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("path", "names"), sorted(set(NAMES.findall(PAGE))))
def test_every_function_that_it_names_is_where_it_says(path: str, names: str) -> None:
    assert set(re.findall(r"`([\w.]+)`", names)) <= defined(ROOT / path)


@pytest.mark.parametrize(("name", "path"), sorted(set(BEFORE.findall(PAGE))))
def test_so_is_every_one_that_it_names_before_its_file(name: str, path: str) -> None:
    assert name in defined(ROOT / path)


def test_every_name_is_defined_somewhere() -> None:
    """As a function, class, method, field, constant, module or folder."""
    known = set(KNOWN)
    for path in (ROOT / "adelta").rglob("*.py"):
        known |= {path.stem, path.parent.name} | defined(path)
        known |= {name.partition(".")[2] for name in defined(path)}
        known |= set(
            re.findall(r"^ *(\w+)(?::| =)", path.read_text(encoding="utf-8"), re.MULTILINE)
        )
    unknown = {name for name in BARE.findall(PAGE) if name not in known}
    assert not unknown


def test_it_names_enough_to_be_held_to() -> None:
    assert len(PATH.findall(PAGE)) > 60
    assert len(NAMES.findall(PAGE)) > 20


def test_every_layer_is_on_the_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["name"] == "layers")
    for layer in (name for line in layers for name in re.findall(r"\w+", line)):
        assert re.search(rf"`adelta/{layer}(\.py)?`", PAGE), layer


@pytest.mark.parametrize(
    "page",
    ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "perf/README.md", *PAGES],
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text, folder = (ROOT / page).read_text(encoding="utf-8"), (ROOT / page).parent
    links = re.findall(r"\]\((?!https?:)([\w./]+)\)", text)
    assert [link for link in links if not (folder / link).exists()] == []


def test_time_and_chance_come_in_by_one_door_each() -> None:
    """Whoever goes past `_clock` and `_chance` cannot be simulated."""
    past = re.compile(
        r"\btime\.(?:monotonic|perf_counter|time)|\bdatetime\.(?:utcnow|now|today)\("
        r"|\buuid[14]\(|\brandom\.(?:random|uniform|choice|randint|getrandbits|SystemRandom)\("
    )
    own = {"_clock.py", "_chance.py", "_workers.py"}
    found = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "adelta").rglob("*.py"))
        if path.name not in own and "demo" not in path.parts
        if past.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_dataclasses_are_made_by_the_module_that_compiles_less() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "adelta").rglob("*.py"))
        if path.name != "_dataclasses.py"
        if re.search(
            r"^from dataclasses import .*\bdataclass\b|\bdataclasses\.dataclass\b",
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    ]
    assert found == []


def test_sparks_plans_and_sessions_inside_are_known_to_two_modules_alone() -> None:
    known = {"adelta/spark/classic/jvm.py", "adelta/spark/classic/names/in_jvm.py"}
    inside = re.compile(r"queryExecution|sessionState|_jwriter|_jreader|catalyst")
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "adelta").rglob("*.py")
        if inside.search(path.read_text(encoding="utf-8"))
    }
    assert found == known
