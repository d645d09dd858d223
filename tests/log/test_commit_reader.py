"""Commits that are news to several handles of one process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import orjson
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


async def test_what_a_user_changes_of_a_commit_is_changed_for_nobody_else():
    store = MemoryStore()
    info = {
        "operationParameters": {"a": {"b": [1]}},
        "operationMetrics": {"numFiles": "1"},
        "tags": {"c": "d"},
        "others": [{"e": 1}],
    }
    metadata = {"id": "x", "configuration": {"delta.appendOnly": "true"}}
    actions = ({"commitInfo": info}, {"metaData": metadata})
    for version, told in ((7004, actions[:1]), (7005, actions)):
        await store.put(commit_path(version), b"".join(orjson.dumps(one) + b"\n" for one in told))
        one, other = [await read_commit(store, version) for _ in range(2)]
        cast("Any", one.info.operation_parameters["a"]["b"]).append(2)
        cast("Any", one.info.tags).clear()
        cast("Any", one.info.others["others"][0]).clear()
        if one.metadata is not None:
            cast("Any", one.metadata.configuration).clear()
        for commit in (other, await read_commit(store, version)):
            assert commit.info.to_json() == info
            if commit.metadata is not None:
                assert commit.metadata.configuration == metadata["configuration"]
