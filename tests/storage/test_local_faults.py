"""A local store whose system calls fail, one after the other, before and after they take effect."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from adelta.errors import (
    AdeltaError,
    CommitNotDurableError,
    CommitOutcomeUnknownError,
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
)
from adelta.storage.local import LocalStore
from tests.storage.object_store_suite import pieces

if TYPE_CHECKING:
    from pathlib import Path

CALLS = [
    "close",
    "fstat",
    "fsync",
    "link",
    "mkdir",
    "open",
    "pread",
    "replace",
    "scandir",
    "stat",
    "unlink",
    "write",
]
PATH = "log/deep/0.json"
Verb = Callable[[LocalStore], Awaitable[object]]


@contextmanager
def failing(at: int = -1, code: int = errno.EIO, *, after: bool = False) -> Iterator[list[str]]:
    """The calls made; the one numbered `at` fails, once it has taken effect or instead of it."""
    made: list[str] = []
    real = {name: getattr(os, name) for name in CALLS}

    def failed(name: str) -> Callable[..., Any]:
        def call(*arguments: object, **keywords: object) -> object:
            made.append(name)
            if len(made) - 1 != at:
                return real[name](*arguments, **keywords)
            if after or name == "close":  # a descriptor is closed whatever close() says
                with suppress(OSError):
                    result = real[name](*arguments, **keywords)
                    if name == "open":
                        real["close"](result)
                    if name == "scandir":
                        result.close()
            raise OSError(code, os.strerror(code))

        return call

    for name in CALLS:
        setattr(os, name, failed(name))
    try:
        yield made
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def hidden(folder: Path) -> list[str]:
    return [p.name for p in folder.rglob(".*")]


async def error_of(work: Awaitable[object]) -> AdeltaError | None:
    try:
        await work
    except AdeltaError as error:
        return error
    return None


async def each_failure(
    tmp_path: Path, verb: Verb, prepare: Verb | None = None, *, sweeps: bool = True
) -> list[tuple[str, bool, LocalStore, Path, AdeltaError | None]]:
    """The outcome of `verb` with each of its calls failing: call, after, store, folder, error.

    If it `sweeps`, no hidden file may be left, whatever fails but its deletion.
    """
    outcomes = []
    gc.collect()  # what other tests have left closes its descriptors now
    sound = LocalStore(tmp_path / "sound")
    if prepare is not None:
        await prepare(sound)
    with failing() as calls:
        await verb(sound)
    for number in range(len(calls)):
        for after in (False, True):
            folder = tmp_path / f"{number}-{after}"
            store = LocalStore(folder)
            if prepare is not None:
                await prepare(store)
            before = descriptors()
            with failing(number, after=after) as made:
                error = await error_of(verb(store))
            assert descriptors() <= before, f"{made[number]} leaves a descriptor open"
            if sweeps and made[number] != "unlink":
                assert not hidden(folder), f"{made[number]} leaves a hidden file"
            outcomes.append((made[number], after, store, folder, error))
    return outcomes


async def test_a_failure_says_truly_whether_the_commit_file_was_made(tmp_path: Path) -> None:
    found = set()
    for call, after, store, folder, error in await each_failure(
        tmp_path, lambda store: store.put_if_absent(PATH, b"whole")
    ):
        there = (folder / PATH).exists()
        case = f"{call}, {'after' if after else 'before'}: {error!r}"
        if error is None:
            assert there, case
            assert await store.get(PATH) == b"whole"
        elif isinstance(error, CommitNotDurableError):
            assert there, case
        else:
            assert isinstance(error, StorageError), case
            assert not isinstance(error, ObjectExistsError), case
            assert not there, case
        found.add((call, error if error is None else type(error)))
    assert ("fsync", CommitNotDurableError) in found
    assert ("fsync", None) not in found, "an error of fsync is never success"
    assert ("write", None) not in found
    assert ("unlink", None) in found, "the hidden name is of no weight once the file is there"


@pytest.mark.parametrize("verb", ["put", "put_stream"])
async def test_a_put_that_fails_leaves_no_half_of_a_file(tmp_path: Path, verb: str) -> None:
    def put(store: LocalStore) -> Awaitable[object]:
        if verb == "put":
            return store.put(PATH, b"whole")
        return store.put_stream(PATH, pieces(b"wh", b"ole"))

    for call, _, store, folder, error in await each_failure(tmp_path, put):
        if error is None:
            assert call in ("close", "unlink", "stat"), call
        else:
            assert isinstance(error, StorageError), call
            assert not isinstance(error, ObjectNotFoundError), call
        if (folder / PATH).exists():
            assert await store.get(PATH) == b"whole"


@pytest.mark.parametrize(
    "verb",
    [
        lambda store: store.get(PATH),
        lambda store: store.get_with_meta(PATH),
        lambda store: store.get_many([PATH]),
        lambda store: store.get_range(PATH, 1, 3),
        lambda store: store.get_suffix(PATH, 3),
        lambda store: store.head(PATH),
        lambda store: store.delete([PATH]),
        lambda store: _listed(store),
    ],
    ids=["get", "get_with_meta", "get_many", "get_range", "get_suffix", "head", "delete", "list"],
)
async def test_every_failure_is_an_error_of_adelta(tmp_path: Path, verb: Verb) -> None:
    outcomes = await each_failure(tmp_path, verb, lambda store: store.put(PATH, b"whole"))
    for call, _, _, _, error in outcomes:
        assert isinstance(error, StorageError) or call == "close", call


async def _listed(store: LocalStore) -> list[str]:
    return [meta.path async for page in store.list() for meta in page]


@pytest.mark.parametrize(
    "code",
    [
        errno.EACCES,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EINVAL,
        errno.ELOOP,
        errno.EMFILE,
        errno.ENAMETOOLONG,
        errno.ENFILE,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
        errno.ESTALE,
        errno.ETIMEDOUT,
    ],
    ids=lambda code: errno.errorcode[code],
)
async def test_no_error_of_the_system_comes_through(tmp_path: Path, code: int) -> None:
    with failing() as made:
        await LocalStore(tmp_path / "first").put_if_absent(PATH, b"x")
    for number in range(len(made)):
        store = LocalStore(tmp_path / str(number))
        with failing(number, code):
            error = await error_of(store.put_if_absent(PATH, b"x"))
        assert not isinstance(error, ObjectNotFoundError | ObjectExistsError)
        if code in (errno.EACCES, errno.EPERM) and isinstance(error, StorageError):
            assert isinstance(error, PermissionDeniedError)


async def test_a_link_whose_answer_is_lost_is_recognised(tmp_path: Path) -> None:
    """Over a network the call is sent again, and finds what it has made itself."""
    store = LocalStore(tmp_path)
    await store.put("0.json", b"")
    with failing() as made:
        await store.put_if_absent("1.json", b"x")
    at = made.index("link")
    for number, code in enumerate((errno.EEXIST, errno.EIO), 2):
        with failing(at, code, after=True):
            await store.put_if_absent(f"{number}.json", b"x")
        assert await store.get(f"{number}.json") == b"x"


async def test_a_link_that_cannot_be_looked_at_is_in_doubt(tmp_path: Path) -> None:
    real_link, real_stat = os.link, os.stat

    def link(*arguments: Any, **keywords: Any) -> None:
        real_link(*arguments, **keywords)
        os.stat = stat  # type: ignore[assignment]
        raise OSError(errno.EIO, "the answer is lost")

    def stat(*arguments: Any, **keywords: Any) -> os.stat_result:
        raise OSError(errno.EIO, "and so is this one")

    store = LocalStore(tmp_path)
    os.link = link
    try:
        with pytest.raises(CommitOutcomeUnknownError, match="may or may not") as caught:
            await store.put_if_absent("0.json", b"x")
    finally:
        os.link, os.stat = real_link, real_stat
    assert not isinstance(caught.value, CommitNotDurableError)
    assert await store.get("0.json") == b"x"


async def test_a_folder_that_another_writer_has_just_made_is_synced_too(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with failing() as made:
        await LocalStore(tmp_path).put_if_absent("log/0.json", b"x")
    assert made.count("fsync") == 3
    store = LocalStore(tmp_path)
    await store.put("log/0.json", b"x")
    with failing() as made:
        await store.put("log/1.json", b"x")
    assert made.count("fsync") == 2, "once is enough"


async def test_what_is_deleted_stays_so_after_a_crash(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for path in ("a/1", "a/2", "b/1"):
        await store.put(path, b"x")
    with failing() as made:
        await store.delete(["a/1", "a/2", "b/1", "b/not-there", "c/1"])
    assert (made.count("unlink"), made.count("fsync")) == (3, 2), "a folder is synced once"
    with failing() as made:
        await store.delete(["a/1"])
    assert made.count("fsync") == 0


async def test_many_threads_wait_for_a_disk_that_is_slow_to_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number % 4}/{number:04}" for number in range(1200)]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    real, under_way, most = os.unlink, 0, 0

    def slowly(*arguments: Any, **keywords: Any) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        time.sleep(0.001)
        under_way -= 1
        real(*arguments, **keywords)

    monkeypatch.setattr(os, "unlink", slowly)
    await LocalStore(tmp_path).delete(names)
    assert most > 1
    assert [os.listdir(tmp_path / f"{number}") for number in range(4)] == [[]] * 4


@pytest.mark.parametrize("slow", ["open", "write", "fsync", "replace", "unlink"])
async def test_a_cancelled_stream_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    store = LocalStore(tmp_path)
    await store.put("first", b"")
    before = descriptors()
    real = getattr(os, slow)

    def slowly(*arguments: object, **keywords: object) -> object:
        time.sleep(0.02)
        return real(*arguments, **keywords)

    monkeypatch.setattr(os, slow, slowly)
    for number in range(20):
        put = asyncio.ensure_future(store.put_stream(f"sub/{number}", pieces(b"x" * 100)))
        await asyncio.sleep(0.005 * number)
        put.cancel()
        await asyncio.sleep(0.002)
        put.cancel()  # again, while it cleans up
        await asyncio.wait({put})
    monkeypatch.undo()
    assert descriptors() == before
    assert not hidden(tmp_path)
