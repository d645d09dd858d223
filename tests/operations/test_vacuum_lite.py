"""VACUUM by the log alone."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

import adelta
from adelta.errors import InvalidUseError
from adelta.kernel.actions.file_actions import (
    AddCDCFile,
    AddFile,
    DeletionVectorDescriptor,
    RemoveFile,
)
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.log_path import LAST_VACUUM_INFO_PATH, commit_path
from tests.operations.test_vacuum import RELATIVE, RELATIVE_PATH, World
from tests.support.stores import CountingStore

VECTORS = Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))


async def last_vacuum(world: World) -> Any:
    return orjson.loads(await world.store.get(LAST_VACUUM_INFO_PATH))


async def test_it_deletes_what_the_log_says_has_left_the_table() -> None:
    world = await World.make(protocol=VECTORS)
    builder, clock = world.builder, world.clock
    inline = DeletionVectorDescriptor(
        "i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, 1
    )
    gone = ["a b", "again", RELATIVE_PATH, "_change_data/c", "absolute"]
    await world.put(*gone, "back", "with vector", "recent", "orphan", "inline")
    await builder.commit(
        *(AddFile(p, {}, 1, 1) for p in ("a%20b", "back", "with vector", "recent", "inline")),
        AddFile(f"{world.store.uri}/absolute", {}, 1, 1),
        AddFile("again", {}, 1, 1, deletion_vector=RELATIVE),
    )
    removed = clock.ms
    await builder.commit(
        *(RemoveFile(p, removed) for p in ("a%20b", "back", "with vector", "inline")),
        RemoveFile(f"{world.store.uri}/absolute", removed),
        RemoveFile("again", removed, deletion_vector=RELATIVE),
        AddCDCFile("_change_data/c", {}, 1),
        AddFile("with vector", {}, 1, 1, deletion_vector=inline),
    )
    await builder.commit(AddFile("back", {}, 1, 1))
    clock.advance(days=8)
    await builder.commit(RemoveFile("recent", clock.ms))
    store = CountingStore(world.store)
    planned = await world.vacuum(mode="lite", dry_run=True)
    done = await world.vacuum(store, mode="lite")
    assert sorted(done.files.column("path").to_pylist()) == sorted([*gone, "inline"])
    assert done.files.equals(planned.files)
    assert "" not in store.paths("list")
    left = {"back", "with vector", "recent", "orphan"}
    assert await world.outside_log() == left
    assert await last_vacuum(world) == {"latestCommitVersionOutsideOfRetentionWindow": 3}
    assert (await adelta.history(world.table()))[0].operation == "VACUUM END"


async def test_the_next_one_begins_where_the_last_one_ended() -> None:
    world = await World.make()
    builder, clock = world.builder, world.clock
    for name in ("a", "b"):
        await world.put(name)
        await builder.commit(builder.add(name))
        await builder.commit(builder.remove(name, at=clock.ms))
        clock.advance(days=8)
        store = CountingStore(world.store)
        done = await world.vacuum(store, mode="lite")
        builder.version = done.version
        assert done.files.column("path").to_pylist() == [name]
    read = [path for path in store.paths("get") if path.endswith(".json")]
    assert commit_path(1) not in read[3:]  # but to load the table
    assert (await last_vacuum(world))["latestCommitVersionOutsideOfRetentionWindow"] == 6


async def test_it_is_refused_where_the_log_does_not_reach_back() -> None:
    world = await World.make()
    builder, clock = world.builder, world.clock
    await world.put("a", "b")
    await builder.commit(builder.add("a"), builder.add("b"))
    await builder.commit(builder.remove("a", at=clock.ms))
    await adelta.checkpoint(world.table())
    clock.advance(days=40)
    await world.store.delete([commit_path(0), commit_path(1)])
    with pytest.raises(InvalidUseError, match="run a full one"):
        await world.vacuum(mode="lite")
    assert await world.outside_log() == {"a", "b"}
    done = await world.vacuum()
    assert await world.outside_log() == {"b"}
    builder.version = done.version
    clock.advance(days=1)
    await builder.commit(builder.remove("b", at=clock.ms))
    clock.advance(days=8)
    done = await world.vacuum(mode="lite")
    assert (done.num_deleted_files, await world.outside_log()) == (1, set())


@pytest.mark.parametrize(
    "info", [b"", b"[]", b'{"latestCommitVersionOutsideOfRetentionWindow":-5}']
)
async def test_a_damaged_note_of_the_last_one_counts_as_none(info: bytes) -> None:
    world = await World.make()
    await world.put("a")
    await world.builder.commit(world.builder.add("a"))
    await world.builder.commit(world.builder.remove("a", at=world.clock.ms))
    await world.store.put(LAST_VACUUM_INFO_PATH, info)
    world.clock.advance(days=8)
    assert (await world.vacuum(mode="lite")).num_deleted_files == 1


async def test_a_log_cannot_have_it_delete_the_log_or_what_is_elsewhere() -> None:
    world = await World.make()
    builder = world.builder
    await world.put("_hidden/x", ".x", "_delta_logs")
    other = "memory://elsewhere/x"
    names = [
        "_delta_log/00000000000000000000.json",
        "_delta_log%2F00000000000000000000.json",
        f"{world.store.uri}/_delta_log/00000000000000000000.json",
        "./_delta_log/00000000000000000000.json",
        "x/../_delta_log/00000000000000000000.json",
        "../x",
        "_hidden/x",
        ".x",
        "_delta_logs",
        other,
        "/etc/hostname",
    ]
    before = await world.outside_log()
    await builder.commit(*(AddFile(name, {}, 1, 1) for name in names))
    await builder.commit(*(RemoveFile(name, 1) for name in names))
    world.clock.advance(days=8)
    done = await world.vacuum(mode="lite")
    assert done.num_deleted_files == 0
    assert await world.outside_log() == before
    assert (await world.table().snapshot(version=0)).version == 0
