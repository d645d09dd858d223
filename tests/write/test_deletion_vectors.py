"""Deletion vectors: how they are written, packed, merged, and what the log is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from pyroaring import BitMap64

from adelta.errors import InvalidOptionError, InvalidTableError, StorageError
from adelta.kernel.actions.file_actions import AddFile
from adelta.kernel.deletion_vector.blob import decode_bitmap, encode_bitmap, encode_file
from adelta.kernel.deletion_vector.descriptor import vector_path
from adelta.kernel.statistics import with_wide_bounds
from adelta.log.deletion_vector_reader import read_deletion_vector
from adelta.storage.memory import MemoryStore
from adelta.storage.roots import StoreRoots
from adelta.write.deletion_vectors import RowRemoval, VectorsWritten, write_deletion_vectors
from tests.support.stores import CountingStore, FailingStore, Fault

if TYPE_CHECKING:
    from collections.abc import Iterable


def file(path: str = "a.parquet", rows: int = 100_000, **more: object) -> AddFile:
    stats = orjson.dumps({"numRecords": rows, "minValues": {"a": 1}}).decode()
    return AddFile(path, {}, 10, 5, stats=stats, **more)  # type: ignore[arg-type]


def removal(of: AddFile, rows: Iterable[int], count: int = 100_000) -> RowRemoval:
    return RowRemoval(of, BitMap64(rows), count)


def roots(store: object = None) -> StoreRoots:
    return StoreRoots(store or MemoryStore())  # type: ignore[arg-type]


async def read_back(where: StoreRoots, written: VectorsWritten) -> dict[str, list[int]]:
    found = {}
    for add in written.replacements:
        assert add.deletion_vector is not None
        rows = await read_deletion_vector(where, add.deletion_vector, add.path)
        assert len(rows) == add.deletion_vector.cardinality
        found[add.path] = list(rows)
    return found


async def test_a_small_vector_is_kept_in_the_log() -> None:
    store = CountingStore(MemoryStore())
    where = roots(store)
    written = await write_deletion_vectors(where, [removal(file(), [3, 4, 99])])
    (add,) = written.replacements
    assert add.deletion_vector is not None
    assert (add.deletion_vector.storage_type, add.deletion_vector.offset) == ("i", None)
    assert (written.paths, store.requests) == ((), [])
    assert await read_back(where, written) == {"a.parquet": [3, 4, 99]}


async def test_larger_vectors_share_one_object_at_the_root() -> None:
    # B5-06, B5-13, B5-14
    store = CountingStore(MemoryStore())
    where = roots(store)
    asked = {f"p=1/{n}.parquet": list(range(n, 90_000, 7 + n)) for n in range(5)}
    removals = [removal(file(path), rows) for path, rows in asked.items()]
    written = await write_deletion_vectors(where, removals)
    assert [r.kind for r in store.requests] == ["put"]
    (path,) = written.paths
    assert "/" not in path
    assert path.startswith("deletion_vector_")
    vectors = [add.deletion_vector for add in written.replacements]
    assert {vector_path(v) for v in vectors if v} == {path}
    assert sorted(v.offset or 0 for v in vectors if v)[0] == 1
    assert len({v.unique_id for v in vectors if v}) == 5
    assert await read_back(where, written) == asked


async def test_vectors_fill_an_object_after_the_other() -> None:
    where = roots()
    half = range(0, 20_000_000, 2)  # 2.5 MB of bits
    removals = [removal(file(f"{n}.parquet"), half, 20_000_001) for n in range(2)]
    written = await write_deletion_vectors(where, removals)
    assert len(written.paths) == 2
    assert [len(rows) for rows in (await read_back(where, written)).values()] == [10_000_000] * 2


async def test_a_new_vector_holds_what_the_one_before_held() -> None:
    where = roots()
    first = await write_deletion_vectors(where, [removal(file(), range(0, 9000, 3))])
    (once,) = first.replacements
    second = await write_deletion_vectors(where, [removal(once, [1, 3])])
    (twice,) = second.replacements
    assert second.replaced == (once,)
    assert (await read_back(where, second))["a.parquet"] == sorted([*range(0, 9000, 3), 1])
    assert once.deletion_vector != twice.deletion_vector


async def test_rows_that_are_gone_already_change_nothing() -> None:
    where = roots()
    first = await write_deletion_vectors(where, [removal(file(), [1, 2])])
    again = await write_deletion_vectors(where, [removal(first.replacements[0], [2])])
    assert again == VectorsWritten((), (), ())


async def test_a_file_without_rows_left_comes_back_no_more() -> None:
    where = roots()
    whole = file(rows=3)
    written = await write_deletion_vectors(where, [removal(whole, range(3), 3)])
    assert written == VectorsWritten((whole,), (), ())


async def test_everything_else_of_the_file_stays_as_it_was() -> None:
    # B5-11, C5-15: rows are counted as before, and bounds are said to be wide.
    before = file(base_row_id=7, default_row_commit_version=2, tags={"t": "1"})
    (add,) = (await write_deletion_vectors(roots(), [removal(before, [0])])).replacements
    assert orjson.loads(add.stats or "") == {
        "numRecords": 100_000,
        "tightBounds": False,
        "minValues": {"a": 1},
    }
    assert (add.path, add.size, add.base_row_id, add.default_row_commit_version, add.tags) == (
        "a.parquet",
        10,
        7,
        2,
        {"t": "1"},
    )


async def test_rows_that_a_file_does_not_have_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="row 3"):
        await write_deletion_vectors(roots(), [removal(file(rows=3), [3], 3)])
    with pytest.raises(InvalidOptionError, match="twice"):
        await write_deletion_vectors(roots(), [removal(file(), [1]), removal(file(), [2])])


async def test_a_put_that_fails_leaves_nothing_behind() -> None:
    inner = MemoryStore()
    store = FailingStore(inner, {2: Fault(after=True)})
    removals = [removal(file(f"{n}"), range(0, 20_000_000, 2), 20_000_001) for n in range(3)]
    with pytest.raises(StorageError, match="injected"):
        await write_deletion_vectors(roots(store), removals)
    assert [meta.path async for page in inner.list() for meta in page] == []


def test_numbers_in_statistics_keep_every_digit() -> None:
    text = '{"numRecords":2,"minValues":{"d":1.00000000000000000000001},"nullCount":{}}'
    assert with_wide_bounds(text, 2) == (
        '{"numRecords":2,"tightBounds":false,'
        '"minValues":{"d":1.00000000000000000000001},"nullCount":{}}'
    )
    assert with_wide_bounds(None, 4) == '{"numRecords":4,"tightBounds":false}'
    assert with_wide_bounds(' { "tightBounds" : true } ', 4) == with_wide_bounds(None, 4)
    for damaged in ("[]", '{"a":1', '{"a" 1}', "x"):
        with pytest.raises(InvalidTableError, match="statistics"):
            with_wide_bounds(damaged, 1)


def test_the_bytes_are_those_of_the_format() -> None:
    # B5-06: version, size, bitmap, CRC-32.
    data = encode_bitmap(BitMap64([0, 9]))
    content, offsets = encode_file([data])
    assert content[:5].hex() == "0100000024"
    assert offsets == [1]
    assert decode_bitmap(data, "x") == BitMap64([0, 9])
    assert len(content) == 1 + 4 + 36 + 4
