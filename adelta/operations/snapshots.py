"""Snapshots of several tables, all of one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta.table import check_tables, snapshot_of, states_of_one_moment

if TYPE_CHECKING:
    from adelta.snapshot import Snapshot
    from adelta.table import Table

__all__ = ["snapshots"]


@checked
async def snapshots(*tables: Table) -> tuple[Snapshot, ...]:
    """The latest snapshots of tables of one commit owner, in their order, all of one moment.

    The owner is asked once for all of them. So a transaction over several of them (see
    `transaction_over`) is in all of these snapshots or in none; those that are taken one after the
    other, or from the filesystem alone, may show the one table with it and the other without.

    Raises:
        InvalidOptionError: no table is passed, or one twice; a table has no commit owner that can
            be asked, or another one than the others, or the owner knows nothing of several tables
            at once.
        TableNotFoundError: there is no table, or its owner does not know it.
        UnsupportedFeatureError: reading a table needs a feature that adelta lacks.
        InvalidTableError: a log is damaged.
        StorageError: a store, or the owner, refused or failed.
    """
    check_tables(tables)
    states = await states_of_one_moment(tables)
    return tuple(map(snapshot_of, tables, states))
