"""VACUUM: what goes, and above all what stays."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    InvalidOptionError,
    MissingDataFileError,
    ObjectNotFoundError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor, RemoveFile
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.log_path import commit_path
from adelta.progress import Progress
from adelta.storage import local_tree
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.clock import ManualClock
from tests.support.stores import CountingStore, LaterStore, Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from adelta.storage.object_store import ObjectMeta, ObjectStore

R = TypeVar("R")
DAY = 86_400_000
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
VECTORS = Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))
RELATIVE = DeletionVectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 10, 1, 1)
RELATIVE_PATH = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


class World:
    """A table in memory, a clock, and objects of which each bears the time that it was put."""

    def __init__(self, builder: TableBuilder, clock: ManualClock) -> None:
        self.builder = builder
        self.clock = clock
        self.store: ObjectStore = builder.store

    @classmethod
    async def make(cls, **options: Any) -> World:
        clock = ManualClock(19_000 * DAY)
        store = MemoryStore(clock=clock)
        return cls(await TableBuilder.create(SCHEMA, store=store, **options), clock)

    async def put(self, *paths: str) -> None:
        for path in paths:
            await self.store.put(path, b"x")

    async def outside_log(self) -> set[str]:
        found = [meta.path async for page in self.store.list() for meta in page]
        return {path for path in found if not path.startswith("_delta_log/")}

    def table(self, store: ObjectStore | None = None) -> Table:
        return Table(self.store.uri, store=store or self.store, clock=self.clock)

    async def vacuum(self, store: ObjectStore | None = None, **options: Any) -> Any:
        async with self.table(store) as table:
            return await adelta.vacuum(table, **options)


async def test_only_what_no_version_within_the_retention_needs_goes() -> None:
    world = await World.make(partition_by=["p"])
    builder, clock = world.builder, world.clock
    stays = ["live", "p=a/live", "removed just now"]
    goes = ["orphan", "removed long ago", "deep/below/orphan", "_change_data/old", "p=b/orphan"]
    hidden = ["_hidden", ".hidden", "_folder/x", "deep/_x/y", "_symlink_format_manifest/manifest"]
    indexes = ["_delta_index/old"]
    await world.put(*stays, *goes, *hidden, *indexes)
    await builder.commit(*(builder.add(path) for path in (*stays, "removed long ago")))
    clock.advance(days=1)
    await builder.commit(builder.remove("removed long ago", at=clock.ms))
    clock.advance(days=8)
    await world.put("young", "_change_data/young")
    await builder.commit(builder.remove("removed just now", at=clock.ms))
    planned = await world.vacuum(dry_run=True)
    assert set(planned.files.column("path").to_pylist()) == {*goes, *indexes}
    assert (planned.num_files_to_delete, planned.size_of_data_to_delete) == (6, 6)
    assert (planned.num_deleted_files, planned.version, planned.dry_run) == (0, None, True)
    assert goes[0] in await world.outside_log()
    done = await world.vacuum()
    assert done.num_deleted_files == 6
    assert await world.outside_log() == {*stays, *hidden, "young", "_change_data/young"}
    assert (await world.vacuum()).num_deleted_files == 0
    clock.advance(days=8)
    assert (await world.vacuum()).num_deleted_files == 3
    assert await world.outside_log() == {"live", "p=a/live", *hidden}


async def test_the_history_tells_of_it_as_sparks_does() -> None:
    world = await World.make()
    await world.put("orphan")
    world.clock.advance(days=9)
    seen: list[Progress] = []
    done = await world.vacuum(on_progress=seen.append, retention=timedelta(hours=200))
    end, start, _ = (await adelta.history(world.table()))[:3]
    assert (start.version, end.version) == (done.start_version, done.version) == (1, 2)
    assert (start.operation, end.operation) == ("VACUUM START", "VACUUM END")
    assert start.operation_parameters == {
        "retentionCheckEnabled": "true",
        "defaultRetentionMillis": str(7 * DAY),
        "specifiedRetentionMillis": str(200 * 3_600_000),
    }
    assert start.operation_metrics == {"numFilesToDelete": "1", "sizeOfDataToDelete": "1"}
    assert end.operation_parameters == {"status": "COMPLETED"}
    assert end.operation_metrics == {"numDeletedFiles": "1", "numVacuumedDirectories": "1"}
    assert seen[-1] == Progress("deleting", 1, 1, "files")
    assert {progress.phase for progress in seen} == {"listing", "deleting"}


async def test_deletion_vectors_stay_with_the_files_that_have_them() -> None:
    world = await World.make(protocol=VECTORS)
    root = world.store.uri
    absolute = DeletionVectorDescriptor("p", f"{root}/vectors/a%20b.bin", 10, 1, 1)
    gone = DeletionVectorDescriptor("p", f"{root}/vectors/gone.bin", 10, 1, 1)
    inline = DeletionVectorDescriptor(
        "i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 10, 1
    )
    vectors = [RELATIVE_PATH, "vectors/a b.bin", "vectors/gone.bin"]
    await world.put("a", "b", "c", "d", *vectors)
    given = {"a": RELATIVE, "b": absolute, "c": inline}
    await world.builder.commit(
        *(AddFile(path, {}, 1, 1, deletion_vector=vector) for path, vector in given.items()),
        AddFile("d", {}, 1, 1, deletion_vector=gone),
    )
    await world.builder.commit(RemoveFile("d", world.clock.ms, deletion_vector=gone))
    world.clock.advance(days=1)
    assert (await world.vacuum()).num_deleted_files == 0
    world.clock.advance(days=7)
    assert (await world.vacuum()).num_deleted_files == 2
    assert await world.outside_log() == {"a", "b", "c", RELATIVE_PATH, "vectors/a b.bin"}


@pytest.mark.parametrize(
    ("logged", "object_path"),
    [
        ("a%20b/c%2525d", "a b/c%25d"),
        ("a%20b", "a%20b"),  # by a writer that did not encode it
        ("{root}/x%20y", "x y"),
        ("./a//b/../c", "a/c"),
        ("{root}/./a/../c", "c"),
        ("a:b", "a:b"),
    ],
)
async def test_a_live_file_stays_however_the_log_spells_it(logged: str, object_path: str) -> None:
    world = await World.make()
    path = logged.format(root=world.store.uri)
    await world.put(object_path, "orphan")
    await world.builder.commit(AddFile(path, {}, 1, 1))
    world.clock.advance(days=30)
    assert (await world.vacuum()).num_deleted_files == 1
    assert await world.outside_log() == {object_path}


async def test_a_retention_below_the_tables_own_is_refused_unless_that_is_said() -> None:
    world = await World.make(properties={"delta.deletedFileRetentionDuration": "interval 2 days"})
    await world.put("orphan")
    world.clock.advance(days=1.5)
    with pytest.raises(InvalidOptionError, match="enforce_retention"):
        await world.vacuum(retention=timedelta(days=1))
    with pytest.raises(InvalidOptionError, match="negative"):
        await world.vacuum(retention=-timedelta(days=1), enforce_retention=False)
    with pytest.raises(InvalidOptionError, match="lite"):
        await world.vacuum(mode="LITE")
    assert world.builder.version == (await world.table().snapshot()).version
    assert (await world.vacuum(retention=timedelta(days=2))).num_deleted_files == 0
    done = await world.vacuum(retention=timedelta(days=1), enforce_retention=False)
    assert done.num_deleted_files == 1


async def test_ages_are_told_by_the_stores_clock_where_this_machines_is_ahead() -> None:
    world = await World.make()
    await world.put("written by somebody just now")
    async with Table(
        world.store.uri, store=world.store, clock=ManualClock(world.clock.ms + 30 * DAY)
    ) as table:
        assert (await adelta.vacuum(table)).num_deleted_files == 0
    behind = LaterStore(world.store, 30 * DAY)  # a store whose clock is ahead does not count
    assert (await world.vacuum(behind)).num_deleted_files == 0


async def test_metadata_of_iceberg_stays_where_the_table_has_any() -> None:
    objects = ["metadata/v1.json", "x/metadata", "metadata2/x"]
    for formats, left in ("", set[str]()), ("iceberg", {"metadata/v1.json", "x/metadata"}):
        world = await World.make(properties={"delta.universalFormat.enabledFormats": formats})
        await world.put(*objects)
        world.clock.advance(days=8)
        await world.vacuum()
        assert await world.outside_log() == left


async def test_a_protocol_that_is_not_known_is_not_vacuumed() -> None:
    features = ("vacuumProtocolCheck", "somethingNew")
    for protocol in (Protocol(3, 7, features, features), Protocol(3, 7, (), features[1:])):
        world = await World.make()
        await world.put("orphan")
        await world.builder.commit(protocol)
        world.clock.advance(days=8)
        with pytest.raises(UnsupportedFeatureError, match="somethingNew"):
            await world.vacuum()
        assert await world.outside_log() == {"orphan"}


class Meanwhile(WrappedStore):
    """A store in which others commit before the first commit of the one who uses it."""

    def __init__(self, inner: ObjectStore, others: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self._others: Callable[[], Awaitable[object]] | None = others

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if request.kind == "put" and self._others is not None:
            others, self._others = self._others, None
            await others()
        return await run()


async def test_what_is_restored_before_it_starts_to_delete_stays() -> None:
    world = await World.make()
    builder = world.builder
    await world.put("back", "away")
    await builder.commit(builder.add("back"), builder.add("away"))
    await builder.commit(builder.remove("back"), builder.remove("away"))
    world.clock.advance(days=8)

    async def restore() -> None:
        await builder.commit(builder.add("back"), operation="RESTORE")

    done = await world.vacuum(Meanwhile(world.store, restore))
    assert (done.start_version, done.num_deleted_files) == (builder.version + 1, 1)
    assert await world.outside_log() == {"back"}


class Forgetful(WrappedStore):
    """A store that, once it has taken a commit, does not show the log from a version on."""

    def __init__(self, inner: ObjectStore, taken: int, hidden: int) -> None:
        super().__init__(inner)
        self._taken = commit_path(taken)
        self._hidden = {commit_path(version) for version in range(hidden, taken + 1)}
        self.forgets = False

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        hidden = self.forgets and request.path in self._hidden
        if hidden and request.kind in ("get", "head"):
            raise ObjectNotFoundError(request.path)
        answer = await run()
        if request.kind == "put" and request.path == self._taken:
            self.forgets = True
        return answer

    async def list(self, *args: Any, **options: Any) -> AsyncIterator[list[ObjectMeta]]:
        async for page in super().list(*args, **options):
            hidden = self._hidden if self.forgets else set()
            yield [meta for meta in page if meta.path not in hidden]


async def test_nothing_goes_by_a_log_that_ends_before_its_own_start() -> None:
    world = await World.make()
    builder = world.builder
    await world.put("back", "away")
    await builder.commit(builder.add("back"), builder.add("away"))
    await builder.commit(builder.remove("back"), builder.remove("away"))
    world.clock.advance(days=8)
    store = Forgetful(world.store, taken=builder.version + 2, hidden=builder.version + 1)

    async def restore() -> None:
        await builder.commit(builder.add("back"), operation="RESTORE")

    with pytest.raises(VersionNotFoundError):
        await world.vacuum(Meanwhile(store, restore))
    assert store.forgets
    assert await world.outside_log() == {"back", "away"}


def _write_old(path: Path) -> None:
    path.write_bytes(b"")
    os.utime(path, (1, 1))


async def test_a_log_that_names_others_files_deletes_nothing_of_theirs(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    victim = tmp_path / "other" / "victim.parquet"
    victim.write_bytes(b"x")
    builder = await TableBuilder.create(SCHEMA, store=LocalStore(tmp_path / "table"))
    names = [str(victim), victim.as_uri(), "../other/victim.parquet", "..%2Fother%2Fvictim.parquet"]
    await builder.commit(*(AddFile(name, {}, 1, 1) for name in names))
    await builder.commit(*(RemoveFile(name, 1) for name in names))
    root = tmp_path / "table"
    (root / "link").symlink_to(tmp_path / "other")
    (root / "victim.parquet").symlink_to(victim)
    (root / "hard.parquet").hardlink_to(victim)
    os.mkfifo(root / "pipe")
    os.utime(victim, (1, 1))
    _write_old(root / "orphan")
    done = await adelta.vacuum(root, retention=timedelta(0), enforce_retention=False)
    assert done.num_deleted_files == 2  # the orphan and the name that a hard link is
    assert victim.read_bytes() == b"x"
    assert set(os.listdir(root)) == {"_delta_log", "link", "victim.parquet", "pipe"}


async def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    victim = tmp_path / "other" / "x"
    victim.write_bytes(b"x")
    root = tmp_path / "table"
    await TableBuilder.create(SCHEMA, store=LocalStore(root))
    (root / "folder").mkdir()
    _write_old(root / "folder" / "x")
    _write_old(root / "orphan")

    def swap(progress: Progress) -> None:
        if progress.phase == "deleting" and not (root / "folder").is_symlink():
            (root / "folder").rename(tmp_path / "moved")
            (root / "folder").symlink_to(tmp_path / "other")

    done = await adelta.vacuum(
        root, retention=timedelta(0), enforce_retention=False, on_progress=swap
    )
    assert (done.num_files_to_delete, done.num_deleted_files) == (2, 1)
    assert victim.exists()
    assert not (root / "orphan").exists()


async def test_empty_folders_go_from_a_local_disk(tmp_path: Path) -> None:
    await TableBuilder.create(SCHEMA, store=LocalStore(tmp_path), partition_by=["p"])
    old, young, deep = tmp_path / "p=1", tmp_path / "p=2", tmp_path / "p=3" / "x"
    hidden = tmp_path / "_hidden" / "x"
    for folder in (old, young, deep, hidden):
        folder.mkdir(parents=True)
    (deep / "orphan").write_bytes(b"")
    for path in (deep / "orphan", old, deep, deep.parent, hidden):
        os.utime(path, (1, 1))
    done = await adelta.vacuum(tmp_path)
    assert (done.num_deleted_files, done.num_deleted_directories) == (1, 3)
    assert set(os.listdir(tmp_path)) == {"_delta_log", "p=2", "_hidden"}


async def test_an_inventory_takes_the_place_of_the_listing() -> None:
    world = await World.make()
    root = world.store.uri
    await world.put("live", "orphan", "young", "not in it", "a%20b")
    await world.builder.commit(world.builder.add("live"))
    world.clock.advance(days=8)
    old, now = world.clock.ms - 8 * DAY, world.clock.ms
    rows: list[tuple[str, int, bool, int]] = [
        (f"{root}/orphan", 1, False, old),
        (f"{root}/live", 1, False, old),
        (f"{root}/young", 1, False, old),
        (f"{root}/young", 1, False, now),
        (f"{root}/a%20b", 1, False, old),
        (f"{root}/folder", 0, True, old),
        (f"{root}/_delta_log/00000000000000000000.json", 1, False, old),
        (f"{root}/../elsewhere", 1, False, old),
        (f"{root}2/live", 1, False, old),
        ("memory://elsewhere/live", 1, False, old),
        (f"{root}/gone long ago", 1, False, old),
    ]
    names = ["path", "length", "isDir", "modificationTime"]
    inventory = pa.table([pa.array(column) for column in zip(*rows, strict=True)], names)
    listing = CountingStore(world.store)
    done = await world.vacuum(listing, inventory=inventory)
    assert "" not in listing.paths("list")
    assert set(done.files.column("path").to_pylist()) >= {"orphan", "a%20b", "gone long ago"}
    assert await world.outside_log() == {"live", "young", "not in it"}
    assert (await world.table().snapshot()).version == done.version
    with pytest.raises(InvalidOptionError, match="length"):
        await world.vacuum(inventory=inventory.drop_columns(["length"]))
    with pytest.raises(InvalidOptionError, match="inventory"):
        await world.vacuum(inventory=inventory, mode="lite")


async def test_the_requests_of_a_vacuum_are_few() -> None:
    world = await World.make()
    await world.put(*(f"part-{number:05}" for number in range(2_500)))
    world.clock.advance(days=8)
    store = CountingStore(world.store)
    done = await world.vacuum(store)
    assert done.num_deleted_files == 2_500
    assert store.kinds["delete"] == 3
    assert store.kinds["list"] <= 12  # the log, and the pages outside of it, some in parallel
    assert store.kinds["put"] == 5  # two commits with their checksums, and where lite ones begin


async def test_one_that_fails_says_so_and_the_next_goes_on() -> None:
    world = await World.make()
    await world.put(*(f"part-{number:05}" for number in range(2_500)))
    world.clock.advance(days=8)
    counting = CountingStore(world.store)
    await world.vacuum(counting, dry_run=True)

    class Broken(WrappedStore):
        left = 2

        async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
            if request.kind == "delete":
                self.left -= 1
                if self.left == 0:
                    raise StorageError("an injected fault")
            return await run()

    with pytest.raises(StorageError, match="injected"):
        await world.vacuum(Broken(world.store))
    end = (await adelta.history(world.table()))[0]
    assert (end.operation, end.operation_parameters) == ("VACUUM END", {"status": "FAILED"})
    assert len(await world.outside_log()) == 1_500
    assert (await world.vacuum()).num_deleted_files == 1_500


async def test_what_versions_are_made_of_that_are_to_be_kept_stays(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    now: dict[str, Any] = {"retention": timedelta(0), "enforce_retention": False}
    for n in range(4):
        await adelta.write_table(root, pa.table({"n": [n]}), mode="overwrite")

    async def rows(version: int) -> list[Any]:
        async with adelta.open_table(root) as table:
            return (await (await table.snapshot(version=version)).scan().to_arrow())[
                "n"
            ].to_pylist()

    would = await adelta.vacuum(root, **now, keep_versions=[1], dry_run=True)
    assert would.num_files_to_delete == 2
    for mode in ("lite", "full"):
        await adelta.vacuum(root, mode=mode, **now, keep_versions=[1])  # type: ignore[arg-type]
        assert (await rows(1), await rows(3)) == ([1], [3])
    with pytest.raises(MissingDataFileError):
        await rows(2)
    with pytest.raises(VersionNotFoundError):
        await adelta.vacuum(root, **now, keep_versions=[99])
    await adelta.vacuum(root, mode="lite", **now)  # for which those kept are left to be found
    with pytest.raises(MissingDataFileError):
        await rows(1)


async def test_of_many_files_on_a_disk_those_that_are_needed_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = await TableBuilder.create(SCHEMA, store=LocalStore(str(tmp_path)))
    names = [f"f{number:03}" for number in range(200)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
        if name != "f150":  # which is young
            os.utime(tmp_path / name, (1, 1))
    (tmp_path / "f151").unlink()
    (tmp_path / "f151").symlink_to(tmp_path / "f000")
    live = names[:100]
    await builder.commit(*map(builder.add, live))
    monkeypatch.setattr(local_tree, "_SORTED_AT_ONCE", 16)
    looked, stat = set(), os.stat
    monkeypatch.setattr(os, "stat", lambda path, **at: looked.add(path) or stat(path, **at))
    done = await adelta.vacuum(str(tmp_path))
    monkeypatch.undo()
    assert (done.num_files_to_delete, done.num_deleted_files) == (98, 98)
    assert not looked.intersection(live)
    left = set(os.listdir(tmp_path)) - {"_delta_log"}
    assert left == {*live, "f150", "f151"}
    assert done.files.column("path").to_pylist() == [n for n in names[100:] if n not in left]


async def test_files_that_killed_writers_have_left_go_once_they_are_older_than_the_retention(
    tmp_path: Path,
) -> None:
    root = tmp_path / "t"
    await adelta.write_table(root, pa.table({"id": [1], "p": ["a"]}), partition_by=["p"])
    outside = tmp_path / "outside"
    outside.write_bytes(b"half")
    folders = ["", "p=a/", "_change_data/", "p=b/", "_mine/"]
    old = [f"{folder}.adelta-tmp-{'0' * 16}" for folder in folders]
    young = [f"{folder}.adelta-tmp-{'1' * 16}" for folder in folders if folder != "p=b/"]
    others = ["p=a/.adelta-tmp-notes", "p=a/.mine"]
    for path in (*old, *young, *others):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(b"half")
        if path not in young:
            os.utime(root / path, (1, 1))
    os.utime(root / "p=b", (1, 1))
    (root / f".adelta-tmp-{'2' * 16}").symlink_to(outside)
    await adelta.vacuum(root, dry_run=True)
    await adelta.vacuum(root, mode="lite")
    assert all((root / path).exists() for path in old)
    done = await adelta.vacuum(root)
    assert (done.num_deleted_files, done.num_deleted_directories) == (0, 1)
    assert [path for path in old if (root / path).exists()] == [old[-1]], "its folder is hidden"
    assert not (root / "p=b").exists()
    assert all((root / path).exists() for path in (*young, *others))
    assert outside.exists()
    assert (root / f".adelta-tmp-{'2' * 16}").is_symlink()
    await adelta.vacuum(root, retention=timedelta(0), enforce_retention=False)
    assert [path for path in young if (root / path).exists()] == [young[-1]]
