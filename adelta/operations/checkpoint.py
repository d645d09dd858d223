"""CHECKPOINT: write a checkpoint of the latest version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._dataclasses import dataclass
from adelta.commit.choose import publish
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.table import clock_of, latest_state, opened
from adelta.write.upkeep import after_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.progress import OnProgress
    from adelta.table import TableOrAddress

__all__ = ["CheckpointMetrics", "checkpoint"]


@dataclass(frozen=True, slots=True)
class CheckpointMetrics:
    """What was written: `num_actions` rows, `num_files` of them live files, in `num_bytes`."""

    version: int
    num_actions: int
    num_files: int
    num_bytes: int


@checked
async def checkpoint(
    table: TableOrAddress,
    *,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CheckpointMetrics:
    """Write a checkpoint of the latest version, so that the table opens without the commits before.

    Commits do this by themselves, every `delta.checkpointInterval` versions. What has expired in
    the log is cleaned up then, unless `delta.enableExpiredLogCleanup` is false. `on_progress` is
    told of the live files that are written.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the table needs a feature that adelta does not have.
        InvalidOptionError: the table is managed by a catalog, and was opened without its client.
        InvalidTableError: the log is damaged.
        StorageError: the store refused or failed.
    """
    async with opened(table, storage_options) as handle:
        state = await latest_state(handle)
        configuration = state.configuration
        configuration.check_writable(handle.uri)
        await publish(handle.store, configuration)
        written = await write_checkpoint(state, clock_of(handle), on_progress=on_progress)
        await after_checkpoint(state, clock_of(handle))
        return CheckpointMetrics(
            version=written.version,
            num_actions=written.size,
            num_files=written.num_of_add_files or 0,
            num_bytes=written.size_in_bytes or 0,
        )
