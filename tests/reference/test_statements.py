"""`adelta.sql` does to tables what Delta Spark does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import adelta.sync as adelta
from tests.reference.statements import CASES, check

if TYPE_CHECKING:
    from pathlib import Path


def _run(statement: str, tables: dict[str, str]) -> None:
    adelta.sql(statement.format(target="target", source="source"), tables=tables)


@pytest.mark.parametrize("seed", CASES)
def test_a_statement_of_adelta_sql_does_what_it_does_in_delta_spark(
    seed: int, tmp_path: Path
) -> None:
    check(CASES[seed], str(tmp_path / "target"), _run)
