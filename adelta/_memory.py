"""Memory for what comes and goes in large pieces, again and again.

Arrow's default pool gives memory back to the system ten milliseconds after it was freed. To get it
anew, page by page, takes as long as to decode what is put there. `lasting_pool` keeps it for some
seconds, and gives it back then.
"""

from __future__ import annotations

import os
import queue
import threading
from functools import cache

import pyarrow as pa

__all__ = ["lasting_pool"]

_KEPT_MS = 10_000


@cache
def lasting_pool() -> pa.MemoryPool | None:
    """The pool for rows that are decoded, and for bytes that are fetched for them.

    None, for the process's own pool, where Arrow has no other one, as on macOS and Windows, and
    where the process has chosen one.
    """
    if pa.default_memory_pool().backend_name != "mimalloc":
        return None
    if "jemalloc" not in pa.supported_memory_backends():
        return None
    found: queue.SimpleQueue[pa.MemoryPool | None] = queue.SimpleQueue()
    threading.Thread(target=_set_up, args=(found,), name="adelta-memory", daemon=True).start()
    return found.get()


def _set_up(found: queue.SimpleQueue[pa.MemoryPool | None]) -> None:
    """Find the pool, and keep others off jemalloc's first arena, which ignores what is set.

    An arena is what a thread gets memory from. The first one is there before `_KEPT_MS` is set,
    which counts for later ones alone. It goes to the thread that first uses jemalloc at all: to
    this one, which stays.
    """
    try:
        pa.jemalloc_set_decay_ms(_KEPT_MS)
        pool = pa.jemalloc_memory_pool()
        _kept = pa.allocate_buffer(1, memory_pool=pool)
    except pa.ArrowException:
        found.put(None)
        return
    found.put(pool)
    threading.Event().wait()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lasting_pool.cache_clear)  # a child has no such thread
