"""Every public name of `deltalake`, with its signature and defaults, is in `adelta.deltalake`.

What differs on purpose stands in the first table of docs/migrating_from_deltalake.md, and nothing
else does.
"""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import deltalake
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "migrating_from_deltalake.md"
MODULES = (
    "",
    ".exceptions",
    ".fs",
    ".query",
    ".schema",
    ".table",
    ".transaction",
    ".warnings",
    ".writer",
    ".writer.properties",
)
OF_RUST = {"PyMergeBuilder", "PyQueryBuilder", "RawDeltaTable", "TableFeatures"}
"""Classes that users meet without making them, or whose members are all that they see."""


def told_on_the_page() -> set[str]:
    """The names in the table of names that differ."""
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("## Names that differ")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([\w.]+)`", table, re.MULTILINE))


def shape(value: Any) -> list[tuple[str, str, str]] | None:
    """The parameters of a callable but `self`: names, kinds and defaults."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return [
        (each.name, each.kind.name, repr(each.default))
        for each in parameters
        if each.name != "self"
    ]


def is_theirs(value: object) -> bool:
    module = str(getattr(value, "__module__", None) or "deltalake")
    return module.startswith(("deltalake", "_internal", "builtins")) and not isinstance(
        value, ModuleType
    )


def has(kind: Any, name: str) -> bool:
    return hasattr(kind, name) or name in getattr(kind, "__dataclass_fields__", {})


def differences(theirs: Any, ours: Any, name: str) -> list[str]:
    """The dotted names, below `name`, that are lacking or have another signature or value."""
    if not inspect.isclass(theirs):
        if callable(theirs):
            return [] if shape(theirs) == shape(ours) else [name]
        plain = isinstance(theirs, int | str | list | set)
        return [name] if plain and name != "__version__" and theirs != ours else []
    found = []
    if theirs.__name__ not in OF_RUST and shape(theirs) not in (None, shape(ours)):
        found.append(name)
    for member in dir(theirs):
        if member.startswith("_") or hasattr(Exception, member):
            continue
        where = f"{name}.{member}"
        if theirs.__name__ in ("RawDeltaTable", "PyMergeBuilder", "PyQueryBuilder"):
            continue
        if not has(ours, member):
            found.append(where)
        elif (their := shape(getattr(theirs, member))) is not None and callable(
            getattr(ours, member, None)
        ):
            found += [] if their == shape(getattr(ours, member)) else [where]
    return found


@pytest.mark.parametrize("module", MODULES)
def test_every_name_is_there_with_its_signature_but_for_those_that_the_page_tells(
    module: str,
) -> None:
    theirs = importlib.import_module(f"deltalake{module}")
    ours = importlib.import_module(f"adelta.deltalake{module}")
    found: list[str] = []
    for name in dir(theirs):
        value = getattr(theirs, name)
        if name.startswith("_") or not is_theirs(value):
            continue
        found += (
            [name] if not hasattr(ours, name) else differences(value, getattr(ours, name), name)
        )
    assert set(found) <= told_on_the_page()


def test_what_the_page_tells_differs() -> None:
    for name in told_on_the_page():
        theirs: Any = deltalake
        ours: Any = importlib.import_module("adelta.deltalake")
        for step in name.split("."):
            theirs, ours = getattr(theirs, step), getattr(ours, step, None)
        assert ours is None or shape(theirs) != shape(ours) or theirs != ours


def test_all_is_the_same() -> None:
    ours = importlib.import_module("adelta.deltalake")
    assert sorted(ours.__all__) == sorted(deltalake.__all__)


def test_the_errors_are_one_tree() -> None:
    ours = importlib.import_module("adelta.deltalake.exceptions")
    for name in deltalake.exceptions.__all__:
        theirs, mine = getattr(deltalake.exceptions, name), getattr(ours, name)
        bases = [base.__name__ for base in theirs.__mro__]
        assert [base.__name__ for base in mine.__mro__] == bases


def test_features_count_alike() -> None:
    ours: Any = importlib.import_module("adelta.deltalake").TableFeatures
    names = [name for name in dir(deltalake.TableFeatures) if name[0].isupper()]
    theirs: Any = deltalake.TableFeatures
    assert {n: int(getattr(ours, n)) for n in names} == {n: int(getattr(theirs, n)) for n in names}


def test_importing_it_loads_neither_pandas_nor_duckdb_nor_datasets() -> None:
    heavy = ["pandas", "polars", "duckdb", "pyarrow.dataset", "pyarrow.fs", "deltalake"]
    code = (
        f"import sys, adelta.deltalake\nprint([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nanoseconds_of_timestamps_are_off_in_the_internal_module() -> None:
    import deltalake._internal

    import adelta.deltalake._internal

    assert isinstance(deltalake._internal._NANOSECOND_TIMESTAMPS, bool)
    assert adelta.deltalake._internal._NANOSECOND_TIMESTAMPS is False
