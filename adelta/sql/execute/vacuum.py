"""VACUUM and RESTORE."""

from __future__ import annotations

import os
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._concurrency import in_thread
from adelta.operations.restore import restore
from adelta.operations.vacuum import vacuum
from adelta.sql.execute.query import query_rows
from adelta.sql.records import hadoop_location, table_of
from adelta.sql.statements import Query
from adelta.table import Table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.operations.restore import RestoreMetrics
    from adelta.sql.session import Session
    from adelta.sql.statements import Restore, Vacuum
    from adelta.write.batches import Data

__all__ = ["restore_answer", "run_restore", "run_vacuum"]

VACUUMED = pa.schema([("path", pa.string())])
"""The column of VACUUM: the table, or of a dry run the files that would go."""

_RESTORED = (
    "table_size_after_restore", "num_of_files_after_restore", "num_removed_files",
    "num_restored_files", "removed_files_size", "restored_files_size",
)  # fmt: skip
RESTORED = pa.schema([(name, pa.int64()) for name in _RESTORED])
"""The columns of RESTORE."""


async def run_vacuum(statement: Vacuum, session: Session) -> pa.Table:
    """Delete files that no version within the retention needs."""
    hours = statement.retain_hours
    async with (
        session.opened(statement.table) as table,
        _inventory(statement, session) as inventory,
    ):
        done = await vacuum(
            table,
            retention=None if hours is None else timedelta(hours=hours),
            enforce_retention=session.enforce_retention,
            mode=statement.mode,
            inventory=inventory,
            dry_run=statement.dry_run,
        )
        root = hadoop_location(table.uri)
    if not statement.dry_run:
        return table_of(VACUUMED, [(root,)])
    return table_of(VACUUMED, [(f"{root}/{path}",) for path in done.files["path"].to_pylist()])


@asynccontextmanager
async def _inventory(statement: Vacuum, session: Session) -> AsyncIterator[Data | None]:
    """The list of files that takes the place of a listing."""
    source = statement.inventory
    if source is None:
        yield None
    elif isinstance(source, Query):
        async with query_rows(source, session) as running, aclosing(running.batches()) as batches:
            yield batches
    elif isinstance(meant := session.meant(source), Table | str | os.PathLike):
        async with (
            session.opened(source) as table,
            aclosing((await table.snapshot()).scan().batches()) as batches,
        ):
            yield batches
    else:
        yield meant


async def run_restore(statement: Restore, session: Session) -> pa.Table:
    """Make the table what it was."""
    as_of = statement.as_of
    moment = None if as_of.timestamp is None else await in_thread(session.moment, as_of.timestamp)
    async with session.opened(statement.table) as table:
        done = await restore(
            table,
            version=as_of.version,
            timestamp=moment,
            user_metadata=session.user_metadata,
        )
    return restore_answer(done)


def restore_answer(done: RestoreMetrics) -> pa.Table:
    """What RESTORE answers."""
    return table_of(RESTORED, [tuple(getattr(done, name) for name in _RESTORED)])
