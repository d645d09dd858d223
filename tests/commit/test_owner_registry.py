"""Which client speaks to the owner that a table names: the user's, adelta's own, or a package's."""

from __future__ import annotations

import importlib
import uuid
from typing import TYPE_CHECKING

import pytest

import adelta
from adelta.commit import owner_registry
from adelta.commit.owner_registry import find_commit_owner
from adelta.errors import InvalidOptionError
from tests.support.commit_owners import MemoryOwner

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that is installed, and knows the owners `other-house` and `half-a-house`."""
    name = f"house_{uuid.uuid4().hex[:8]}"
    (tmp_path / f"{name}.py").write_text("def client(table, options):\n    return None\n")
    about = tmp_path / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    points = f"other-house = {name}:client\nhalf-a-house = {name}:nothing\n"
    (about / "entry_points.txt").write_text(f"[adelta.commit_owners]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return name


def test_an_owner_is_found_by_the_entry_point_of_a_package(installed: str) -> None:
    factory = find_commit_owner("other-house")
    assert factory is importlib.import_module(installed).client
    with pytest.raises(InvalidOptionError, match="half-a-house is known, but what speaks to it"):
        find_commit_owner("half-a-house")
    assert find_commit_owner("nobodys-house") is None
    owner = MemoryOwner("other-house").register()
    try:
        assert find_commit_owner("other-house") == owner.client
    finally:
        owner_registry._registered.pop("other-house")


@pytest.mark.parametrize("name", ["", None, 7])
def test_what_is_no_name_of_an_owner_is_refused(name: object) -> None:
    with pytest.raises(InvalidOptionError):
        adelta.register_commit_owner(name, lambda *_: None)  # type: ignore[arg-type]
