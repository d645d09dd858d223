"""Commits that are news to several handles of one process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from adelta.errors import InvalidTableError
from adelta.kernel.log_path import commit_path
from adelta.log import commit_reader
from adelta.log.commit_reader import read_commit
from adelta.storage.memory import MemoryStore

if TYPE_CHECKING:
    from adelta.kernel.commit import Commit

ADD = b'{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}\n'


async def test_a_small_commit_is_decoded_once_for_all(monkeypatch: pytest.MonkeyPatch):
    decoded = []

    def noted(version: int, data: bytes, modified_ms: int | None = None) -> Commit:
        decoded.append(version)
        return decode(version, data, modified_ms)

    decode = commit_reader.decode_commit
    monkeypatch.setattr(commit_reader, "decode_commit", noted)
    store: Any = MemoryStore()
    await store.put(commit_path(7001), ADD)
    found = await asyncio.gather(*(read_commit(store, 7001) for _ in range(8)))
    assert decoded == [7001]
    assert all(commit.adds.equals(found[0].adds) for commit in found)
    assert found[0].adds.num_rows == 1


async def test_what_is_damaged_or_another_is_not_taken_for_it():
    one, other = MemoryStore(), MemoryStore()
    await one.put(commit_path(7002), ADD)
    await other.put(commit_path(7002), ADD.replace(b'"a"', b'"b"'))
    for _ in range(2):
        assert (await read_commit(one, 7002)).adds["path"].to_pylist() == ["a"]
        assert (await read_commit(other, 7002)).adds["path"].to_pylist() == ["b"]
        assert (await read_commit(other, 7002, 5)).modified_ms == 5
    await one.put(commit_path(7003), b"{")
    for _ in range(2):
        with pytest.raises(InvalidTableError, match="version 7003"):
            await read_commit(one, 7003)
