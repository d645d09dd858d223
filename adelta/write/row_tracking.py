"""Row ids at the moment of a commit: the high-water mark is read where the table keeps one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import ROW_TRACKING
from adelta.kernel.transaction.row_tracking import track_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.staged import StagedChanges
    from adelta.log.state import LogState

__all__ = ["tracked"]

_INLINE_FILES = 32  # statistics of fewer files are looked at in less time than a thread's hop takes


async def tracked(
    state: LogState, staged: StagedChanges, *, prepared_for: TableConfiguration
) -> StagedChanges:
    """`staged` as it is to be committed right after `state`, with the ids of its rows.

    Rows that it moves kept their ids where the table that it was `prepared_for` had these.

    Raises:
        InvalidOptionError: a file does not say how many rows it has.
        InvalidTableError: the high-water mark, or the checkpoint that holds it, is damaged.
    """
    configuration = TableConfiguration(
        staged.protocol or state.protocol, staged.metadata or state.metadata
    )
    domains: Mapping[str, DomainMetadata] = {}
    if configuration.supports(ROW_TRACKING):
        domains = await state.domain_metadata()
    arguments = (staged, configuration, domains, state.version + 1)
    preserves = not staged.removes.num_rows or prepared_for.row_id_columns is not None
    if len(staged.adds) < _INLINE_FILES:
        return track_rows(*arguments, preserves=preserves)
    return await in_thread(track_rows, *arguments, preserves=preserves)
