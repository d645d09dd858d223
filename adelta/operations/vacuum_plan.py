"""What a VACUUM is going to delete: what is there, without what has to stay."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError, RootNotAllowedError, UnsupportedFeatureError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.vacuum import FOUND, KeptFiles, in_retention, referenced_paths

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from adelta.kernel.vacuum import VacuumRules
    from adelta.log.state import LogState
    from adelta.log.version_replay import VersionReplay
    from adelta.progress import Meter
    from adelta.storage.roots import StoreRoots

__all__ = ["Unneeded", "kept_files", "unneeded_in_order", "unneeded_of_any_order"]

arrow: Any = pa

_COLUMNS = ("path", "deletion_vector")


@dataclass(frozen=True, slots=True, eq=False)
class Unneeded:
    """Files to be deleted, with the columns of `FOUND` in the order of their paths.

    `num_found` files have been looked at, which lie in `directories`; these end in ``/``, but for
    the root.
    """

    files: pa.Table = field(default_factory=FOUND.empty_table)
    num_found: int = 0
    directories: frozenset[str] = frozenset({""})

    @property
    def num_files(self) -> int:
        """How many files there are to delete."""
        return int(self.files.num_rows)

    @property
    def size(self) -> int:
        """Their bytes."""
        return int(pc.sum(self.files.column("size")).as_py() or 0)

    @property
    def emptied(self) -> frozenset[str]:
        """The directories that files are deleted from."""
        paths = self.files.column("path")
        return frozenset().union(*(_directories(chunk) for chunk in paths.chunks))

    def without(self, kept: KeptFiles, rules: VacuumRules) -> Unneeded:
        """Those that are, after all, not kept, nor hidden."""
        batches = self.files.to_batches()
        return replace(self, files=_stacked([_unneeded(b, kept, rules) for b in batches]))


async def kept_files(state: LogState, roots: StoreRoots, cutoff_ms: int) -> KeptFiles:
    """The files of the table that have to stay, of live ones and of those within the retention.

    Raises:
        InvalidTableError: the log is damaged.
    """

    def own_path(path: str) -> str | None:
        try:
            store, found = roots.locate(path, decode_path(path))
        except (InvalidTableError, RootNotAllowedError, UnsupportedFeatureError):
            return None
        return found if store is roots.store else None

    async def read(replay: VersionReplay) -> KeptFiles:
        paths = []
        async with aclosing(replay.file_batches(None, _COLUMNS)) as batches:
            async for table in batches:
                live = await in_thread(referenced_paths, table, own_path)
                paths.append(live)
        async with aclosing(replay.tombstone_batches()) as batches:
            async for table in batches:
                unexpired = await in_thread(in_retention, table, cutoff_ms)
                if unexpired.num_rows:
                    paths.append(await in_thread(referenced_paths, unexpired, own_path))
        return await in_thread(KeptFiles.of, paths)

    return await state.replayed(read)


async def unneeded_in_order(
    batches: AsyncGenerator[pa.RecordBatch, None],
    kept: KeptFiles,
    cutoff_ms: int,
    meter: Meter,
) -> Unneeded:
    """Of files those that are older than the cutoff and not kept.

    Each is named once, and each batch is in the order of its paths; where the batches are not in
    order, what is found of them is put in order. One without a time is passed over.

    Raises:
        StorageError: the store refused or failed.
    """
    found: list[pa.RecordBatch] = []
    directories: set[str] = {""}
    seen = 0

    def take(batch: pa.RecordBatch) -> None:
        directories.update(_directories(batch.column(0)))
        old = pc.less(batch.column(2), cutoff_ms)
        unneeded = _unneeded(batch.filter(old), kept)
        if unneeded.num_rows:
            found.append(unneeded)

    async with aclosing(batches):
        async for batch in batches:
            await in_thread(take, batch)
            seen += batch.num_rows
            meter.advance(batch.num_rows)
    files = _stacked(found)
    if any(_first(later) < _last(batch) for batch, later in pairwise(found)):
        files = await in_thread(files.sort_by, "path")
    return Unneeded(files, seen, frozenset(directories))


def _first(batch: pa.RecordBatch) -> bytes:
    return str(batch.column(0)[0]).encode()


def _last(batch: pa.RecordBatch) -> bytes:
    return str(batch.column(0)[-1]).encode()


async def unneeded_of_any_order(
    batches: AsyncGenerator[pa.RecordBatch, None],
    kept: KeptFiles,
    cutoff_ms: int,
    meter: Meter,
) -> Unneeded:
    """As `unneeded_in_order`, of files in any order, which may be named several times.

    Raises:
        StorageError: the store refused or failed.
    """
    old, young = [], []
    directories: set[str] = {""}
    seen = 0

    def take(batch: pa.RecordBatch) -> None:
        directories.update(_directories(batch.column(0)))
        mask = pc.fill_null(pc.less(batch.column(2), cutoff_ms), False)
        old.append(batch.filter(mask))
        young.append(batch.filter(pc.invert(mask)).column(0))

    async with aclosing(batches):
        async for batch in batches:
            await in_thread(take, batch)
            seen += batch.num_rows
            meter.advance(batch.num_rows)

    def settle() -> pa.Table:
        table = _stacked(old).sort_by("path")
        whole = table.group_by("path", use_threads=False).aggregate(
            [("size", "max"), ("modification_time", "max")]
        )
        batches = whole.rename_columns(FOUND.names).cast(FOUND).to_batches(max_chunksize=65_536)
        again = KeptFiles.of(young)
        return _stacked([_unneeded(_unneeded(b, kept), again) for b in batches])

    return Unneeded(await in_thread(settle), seen, frozenset(directories))


def _unneeded(
    batch: pa.RecordBatch, kept: KeptFiles, rules: VacuumRules | None = None
) -> pa.RecordBatch:
    if not batch.num_rows:
        return batch
    mask = kept.lacks(batch.column(0))
    if rules is not None:
        mask = pc.and_(mask, rules.visible(batch.column(0)))
    return batch.filter(mask)


def _stacked(batches: list[pa.RecordBatch]) -> pa.Table:
    stacked: pa.Table = arrow.Table.from_batches(batches, FOUND)
    return stacked


def _directories(paths: pa.Array[Any]) -> set[str]:
    """The folders of some files, and those that these lie in."""
    found: set[str] = set()
    for path in pc.unique(pc.replace_substring_regex(paths, r"[^/]*$", "")).to_pylist():
        while path and path not in found:
            found.add(path)
            path = path[: path.rstrip("/").rfind("/") + 1]
    return found
