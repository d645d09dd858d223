"""DROP TABLE: a table with all of its files, deleted.

A commit comes first, ``DROP TABLE``: it takes all files out of the table, and gives the protocol a
writer's feature that nobody has. So whoever reads meanwhile sees a table without rows, and whoever
writes is refused, or loses the race; no commit is built on what is being deleted. So that commit
stays in its place for a while when those before it have gone. Then the files
go, then the log but for a checkpoint of that version, which is one object, and that last. Wherever
it is broken off, there is a table without rows, which can be dropped again, or none. Several may
drop it at once: whoever is not the last looks, before each of these steps, whether the table that
it drops is still there, and leaves one alone that was made anew.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa

from adelta import _compute as pc
from adelta._arguments import checked
from adelta._arrow_values import scalar_of
from adelta._dataclasses import dataclass
from adelta.commit.choose import check_maintenance
from adelta.commit.coordinator import LOOK_HOLDS
from adelta.errors import InvalidUseError, OutsideRootError, TableNotFoundError
from adelta.kernel.actions.protocol import TABLE_FEATURES_WRITER, Protocol
from adelta.kernel.deletable import parse_dropped_path
from adelta.kernel.log_path import (
    LAST_CHECKPOINT_PATH,
    LOG_DIR,
    SIDECAR_DIR,
    checkpoint_path,
    commit_path,
    commit_version,
)
from adelta.kernel.table_features import supported_names
from adelta.kernel.vacuum import VacuumRules
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.deletion import delete_objects
from adelta.log.expiry_time import expiry_time_ms
from adelta.log.gone import DROPPED, is_dropped
from adelta.log.refresh import is_in_log
from adelta.operations.vacuum_listing import found_objects
from adelta.progress import Meter, OnProgress
from adelta.table import begin, clock_of, latest_state, opened
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore
    from adelta.table import Table, TableOrAddress

__all__ = ["DropMetrics", "drop_table"]

_AT_ONCE = 4_000
_STAYS = 1.5 * LOOK_HOLDS  # seconds

arrow: Any = pa


class _Everything(VacuumRules):
    """Nothing is hidden."""

    def hides(self, name: str) -> bool:
        return False

    def visible(self, paths: pa.Array[Any]) -> pa.Array[Any]:
        every: pa.Array[Any] = pa.repeat(scalar_of(True, pa.bool_()), len(paths))
        return every


class _EveryFolder:
    """The set of all folders."""

    def __contains__(self, path: object) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class DropMetrics:
    """What was deleted; with `dry_run`, what would have been. Sizes are in bytes.

    `num_files` and `num_bytes` are of everything but the log, which had `num_log_files`.
    """

    dry_run: bool
    num_files: int
    num_bytes: int
    num_log_files: int


@checked
async def drop_table(
    table: TableOrAddress,
    *,
    dry_run: bool = False,
    user_metadata: str | None = None,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DropMetrics:
    """Delete a table: its rows, its history, and every file below its root.

    Who reads it meanwhile finds no rows, and who writes to it fails; one that is broken off leaves
    a table without rows, which can be dropped again. On a local disk links stay, with what they
    lead to, and so do folders that they lie in, and the root itself. The files of a shallow
    clone's origin stay.

    Raises:
        TableNotFoundError: there is no table.
        InvalidUseError: another table lies in its folder; or a catalog manages it.
        UnsupportedFeatureError: the table needs a feature that adelta does not have.
        CommitConflictError: another commit came first.
        CommitOutcomeUnknownError: the first commit may or may not have happened.
        InvalidTableError: the log is damaged.
        StorageError: the store refused or failed.
    """
    async with opened(table, storage_options) as handle:
        state = await latest_state(handle)
        configuration = state.configuration
        if not is_dropped(configuration):
            configuration.check_writable(handle.uri)
        check_maintenance(handle.store, configuration)
        if (management := configuration.management) is not None:
            where = "drop the table there"
            if management.owner is not None:
                where = "take the table from it first, by release_table"
            by = "a catalog" if management.owner is None else f"an owner, {management.owner!r}"
            raise InvalidUseError(f"{handle.uri} is managed by {by}; {where}")
        found = await _found(handle.store, Meter(on_progress, "listing"))
        if not dry_run:
            with suppress(TableNotFoundError):  # since somebody else drops it too, and is quicker
                if not is_dropped(configuration):
                    await _say_so(handle, user_metadata)
                    state = await latest_state(handle)
                    found = await _found(handle.store, Meter(on_progress, "listing"))
                if is_dropped(state.configuration):  # else another table is in its place
                    await _delete(handle, state, found, on_progress)
    return DropMetrics(
        dry_run=dry_run,
        num_files=len(found.files),
        num_bytes=found.num_bytes,
        num_log_files=len(found.log),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """What there is: objects of the log, and all others."""

    files: pa.ChunkedArray[Any]
    log: tuple[str, ...]
    num_bytes: int


async def _found(store: ObjectStore, meter: Meter) -> _Found:
    files, num_bytes = [], 0
    async with aclosing(found_objects(store, _Everything())) as batches:
        async for batch in batches:
            paths = batch.column(0)
            outside = batch.filter(pc.invert(pc.starts_with(paths, LOG_DIR)))
            nested = pc.match_substring(outside.column(0), f"/{LOG_DIR}")
            if pc.any(nested).as_py():
                other = str(outside.filter(nested).column(0)[0]).partition(f"/{LOG_DIR}")[0]
                raise InvalidUseError(
                    f"{store.uri} cannot be dropped: another table lies in its folder, in "
                    f"{other!r}; drop that one first, or move it"
                )
            files.append(outside.column(0))
            num_bytes += pc.sum(outside.column(1)).as_py() or 0
            meter.advance(outside.num_rows)
    log = [meta.path async for page in store.list(LOG_DIR) for meta in page]
    return _Found(arrow.chunked_array(files, pa.large_string()), tuple(log), num_bytes)


async def _say_so(table: Table, user_metadata: str | None) -> None:
    request = TransactionRequest(
        operation="DROP TABLE", user_metadata=user_metadata, rebase=False, from_latest=True
    )
    async with begin(table, request) as tx:
        live = await tx.live_files()
        if live.num_files:
            tx.staging.remove_set(live, tx.now_ms)
        protocol = tx.protocol
        tx.staging.protocol = Protocol(
            protocol.min_reader_version,
            TABLE_FEATURES_WRITER,
            protocol.reader_features,
            (*supported_names(protocol), DROPPED),
        )


async def _delete(
    table: Table, state: LogState, found: _Found, on_progress: OnProgress | None
) -> None:
    """Delete what was found, and the log. The table is there when it was found.

    Raises:
        TableNotFoundError: it has been deleted by somebody else.
        StorageError: the store refused or failed.
    """
    store = table.store
    # What is younger may be the files of another table that somebody creates in the same folder.
    began_ms = await expiry_time_ms(store, clock_of(table).now_ms())
    await _check_there(state)
    if state.mark.path != commit_path(state.version) and await _has_commits(store):
        # The table's own commit goes after all others: these are those of a table made anew, over
        # which somebody has left the checkpoint who had no time to take it back.
        await _delete_paths(store, [state.mark.path], Meter(None, "deleting"))
        return
    await write_checkpoint(state, clock_of(table), in_one=True)  # and see that the table is there
    meter = Meter(on_progress, "deleting", total=len(found.files) + len(found.log))
    for start in range(0, len(found.files), _AT_ONCE):
        await _delete_paths(store, found.files.slice(start, _AT_ONCE).to_pylist(), meter)
    last = (commit_path(state.version), checkpoint_path(state.version))
    await _delete_log(state, last, meter)
    if store.local is not None:
        left = await store.local.list_unfinished(LOG_DIR)
        await _delete_paths(store, [each.path for each in left], meter)
    # Who has seen the version before in time puts a commit where this one is, and has to lose.
    await anyio.sleep(_STAYS)
    await _delete_log(state, last, meter)  # what others were writing beside commits meanwhile
    await _check_there(state)
    for path in last:  # each of which is whole, or gone
        await _delete_paths(store, [path], meter)
    if store.local is not None:
        await store.local.remove_empty_directories(
            _Everything().hides, older_than_ms=began_ms, emptied=_EveryFolder()
        )


async def _has_commits(store: ObjectStore) -> bool:
    pages = store.list(LOG_DIR, recursive=False)
    return any([commit_version(meta.path) is not None async for page in pages for meta in page])


async def _delete_log(state: LogState, but: Sequence[str], meter: Meter) -> None:
    store = state.store
    now = [meta.path async for page in store.list(LOG_DIR) for meta in page]
    await _check_there(state)  # when all of that was
    sidecars = [path for path in now if path.startswith(SIDECAR_DIR)]
    await _delete_paths(store, sorted({*now}.difference(sidecars, but)), meter)
    await _delete_paths(store, sidecars, meter)  # which no checkpoint names any more


async def _check_there(state: LogState) -> None:
    """See that the log is still that of the table that is being dropped.

    Another table has names of its own for its files, but the same ones in the log.

    Raises:
        TableNotFoundError: it is not.
        StorageError: the store refused or failed.
    """
    if not await is_in_log(state):
        # By one of this table that of another would stay away; without any a listing tells.
        await _delete_paths(state.store, [LAST_CHECKPOINT_PATH], Meter(None, "deleting"))
        raise TableNotFoundError(f"{state.root}: the table has been dropped by somebody else too")


async def _delete_paths(store: ObjectStore, paths: Iterable[Any], meter: Meter) -> None:
    doomed = [path for each in paths if (path := parse_dropped_path(str(each))) is not None]
    try:
        await delete_objects(store, doomed)
    except OutsideRootError:  # a link, put there meanwhile
        for path in doomed:
            with suppress(OutsideRootError):
                await delete_objects(store, [path])
    meter.advance(len(doomed))
