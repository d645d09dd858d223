"""Whether the files that RESTORE brings back are there, and stay there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

from adelta._concurrency import in_thread, map_concurrent
from adelta.errors import ConcurrentDeleteReadError, MissingDataFileError, ObjectNotFoundError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.deletion_vector.descriptor import vector_path
from adelta.kernel.file_id import file_ids
from adelta.log.commit_provenance import read_commit_info
from adelta.operations.vacuum import VACUUM_END, VACUUM_START

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.actions.file_actions import AddFile
    from adelta.log.state import LogState
    from adelta.progress import Meter
    from adelta.storage.object_store import ObjectStore
    from adelta.storage.roots import StoreRoots

__all__ = ["check_no_vacuum", "missing_files", "refuse_missing"]

pc: Any = pyarrow.compute

_LISTED_FROM = 2_000  # files of the table's own; a request tells of a thousand in a listing
_NAMED = 10
_LOOKED_BACK = 1_000  # commits
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
    found = await _unfinished_vacuum(state)
    if found is None:
        return
    version, info = found
    tombstones = await state.tombstones()
    at_risk = await in_thread(_older, files, tombstones, _cutoff_ms(info), state.root)
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


async def _unfinished_vacuum(state: LogState) -> tuple[int, CommitInfo] | None:
    """The newest ``VACUUM START`` that no ``VACUUM END`` follows, of the last day."""
    step = min(64, state.store.concurrency)
    oldest = max(0, state.version - _LOOKED_BACK)

    async def read(version: int) -> CommitInfo | None:
        try:
            return await read_commit_info(state.store, version)
        except ObjectNotFoundError:
            return None

    for last in range(state.version, oldest - 1, -step):
        versions = range(last, max(oldest, last - step + 1) - 1, -1)
        infos = await map_concurrent(read, versions, limit=step)
        for version, info in zip(versions, infos, strict=True):
            if info is None or info.operation == VACUUM_END:
                return None
            if info.operation == VACUUM_START:
                return version, info
            if (info.timestamp or 0) < state.timestamp_ms - _DAY_MS:
                return None
    return None


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
