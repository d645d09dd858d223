"""Deletes what has expired in a log (PROTOCOL.md, "Metadata Cleanup").

Guarantees:

* A version that was the latest at some time after the cutoff reads afterwards as before, and its
  time is told as before.
* The checkpoint that the log then begins with has been opened, and its sidecars seen, before
  anything that it stands for is deleted. One that is damaged is passed over for an earlier one.
* Wherever a clean-up is broken off, the table reads as before. Two at once do no harm.
* Nothing is deleted of a table that was made anew at the place of a dropped one.
* Nothing is deleted but what the protocol names so, and what broken-off writes of adelta's own have
  left; nor through a link.
* Nothing that is younger than an hour is touched, whatever the retention: a writer that is based on
  an old version must not find the next one free again.
* What is how old is told by the store's clock, unless this machine's makes it younger.
* What a consumer holds (`adelta.consumerHolds`), and what it is read by, stays, however old it is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from adelta._concurrency import in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.errors import (
    InvalidTableError,
    OutsideRootError,
    RootNotAllowedError,
)
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.checkpoint.v2 import V2Manifest
from adelta.kernel.deletable import SidecarPath, parse_sidecar_path
from adelta.kernel.log_cleanup import (
    LEAST_AGE_MS,
    LogCleanup,
    day_of,
    is_abandoned,
    plan_cleanup,
)
from adelta.kernel.log_path import (
    COMMITS_DIR,
    LOG_DIR,
    SIDECAR_DIR,
    STAGED_DIR,
    LogFileKind,
    LogPath,
    checkpoint_path,
    parse_log_path,
    sidecar_path,
)
from adelta.kernel.log_segment import complete_checkpoints
from adelta.kernel.table_properties import TableProperties
from adelta.log.checkpoint_reader import CheckpointReader
from adelta.log.checkpoint_writer import write_manifest
from adelta.log.consumer_holds import held_version
from adelta.log.deletion import delete_objects
from adelta.log.expiry_time import expiry_time_ms
from adelta.log.gone import take_back_if_gone
from adelta.log.listing import list_log, list_log_until
from adelta.log.time_travel import in_commit_timestamp_ms
from adelta.progress import Meter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.log_segment import CheckpointFiles
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.state import LogState
    from adelta.progress import OnProgress
    from adelta.storage.object_store import ObjectMeta, ObjectStore, UnfinishedObject

__all__ = ["CleanedLog", "clean_expired", "clean_log"]

_log = logging.getLogger("adelta.log")

_LOOK_LASTS_MS = 24 * 3_600_000  # others may restore files with older times


@dataclass(frozen=True, slots=True)
class _Look:
    """When a log was last listed for what has expired, and when its oldest file was changed."""

    at_ms: int
    oldest_ms: int


_looks: WeakKeyDictionary[ObjectStore, _Look] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class CleanedLog:
    """What has been deleted, or would be.

    Commits that were the latest before `cutoff_ms` have expired. `first_version` is the oldest
    version that is then kept; None where nothing has expired. `unfinished` is what writes have left
    in the log that were broken off.
    """

    cutoff_ms: int
    first_version: int | None = None
    files: tuple[LogPath, ...] = ()
    sidecars: tuple[SidecarPath, ...] = ()
    unfinished: tuple[UnfinishedObject, ...] = ()

    @property
    def objects(self) -> tuple[LogPath | SidecarPath | UnfinishedObject, ...]:
        """All of it, in the order of deletion."""
        return (*self.files, *self.sidecars, *self.unfinished)

    def count(self, *kinds: LogFileKind) -> int:
        """How many files of some kinds there are."""
        return sum(file.kind in kinds for file in self.files)


async def clean_expired(state: LogState, now_ms: int) -> CleanedLog | None:
    """Clean up after a checkpoint, where the table wants that; None where nothing has been done.

    The log is listed again when the oldest of its files, as it was last seen, can have expired, or
    after a day.

    Raises: as `clean_log`.
    """
    properties = TableProperties.parse(state.metadata.configuration)
    if not properties.enable_expired_log_cleanup:
        return None
    if (look := _looks.get(state.store)) is not None:
        time_ms = await expiry_time_ms(state.store, now_ms)
        none_expired = day_of(time_ms - properties.log_retention_ms) < look.oldest_ms
        if none_expired and look.at_ms <= time_ms < look.at_ms + _LOOK_LASTS_MS:
            return None
    return await clean_log(state, now_ms, sweep=False)


async def clean_log(
    state: LogState,
    now_ms: int,
    *,
    retention_ms: int | None = None,
    whole_days: bool = True,
    dry_run: bool = False,
    sweep: bool = True,
    on_progress: OnProgress | None = None,
) -> CleanedLog:
    """Delete what has expired after `retention_ms`, by default the table's own retention.

    With `whole_days` what has expired since the last midnight UTC stays.

    `state` is the latest one. Sidecars are looked at where a checkpoint is deleted, or to `sweep`.
    `on_progress` is told of what is deleted.

    Raises:
        InvalidTableError: the log is damaged.
        TableNotFoundError: the table was dropped meanwhile.
        StorageError: the store refused or failed.
    """
    store = state.store
    configuration = state.configuration
    now_ms = await expiry_time_ms(store, now_ms)
    if retention_ms is None:
        retention_ms = configuration.properties.log_retention_ms
    expired_ms = now_ms - retention_ms
    cutoff_ms = min(day_of(expired_ms) if whole_days else expired_ms, now_ms - LEAST_AGE_MS)
    files = await list_log_until(store, cutoff_ms)
    if files:
        _looks[store] = _Look(now_ms, min(file.last_modified_ms for file in files))
    held = await held_version(state, now_ms)
    found = await _plan(state, configuration, files, cutoff_ms, None if held is None else held - 1)
    gone: tuple[LogPath, ...] = ()
    first_version = None
    if found is not None:
        plan, reader = found
        first_version = plan.first.version
        gone = plan.files + await _staged_until(store, plan.first.version)
        if gone and not dry_run:
            left = None
            if configuration.supports_v2_checkpoints:
                left = await _leave_sign(store, plan.first, reader, files)
            await take_back_if_gone(state, [] if left is None else [left])
            meter = Meter(on_progress, "deleting", total=len(gone), unit="objects")
            await delete_objects(store, plan.commits, meter)
            others = [f for f in gone if f.kind is not LogFileKind.COMMIT]
            await delete_objects(store, others, meter)
    sidecars: tuple[SidecarPath, ...] = ()
    unfinished: tuple[UnfinishedObject, ...] = ()
    if sweep or any(file.is_checkpoint for file in gone):
        sidecars = await _unreferenced(store, frozenset(file.path for file in gone), now_ms)
        if sidecars and not dry_run:
            meter = Meter(on_progress, "deleting sidecars", total=len(sidecars), unit="objects")
            sidecars = await _delete_sidecars(store, sidecars, meter)
        unfinished = await _broken_off(store, now_ms)
        if unfinished and not dry_run:
            await delete_objects(store, unfinished)
    return CleanedLog(cutoff_ms, first_version, gone, sidecars, unfinished)


async def _plan(
    state: LogState,
    configuration: TableConfiguration,
    files: Sequence[LogPath],
    cutoff_ms: int,
    newest: int | None,
) -> tuple[LogCleanup, CheckpointReader] | None:
    """What may go, and the opened checkpoint, not after `newest`, that the log then begins with."""
    unusable: frozenset[str] = frozenset()
    while True:
        plan = await in_thread(
            plan_cleanup,
            files,
            cutoff_ms,
            protected_before=configuration.protected_before,
            unusable=unusable,
            newest=newest,
        )
        if plan is None or not plan.files:
            return None
        version = plan.first.version
        if await _is_younger(state, configuration, version, cutoff_ms):
            newest = version - 1
            continue
        try:
            return plan, await _opened(state.store, plan.first)
        except InvalidTableError as error:
            _log.warning("%s: nothing can be cleaned up behind %s", state.root, error)
            unusable |= {file.path for file in plan.first.files}


async def _is_younger(
    state: LogState, configuration: TableConfiguration, version: int, cutoff_ms: int
) -> bool:
    """Whether a version is younger than the cutoff by its in-commit timestamp."""
    if not configuration.in_commit_timestamps_enabled:
        return False
    since = configuration.in_commit_timestamp_enablement
    if since is not None and version < since[0]:
        return False
    return await in_commit_timestamp_ms(state.store, version) > cutoff_ms


async def _opened(store: ObjectStore, checkpoint: CheckpointFiles) -> CheckpointReader:
    """The checkpoint, proved to be all there.

    Raises:
        InvalidTableError: it is not, or it is damaged.
    """
    reader = await CheckpointReader.open(store, checkpoint)
    path = checkpoint.files[0].path
    if reader.protocol is None or reader.metadata is None:
        raise InvalidTableError(f"{path}, which has no protocol or no metadata")
    if reader.sidecars:
        present = await _sidecars(store)
        for sidecar in reader.sidecars:
            found = present.get(sidecar_path(decode_path(sidecar.path)))
            if found is None or (sidecar.size_in_bytes and found.size != sidecar.size_in_bytes):
                raise InvalidTableError(f"{path}, whose sidecar {sidecar.path[:200]} is not there")
    return reader


async def _sidecars(store: ObjectStore) -> dict[str, ObjectMeta]:
    """What lies in the folder of sidecars, by path."""
    return {meta.path: meta for meta in await _listed(store, SIDECAR_DIR)}


async def _staged_until(store: ObjectStore, version: int) -> tuple[LogPath, ...]:
    found = [
        parse_log_path(meta.path, meta.size, meta.last_modified_ms)
        for folder in (STAGED_DIR, COMMITS_DIR)
        for meta in await _listed(store, folder)
    ]
    return tuple(file for file in found if file is not None and file.version <= version)


async def _listed(store: ObjectStore, folder: str) -> list[ObjectMeta]:
    """What is in a folder of the log; nothing of one that is a link to files elsewhere."""
    try:
        return [meta async for page in store.list(folder, recursive=False) for meta in page]
    except RootNotAllowedError as error:
        _log.warning("%s: what is in %s is not to be looked at: %s", store.uri, folder, error)
        return []


async def _leave_sign(
    store: ObjectStore,
    first: CheckpointFiles,
    reader: CheckpointReader,
    files: Sequence[LogPath],
) -> str | None:
    """Where a copy of the V2 checkpoint was left under a classic name, for others' readers.

    With version 0 gone they would find no protocol, and could not say why they cannot read on.
    """
    path = checkpoint_path(first.version)
    named_v2 = first.kind is LogFileKind.UUID_CHECKPOINT
    if not named_v2 or not reader.sidecars or any(file.path == path for file in files):
        return None
    assert reader.protocol is not None
    assert reader.metadata is not None
    manifest = V2Manifest(
        version=first.version,
        protocol=reader.protocol,
        metadata=reader.metadata,
        transactions=tuple(await reader.set_transactions()),
        domains=tuple(await reader.domain_metadata()),
        sidecars=reader.sidecars,
    )
    await write_manifest(store, manifest, path)
    return path


async def _unreferenced(
    store: ObjectStore, gone: frozenset[str], now_ms: int
) -> tuple[SidecarPath, ...]:
    """The sidecars that may go once the files `gone` have gone."""
    present = (await _sidecars(store)).values()  # before the log: what is named later is younger
    parsed = (parse_sidecar_path(m.path, m.size, m.last_modified_ms) for m in present)
    old = [s for s in parsed if s is not None and is_abandoned(s.last_modified_ms, now_ms)]
    if not old:
        return ()
    log = [file for file in await list_log(store) if file.path not in gone]

    async def named(checkpoint: CheckpointFiles) -> list[str]:
        reader = await CheckpointReader.open(store, checkpoint)
        return [sidecar_path(decode_path(sidecar.path)) for sidecar in reader.sidecars]

    checkpoints = [
        c for c in complete_checkpoints(log) if c.kind is not LogFileKind.MULTI_PART_CHECKPOINT
    ]
    try:
        names = await map_concurrent(named, checkpoints, limit=store.concurrency)
    except InvalidTableError as error:
        _log.warning(
            "%s/%s: its sidecars stay, since a checkpoint does not tell which ones it needs: %s",
            store.uri,
            LOG_DIR,
            error,
        )
        return ()
    referenced = frozenset(name for several in names for name in several)
    return tuple(sidecar for sidecar in old if sidecar.path not in referenced)


async def _delete_sidecars(
    store: ObjectStore, sidecars: tuple[SidecarPath, ...], meter: Meter
) -> tuple[SidecarPath, ...]:
    """Delete them: those that have gone, which links have not."""
    try:
        await delete_objects(store, sidecars, meter)
    except OutsideRootError as error:
        _log.warning("%s/%s: some of its sidecars stay: %s", store.uri, LOG_DIR, error)
        left = await _sidecars(store)
        return tuple(sidecar for sidecar in sidecars if left and sidecar.path not in left)
    return sidecars


async def _broken_off(store: ObjectStore, now_ms: int) -> tuple[UnfinishedObject, ...]:
    """What writes to the log have left, and none that is under way still needs."""
    if store.local is None:
        return ()
    try:
        found = await store.local.list_unfinished(LOG_DIR)
    except OutsideRootError:
        return ()
    return tuple(each for each in found if is_abandoned(each.last_modified_ms, now_ms))
