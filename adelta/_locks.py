"""Locks between threads that a forked child finds open.

A child has none of its parent's other threads: a lock that one of them held at the fork would never
be given back.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet

__all__ = ["ForkSafeLock"]


class ForkSafeLock:
    """A lock held inside a `with` block; in a forked child it is a new one, which nobody holds."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _all.add(self)

    def __enter__(self) -> None:
        """Wait for the lock, and take it."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Give the lock back."""
        self._lock.release()

    def renew(self) -> None:
        """Be a lock that nobody holds."""
        self._lock = threading.Lock()


_all: WeakSet[ForkSafeLock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_all):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
