"""Log replay for a cluster: file actions by the part of a checkpoint that they belong to.

`read_clustered` reads some pieces of a log into blobs, each with the actions of one part, and
`reconciled_blobs` makes of all blobs of a part what they leave. All actions on one file belong to
one part, so parts are reconciled apart from each other, and nobody holds the list of files.
"""

from __future__ import annotations

import struct
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError, MissingCommitError, ObjectNotFoundError
from adelta.kernel.actions.file_schemas import ADD_SCHEMA, REMOVE_SCHEMA
from adelta.kernel.actions.json import VERSION_COLUMN, decode_commits
from adelta.kernel.checkpoint.parts import by_part
from adelta.kernel.replay import ReconciledTail, of_before, reconcile_actions
from adelta.log.checkpoint_replay import CheckpointPiece, PieceReplay
from adelta.storage.distrust import sound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adelta.kernel.log_path import LogPath
    from adelta.storage.object_store import ObjectStore

__all__ = ["Blob", "CommitPiece", "commit_pieces", "read_clustered", "reconciled_blobs"]

_VERSION = pa.field(VERSION_COLUMN, pa.int64())
_SCHEMAS = {"add": ADD_SCHEMA.append(_VERSION), "remove": REMOVE_SCHEMA.append(_VERSION)}
_SIZE = struct.Struct(">q")
_MORE = 64 * 1024  # bytes that are read at once to find the end of a line


@dataclass(frozen=True, slots=True)
class CommitPiece:
    """The lines of a commit that begin in its bytes from `start` to before `end`, of `size`."""

    version: int
    path: str
    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class Blob:
    """Actions of one kind, `add` or `remove`, of the part `part`: a batch, compressed."""

    part: int
    kind: str
    data: bytes


def commit_pieces(commits: Iterable[LogPath], size: int) -> list[tuple[CommitPiece, ...]]:
    """All lines of some commits in shares of about `size` bytes; a longer commit is divided."""
    shares: list[tuple[CommitPiece, ...]] = []
    share: list[CommitPiece] = []
    held = 0
    for commit in commits:
        for start in range(0, max(1, commit.size), size):
            end = min(start + size, commit.size)
            if share and held + end - start > size:
                shares.append(tuple(share))
                share, held = [], 0
            share.append(CommitPiece(commit.version, commit.path, start, end, commit.size))
            held += end - start
    return [*shares, tuple(share)] if share else shares


async def read_clustered(
    store: ObjectStore, pieces: Sequence[CheckpointPiece | CommitPiece], parts: int
) -> list[Blob]:
    """The file actions of some pieces of a log, by part.

    Raises:
        MissingCommitError: a commit is gone.
        InvalidTableError: a file of the log is damaged.
    """
    adds, removes = [], []
    commits = [piece for piece in pieces if isinstance(piece, CommitPiece)]
    for piece in commits:
        data = await _lines(store, piece)
        async with sound(store, piece.path):
            batch = await in_thread(decode_commits, [(piece.version, data)])
        adds.append(batch.adds)
        removes.append(batch.removes)
    base = [piece for piece in pieces if isinstance(piece, CheckpointPiece)]
    replay = PieceReplay(store, base, ReconciledTail.nothing())
    async with aclosing(replay.file_batches()) as tables:
        adds += [of_before(table) async for table in tables]
    async with aclosing(replay.tombstone_batches()) as tables:
        removes += [of_before(table) async for table in tables]
    return await in_thread(_clustered, {"add": adds, "remove": removes}, parts, store.uri)


def _clustered(actions: dict[str, list[pa.Table]], parts: int, root: str) -> list[Blob]:
    found = []
    for kind, tables in actions.items():
        schema = _SCHEMAS[kind]
        some = [table.cast(schema) for table in tables if table.num_rows]
        if not some:
            continue
        for part, rows in by_part(pa.concat_tables(some), parts, root):
            batches = rows.combine_chunks().to_batches()
            found += [Blob(part, kind, _packed(batch)) for batch in batches]
    return found


def _packed(batch: pa.RecordBatch) -> bytes:
    """A batch, compressed, after the bytes that it has if it is not."""
    plain = batch.serialize()
    packed: bytes = pa.compress(plain, codec="zstd", asbytes=True)
    return _SIZE.pack(plain.size) + packed


def _unpacked(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    (size,) = _SIZE.unpack_from(data)
    ipc: Any = pa.ipc
    plain = pa.decompress(pa.py_buffer(data)[_SIZE.size :], size, codec="zstd")
    found: pa.RecordBatch = ipc.read_record_batch(plain, schema)
    return found


def reconciled_blobs(blobs: Iterable[Blob], root: str) -> ReconciledTail:
    """What all file actions of a part leave."""
    batches: dict[str, list[pa.RecordBatch]] = {kind: [] for kind in _SCHEMAS}
    for blob in blobs:
        batches[blob.kind].append(_unpacked(blob.data, _SCHEMAS[blob.kind]))
    adds, removes = (
        pa.Table.from_batches(batches[kind], schema) for kind, schema in _SCHEMAS.items()
    )
    return reconcile_actions(adds, removes, root)


async def _lines(store: ObjectStore, piece: CommitPiece) -> bytes:
    """The lines of a piece, whole."""
    try:
        if piece.start == 0 and piece.end == piece.size:
            data = await store.get(piece.path)
            if piece.size and len(data) != piece.size:
                raise InvalidTableError(
                    f"{store.uri}/{piece.path}: has {len(data):,} bytes where the listing of the "
                    f"log says {piece.size:,}; open the table again, and if this comes again, "
                    "restore the file from a backup"
                )
            return data
        start = max(0, piece.start - 1)  # whether a line begins at its first byte
        data = await store.get_range(piece.path, start, piece.end)
        if piece.start:
            _, _, data = data.partition(b"\n")
        if not data:
            return data
        end = piece.end
        while end < piece.size and not data.endswith(b"\n"):
            more = await store.get_range(piece.path, end, min(end + _MORE, piece.size))
            line, newline, _ = more.partition(b"\n")
            data += line + newline
            end += len(more)
        return data
    except ObjectNotFoundError as error:
        raise MissingCommitError(
            f"{store.uri}/{piece.path} was listed and is gone; if the log was cleaned up "
            "meanwhile, open the table again"
        ) from error
