"""Handles that are taken for those of the other face."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidUseError

if TYPE_CHECKING:
    from pathlib import Path


async def test_an_asynchronous_handle_in_a_plain_with_says_what_to_do(tmp_path: Path) -> None:
    await adelta.write_table(tmp_path / "t", pa.table({"n": [1]}))
    async with adelta.open_table(tmp_path / "t") as table, adelta.Lake(tmp_path) as lake:
        handles: list[Any] = [table, lake, table.transaction()]
        for handle in handles:
            name = type(handle).__name__
            with pytest.raises(InvalidUseError, match=f"this {name} is asynchronous"), handle:
                pass
        assert (await table.snapshot()).version == 0
