"""How far writes, deletes and updates are, as their callbacks are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.progress import Progress


async def test_each_phase_is_told_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t"
    told: list[Progress] = []
    for start in (0, 10, 20):
        data = pa.table({"n": range(start, start + 10)})
        await adelta.write_table(path, data, on_progress=told.append)
    assert last(told) == {"writing": (10, None, "rows")}
    told.clear()
    await adelta.delete(path, "n % 10 = 3", on_progress=told.append)
    assert last(told) == {"matching": (3, 3, "files"), "rewriting": (1, None, "files")}
    assert [p.done for p in told] == [*sorted(p.done for p in told if p.phase == "matching"), 0, 1]
    told.clear()
    await adelta.update(path, {"n": "n + 100"}, "n = 4", on_progress=told.append)
    assert last(told)["matching"] == (1, 1, "files")
    assert last(told)["rewriting"] == (1, None, "files")


async def test_what_a_callback_raises_ends_the_write_and_nothing_is_committed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t"
    await adelta.write_table(path, pa.table({"n": [1, 2]}))

    def stop(progress: Progress) -> None:
        if progress.done:
            raise KeyError("enough")

    for work in (
        adelta.write_table(path, pa.table({"n": [3]}), on_progress=stop),
        adelta.delete(path, "n = 1", on_progress=stop),
    ):
        with pytest.raises(KeyError):
            await work
    async with adelta.open_table(path) as table:
        assert (await table.snapshot()).version == 0
    assert len(list(path.glob("*.parquet"))) == 1


def last(told: list[Progress]) -> dict[str, tuple[int, int | None, str]]:
    return {p.phase: (p.done, p.total, p.unit) for p in told}
