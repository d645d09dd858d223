"""Action reconciliation: commits, in order, become the live files and tombstones that they leave.

The newest action on a file wins (PROTOCOL.md, "Action Reconciliation"). The keys of the commits are
the only seen-set: a checkpoint part is filtered against them read-only, so parts are filtered
independently and in any order.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import empty_table, scalar_of
from adelta._dataclasses import dataclass
from adelta.kernel.actions.file_schemas import ADD_SCHEMA, REMOVE_SCHEMA
from adelta.kernel.actions.json import (
    VERSION_COLUMN,
    ActionBatch,
    tables_of_adds,
    tables_of_removes,
)
from adelta.kernel.file_id import file_ids, paths_of, suspect_paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "ReconciledTail",
    "anti_join",
    "anti_join_mask",
    "of_before",
    "reconcile",
    "reconcile_actions",
]

arrow: Any = pa  # and know neither ranges nor tables of chunked arrays

_ROWS_A_SPLIT = 256  # fewer on average, and a copy is the better
_BEFORE = -1  # the version that stands for all those before the first one of some batches


@dataclass(frozen=True, slots=True)
class ReconciledTail:
    """What some commits leave: live `adds`, `tombstones`, and the `keys` of every file they name.

    `paths` are the canonical paths of the same files, for a quick first test.
    """

    adds: pa.Table
    tombstones: pa.Table
    keys: pa.Array[Any]
    paths: pa.Array[Any]

    @property
    def nbytes(self) -> int:
        """Its memory in bytes."""
        return sum(each.nbytes for each in (self.adds, self.tombstones, self.keys, self.paths))

    @classmethod
    def nothing(cls) -> ReconciledTail:
        """What no commit leaves."""
        none = arrow.nulls(0, pa.string())
        adds, removes = (pa.Table.from_batches([], s) for s in (ADD_SCHEMA, REMOVE_SCHEMA))
        return cls(adds, removes, none, none)

    def keys_alone(self) -> ReconciledTail:
        """The same without the files: all that is asked of it about other files."""
        return ReconciledTail(
            empty_table(ADD_SCHEMA), empty_table(REMOVE_SCHEMA), self.keys, self.paths
        )


def reconcile(
    batches: Sequence[ActionBatch],
    root: str,
    *,
    onto: ReconciledTail | None = None,
) -> ReconciledTail:
    """What the commits of `batches`, oldest first, leave, after those that left `onto`.

    Example: commits that add a, remove a and add b leave the live file b and the tombstone a.
    """
    adds = _stacked(tables_of_adds(batches), onto.adds if onto else None, ADD_SCHEMA)
    gone = onto.tombstones if onto else None
    removes = _stacked(tables_of_removes(batches), gone, REMOVE_SCHEMA)
    return reconcile_actions(adds, removes, root)


def reconcile_actions(adds: pa.Table, removes: pa.Table, root: str) -> ReconciledTail:
    """What file actions, each with its version in a further column, leave."""
    if adds.num_rows + removes.num_rows == 0:
        return ReconciledTail.nothing()
    add_keys, remove_keys = file_ids(adds, root), file_ids(removes, root)
    keys = arrow.chunked_array([*add_keys.chunks, *remove_keys.chunks], pa.string())
    seen = pc.unique(keys)
    if len(seen) == len(keys):  # no file is named twice: there is nothing to decide
        paths = paths_of(seen)
        live, gone = adds.drop_columns([VERSION_COLUMN]), removes.drop_columns([VERSION_COLUMN])
        return ReconciledTail(live, gone, seen, paths)
    versions = arrow.chunked_array(
        [*adds.column(VERSION_COLUMN).chunks, *removes.column(VERSION_COLUMN).chunks], pa.int64()
    )
    kind = arrow.concat_arrays(
        [
            arrow.repeat(scalar_of(1, pa.int8()), adds.num_rows),
            arrow.repeat(scalar_of(0, pa.int8()), removes.num_rows),
        ]
    )
    index = arrow.arange(0, len(keys))
    order = pc.sort_indices(
        arrow.table({"v": versions, "k": kind, "i": index}),
        sort_keys=[("v", "descending"), ("k", "descending"), ("i", "descending")],
    )
    # of each key the first row in descending order is the action that counts
    newest_first = keys.take(order)
    seen = pc.unique(newest_first)
    winners = pc.take(order, pc.index_in(seen, value_set=newest_first)).cast(pa.int64())
    winners = winners.take(pc.sort_indices(winners))
    first_gone = scalar_of(adds.num_rows, pa.int64())
    is_add = pc.less(winners, first_gone)
    live = adds.take(winners.filter(is_add)).drop_columns([VERSION_COLUMN])
    gone = removes.take(pc.subtract(winners.filter(pc.invert(is_add)), first_gone))
    paths = paths_of(seen)
    return ReconciledTail(live, gone.drop_columns([VERSION_COLUMN]), seen, paths)


def of_before(files: pa.Table) -> pa.Table:
    """File actions that stand before every commit, with the column of their version."""
    versions = arrow.repeat(scalar_of(_BEFORE, pa.int64()), files.num_rows)
    return files.append_column(pa.field(VERSION_COLUMN, pa.int64()), versions)


def _stacked(tables: Sequence[pa.Table], before: pa.Table | None, schema: pa.Schema) -> pa.Table:
    stack = [table for table in tables if table.num_rows]
    if before is not None and before.num_rows:
        stack.insert(0, of_before(before))
    if not stack:
        return empty_table(schema.append(pa.field(VERSION_COLUMN, pa.int64())))
    return pa.concat_tables(stack) if len(stack) > 1 else stack[0]


def anti_join_mask(files: pa.Table, tail: ReconciledTail, root: str) -> pa.ChunkedArray[Any] | None:
    """Which rows of a checkpoint part the commits after it leave standing; None means all.

    `files` has the columns `path` and `deletion_vector`.
    """
    if len(tail.keys) == 0 or files.num_rows == 0:
        return None
    paths = files.column("path")
    suspects = pc.is_in(paths, value_set=tail.paths)
    suspects = pc.or_(suspects, suspect_paths(paths))
    if not pc.any(suspects).as_py():
        return None
    rows = pc.indices_nonzero(suspects)
    dead = pc.is_in(file_ids(files.take(rows), root), value_set=tail.keys)
    if not pc.any(dead).as_py():
        return None
    numbers = arrow.arange(0, files.num_rows).cast(pa.uint64())
    mask: pa.ChunkedArray[Any] = arrow.chunked_array(
        [pc.invert(pc.is_in(numbers, value_set=rows.filter(dead)))]
    )
    return mask


def anti_join(files: pa.Table, tail: ReconciledTail, root: str) -> pa.Table:
    """The rows of `files` that the commits after it leave standing.

    Chunks that lose few rows are split there, and share their memory with the answer as do those
    that lose none; what loses more is copied.
    """
    mask = anti_join_mask(files, tail, root)
    if mask is None:
        return files
    kept, start = [], 0
    for batch in files.to_batches():
        here: Any = mask.slice(start, batch.num_rows).combine_chunks()
        start += batch.num_rows
        if here.false_count * _ROWS_A_SPLIT > batch.num_rows:
            kept.append(pc.filter(batch, here))
        else:
            kept += _without(batch, pc.indices_nonzero(pc.invert(here)).to_pylist())
    return pa.Table.from_batches(kept, files.schema)


def _without(batch: pa.RecordBatch, rows: list[int]) -> Iterator[pa.RecordBatch]:
    """The batch in the pieces between these rows."""
    for before, row in itertools.pairwise([-1, *rows, batch.num_rows]):
        if row - before > 1:
            yield batch.slice(before + 1, row - before - 1)
