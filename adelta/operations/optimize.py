"""OPTIMIZE: the same rows in files that are better to read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adelta._arguments import check_count, checked
from adelta._clock import moment
from adelta._concurrency import in_thread
from adelta.errors import InvalidOptionError
from adelta.kernel.schema.alteration import shown
from adelta.operations.rearrange.bins import file_sizes
from adelta.operations.rearrange.columns import clustered_columns, z_order_columns
from adelta.operations.rearrange.compaction import compact
from adelta.operations.rearrange.cubes import CubeSizes, plan_clustering, plan_z_order
from adelta.operations.rearrange.metrics import OptimizeMetrics
from adelta.operations.rearrange.partitions import files_in_partitions
from adelta.operations.rearrange.run import Rearrangement, look
from adelta.table import opened
from adelta.write.conditions import condition_of, said_of
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import timedelta

    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.expressions.nodes import Node
    from adelta.progress import OnProgress
    from adelta.table import Table, TableOrAddress

__all__ = ["OptimizeMetrics", "optimize", "rearranged"]


@checked
async def optimize(
    table: TableOrAddress,
    *,
    where: Where | None = None,
    by_statistics: bool = False,
    zorder_by: Iterable[str] | None = None,
    full: bool = False,
    target_size: int | None = None,
    min_file_size: int | None = None,
    max_commit_interval: timedelta | None = None,
    concurrency: int | None = None,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> OptimizeMetrics:
    """Write files of a table anew, so that it is read faster: the same rows in better files.

    Files smaller than `min_file_size` are joined, partition by partition and in the order in which
    their rows came, into files of about `target_size` bytes; so are files of which more than one
    row in twenty is deleted, which rids the table of these rows. `target_size` is by default the
    table's property ``delta.targetFileSize``, or 1 GiB, and `min_file_size` is `target_size`.
    `where` is a predicate over partition columns that leaves the other partitions alone; with
    `by_statistics` over any columns, and what is left alone are the files whose statistics say that
    they have no such row.

    With `zorder_by` all rows of a partition are sorted by these columns at once, along a Z-order
    curve, into files of about `target_size`: whoever asks for few values of any of them reads few
    files. A partition that is in this order already is left alone. The rows of a table with
    clustering columns (`cluster_by`) are sorted along a Hilbert curve by these: those of new files,
    together with those that were clustered before in too small a number. With `full` files that
    were clustered by other columns, too.

    Readers and streams see no change: rows keep their values, ids and versions, and every commit is
    marked as one that changes no data. Where there is nothing to gain, nothing is committed. Other
    writers go on meanwhile. A group of files from which one of them takes rows is left as it is,
    and counted in `num_bins_lost`; all else is committed, at the end, or several times where a run
    lasts longer than `max_commit_interval`.

    So many groups are written at once as `concurrency` says; None leaves that to the handle. With
    `dry_run` nothing is written, and the metrics tell what would be. `on_progress` is told of the
    bytes that are written anew. Memory is bounded: rows that are sorted wait on the local disk.

    Raises:
        TableNotFoundError: there is no table.
        InvalidOptionError: a size is not positive, `where` is not about partitions alone and not
            `by_statistics`, or `zorder_by` names a partition column; or the table is clustered, and
            `where` or `zorder_by` is given, or it is not, and `full` is.
        InvalidExpressionError: `where` cannot be parsed, or does not fit the schema.
        SchemaMismatchError: there is no such column, or its type has no order.
        InvalidUseError: files have no statistics of a column of `zorder_by`; or the table's catalog
            does not permit it.
        CommitConflictError: another commit changed the table's protocol, or how files are to be.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        InvalidTableError: a file is damaged, or not there.
        StorageError: the store refused or failed.
    """
    check_count("target_size", target_size, least=1)
    check_count("min_file_size", min_file_size)
    check_count("concurrency", concurrency, least=1)
    condition = await condition_of(where, now=moment())
    async with opened(table, storage_options) as handle:
        return await rearranged(
            handle,
            condition,
            tuple(zorder_by or ()),
            said=await said_of(condition),
            by_statistics=by_statistics,
            full=full,
            target_size=target_size,
            min_file_size=min_file_size,
            max_commit_interval=max_commit_interval,
            concurrency=concurrency,
            dry_run=dry_run,
            on_progress=on_progress,
            user_metadata=user_metadata,
        )


async def rearranged(
    handle: Table,
    condition: Node | None,
    order: Sequence[str] = (),
    *,
    said: Sequence[str],
    by_statistics: bool = False,
    full: bool = False,
    target_size: int | None = None,
    min_file_size: int | None = None,
    max_commit_interval: timedelta | None = None,
    concurrency: int | None = None,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    user_metadata: str | None = None,
) -> OptimizeMetrics:
    """What `optimize` does, of which the history says that its condition is as `said`.

    Raises: as `optimize` does.
    """
    base = await look(handle)
    clustered = await clustered_columns(base)
    columns = clustered or z_order_columns(base.configuration, order)
    _check_goes_together(handle.uri, condition, order, is_clustered=bool(clustered), full=full)
    run = Rearrangement(
        handle,
        _request(said, columns, user_metadata, is_clustered=bool(clustered), full=full),
        max_commit_interval=max_commit_interval,
        concurrency=concurrency,
        on_progress=on_progress,
    )
    sizes = file_sizes(base.configuration, target_size, min_file_size)
    choice = partial(files_in_partitions, handle.uri, condition, by_statistics=by_statistics)
    if not columns:
        return await compact(handle, run, base, choice, sizes, dry_run=dry_run)
    files = await choice(base)
    rows = await in_thread(lambda: list(files.rows()))
    if clustered:
        plan = await in_thread(
            plan_clustering, base.configuration, rows, columns, sizes, CubeSizes(), full=full
        )
    else:
        plan = await in_thread(plan_z_order, base.configuration, rows, columns, sizes)
    if not dry_run:
        await run.carry_out(base, plan)
    return run.metrics(plan, dry_run=dry_run)


def _check_goes_together(
    uri: str, where: Node | None, order: Sequence[str], *, is_clustered: bool, full: bool
) -> None:
    if is_clustered and (where is not None or order):
        name = "where" if where is not None else "zorder_by"
        raise InvalidOptionError(
            f"{uri} is clustered, and optimised as its clustering columns say; leave out {name}, "
            "or change the columns by adelta.cluster_by",
            reason=f"{name}_of_clustered_table",
        )
    if full and not is_clustered:
        raise InvalidOptionError(
            f"{uri} has no clustering columns, and full is for tables that have some; leave it out"
        )


def _request(
    said: Sequence[str],
    columns: Sequence[tuple[str, ...]],
    user_metadata: str | None,
    *,
    is_clustered: bool,
    full: bool,
) -> TransactionRequest:
    names = [shown(path) for path in columns]
    return TransactionRequest(
        operation="OPTIMIZE",
        parameters={
            "predicate": list(said),
            "zOrderBy": [] if is_clustered else names,
            "clusterBy": names if is_clustered else [],
            "auto": False,
            "isFull": full if is_clustered else None,
        },
        user_metadata=user_metadata,
    )
