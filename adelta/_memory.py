"""How much memory there is to use, and memory for what comes and goes in large pieces.

`memory_limit` bounds what one thing that somebody else wrote is decoded in: the JSON files of a
log, a row group, a deletion vector, the list of a table's files. It is checked before memory is
taken where the size is known, and while it grows where not. Several at once each have it.

Arrow's default pool gives memory back to the system ten milliseconds after it was freed. To get it
anew, page by page, takes as long as to decode what is put there. `lasting_pool` keeps it for some
seconds, and gives it back then.
"""

from __future__ import annotations

import os
import queue
import threading
from contextlib import suppress
from functools import cache
from typing import TypeVar

from adelta import _compute as pc
from adelta._lazy_arrow import pa
from adelta.errors import OutOfMemoryError

__all__ = ["check_memory", "default_memory_limit", "filtered", "lasting_pool", "memory_limit_of"]

R = TypeVar("R", "pa.RecordBatch", "pa.Table")

_DEFAULT_SHARE = 2  # of the machine's memory one part in so many
_LEAST_MACHINE = 1 << 30  # bytes, where the machine does not tell
_GROUPS = "/sys/fs/cgroup"

_KEPT_MS = 10_000


@cache
def default_memory_limit() -> int:
    """Half of the bytes of memory that this process may have, by the machine or its container."""
    found = [_LEAST_MACHINE]
    with suppress(OSError, ValueError, AttributeError):
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    places = [_GROUPS, f"{_GROUPS}/memory"]
    with suppress(OSError):
        for line in _text("/proc/self/cgroup").splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds in ("", "memory"):
                places.append(os.path.join(_GROUPS, kinds, path.lstrip("/")))
    for place in places:
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # none, or "max"
                found.append(int(_text(f"{place}/{name}")))
    with suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            found.append(limit)
    return max(1, min(found) // _DEFAULT_SHARE)


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def memory_limit_of(store: object) -> int:
    """The `memory_limit` that a store was opened with, in bytes."""
    return getattr(store, "memory_limit", None) or default_memory_limit()


def check_memory(needed: int, limit: int, what: str) -> None:
    """Refuse what needs more bytes of memory than `limit`; `what` names it in the message.

    Raises:
        OutOfMemoryError: it needs more.
    """
    if needed > limit:
        raise OutOfMemoryError(
            f"{what} needs {needed:,} bytes of memory or more, and memory_limit is {limit:,}. "
            "Where there is more memory than that, raise the storage option memory_limit (such as "
            "'16GiB'); if nobody meant it to be so large, restore the table to an earlier version"
        )


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


def filtered(rows: R, mask: pa.BooleanArray) -> R:
    """The rows for which `mask` is true, in memory of the `lasting_pool`.

    Where most rows stay, each column is filtered by itself: Arrow then copies runs of values, and
    not value by value as it does with all columns together.
    """
    pool = lasting_pool()
    if not rows.num_columns or 2 * mask.true_count < len(mask):
        found: R = pc.filter(rows, mask, memory_pool=pool)
        return found
    columns = [pc.filter(column, mask, memory_pool=pool) for column in rows.columns]
    return type(rows).from_arrays(columns, schema=rows.schema)


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
