"""JSON commits, read many at a time and decoded in worker threads."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import in_thread, map_concurrent
from adelta._memory import check_memory, memory_limit_of
from adelta.errors import InvalidTableError, MissingCommitError, ObjectNotFoundError
from adelta.kernel.actions.json import ActionBatch, decode_actions, decode_commits
from adelta.kernel.commit import Commit, decode_commit
from adelta.kernel.log_path import LogFileKind, LogPath, commit_path
from adelta.storage.distrust import distrust, sound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from adelta.progress import Meter
    from adelta.storage.object_store import ObjectStore

__all__ = [
    "check_lengths",
    "check_log_files",
    "decode_held",
    "decode_listed",
    "decode_sound",
    "read_action_batches",
    "read_commit",
    "read_commits",
]

_BATCHES = 2  # one is decoded while the next is fetched
_BATCH_COMMITS = 512
_BATCH_BYTES = 16 * 1024 * 1024
_LARGE = 4 * 1024 * 1024  # bytes of a commit
_DECODED_SIZE = 2  # bytes that one of JSON comes to at least, with what is made of it
_INLINE_BYTES = 16 * 1024  # decoding less than this costs less than a thread's hop
_KEPT = 64  # small commits, decoded
_HELD_INLINE_BYTES = 64 * 1024  # of commits that somebody waits for whose turn it is


async def read_commit(store: ObjectStore, version: int, modified_ms: int | None = None) -> Commit:
    """The commit of `version`.

    Raises:
        ObjectNotFoundError: there is no such commit.
        InvalidTableError: its file is damaged.
    """
    data, meta = await store.get_with_meta(commit_path(version))
    modified_ms = meta.last_modified_ms if modified_ms is None else modified_ms
    async with sound(store, commit_path(version)):
        if len(data) < _INLINE_BYTES:
            return _decode_small(version, data, modified_ms)
        return await in_thread(decode_commit, version, data, modified_ms)


def _decode_small(version: int, data: bytes, modified_ms: int | None) -> Commit:
    """As `decode_commit`: once for all the handles of a process to which the commit is news.

    They share nothing that one of their users could change: of the provenance each has a copy, and
    new metadata, which are rare, are decoded for each.
    """
    commit = _decode_for_all(version, data, modified_ms)
    if commit.metadata is not None:
        return decode_commit(version, data, modified_ms)
    return replace(commit, info=commit.info.unshared())


@lru_cache(maxsize=_KEPT)
def _decode_for_all(version: int, data: bytes, modified_ms: int | None) -> Commit:
    return decode_commit(version, data, modified_ms)


async def decode_held(
    held: Sequence[tuple[int, bytes, int]],
) -> tuple[list[Commit], InvalidTableError | None]:
    """The commits whose bytes are at hand, with their versions and times of modification.

    They end before the first one that is damaged, and what is wrong with that one comes with them.
    """
    if sum(len(data) for _, data, _ in held) < _HELD_INLINE_BYTES:
        return _decode_held(held)
    return await in_thread(_decode_held, held)


def _decode_held(
    held: Sequence[tuple[int, bytes, int]],
) -> tuple[list[Commit], InvalidTableError | None]:
    commits = []
    for version, data, modified_ms in held:
        try:
            decode = _decode_small if len(data) < _INLINE_BYTES else decode_commit
            commits.append(decode(version, data, modified_ms))
        except InvalidTableError as error:
            return commits, error
    return commits, None


async def read_commits(store: ObjectStore, files: Sequence[LogPath]) -> list[Commit]:
    """The commits of some files, as a listing has them, fetched concurrently.

    Raises:
        MissingCommitError: one of them is not there.
        InvalidTableError: a file is damaged.
    """

    async def read(chunk: list[LogPath]) -> list[Commit]:
        return await decode_listed(store, chunk, await _fetch(store, chunk))

    check_log_files(store, files)
    chunks = _chunks(files)
    return [c for commits in await map_concurrent(read, chunks, limit=_BATCHES) for c in commits]


async def decode_listed(
    store: ObjectStore, files: Sequence[LogPath], bodies: Sequence[bytes]
) -> list[Commit]:
    """The commits that these bytes are, of files as a listing has them; there may be fewer bytes.

    Raises:
        InvalidTableError: a file is damaged.
    """
    commits, damage = await decode_sound(store, files, bodies)
    if damage is not None:
        raise damage
    return commits


async def decode_sound(
    store: ObjectStore, files: Sequence[LogPath], bodies: Sequence[bytes]
) -> tuple[list[Commit], InvalidTableError | None]:
    """As `decode_listed`, before the first file that is damaged; and what is wrong with that."""

    def decode() -> tuple[list[Commit], InvalidTableError | None]:
        commits = []
        for file, body in zip(files, bodies, strict=False):
            try:
                check_lengths([(file, body)])
                commits.append(decode_commit(file.version, body, file.last_modified_ms or None))
            except InvalidTableError as damage:
                distrust(store, (file.path,), damage)
                return commits, damage
        return commits, None

    return await in_thread(decode)


async def read_action_batches(
    store: ObjectStore, files: Sequence[LogPath], meter: Meter | None = None
) -> list[ActionBatch]:
    """Commits and log compactions, in ascending order of version, as few large batches.

    `meter` is told of files that were fetched.

    Raises:
        MissingCommitError: one of them is not there.
        InvalidTableError: a file is damaged.
    """
    one_decodes = anyio.Lock()  # two would fight for the interpreter's lock, and keep the loop out

    async def read(chunk: list[LogPath]) -> list[ActionBatch]:
        data = await _fetch(store, chunk)
        if meter is not None:
            meter.advance(len(chunk))
        size = sum(map(len, data))
        async with sound(store, *(file.path for file in chunk)):
            if size < _INLINE_BYTES:
                return _decode(chunk, data)
            if size > _LARGE * len(chunk):  # mostly decoded without that lock
                return await in_thread(_decode, chunk, data)
            async with one_decodes:
                return await in_thread(_decode, chunk, data)

    check_log_files(store, files)
    # Who reads a disk of this machine beside one who decodes waits for the interpreter's lock.
    limit = _BATCHES if store.local is None else 1
    batches = await map_concurrent(read, _chunks(files), limit=limit)
    return [batch for several in batches for batch in several]


def _decode(files: Sequence[LogPath], data: Sequence[bytes]) -> list[ActionBatch]:
    """Runs of commits as one batch each, every compaction as one of its own."""
    batches = []
    pairs = list(zip(files, data, strict=True))
    check_lengths(pairs)
    for kind, run in groupby(pairs, key=lambda pair: pair[0].kind):
        if kind is LogFileKind.COMMIT:
            batches.append(
                decode_commits([(file.version, body) for file, body in run], lazily=True)
            )
        else:
            batches += [decode_actions(body, file.version, file.path) for file, body in run]
    return batches


def check_lengths(bodies: Iterable[tuple[LogPath, bytes]]) -> None:
    """Hold bodies to the lengths that a listing has of the files.

    Raises:
        InvalidTableError: one of them has another length.
    """
    for file, body in bodies:
        if file.size and len(body) != file.size:
            raise InvalidTableError(
                f"{file.path}: has {len(body):,} bytes where the listing of the log says "
                f"{file.size:,}. Files of the log are never written again: open the table again, "
                "and if this comes again, restore the file from a backup"
            )


def check_log_files(store: ObjectStore, files: Sequence[LogPath]) -> None:
    """Refuse JSON files of the log, as a listing has them, that are too large to decode.

    Raises:
        OutOfMemoryError: they need more than `memory_limit`.
    """
    limit = memory_limit_of(store)
    for file in files:
        check_memory(_DECODED_SIZE * file.size, limit, f"{store.uri}/{file.path}")
    total = sum(file.size for file in files)
    check_memory(_DECODED_SIZE * total, limit, f"{store.uri}: its log of {len(files):,} JSON files")


async def _fetch(store: ObjectStore, files: Sequence[LogPath]) -> list[bytes]:
    try:
        return await store.get_many([file.path for file in files])
    except ObjectNotFoundError as error:
        raise MissingCommitError(
            f"{store.uri}: a commit of the versions {files[0].version} to {files[-1].version} was "
            f"listed and is gone ({error}); if the log was cleaned up meanwhile, open the table "
            "again"
        ) from error


def _chunks(files: Sequence[LogPath]) -> Iterator[list[LogPath]]:
    chunk: list[LogPath] = []
    held = 0
    for file in files:
        if chunk and (len(chunk) >= _BATCH_COMMITS or held + file.size > _BATCH_BYTES):
            yield chunk
            chunk, held = [], 0
        chunk.append(file)
        held += file.size
    if chunk:
        yield chunk
