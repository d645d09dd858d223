"""OPTIMIZE and REORG: files written anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._concurrency import in_thread
from adelta.kernel.schema.alteration import shown
from adelta.operations.optimize import optimize
from adelta.operations.rearrange.metrics import OptimizeMetrics
from adelta.operations.reorg import reorg_purge
from adelta.sql.records import hadoop_location, metrics_record, metrics_type, table_of

if TYPE_CHECKING:
    from adelta.kernel.expressions.nodes import Node
    from adelta.sql.session import Session
    from adelta.sql.statements import Optimize, Reorg
    from adelta.table import Table

__all__ = ["optimize_answer", "run_optimize", "run_reorg"]

_OURS = ("versions", "num_bins_lost", "dry_run")  # which Delta Spark does not tell of

OPTIMIZED = pa.schema(
    [("path", pa.string()), ("metrics", metrics_type(OptimizeMetrics, without=_OURS))]
)
"""The columns of OPTIMIZE and REORG."""


async def run_optimize(statement: Optimize, session: Session) -> pa.Table:
    """Write small files, or all, anew."""
    async with session.opened(statement.table) as table:
        done = await optimize(
            table,
            where=await _where(statement, table, session),
            zorder_by=tuple(map(shown, statement.zorder_by)) or None,
            full=statement.full,
            user_metadata=session.user_metadata,
        )
        return optimize_answer(table.uri, done)


async def run_reorg(statement: Reorg, session: Session) -> pa.Table:
    """Write files anew that hold what was deleted."""
    async with session.opened(statement.table) as table:
        done = await reorg_purge(
            table,
            await _where(statement, table, session),
            user_metadata=session.user_metadata,
        )
        return optimize_answer(table.uri, done)


async def _where(statement: Optimize | Reorg, table: Table, session: Session) -> Node | None:
    if statement.where is None:
        return None
    schema = (await table.snapshot()).delta_schema
    last = statement.table.parts[-1] if statement.table.parts else None
    return await in_thread(session.condition, statement.where.node, schema, last)


def optimize_answer(uri: str, done: OptimizeMetrics) -> pa.Table:
    """What OPTIMIZE answers."""
    return table_of(OPTIMIZED, [(hadoop_location(uri), metrics_record(done, without=_OURS))])
