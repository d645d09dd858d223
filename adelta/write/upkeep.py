"""What follows a commit: upkeep of the log, which never looks like a failure of the commit.

In this order: the version is published, where an owner has ratified it who leaves that to adelta;
its checksum, symlink manifests where the table keeps them, a checkpoint where one is due, the
clean-up that belongs to it, and a log compaction where the table asks for them. Each is of use
without the others, so a failure of one does not keep the next from being tried; but of a version
that is not published there are neither manifests nor a checkpoint nor a compaction. Where an owner
publishes by itself, there is nothing to do after most commits: checksums are left to the versions
that have something else to be written. One that is far behind is not waited for: the checkpoint
that is due then is written of an earlier version, which is published, from what is in memory.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from adelta._clock import SYSTEM_CLOCK, monotonic
from adelta.commit.choose import (
    owner_publishes,
    permits_maintenance,
    publish,
    published_version,
)
from adelta.commit.coordinator import LOOK_HOLDS
from adelta.kernel.log_path import checksum_path
from adelta.log.checkpoint_writer import (
    checkpoint_if_due,
    is_checkpoint_due,
    write_checkpoint,
)
from adelta.log.checksum_writer import lists_files_after_count, write_checksum
from adelta.log.cleanup import clean_expired, clean_log
from adelta.log.compaction_writer import compact_if_due, is_compaction_due
from adelta.log.gone import take_back_if_gone
from adelta.log.listing import read_hint
from adelta.log.load import load_state
from adelta.write.commit_options import AS_USUAL
from adelta.write.symlink_manifests import keep_manifests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta._clock import Clock
    from adelta.log.state import LogState
    from adelta.write.commit_options import CommitOptions

__all__ = ["after_checkpoint", "after_commit"]

T = TypeVar("T")

_log = logging.getLogger("adelta.transaction")

_PATIENCE = 0.5  # seconds that an owner has to publish a version before its checkpoint is put off
_LITTLE_PATIENCE = 0.1  # for one that is far behind


async def after_commit(
    state: LogState,
    clock: Clock = SYSTEM_CLOCK,
    options: CommitOptions = AS_USUAL,
    sent_at: float = -math.inf,
) -> None:
    """Do what is due after the commit that made `state`; failures are logged as warnings.

    `sent_at` is when that was sent off, by `monotonic`.
    """
    if await _attempt(state, "upkeep", lambda: _is_left_to_owner(state)):
        return  # so the store is asked for nothing
    published = await _attempt(state, "publication", lambda: _published(state))
    is_deferred = published == state.version and await _attempt(
        state, "checksum", lambda: _is_completed_by_checkpoint(state, options)
    )
    if not is_deferred:
        await _attempt(state, "checksum", lambda: _put_checksum(state, sent_at))
    if published != state.version:
        if published is not None and options.checkpoint:
            earlier = partial(_checkpoint_earlier, state, published, clock, options)
            await _attempt(state, "earlier checkpoint", earlier)
        return
    await _attempt(state, "symlink manifest", lambda: keep_manifests(state))
    if options.checkpoint:
        written = await _attempt(state, "checkpoint", lambda: checkpoint_if_due(state, clock))
        if written is not None:
            await after_checkpoint(state, clock, options.clean_up)
        elif is_deferred:
            await _attempt(state, "checksum", lambda: _put_checksum(state, sent_at))
    await _attempt(state, "log compaction", lambda: compact_if_due(state))


async def after_checkpoint(
    state: LogState, clock: Clock = SYSTEM_CLOCK, clean_up: bool | None = None
) -> None:
    """Do what a checkpoint of `state` makes possible; failures are logged as warnings.

    `clean_up` says whether what has expired is deleted; None leaves that to the table.
    """
    # Now its files are counted.
    await _attempt(state, "checksum", lambda: _put_checksum(state, -math.inf))
    if clean_up is not False and permits_maintenance(state.store, state.configuration):
        now_ms = clock.now_ms()
        if clean_up:
            await _attempt(state, "clean-up", lambda: clean_log(state, now_ms, sweep=False))
        else:
            await _attempt(state, "clean-up", lambda: clean_expired(state, now_ms))


async def _is_completed_by_checkpoint(state: LogState, options: CommitOptions) -> bool:
    """Whether the checksum waits for the checkpoint that is due, to list the files as well."""
    is_due = options.checkpoint and is_checkpoint_due(state)
    return is_due and await lists_files_after_count(state)


async def _put_checksum(state: LogState, sent_at: float) -> None:
    """Write the checksum of a version that was not there before `sent_at`.

    A drop takes longer than `LOOK_HOLDS` from the commit on with which it begins; it deletes what
    is there by then.
    """
    if state.checksum.written or not await write_checksum(state):
        return
    if monotonic() - sent_at > LOOK_HOLDS:
        await take_back_if_gone(state, [checksum_path(state.version)])


async def _is_left_to_owner(state: LogState) -> bool:
    return owner_publishes(state.store, state.configuration) and not _needs_published(state)


async def _published(state: LogState) -> int:
    """The last version up to the state's that the log shows by itself; it is waited for.

    An owner that publishes by itself has some time for that, and little where it is behind by more
    than the commits between two checkpoints.
    """
    store, configuration = state.store, state.configuration
    if _keeps_manifests(state) or not owner_publishes(store, configuration):
        await publish(store, configuration)
        return state.version
    published = await published_version(store, configuration, state.version)
    is_far = state.version - published > configuration.properties.checkpoint_interval
    with anyio.move_on_after(_LITTLE_PATIENCE if is_far else _PATIENCE):
        await publish(store, configuration)
        return state.version
    return await published_version(store, configuration, state.version)


async def _checkpoint_earlier(
    state: LogState, published: int, clock: Clock, options: CommitOptions
) -> bool:
    """Write the checkpoint that is due of the last version at which one was, and it is published.

    The owner publishes in the order of versions, and may have more to publish than it keeps up
    with: then checkpoints follow at its pace, and no commit waits for it.
    """
    if not is_checkpoint_due(state):
        return False
    version = published - published % state.configuration.properties.checkpoint_interval
    if version <= 0:
        return False
    hint = await read_hint(state.store)
    if hint is not None and hint.version >= version:
        return False
    earlier = state.at(version) or await load_state(state.store, version=version)
    await write_checkpoint(earlier, clock)
    await after_checkpoint(earlier, clock, options.clean_up)
    return True


def _needs_published(state: LogState) -> bool:
    """Whether anything is due that readers of the filesystem alone come upon."""
    return _keeps_manifests(state) or is_checkpoint_due(state) or is_compaction_due(state)


def _keeps_manifests(state: LogState) -> bool:
    return state.configuration.properties.symlink_format_manifest


async def _attempt(state: LogState, what: str, work: Callable[[], Awaitable[T]]) -> T | None:
    """What `work` comes to; None where it fails."""
    try:
        return await work()
    except Exception as error:
        _log.warning(
            "%s: version %d is committed, but its %s failed: %s",
            state.root,
            state.version,
            what,
            error,
        )
        return None
