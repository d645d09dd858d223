"""Action reconciliation: commits, in order, become the live files and tombstones that they leave.

The newest action on a file wins (PROTOCOL.md, "Action Reconciliation"). The keys of the commits are
the only seen-set: a checkpoint part is filtered against them read-only, so parts are filtered
independently and in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from adelta.kernel.actions.file_actions import ADD_SCHEMA, REMOVE_SCHEMA
from adelta.kernel.actions.json import VERSION_COLUMN, ActionBatch
from adelta.kernel.file_set import file_keys, not_canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ReconciledTail", "reconcile", "survivors"]


@dataclass(frozen=True, slots=True)
class ReconciledTail:
    """What some commits leave: live `adds`, `tombstones`, and the `keys` of every file they name.

    `paths` are the canonical paths of the same files, for a quick first test.
    """

    adds: pa.Table
    tombstones: pa.Table
    keys: pa.Array
    paths: pa.Array

    @classmethod
    def nothing(cls) -> ReconciledTail:
        """What no commit leaves."""
        none = pa.array([], pa.string())
        return cls(ADD_SCHEMA.empty_table(), REMOVE_SCHEMA.empty_table(), none, none)


def reconcile(batches: Sequence[ActionBatch], root: str | None = None) -> ReconciledTail:
    """What the commits of `batches`, oldest first, leave.

    Example: commits that add a, remove a and add b leave the live file b and the tombstone a.
    """
    adds = _stacked([b.adds for b in batches], ADD_SCHEMA)
    removes = _stacked([b.removes for b in batches], REMOVE_SCHEMA)
    if adds.num_rows + removes.num_rows == 0:
        return ReconciledTail.nothing()
    add_keys, remove_keys = file_keys(adds, root), file_keys(removes, root)
    keys = pa.chunked_array([*add_keys.chunks, *remove_keys.chunks], pa.string())
    versions = pa.chunked_array(
        [*adds.column(VERSION_COLUMN).chunks, *removes.column(VERSION_COLUMN).chunks], pa.int64()
    )
    kind = pa.concat_arrays(
        [
            pa.repeat(pa.scalar(1, pa.int8()), adds.num_rows),
            pa.repeat(pa.scalar(0, pa.int8()), removes.num_rows),
        ]
    )
    index = pa.arange(0, len(keys))
    order = pc.sort_indices(
        pa.table({"v": versions, "k": kind, "i": index}),
        sort_keys=[("v", "ascending"), ("k", "ascending"), ("i", "ascending")],
    )
    # the last row of each key, in ascending order of version, is the action that counts
    ranked = pa.table({"key": keys.take(order), "rank": pa.arange(0, len(keys))})
    last = ranked.group_by("key", use_threads=False).aggregate([("rank", "max")])
    winners = pc.take(order, last.column("rank_max").combine_chunks()).cast(pa.int64())
    winners = winners.take(pc.sort_indices(winners))
    is_add = pc.less(winners, adds.num_rows)
    live = adds.take(winners.filter(is_add)).drop_columns([VERSION_COLUMN])
    gone = removes.take(pc.subtract(winners.filter(pc.invert(is_add)), adds.num_rows))
    seen = last.column("key").combine_chunks()
    paths = pc.unique(pc.list_element(pc.split_pattern(seen, "\x00", max_splits=1), 0))
    return ReconciledTail(live, gone.drop_columns([VERSION_COLUMN]), seen, paths)


def _stacked(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    if not tables:
        return schema.append(pa.field(VERSION_COLUMN, pa.int64())).empty_table()
    return pa.concat_tables(tables) if len(tables) > 1 else tables[0]


def survivors(
    files: pa.Table, tail: ReconciledTail, root: str | None = None
) -> pa.ChunkedArray | None:
    """Which rows of a checkpoint part the commits after it leave standing; None means all.

    `files` has the columns `path` and `deletion_vector`.
    """
    if len(tail.keys) == 0 or files.num_rows == 0:
        return None
    paths = files.column("path")
    suspects = pc.is_in(paths, value_set=tail.paths)
    suspects = pc.or_(suspects, not_canonical(paths))
    if not pc.any(suspects).as_py():
        return None
    rows = pc.indices_nonzero(suspects)
    dead = pc.is_in(file_keys(files.take(rows), root), value_set=tail.keys)
    if not pc.any(dead).as_py():
        return None
    return pa.chunked_array(
        [
            pc.invert(
                pc.is_in(
                    pa.arange(0, files.num_rows).cast(pa.uint64()), value_set=rows.filter(dead)
                )
            )
        ]
    )
