"""Whether the files that RESTORE brings back are there, and stay there."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from adelta import _compute as pc
from adelta._concurrency import in_thread, map_concurrent
from adelta.errors import ConcurrentDeleteReadError, MissingDataFileError, ObjectNotFoundError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.deletion_vector.descriptor import vector_path
from adelta.kernel.file_id import file_ids
from adelta.log.commit_provenance import read_commit_info
from adelta.operations.vacuum import (
    BEGAN_TAG,
    COMPLETED,
    MODE_TAG,
    VACUUM_END,
    VACUUM_START,
)
from adelta.operations.vacuum_lite import version_before

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.actions.file_actions import AddFile
    from adelta.log.state import LogState
    from adelta.progress import Meter
    from adelta.storage.object_store import ObjectStore
    from adelta.storage.roots import StoreRoots

__all__ = ["check_no_vacuum", "missing_files", "refuse_missing"]


_LISTED_FROM = 2_000  # files of the table's own; a request tells of a thousand in a listing
_NAMED = 10
_DAY_MS = 86_400_000


async def missing_files(roots: StoreRoots, files: Sequence[AddFile], meter: Meter) -> list[AddFile]:
    """The files of which the data or the deletion vector is not there.

    Raises:
        RootNotAllowedError: one is outside the table, and in no root that is allowed.
        InvalidTableError: one is named by no path of an object.
        StorageError: the store refused or failed.
    """
    places: dict[tuple[ObjectStore, str], None] = {}
    of_file: list[tuple[AddFile, list[tuple[ObjectStore, str]]]] = []
    for file in files:
        where = [roots.locate(path, decode_path(path)) for path in _paths(file)]
        places.update(dict.fromkeys(where))
        of_file.append((file, where))
    own = {path for store, path in places if store is roots.store}
    found: set[tuple[ObjectStore, str]] = set()
    if len(own) >= _LISTED_FROM:
        async for page in roots.store.list():
            found.update((roots.store, meta.path) for meta in page if meta.path in own)
            meter.advance(0)

    async def ask(place: tuple[ObjectStore, str]) -> None:
        store, path = place
        try:
            await store.head(path)
            found.add(place)
        except ObjectNotFoundError:
            pass
        meter.advance()

    unseen = [place for place in places if place not in found]
    meter.advance(len(places) - len(unseen))
    await map_concurrent(ask, unseen, limit=roots.store.concurrency)
    return [file for file, where in of_file if not all(place in found for place in where)]


def _paths(file: AddFile) -> Iterable[str]:
    yield file.path
    vector = file.deletion_vector
    if vector is not None and vector.storage_type != "i":
        yield vector_path(vector)


def refuse_missing(root: str, version: int, missing: Sequence[AddFile]) -> None:
    """Refuse to restore a version of which files are gone.

    Raises:
        MissingDataFileError: some are.
    """
    if missing:
        named = ", ".join(repr(file.path) for file in missing[:_NAMED])
        others = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        raise MissingDataFileError(
            f"{root}: version {version} cannot be restored whole: {len(missing):,} of its files "
            f"are gone, or their deletion vectors, deleted by VACUUM or by hand: {named}{others}. "
            "Restore a later version, or pass ignore_missing=True to restore it without their rows"
        )


async def check_no_vacuum(state: LogState, files: pa.Table) -> None:
    """Refuse to bring back files that a VACUUM which is under way may be about to delete.

    Raises:
        ConcurrentDeleteReadError: there are such files.
    """
    if not files.num_rows:
        return
    under_way = await _vacuums_under_way(state)
    if not under_way:
        return
    version, cutoff_ms = max(under_way, key=itemgetter(1))
    tombstones = await state.tombstones()
    at_risk = await in_thread(_older, files, tombstones, cutoff_ms, state.root)
    if at_risk.num_rows:
        path = str(at_risk.column("path")[0])
        raise ConcurrentDeleteReadError(
            f"{state.root}: the VACUUM that began with version {version} has not told of its end, "
            f"and may delete {at_risk.num_rows:,} of the files to bring back, such as {path!r}; "
            "restore when it has ended, and if it was broken off, run VACUUM again first",
            path=path,
            winning_version=version,
            winning_operation=VACUUM_START,
        )


async def _vacuums_under_way(state: LogState) -> list[tuple[int, int]]:
    """Where the VACUUMs of the last day began that have not ended, and what they may delete."""
    step = min(64, state.store.concurrency)
    oldest = await version_before(state, state.timestamp_ms - _DAY_MS) or 0
    found = _VacuumsUnderWay()

    async def read(version: int) -> CommitInfo | None:
        try:
            return await read_commit_info(state.store, version)
        except ObjectNotFoundError:
            return None

    for last in range(state.version, oldest - 1, -step):
        versions = range(last, max(oldest, last - step + 1) - 1, -1)
        infos = await map_concurrent(read, versions, limit=step)
        for version, info in zip(versions, infos, strict=True):
            if info is None:
                return found.begun
            found.look_at(version, info)
    return found.begun


class _VacuumsUnderWay:
    """The VACUUMs without an end, of commits that are looked at from the newest to the oldest.

    adelta's say at the end where they began. An end of another writer is taken for that of the
    last beginning before it. One that was broken off has nothing left to delete where a later one
    has listed the table, and deleted to the end what had left it by the same time.
    """

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self._completed: dict[str, bool] = {}
        self._ends_of_others = 0
        self._done_ms = -1
        self._latest_ms = -1

    def look_at(self, version: int, info: CommitInfo) -> None:
        """Take a commit into account."""
        if info.operation == VACUUM_END:
            began = info.tags.get(BEGAN_TAG)
            if began is None:
                self._ends_of_others += 1
            else:
                completed = info.operation_parameters.get("status") == COMPLETED
                self._completed[str(began)] = completed
        elif info.operation == VACUUM_START:
            self._begins(version, info)

    def _begins(self, version: int, info: CommitInfo) -> None:
        cutoff_ms = _cutoff_ms(info)
        mode = info.tags.get(MODE_TAG)
        if mode is None:
            # of those that overlap nobody can say which has ended
            self._latest_ms = cutoff_ms = max(cutoff_ms, self._latest_ms)
            if self._ends_of_others:
                self._ends_of_others -= 1
                return
        elif (completed := self._completed.get(str(version))) is not None:
            if completed and mode == "full":
                self._done_ms = max(self._done_ms, cutoff_ms)
            return
        if cutoff_ms > self._done_ms:
            self.begun.append((version, cutoff_ms))


def _cutoff_ms(info: CommitInfo) -> int:
    """Since when files have to have left the table for that VACUUM to keep them."""
    said = info.operation_parameters
    kept = said.get("specifiedRetentionMillis", said.get("defaultRetentionMillis"))
    try:
        return int(info.timestamp or 0) - int(str(kept))
    except ValueError:
        return int(info.timestamp or 0)


def _older(files: pa.Table, tombstones: pa.Table, cutoff_ms: int, root: str) -> pa.Table:
    """Those of `files` that left the table before the cutoff, as far as tombstones tell."""
    late = tombstones.filter(
        pc.greater_equal(pc.fill_null(tombstones.column("deletion_timestamp"), 0), cutoff_ms)
    )
    kept = file_ids(late, root)
    return files.filter(pc.invert(pc.is_in(file_ids(files, root), value_set=kept)))
