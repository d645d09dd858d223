"""The time by which what the log holds may expire.

Commits, tombstones, application transactions and sidecars expire by times that other machines have
told, and a clock that is ahead of these would delete what others still need. The store's clock
tells the time of files to all of them alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adelta.storage.object_store import ObjectStore

__all__ = ["expiry_time_ms"]


async def expiry_time_ms(store: ObjectStore, now_ms: int) -> int:
    """`now_ms`, as this machine says, or the time by the store's clock where that is behind."""
    store_ms = await store.now_ms()
    return now_ms if store_ms is None else min(now_ms, store_ms)
