"""The lower bounds of the requirements, as the constraints that tests run with."""

from __future__ import annotations

import pytest

from tests.lowest_versions import PROJECT, constraints


def test_every_requirement_becomes_a_constraint() -> None:
    project = """
        [project]
        dependencies = ["aiohttp>=3.11", "uvloop>=0.20; sys_platform != 'win32'"]
        [project.optional-dependencies]
        spark = ["pyspark[sql]>=4.3", "pandas>=2.2.2,<3"]
        demo = ["adelta[spark]"]
    """
    assert constraints(project) == [
        "aiohttp==3.11", "uvloop==0.20; sys_platform != 'win32'", "pyspark==4.3", "pandas==2.2.2",
    ]  # fmt: skip


def test_every_requirement_of_adelta_has_a_lower_bound() -> None:
    assert "pyarrow==26" in constraints(PROJECT.read_text(encoding="utf-8"))


def test_a_requirement_without_a_lower_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="'rich' has no lower bound"):
        constraints('[project]\ndependencies = ["rich"]\n[project.optional-dependencies]\n')
