"""Checkpoints of every kind: singletons at once, the files of file actions when they are asked for.

A checkpoint is a set of top-level files, classic, multi-part or V2, and perhaps sidecars that
these name. `CheckpointReader.open` reads footers, and of the top-level files only what opening a
table needs, in one read; what the footer's read brought along costs no other. `parts` gives the
files that hold file actions, to be read row group by row group.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from adelta._arrow_values import places_of_values
from adelta._concurrency import in_thread, map_concurrent
from adelta._memory import memory_limit_of
from adelta.errors import InvalidTableError, MissingCheckpointPartError, ObjectNotFoundError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.actions.json import ActionBatch, decode_actions
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.actions.sidecar import Sidecar
from adelta.kernel.log_path import sidecar_path
from adelta.log.checkpoint_file import CheckpointFile, open_file
from adelta.log.commit_reader import check_lengths, check_log_files
from adelta.log.map_columns import pairs_of
from adelta.storage.distrust import sound

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping
    from typing import TypeVar

    import pyarrow as pa

    from adelta.kernel.log_path import LogPath
    from adelta.kernel.log_segment import CheckpointFiles
    from adelta.log.checkpoint_file import Singletons
    from adelta.log.file_groups import FilePart
    from adelta.parquet.reader import ParquetFile
    from adelta.storage.object_store import ObjectStore

    T = TypeVar("T")

__all__ = ["CheckpointReader", "open_part"]

_Piece: TypeAlias = tuple[str, int | None, tuple[int, int] | None]
_SIDECARS_AHEAD = 8
_SIDECARS_HELD = 64  # more footers than these are read again rather than kept
_ACTION_BYTES = 100  # that a file action takes in a sidecar, about
_FOR_OPENING = {"protocol": "minReaderVersion", "metaData": "id", "sidecar": "path"}


async def open_part(
    store: ObjectStore,
    version: int,
    path: str,
    size: int | None,
    among: tuple[int, int] | None = None,
) -> FilePart:
    """A file of the checkpoint of `version`; of its row groups those `among` the two numbers.

    Raises:
        MissingCheckpointPartError: it is gone.
        InvalidTableError: it is damaged.
    """
    from adelta.log.file_groups import FilePart

    if path.endswith(".json"):
        data = await _present(store.get(path), path)
        async with sound(store, path):
            return FilePart(None, await in_thread(decode_actions, data, version, path))
    return FilePart(await _present(open_file(store, path, size), path), among=among)


class CheckpointReader:
    """An opened checkpoint. Holds footers, never file actions."""

    def __init__(
        self,
        store: ObjectStore,
        checkpoint: CheckpointFiles,
        files: list[CheckpointFile],
        batch: ActionBatch | None,
        rows: Mapping[str, list[dict[str, Any]]],
    ) -> None:
        self._store = store
        self._checkpoint = checkpoint
        self._files = files
        self._batch = batch
        protocols = [Protocol.from_json(row) for row in rows.get("protocol", ())]
        metadata = [Metadata.from_json(_metadata(row)) for row in rows.get("metaData", ())]
        if batch is not None:
            protocols = [one for _, one in batch.protocols]
            metadata = [one for _, one in batch.metadata]
            self._sidecars = batch.sidecars
        else:
            self._sidecars = tuple(
                Sidecar.from_json({k: pairs_of(v) for k, v in row.items()})
                for row in rows.get("sidecar", ())
            )
        self.protocol = protocols[-1] if protocols else None
        """The checkpoint's protocol."""
        self.metadata = metadata[-1] if metadata else None
        """The checkpoint's metadata."""
        self._held: dict[str, FilePart] = {}

    @property
    def version(self) -> int:
        """The version that the checkpoint holds."""
        return self._checkpoint.version

    @property
    def num_held(self) -> int:
        """How many files of it are open."""
        return len(self._files) + len(self._held)

    @property
    def memory_limit(self) -> int:
        """What all that is kept of its files may take, in bytes."""
        return memory_limit_of(self._store)

    @property
    def sidecars(self) -> tuple[Sidecar, ...]:
        """The sidecars that the checkpoint names."""
        return self._sidecars

    @classmethod
    async def open(
        cls,
        store: ObjectStore,
        checkpoint: CheckpointFiles,
        opened: Mapping[str, CheckpointFile] | None = None,
    ) -> CheckpointReader:
        """Read the footers, unless `opened` has them by path, and what opening a table needs.

        Raises:
            MissingCheckpointPartError: a file of the checkpoint is gone.
            InvalidTableError: a file is damaged.
        """
        (first, *_) = checkpoint.files
        if first.path.endswith(".json"):
            check_log_files(store, [first])
            data = await _present(store.get(first.path), first.path)
            decode = partial(decode_actions, data, checkpoint.version, first.path, lazily=True)
            async with sound(store, first.path):
                check_lengths([(first, data)])
                return cls(store, checkpoint, [], await in_thread(decode), {})

        async def open_one(part: LogPath) -> CheckpointFile:
            file = opened.get(part.path) if opened else None
            if file is not None and file.size == part.size:
                return file
            return await _present(CheckpointFile.open(store, part.path, part.size), part.path)

        files = await map_concurrent(open_one, checkpoint.files, limit=store.concurrency)
        rows = await _singletons(store, files, _FOR_OPENING)
        async with sound(store, *(file.path for file in files)):
            try:
                return cls(store, checkpoint, files, None, rows)
            except InvalidTableError as error:
                raise InvalidTableError(
                    f"{first.path}: {error}; delete the checkpoint, and the log is read without it"
                ) from error

    async def set_transactions(self) -> list[SetTransaction]:
        """The checkpoint's application transactions.

        Raises:
            InvalidTableError: a file is damaged.
        """
        if self._batch is not None:
            return [txn for _, txn in self._batch.set_transactions]
        rows = await _singletons(self._store, self._files, {"txn": "appId"})
        return [SetTransaction.from_json(row) for row in rows["txn"]]

    async def domain_metadata(self) -> list[DomainMetadata]:
        """The checkpoint's domains.

        Raises:
            InvalidTableError: a file is damaged.
        """
        if self._batch is not None:
            return [domain for _, domain in self._batch.domain_metadata]
        rows = await _singletons(self._store, self._files, {"domainMetadata": "domain"})
        return [DomainMetadata.from_json(row) for row in rows["domainMetadata"]]

    @property
    def about_files(self) -> int:
        """How many file actions it has, about: sidecars have not been opened."""
        if self._batch is not None:
            rows = self._batch.num_files
        else:
            rows = sum(file.num_rows for file in self._files)
        return rows + sum(sidecar.size_in_bytes or 0 for sidecar in self._sidecars) // _ACTION_BYTES

    def pieces(self, size: int) -> Iterator[tuple[_Piece, int]]:
        """All files that may hold file actions, each with its bytes.

        Top-level ones come in runs of row groups, of about `size` bytes.
        """
        if self._batch is not None:
            (first,) = self._checkpoint.files
            yield (first.path, first.size, None), first.size
        for file in self._files:
            count = file.num_row_groups
            runs = max(1, min(count, -(-file.size // size)))
            bounds = [count * run // runs for run in range(runs + 1)]
            for among in pairwise(bounds):
                yield (file.path, file.size, among), file.size // runs
        for sidecar in self._sidecars:
            path = sidecar_path(decode_path(sidecar.path))
            yield (path, sidecar.size_in_bytes or None, None), sidecar.size_in_bytes or 0

    async def parts(self) -> AsyncGenerator[FilePart, None]:
        """Every file that may hold file actions: the top-level ones, then the sidecars.

        Sidecars are opened a few ahead, and kept open unless there are very many of them.

        Raises:
            MissingCheckpointPartError: a sidecar is gone.
            InvalidTableError: a sidecar is damaged.
        """
        from adelta._read_ahead import ReadAhead
        from adelta.log.file_groups import FilePart

        if self._batch is not None:
            yield FilePart(None, self._batch)
        for file in self._files:
            yield FilePart(await file.parquet())
        async with ReadAhead(self._sidecar, self._sidecars, limit=_SIDECARS_AHEAD) as sidecars:
            async for part in sidecars:
                yield part

    async def _sidecar(self, sidecar: Sidecar) -> FilePart:
        part = self._held.get(sidecar.path)
        if part is None:
            path = sidecar_path(decode_path(sidecar.path))
            size = sidecar.size_in_bytes or None
            part = await open_part(self._store, self.version, path, size)
            if len(self._sidecars) <= _SIDECARS_HELD:
                self._held[sidecar.path] = part
        return part


async def _singletons(
    store: ObjectStore, files: list[CheckpointFile], required: Mapping[str, str]
) -> Singletons:
    """Rows of the named actions over all files, by action; each has a leaf that is never null."""

    async def read(file: CheckpointFile) -> Singletons | None:
        return await _present(file.singletons(required), file.path)

    several = await map_concurrent(read, files, limit=store.concurrency)
    left = [file for file, rows in zip(files, several, strict=True) if rows is None]
    by_arrow = iter(await _by_arrow(store, left, required) if left else ())
    found: Singletons = {action: [] for action in required}
    for rows in several:
        for action, of_file in (next(by_arrow) if rows is None else rows).items():
            found[action] += of_file
    return found


async def _by_arrow(
    store: ObjectStore, files: list[CheckpointFile], required: Mapping[str, str]
) -> list[Singletons]:
    """The same of each of the files, whatever is in them."""

    def plan(file: ParquetFile) -> tuple[dict[str, str], list[int]]:
        present = {a: leaf for a, leaf in required.items() if file.layout.has_column((a, leaf))}
        leaves = list(present.items())
        all_groups = range(file.layout.num_row_groups)
        file.layout.places([file.layout.leaf(leaf) for leaf in leaves], all_groups)  # at once
        groups = [
            group
            for group in all_groups
            if not all(_all_null(file, group, leaf) for leaf in leaves)
        ]
        return present, groups

    async def read(planned: tuple[ParquetFile, dict[str, str], list[int]]) -> Singletons:
        file, present, groups = planned
        if not present or not groups:
            return {}
        table = await file.read(list(present), row_groups=groups)
        try:
            return await in_thread(_rows, table, present)
        except UnicodeDecodeError as error:
            raise InvalidTableError(
                f"{file.layout.path}: holds bytes that are not UTF-8 ({error}) where a text "
                "belongs; delete the checkpoint, and the log is read without it"
            ) from error

    opened = [await file.parquet() for file in files]
    # By one thread: Arrow gives every thread that reads statistics megabytes of its own.
    planned = await in_thread(lambda: [(file, *plan(file)) for file in opened])
    return await map_concurrent(read, planned, limit=store.concurrency)


def _all_null(file: ParquetFile, group: int, leaf: tuple[str, ...]) -> bool:
    found = file.layout.statistics(group, leaf)
    rows = file.layout.metadata.row_group(group).num_rows
    return rows == 0 or (found is not None and found.null_count == rows)


def _rows(table: pa.Table, required: Mapping[str, str]) -> Singletons:
    found: Singletons = {}
    for action, leaf in required.items():
        column: Any = table.column(action)
        values = column.flatten()[column.type.get_field_index(leaf)]
        found[action] = [column[place].as_py() for place in places_of_values(values)]
    return found


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    """A `metaData` row with its Parquet maps, which arrive as pairs, as dictionaries."""
    body = {key: pairs_of(value) for key, value in row.items()}
    if isinstance(row.get("format"), dict):
        body["format"] = {key: pairs_of(value) for key, value in row["format"].items()}
    body["partitionColumns"] = row.get("partitionColumns")
    return body


async def _present(fetch: Awaitable[T], path: str) -> T:
    try:
        return await fetch
    except ObjectNotFoundError as error:
        raise MissingCheckpointPartError(
            f"{path}: a file of the checkpoint is gone; restore it, or delete the rest of the "
            "checkpoint so that an earlier one is used"
        ) from error
