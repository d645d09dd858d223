"""Files of this machine, which Arrow reads by itself."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta.errors import InvalidTableError, ObjectNotFoundError
from adelta.parquet.reader import ParquetFile
from adelta.storage.local import LocalStore
from tests.parquet.recording_store import parquet_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from adelta.storage.pin import Pin


ROWS = 20_000
WIDE = pa.table({f"c{i}": pa.array([n * 7919 % 99991 + i for n in range(ROWS)]) for i in range(16)})


class Watched(LocalStore):
    """A local store that remembers which bytes were read, and in how many goes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.copied: list[tuple[int, int]] = []
        self.read: list[tuple[int, int]] = []

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.copied += ranges
        return await super().get_ranges(path, ranges)

    @contextlib.contextmanager
    def file_to_read(
        self, path: str, ranges: Sequence[tuple[int, int]] = (), *, pin: Pin | None = None
    ) -> Iterator[bytes]:
        self.read += ranges
        with super().file_to_read(path, ranges, pin=pin) as name:
            yield name


def written(folder: Path, name: str = "f.parquet") -> Watched:
    (folder / name).write_bytes(
        parquet_bytes(WIDE, row_group_size=ROWS // 2, use_dictionary=False, compression="none")
    )
    return Watched(folder)


async def test_two_of_sixteen_columns_are_an_eighth_of_the_bytes_and_none_is_copied(tmp_path):
    store = written(tmp_path)
    file = await ParquetFile.open(store, "f.parquet")
    table = await file.read(["c3", "c9"])
    assert table.equals(WIDE.select(["c3", "c9"]))
    assert store.copied == []
    assert len(store.read) == 4  # two columns of two row groups
    asked = sum(end - start for start, end in store.read)
    assert asked == sum(file.layout.column_bytes(["c3", "c9"], group) for group in (0, 1))
    assert file.layout.size / 8.1 < asked < file.layout.size / 7.9


async def test_any_name_that_the_file_system_knows_is_read(tmp_path):
    name = os.fsdecode(b"odd \xff name.parquet")
    store = written(tmp_path, name)
    file = await ParquetFile.open(store, name)
    assert (await file.read()).equals(WIDE)


async def test_a_file_that_is_gone_or_cut_since_it_was_opened_is_an_error_that_names_it(tmp_path):
    store = written(tmp_path)
    file = await ParquetFile.open(store, "f.parquet")
    os.truncate(tmp_path / "f.parquet", 1000)
    with pytest.raises(InvalidTableError, match=r"f\.parquet"):
        await file.read()
    (tmp_path / "f.parquet").unlink()
    with pytest.raises(ObjectNotFoundError, match=r"f\.parquet"):
        await file.read()
