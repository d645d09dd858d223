"""Memory for what comes and goes in large pieces, again and again.

Arrow's default pool gives memory back to the system ten milliseconds after it was freed. To get it
anew, page by page, takes as long as to decode what is put there. `lasting_pool` keeps it for some
seconds, and gives it back then.
"""

from __future__ import annotations

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
    pa.jemalloc_set_decay_ms(_KEPT_MS)
    return pa.jemalloc_memory_pool()
