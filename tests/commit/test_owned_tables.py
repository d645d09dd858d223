"""Tables that name their commit owner: created, read, written, taken over, moved, released."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pytest

import adelta
from adelta.commit import owner_registry
from adelta.errors import (
    InvalidOptionError,
    InvalidPropertyError,
    InvalidTableError,
    InvalidUseError,
    ProtocolChangedError,
    StorageError,
)
from adelta.kernel.log_path import COMMITS_DIR, LOG_DIR, STAGED_DIR, commit_path
from adelta.storage.resolve import open_store
from adelta.table import Table, opened
from tests.support.commit_owners import MemoryOwner

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = pa.schema([("id", pa.int64())])
OWNER = "delta.managedCommit.commitOwner"
CONF = "delta.managedCommit.commitOwnerConf"
COORDINATOR = "delta.coordinatedCommits.commitCoordinator-preview"


@pytest.fixture
def owner() -> Iterator[MemoryOwner]:
    name = f"owner-{uuid.uuid4()}"
    yield MemoryOwner(name).register()
    owner_registry._registered.pop(name, None)


@pytest.fixture
def other() -> Iterator[MemoryOwner]:
    name = f"other-{uuid.uuid4()}"
    yield MemoryOwner(name).register()
    owner_registry._registered.pop(name, None)


@pytest.fixture
def uri() -> str:
    return f"memory://{uuid.uuid4()}/table"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


async def append(table: adelta.TableOrAddress, *ids: int) -> int:
    async with opened(table) as handle, handle.transaction() as tx:
        await tx.append(rows(*ids))
    assert tx.version is not None
    return tx.version


async def ids(table: adelta.TableOrAddress) -> list[int]:
    async with opened(table) as handle:
        found = await (await handle.snapshot()).scan().to_arrow()
    return sorted(found.column("id").to_pylist())


async def names(uri: str, folder: str) -> list[str]:
    pages = open_store(uri).list(folder, recursive=False)
    return [o.path.removeprefix(folder) async for page in pages for o in page]


async def published(uri: str) -> list[int]:
    return [int(n[:20]) for n in await names(uri, LOG_DIR) if len(n) == 25 and n.endswith(".json")]


async def first_line(uri: str, version: int, action: str) -> dict[str, object]:
    lines = (await open_store(uri).get(commit_path(version))).splitlines()
    return next(found[action] for line in lines if action in (found := orjson.loads(line)))


async def create(uri: str, owner: MemoryOwner, **properties: str) -> None:
    table = await adelta.create_table(uri, SCHEMA, properties={OWNER: owner.name, **properties})
    await table.aclose()


@pytest.mark.parametrize("inline", [False, True])
async def test_a_managed_table_is_created_written_and_read(
    uri: str, owner: MemoryOwner, inline: bool
) -> None:
    owner.inline = inline
    await create(uri, owner, **{CONF: '{"endpoint": "http://owner"}'})
    assert owner.asked == ["propose", "accept"]  # the promise, the commit by put-if-absent, the end
    assert owner.made[-1].conf == {"endpoint": "http://owner"}
    protocol = await first_line(uri, 0, "protocol")
    assert {"managedCommit", "inCommitTimestamp"} <= {*protocol["writerFeatures"]}  # type: ignore[misc]
    assert protocol["minReaderVersion"] == 1  # what the filesystem shows is read by everybody
    assert [await append(uri, n) for n in (1, 2)] == [1, 2]
    assert await ids(uri) == [1, 2]
    staged = await names(uri, COMMITS_DIR)
    assert [name[:20] for name in staged] == ([] if inline else [f"{v:020}" for v in (1, 2)])
    assert await published(uri) == [0, 1, 2]  # by adelta, behind the commits
    assert not await names(uri, STAGED_DIR)


async def test_commits_that_are_not_published_are_read_by_the_owner_alone(
    uri: str, owner: MemoryOwner, caplog: pytest.LogCaptureFixture
) -> None:
    owner.backfills = True  # not before it is asked
    await create(uri, owner)
    assert [await append(uri, n) for n in (1, 2, 3)] == [1, 2, 3]
    assert await published(uri) == [0]
    async with adelta.open_table(uri) as table:
        snapshot = await table.snapshot()
        assert (snapshot.version, snapshot.may_be_stale) == (3, False)
        assert await ids(table) == [1, 2, 3]
        assert await append(uri, 4) == 4
        assert (await table.snapshot()).version == 4
        assert (await (await table.snapshot(version=2)).scan().to_arrow()).num_rows == 2
    async with adelta.open_table(uri) as table:  # a version that only the owner knows comes first
        assert (await table.snapshot(version=2)).version == 2
    owner_registry._registered.pop(owner.name)
    async with adelta.open_table(uri) as table:
        snapshot = await table.snapshot()
        assert (snapshot.version, snapshot.may_be_stale) == (0, True)
        await table.snapshot()
        assert caplog.text.count("nothing here speaks to it") == 1
        with pytest.raises(InvalidOptionError, match="register_commit_owner"):
            await append(table, 5)
        with pytest.raises(InvalidOptionError, match="register_commit_owner"):
            await adelta.vacuum(table)
    owner.register()
    await adelta.checkpoint(uri)
    assert await published(uri) == [0, 1, 2, 3, 4]
    assert f"{4:020}.checkpoint.parquet" in await names(uri, LOG_DIR)


async def test_a_commit_that_is_published_while_it_is_looked_for_is_seen(
    uri: str, owner: MemoryOwner
) -> None:
    """The race of the RFC: the log is listed, commits are published, and the owner keeps none."""
    owner.backfills = True
    await create(uri, owner)
    for n in (1, 2, 3):
        await append(uri, n)
    kept = next(iter(owner.tables.values()))

    async def publish(what: str) -> None:
        if what == "get":
            store, commits, kept.commits = open_store(uri), kept.commits, {}
            for version, commit in commits.items():
                staged = await store.get(f"{COMMITS_DIR}{commit.staged_file}")
                await store.put(commit_path(version), staged)

    owner.hook = publish
    assert await ids(uri) == [1, 2, 3]
    assert not kept.commits


async def test_a_table_of_the_filesystem_is_taken_over_while_others_write(
    uri: str, owner: MemoryOwner
) -> None:
    await adelta.write_table(uri, rows(1))
    async with adelta.open_table(uri) as early, adelta.open_table(uri) as reader:
        async with early.transaction() as tx:
            await tx.append(rows(2))
            assert await ids(reader) == [1]
            assert (await adelta.adopt_table(uri, owner.name, {"endpoint": "x"})).version == 1
        assert tx.version == 2  # it met the commit, and went on with the owner
        assert owner.asked.count("commit") == 1
        assert await append(early, 3) == 3
        assert await ids(reader) == [1, 2, 3]
    commit = await first_line(uri, 1, "metaData")
    assert commit["configuration"][OWNER] == owner.name  # type: ignore[index]
    assert (await adelta.adopt_table(uri, owner.name, {"endpoint": "x"})).version is None


async def test_who_comes_second_does_not_own_the_table(
    uri: str, owner: MemoryOwner, other: MemoryOwner
) -> None:
    await adelta.write_table(uri, rows(1))

    async def race(what: str) -> None:  # in another process, which has a queue of its own
        await adelta.adopt_table(Table(uri, store=open_store(uri)), owner.name)

    other.hook = race
    with pytest.raises(ProtocolChangedError):
        await adelta.adopt_table(uri, other.name)
    other.hook, other.refuses = None, True
    with pytest.raises(StorageError, match="no more tables"):
        await adelta.adopt_table(uri, other.name)
    assert await append(uri, 2) == 2
    assert other.asked == ["propose", "propose"]
    assert next(iter(other.tables.values())).latest is None


async def test_an_owner_that_has_not_heard_is_told_by_whoever_comes_next(
    uri: str, owner: MemoryOwner
) -> None:
    await adelta.write_table(uri, rows(1))
    owner.hears_accept = False
    assert (await adelta.adopt_table(uri, owner.name)).version == 1
    with pytest.raises(InvalidTableError, match="does not own"):
        await ids(uri)
    with pytest.raises(InvalidTableError, match="does not own"):
        await adelta.write_table(uri, rows(2), mode="append")
    owner.hears_accept = True
    owner.hook = down
    with pytest.raises(StorageError, match="in a moment"):
        await ids(uri)
    owner.hook = None
    assert await append(uri, 2) == 2
    assert await ids(uri) == [1, 2]


async def down(what: str) -> None:
    if what == "accept":
        raise StorageError("ask again in a moment")


async def write_during_release(table: Table) -> None:
    async with table.transaction() as tx:
        await tx.append(rows(2))
        assert (await adelta.release_table(table.uri)).version == 2


@pytest.mark.parametrize("backfills", [False, True])
async def test_a_table_is_released_while_others_write(
    uri: str, owner: MemoryOwner, backfills: bool
) -> None:
    owner.backfills = backfills
    await create(uri, owner)
    await append(uri, 1)
    async with adelta.open_table(uri) as early, adelta.open_table(uri) as reader:
        assert await ids(reader) == [1]
        with pytest.raises(ProtocolChangedError):
            await write_during_release(early)
        assert await published(uri) == [0, 1, 2]
        owner_registry._registered.pop(owner.name)
        assert await append(early, 3) == 3
        assert await ids(reader) == [1, 3]
        assert not (await reader.snapshot()).may_be_stale
    async with adelta.open_table(uri) as table:
        protocol = (await table.snapshot()).protocol
        assert "managedCommit" not in (protocol.writer_features or ())
        with pytest.raises(InvalidUseError, match="nothing to release"):
            await adelta.release_table(table)


async def test_a_released_table_is_read_whose_last_commit_was_not_published(
    uri: str, owner: MemoryOwner
) -> None:
    """Who reads it next publishes it, and the filesystem decides from then on."""
    await create(uri, owner)
    await append(uri, 1)
    async with adelta.open_table(uri) as reader:
        await reader.snapshot()
        kept = next(iter(owner.tables.values()))
        await adelta.release_table(uri)
        data = await open_store(uri).get(commit_path(2))
        await open_store(uri).delete([commit_path(2)])
        assert kept.commits[2].content is None
        kept.released = False  # it still answers
        assert (await reader.snapshot()).version == 2
        assert await open_store(uri).get(commit_path(2)) == data
    assert await append(uri, 2) == 3
    assert await published(uri) == [0, 1, 2, 3]


async def test_a_table_moves_to_another_owner_while_others_write(
    uri: str, owner: MemoryOwner, other: MemoryOwner
) -> None:
    await create(uri, owner)
    await append(uri, 1)
    async with adelta.open_table(uri) as early, adelta.open_table(uri) as reader:
        assert await ids(reader) == [1]
        async with early.transaction() as tx:
            await tx.append(rows(2))
            assert (await adelta.adopt_table(uri, other.name)).version == 2
        assert tx.version == 3
        assert await ids(reader) == [1, 2]
        assert await append(early, 3) == 4
    assert next(iter(other.tables.values())).latest == 4
    assert next(iter(owner.tables.values())).released


async def test_the_log_is_followed_from_the_filesystem_to_an_owner_and_back(
    uri: str, owner: MemoryOwner
) -> None:
    owner.backfills = True
    await adelta.write_table(uri, rows(1))
    async with adelta.open_table(uri) as table:
        seen = adelta.tail(table, since=0, poll=0.01)
        assert (await anext(seen)).version == 0
        await adelta.adopt_table(uri, owner.name)
        await append(uri, 2)
        assert [(await anext(seen)).version for _ in range(2)] == [1, 2]
        await append(uri, 3)
        assert (await anext(seen)).version == 3
        await adelta.release_table(uri)
        await append(uri, 4)
        assert [(await anext(seen)).version for _ in range(2)] == [4, 5]
        await seen.aclose()
    assert await published(uri) == [0, 1, 2, 3, 4, 5]


async def test_properties_say_the_same_as_the_functions(
    uri: str, owner: MemoryOwner, other: MemoryOwner
) -> None:
    await adelta.write_table(uri, rows(1))
    assert (await adelta.set_properties(uri, {OWNER: owner.name})).version == 1
    assert (await adelta.set_properties(uri, {OWNER: other.name})).version == 2
    with pytest.raises(InvalidPropertyError, match="release_table"):
        await adelta.unset_properties(uri, [OWNER])
    with pytest.raises(InvalidPropertyError, match="in-commit timestamps"):
        await adelta.set_properties(uri, {"delta.enableInCommitTimestamps": "false"})
    assert (await adelta.drop_feature(uri, "managedCommit")).version == 3
    assert await append(uri, 2) == 4
    assert await published(uri) == [0, 1, 2, 3, 4]


async def test_a_lost_answer_is_cleared_up(uri: str, owner: MemoryOwner) -> None:
    await create(uri, owner)
    owner.lost = 1
    assert await append(uri, 1) == 1
    owner.lost = 1
    await adelta.release_table(uri)
    assert await ids(uri) == [1]


@pytest.mark.parametrize(
    "conf",
    [
        {"token": "x"},
        {"authToken": "x"},
        {"aws_secret_access_key": "x"},
        {"password": "x"},
        {"apiKey": "x"},
        {"endpoint": "https://me:hunter2@owner"},
        {"endpoint": "https://owner/?sig=abc%3D"},
        {"header": "Bearer abcdefgh12345678"},
        {"id": "AKIAIOSFODNN7EXAMPLE"},
        {"id": f"adelta_{12 * 'a'}_{48 * '0'}"},
        {"server": "host=owner password=hunter2"},
    ],
)
async def test_secrets_are_refused(uri: str, owner: MemoryOwner, conf: dict[str, str]) -> None:
    await adelta.write_table(uri, rows(1))
    with pytest.raises(InvalidPropertyError, match="looks like a secret"):
        await adelta.adopt_table(uri, owner.name, conf)
    with pytest.raises(InvalidPropertyError, match="looks like a secret"):
        await adelta.set_properties(uri, {OWNER: owner.name, CONF: orjson.dumps(conf).decode()})


async def test_what_is_no_secret_is_taken(uri: str, owner: MemoryOwner) -> None:
    conf = {
        "endpoint": "https://owner:8080",
        "authenticationMode": "oauth2",
        "tokenUrl": "https://x",
    }
    await adelta.write_table(uri, rows(1))
    await adelta.adopt_table(uri, owner.name, conf)
    with pytest.raises(InvalidPropertyError, match="JSON object of texts"):
        await adelta.set_properties(uri, {CONF: '{"a": 1}'})


@pytest.mark.parametrize("has", ["feature", "property"])
async def test_half_an_owner_is_an_error_that_says_which(
    uri: str, owner: MemoryOwner, has: str
) -> None:
    await create(uri, owner)
    store = open_store(uri)
    lines = [orjson.loads(line) for line in (await store.get(commit_path(0))).splitlines()]
    for line in lines:
        if "metaData" in line and has == "feature":
            del line["metaData"]["configuration"][OWNER]
        if "protocol" in line and has == "property":
            line["protocol"]["writerFeatures"].remove("managedCommit")
    await store.put(commit_path(0), b"".join(orjson.dumps(line) + b"\n" for line in lines))
    await store.delete([f"{LOG_DIR}{0:020}.crc"])
    said = "has the property" if has == "property" else "lists the feature managedCommit"
    with pytest.raises(InvalidTableError, match=said):
        await adelta.open_table(uri).snapshot()


async def test_other_definitions_keep_the_owner_and_copies_have_none(
    uri: str, owner: MemoryOwner
) -> None:
    await adelta.write_table(uri, rows(1))
    store = open_store(uri)
    lines = (await store.get(commit_path(0))).splitlines()
    (metadata,) = (orjson.loads(line) for line in lines if b'"metaData"' in line)
    metadata["metaData"]["id"] = "as another engine replaces a table"
    await store.put(commit_path(1), orjson.dumps(metadata))
    await adelta.adopt_table(uri, owner.name)
    await adelta.restore(uri, version=0)
    await adelta.replace_table(uri, pa.schema([("id", pa.int64()), ("x", pa.string())]))
    async with adelta.open_table(uri) as table:
        snapshot = await table.snapshot()
        assert snapshot.version == 4
        assert snapshot.metadata.id == metadata["metaData"]["id"]  # by which the owner knows it
        assert snapshot.metadata.configuration[OWNER] == owner.name
    assert owner.asked.count("commit") == 2
    await adelta.clone(uri, f"{uri}-copy")
    async with adelta.open_table(f"{uri}-copy") as table:
        copy = await table.snapshot()
        assert OWNER not in copy.metadata.configuration
        assert "managedCommit" not in (copy.protocol.writer_features or ())
    with pytest.raises(InvalidUseError, match="release_table"):
        await adelta.drop_table(uri)


async def test_tables_of_delta_sparks_coordinators_go_through_the_same_port(
    uri: str, owner: MemoryOwner
) -> None:
    properties = {COORDINATOR: owner.name}
    await (await adelta.create_table(uri, SCHEMA, properties=properties)).aclose()
    protocol = await first_line(uri, 0, "protocol")
    assert "coordinatedCommits-preview" in protocol["writerFeatures"]  # type: ignore[operator]
    assert [await append(uri, n) for n in (1, 2)] == [1, 2]
    assert [name[:20] for name in await names(uri, STAGED_DIR)] == [f"{v:020}" for v in (1, 2)]
    assert await ids(uri) == [1, 2]
    with pytest.raises(InvalidUseError, match="release_table before"):
        await adelta.adopt_table(uri, owner.name)
    await adelta.unset_properties(uri, [COORDINATOR])  # Delta Spark's way: the feature may stay
    assert await append(uri, 3) == 4
    assert await published(uri) == [0, 1, 2, 3, 4]


async def test_who_comes_between_the_last_commit_and_its_publication_meets_a_conflict(
    uri: str, owner: MemoryOwner
) -> None:
    await create(uri, owner)
    hidden: list[bytes] = []

    async def release(what: str) -> None:
        if what == "commit" and not hidden:
            hidden.append(b"")
            await adelta.release_table(uri, storage_options={"max_concurrency": "2"})
            hidden[0] = await open_store(uri).get(commit_path(1))
            await open_store(uri).delete([commit_path(1)])

    owner.hook = release
    with pytest.raises(ProtocolChangedError):
        await append(uri, 1)
    owner.hook = None
    assert await append(uri, 2) == 2
    assert await published(uri) == [0, 1, 2]
    assert await open_store(uri).get(commit_path(1)) == hidden[0]


@pytest.mark.parametrize("padding", [0, 100_000])
async def test_winners_that_the_owner_tells_of_count_up_to_a_damaged_one(
    uri: str, owner: MemoryOwner, padding: int
) -> None:
    """Few are decoded at once, and many bytes in a thread: what is found is the same."""
    owner.inline = owner.backfills = True
    await adelta.create_table(uri, SCHEMA, properties={OWNER: owner.name, CONF: "{}"})
    async with adelta.open_table(uri) as behind:
        await behind.snapshot()
        for number in (1, 2, 3):
            await append(uri, number)
        (kept,) = owner.tables.values()
        first, second = (kept.commits[version].content for version in (1, 2))
        assert first is not None
        assert second is not None
        long = first + b'{"comment":{"text":"' + b"x" * padding + b'"}}\n'
        kept.commits[1] = replace(kept.commits[1], content=long)
        kept.commits[2] = replace(kept.commits[2], content=second + b'{"add":')
        with pytest.raises(InvalidTableError, match="commit of version 2 cannot be read"):
            await append(behind, 4)
        kept.commits[2] = replace(kept.commits[2], content=second)
        assert await append(uri, 5) == 4
    assert await ids(uri) == [1, 2, 3, 5]
