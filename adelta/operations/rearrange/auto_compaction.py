"""Auto-compaction: after a commit, the small files of the partitions that it has added files to."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from adelta._concurrency import in_thread
from adelta.commit.choose import permits_maintenance
from adelta.operations.rearrange.bins import FileSizes, by_partition, small_files
from adelta.operations.rearrange.compaction import plan_compaction
from adelta.operations.rearrange.cubes import cube_tags
from adelta.operations.rearrange.run import Plan, Rearrangement
from adelta.table import known_state, queue_of
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.file_set import FileSet
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.table import Table
    from adelta.write.transaction_core import TransactionCore

__all__ = ["auto_compact", "plan_auto_compaction"]

_log = logging.getLogger("adelta.transaction")

_TARGET_SIZE: Final = 128 * 1024 * 1024
_LEAST_FILES: Final = 50
_MOST_PARTITIONS: Final = 128


async def auto_compact(table: Table, tx: TransactionCore) -> None:
    """Compact the partitions that `tx` has added files to, where the table asks for that.

    A partition is compacted that has 50 files smaller than half of the target size, which is 128
    MiB or ``delta.targetFileSize``; 128 partitions at the most. Of those who share the table's
    queue one compacts at a time. It never looks like a failure of the commit: where it fails, a
    warning is logged.
    """
    added = tx.added_files
    if tx.version is None or not added or not _is_wanted(tx.configuration):
        return
    if not permits_maintenance(table.store, tx.configuration):
        return
    queue = queue_of(table)
    if queue.is_compacting:
        return
    queue.is_compacting = True
    try:
        state = await known_state(table)
        files = await state.files()
        plan = await in_thread(plan_auto_compaction, state.configuration, files, added)
        if plan.bins:
            await Rearrangement(table, _REQUEST).carry_out(state, plan)
    except Exception as error:
        _log.warning(
            "%s: version %d is committed, but auto-compaction after it failed: %s",
            table.uri,
            tx.version,
            error,
        )
    finally:
        queue.is_compacting = False


_REQUEST: Final = TransactionRequest(
    operation="OPTIMIZE",
    parameters={"predicate": [], "zOrderBy": [], "clusterBy": [], "auto": True},
)


def _is_wanted(configuration: TableConfiguration) -> bool:
    properties = configuration.properties
    return bool(properties.auto_optimize) or properties.auto_compact in ("true", "auto")


def plan_auto_compaction(
    configuration: TableConfiguration, files: FileSet, added: Sequence[AddFile]
) -> Plan:
    """What of the table's live `files` is compacted after a commit that has `added` some.

    Files that are clustered are left to `optimize`. CPU-heavy.

    Raises:
        InvalidTableError: a partition value is not of its column's type.
    """
    target = configuration.properties.target_file_size or _TARGET_SIZE
    sizes = FileSizes(target, target // 2, most_deleted=1.0)
    small = [file for file in small_files(files, sizes) if not cube_tags(file)]
    touched = {file.path for file in added}
    worth_it = [
        group
        for group in by_partition(small, configuration)
        if len(group) >= _LEAST_FILES and any(file.path in touched for file in group)
    ]
    chosen = [file for group in worth_it[:_MOST_PARTITIONS] for file in group]
    return plan_compaction(configuration, chosen, sizes, considered=files.num_files)
