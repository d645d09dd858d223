"""What every object store must do. A test class of an adapter derives from `ObjectStoreSuite`.

It has an async fixture `store` that gives an empty store.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidOptionError, ObjectExistsError, ObjectNotFoundError, StorageError
from adelta.storage import ObjectStore, SuffixRead

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ODD_PATHS = (
    "a space/plus+plus",
    "percent%20/100%",
    "question?mark=1&and=2",
    "hash#tag",
    "quotes'\"and<angles>",
    "k=v/part=a%2Fb/{x}[y]|z^`~",
    "colon:semi;comma,at@dollar$bang!star*(paren)",
    "back\\slash",
    "unicodé/日本語/\U0001f600",
    ".hidden/..dots/...",
    "trailing.",
)


async def paths_of(store: ObjectStore, prefix: str = "", **how: object) -> list[str]:
    return [meta.path async for page in store.list(prefix, **how) for meta in page]


async def folder_of(
    store: ObjectStore, prefix: str = "", **how: str
) -> tuple[list[str], list[str]]:
    """What lies directly below a prefix: objects and folders, each in order."""
    pages = [page async for page in store.list_folder(prefix, **how)]
    folders = [folder for page in pages for folder in page.folders]
    assert len(set(folders)) == len(folders)
    return sorted(meta.path for page in pages for meta in page.objects), sorted(folders)


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


class ObjectStoreSuite:
    async def test_it_is_an_object_store(self, store: ObjectStore) -> None:
        assert isinstance(store, ObjectStore)
        assert "://" in store.uri
        assert not store.uri.endswith("/")
        assert store.concurrency > 0

    async def test_it_counts_requests_by_kind_and_bytes(self, store: ObjectStore) -> None:
        before = store.stats
        await store.put("a/b", bytes(3000))
        await store.put_stream("a/c", pieces(bytes(500), bytes(500)))
        assert len(await store.get("a/b")) == 3000
        assert len((await store.get_suffix("a/b", 100)).data) == 100
        assert len(await store.get_range("a/b", 10, 60)) == 50
        await store.head("a/b")
        assert await paths_of(store) == ["a/b", "a/c"]
        await store.delete(["a/b"])
        after = store.stats
        kinds = ("get", "head", "put", "delete")
        counted = {k: after.requests[k] - before.requests.get(k, 0) for k in kinds}
        assert counted == {"get": 3, "head": 1, "put": 2, "delete": 1}
        assert after.requests["list"] > before.requests.get("list", 0)
        assert after.num_requests == sum(after.requests.values())
        assert 4000 <= after.bytes_written - before.bytes_written < 8000  # some wrap objects
        assert after.bytes_read - before.bytes_read >= 3150  # a listing has bytes of its own
        assert after.retries == 0

    async def test_its_clock_tells_the_time_of_what_is_put(self, store: ObjectStore) -> None:
        made = await store.put("a", b"")
        told = await store.now_ms()
        assert told is not None
        assert -2000 <= told - made.last_modified_ms < 60_000

    async def test_what_is_put_is_got_and_seen_at_once(self, store: ObjectStore) -> None:
        made = await store.put("a/b", b"some bytes")
        assert await store.get("a/b") == b"some bytes"
        assert await paths_of(store) == ["a/b"]
        seen = await store.head("a/b")
        assert (made.path, made.size) == (seen.path, seen.size) == ("a/b", 10)
        assert abs(made.last_modified_ms - time.time() * 1000) < 60_000
        assert abs(made.last_modified_ms - seen.last_modified_ms) <= 1000
        assert made.etag == seen.etag

    async def test_an_object_comes_with_what_the_store_says_of_it(self, store: ObjectStore) -> None:
        await store.put("a/b", b"some bytes")
        data, meta = await store.get_with_meta("a/b")
        assert data == b"some bytes"
        assert meta == await store.head("a/b")
        (listed,) = [found async for page in store.list("a/") for found in page]
        assert meta.last_modified_ms // 1000 == listed.last_modified_ms // 1000

    async def test_a_put_replaces(self, store: ObjectStore) -> None:
        await store.put("x", b"old and long")
        await store.put("x", b"new")
        assert await store.get("x") == b"new"

    async def test_an_empty_object_is_an_object(self, store: ObjectStore) -> None:
        await store.put("empty", b"")
        assert await store.get("empty") == b""
        assert await store.get_range("empty", 0, 10) == b""
        assert await store.get_suffix("empty", 10) == SuffixRead(b"", 0)
        assert (await store.head("empty")).size == 0

    async def test_what_is_not_there_is_not_found(self, store: ObjectStore) -> None:
        await store.put("dir/file", b"x")
        for path in ("nothing", "dir", "dir/file/below", "dir/other"):
            for ask in (store.get, store.get_with_meta, store.head):
                with pytest.raises(ObjectNotFoundError, match=r"nothing|dir"):
                    await ask(path)
            with pytest.raises(ObjectNotFoundError):
                await store.get_range(path, 0, 1)
            with pytest.raises(ObjectNotFoundError):
                await store.get_ranges(path, [(0, 1), (5, 9)])
            with pytest.raises(ObjectNotFoundError):
                await store.get_suffix(path, 1)
            with pytest.raises(ObjectNotFoundError):
                await store.get_many(["dir/file", path])

    async def test_odd_characters_in_paths_come_back_as_they_were(self, store: ObjectStore) -> None:
        for path in ODD_PATHS:
            await store.put(path, path.encode())
        assert await store.get_many(ODD_PATHS) == [path.encode() for path in ODD_PATHS]
        assert await paths_of(store) == sorted(ODD_PATHS, key=str.encode)
        for path in ODD_PATHS:
            assert await paths_of(store, path) == [path]
            assert (await store.head(path)).path == path
        await store.delete(ODD_PATHS)
        assert await paths_of(store) == []

    @pytest.mark.parametrize(
        "path", ["", "/abs", "..", "a/../../b", "a//b", "a/", "./a", "a/.", "\0"]
    )
    async def test_a_path_that_leaves_the_root_or_names_no_object_is_refused(
        self, store: ObjectStore, path: str
    ) -> None:
        with pytest.raises(InvalidOptionError, match="not a path"):
            await store.get(path)
        with pytest.raises(InvalidOptionError, match="not a path"):
            await store.put(path, b"")
        with pytest.raises(InvalidOptionError, match="not a path"):
            await store.delete([path])

    async def test_a_range_ends_where_the_object_ends(self, store: ObjectStore) -> None:
        await store.put("x", b"0123456789")
        assert await store.get_range("x", 2, 5) == b"234"
        assert await store.get_range("x", 8, 20) == b"89"
        assert await store.get_range("x", 10, 20) == b""
        assert await store.get_range("x", 50, 60) == b""
        assert await store.get_range("x", 3, 3) == b""
        for start, end in ((-1, 3), (5, 2)):
            with pytest.raises(InvalidOptionError, match="not a range"):
                await store.get_range("x", start, end)

    async def test_many_ranges_come_in_the_order_asked(self, store: ObjectStore) -> None:
        data = os.urandom(3_000_000)
        await store.put("x", data)
        ranges = [
            (2_900_000, 3_100_000),
            (0, 10),
            (5, 20),
            (7, 7),
            (10, 11),
            (1_500_000, 1_600_000),
        ]
        assert await store.get_ranges("x", ranges) == [data[start:end] for start, end in ranges]
        assert await store.get_ranges("x", []) == []

    async def test_a_suffix_tells_the_size_of_the_whole(self, store: ObjectStore) -> None:
        await store.put("x", b"0123456789")
        assert await store.get_suffix("x", 4) == SuffixRead(b"6789", 10)
        assert await store.get_suffix("x", 10) == SuffixRead(b"0123456789", 10)
        assert await store.get_suffix("x", 99) == SuffixRead(b"0123456789", 10)
        with pytest.raises(InvalidOptionError):
            await store.get_suffix("x", 0)

    async def test_many_objects_come_in_the_order_asked(self, store: ObjectStore) -> None:
        for number in range(40):
            await store.put(f"n/{number}", str(number).encode())
        order = [f"n/{(number * 7) % 40}" for number in range(80)]
        assert await store.get_many(order) == [path[2:].encode() for path in order]
        assert await store.get_many([]) == []

    async def test_put_if_absent_does_not_replace(self, store: ObjectStore) -> None:
        made = await store.put_if_absent("log/0.json", b"first")
        assert (made.path, made.size) == ("log/0.json", 5)
        with pytest.raises(ObjectExistsError, match=r"log/0\.json"):
            await store.put_if_absent("log/0.json", b"second")
        assert await store.get("log/0.json") == b"first"
        assert await paths_of(store) == ["log/0.json"]

    async def test_one_of_many_racing_puts_wins(self, store: ObjectStore) -> None:
        async def put(number: int) -> int | None:
            try:
                await store.put_if_absent("contested", str(number).encode() * 1000)
            except ObjectExistsError:
                return None
            return number

        for _ in range(3):
            won = [n for n in await asyncio.gather(*map(put, range(16))) if n is not None]
            assert len(won) == 1
            assert await store.get("contested") == str(won[0]).encode() * 1000
            await store.delete(["contested"])

    async def test_a_stream_of_any_shape_becomes_one_object(self, store: ObjectStore) -> None:
        made = await store.put_stream("none", pieces())
        assert (made.size, await store.get("none")) == (0, b"")
        await store.put_stream("few", pieces(b"a", b"", b"bc"))
        assert await store.get("few") == b"abc"
        chunks = [os.urandom(size) for size in (5_000_000, 1, 9_000_000, 0, 3_333_333)]
        made = await store.put_stream("big/file", pieces(*chunks))
        assert made.size == sum(map(len, chunks))
        assert await store.get("big/file") == b"".join(chunks)
        assert (await store.head("big/file")).size == made.size

    async def test_a_stream_that_fails_leaves_nothing(self, store: ObjectStore) -> None:
        async def broken(size: int) -> AsyncIterator[bytes]:
            for _ in range(size):
                yield bytes(1_000_000)
            raise ZeroDivisionError("the source broke")

        for megabytes in (1, 20):
            with pytest.raises(ZeroDivisionError, match="the source broke"):
                await store.put_stream("x", broken(megabytes))
            with pytest.raises(ObjectNotFoundError):
                await store.get("x")
        assert await paths_of(store) == []

    async def test_a_cancelled_stream_leaves_nothing(self, store: ObjectStore) -> None:
        begun = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(12):
                yield bytes(1_000_000)
            begun.set()
            await asyncio.sleep(60)

        task = asyncio.ensure_future(store.put_stream("x", endless()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await paths_of(store) == []

    async def test_a_large_object_goes_in_and_comes_out(self, store: ObjectStore) -> None:
        data = os.urandom(1 << 20) * 70
        assert (await store.put("large", data)).size == len(data)
        assert await store.get("large") == data

    async def test_delete_takes_many_and_minds_no_absence(self, store: ObjectStore) -> None:
        for path in ("a", "b/c", "b/d", "e"):
            await store.put(path, b"")
        await store.delete(["a", "b/c", "not/there", "b"])
        assert await paths_of(store) == ["b/d", "e"]
        await store.delete([])
        await store.delete(iter(["e"]))
        assert await paths_of(store) == ["b/d"]

    async def test_a_list_is_in_the_order_of_utf8_bytes(self, store: ObjectStore) -> None:
        paths = [
            "a/c",
            "a-b",
            "a.b",
            "a/b/c",
            "a0",
            "b",
            "B",
            "a/",
            "é",
            "z",
            "\uffee",
            "\U0001f600",
        ]
        paths = [path for path in paths if not path.endswith("/")]
        for path in paths:
            await store.put(path, b"")
        assert await paths_of(store) == sorted(paths, key=str.encode)

    async def test_a_list_keeps_to_its_prefix_and_start(self, store: ObjectStore) -> None:
        paths = ["a", "log/00", "log/01", "log/02", "log/sub/03", "log2", "lp", "log/_x"]
        for path in paths:
            await store.put(path, b"")
        everything = sorted(paths, key=str.encode)
        for prefix in ("", "l", "log", "log/", "log/0", "log/sub/", "log/sub/03", "none", "lp/"):
            for after in (
                None,
                "",
                "a",
                "log",
                "log/",
                "log/01",
                "log/015",
                "log/sub",
                "log0",
                "zz",
            ):
                expected = [
                    path for path in everything if path.startswith(prefix) and path > (after or "")
                ]
                assert await paths_of(store, prefix, start_after=after) == expected
                flat = [path for path in expected if "/" not in path[len(prefix) :]]
                found = await paths_of(store, prefix, start_after=after, recursive=False)
                assert found == flat, (prefix, after)

    async def test_a_folder_lists_its_objects_and_the_folders_in_it(
        self, store: ObjectStore
    ) -> None:
        paths = ["a", "log/00", "log/01", "log/sub/03", "log/sub/04", "log/sub0", "log/é/x", "lp"]
        for path in paths:
            await store.put(path, b"")
        assert await folder_of(store) == (["a", "lp"], ["log/"])
        assert await folder_of(store, "log/") == (
            ["log/00", "log/01", "log/sub0"],
            ["log/sub/", "log/é/"],
        )
        assert await folder_of(store, "log/s") == (["log/sub0"], ["log/sub/"])
        assert await folder_of(store, "log/sub/") == (["log/sub/03", "log/sub/04"], [])
        objects, folders = await folder_of(store, "log/", start_after="log/00")
        assert objects == ["log/01", "log/sub0"]
        assert set(folders) == {"log/sub/", "log/é/"}
        assert await folder_of(store, "none/") == ([], [])
        with pytest.raises(InvalidOptionError, match="not a prefix"):
            await folder_of(store, "../")

    async def test_a_store_below_a_folder_shares_connections_and_figures(
        self, store: ObjectStore
    ) -> None:
        inner = store.below("t/an odd %20é name")
        assert inner.uri.startswith(f"{store.uri}/t/")
        assert inner.memory_limit == store.memory_limit
        await inner.put("x/y", b"1")
        assert await store.get("t/an odd %20é name/x/y") == b"1"
        assert await paths_of(inner) == ["x/y"]
        assert await folder_of(inner, "x/") == (["x/y"], [])
        assert await paths_of(inner.below("x")) == ["y"]
        assert await paths_of(store.below("t/an")) == []
        assert inner.stats == store.stats
        await inner.aclose()
        before = store.stats.num_requests
        assert (await inner.head("x/y")).size == 1
        assert store.stats.num_requests == before + 1
        for name in ("", "..", "a//b", "/a", "a/"):
            with pytest.raises(InvalidOptionError, match="not a path"):
                store.below(name)

    async def test_a_list_tells_what_head_tells(self, store: ObjectStore) -> None:
        await store.put("p/x", b"123")
        ((listed,),) = [page async for page in store.list()]
        seen = await store.head("p/x")
        assert (listed.path, listed.size, listed.etag) == (seen.path, seen.size, seen.etag)
        assert abs(listed.last_modified_ms - seen.last_modified_ms) <= 1000

    async def test_an_odd_prefix_is_refused(self, store: ObjectStore) -> None:
        for prefix in ("/", "a//", "../"):
            with pytest.raises(InvalidOptionError, match="not a prefix"):
                await paths_of(store, prefix)

    async def test_a_long_list_comes_in_pages_each_path_once(self, store: ObjectStore) -> None:
        paths = sorted(f"many/{number % 7}/{number:05}" for number in range(2100))
        await asyncio.gather(*(store.put(path, b"") for path in paths))
        pages = [page async for page in store.list("many/")]
        assert len(pages) >= 3
        assert [meta.path for page in pages for meta in page] == paths
        assert await paths_of(store, "many/", start_after=paths[1000]) == paths[1001:]
        await store.delete(paths)
        assert await paths_of(store) == []

    async def test_closing_twice_does_nothing_more(self, store: ObjectStore) -> None:
        await store.put("x", b"")
        await store.aclose()
        await store.aclose()
        assert issubclass(ObjectNotFoundError, StorageError)
