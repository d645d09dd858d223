"""When changes say that they are made: where they are committed, by the later of two clocks.

What is removed expires by that time, and what applications have done is forgotten by it. A
transaction may have been open for longer than either is kept, and this machine's clock may be
behind that of the store, by whose time clean-up tells how old things are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.kernel.transaction.removal import removed_at
from adelta.write.commit_options import as_options_say

if TYPE_CHECKING:
    from adelta.kernel.staged import StagedChanges
    from adelta.storage.object_store import ObjectStore
    from adelta.write.commit_options import CommitOptions

__all__ = ["as_committed"]


async def as_committed(
    staged: StagedChanges, options: CommitOptions, store: ObjectStore, now_ms: int
) -> StagedChanges:
    """The changes, as a commit with these options says them, which is made at `now_ms` or later."""
    if staged.removes.num_rows or staged.set_transactions or options.set_transactions:
        store_ms = await store.now_ms()
        now_ms = now_ms if store_ms is None else max(now_ms, store_ms)
        recorded = tuple(
            replace(each, last_updated=max(each.last_updated or 0, now_ms))
            for each in staged.set_transactions
        )
        removes = removed_at(staged.removes, now_ms)
        staged = replace(staged, removes=removes, set_transactions=recorded)
    return as_options_say(staged, options, now_ms)
