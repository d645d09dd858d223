"""What has been asked of a store so far, counted where requests are made."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from adelta._dataclasses import dataclass
from adelta._telemetry import add

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RequestCounter", "RequestKind", "StoreStats"]

RequestKind: TypeAlias = Literal["get", "head", "list", "put", "copy", "delete"]


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What has been asked of a store since it was opened.

    `requests` counts by kind: ``get``, ``head``, ``list``, ``put``, ``copy`` and ``delete``. Of a
    far store these are requests over HTTP, every attempt counted: a page of a listing is one, each
    part of a large object is a ``put``, and so are the requests that begin and complete it; one
    ``delete`` may be of a thousand objects. On a local disk a request is one file that is opened,
    looked at, written or deleted, or one page of a listing. `bytes_read` and `bytes_written` are
    those of objects and answers, `retries` the requests that were made again.
    """

    requests: Mapping[str, int]
    bytes_read: int
    bytes_written: int
    retries: int

    @property
    def num_requests(self) -> int:
        """Requests of all kinds."""
        return sum(self.requests.values())


class RequestCounter:
    """Counts what is asked of one store; tasks and threads may share it."""

    __slots__ = ("_bytes_read", "_bytes_written", "_lock", "_requests", "_retries")

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[str] = Counter()
        self._bytes_read = self._bytes_written = self._retries = 0

    def asked(self, kind: RequestKind, *, times: int = 1, written: int = 0) -> None:
        """Requests of a kind are made, which bring so many bytes to the store."""
        with self._lock:
            self._requests[kind] += times
            self._bytes_written += written
        add("adelta.store.requests", times, kind=kind)
        if written:
            add("adelta.store.io", written, direction="write")

    def received(self, count: int) -> None:
        """So many bytes have come from the store."""
        with self._lock:
            self._bytes_read += count
        if count:
            add("adelta.store.io", count, direction="read")

    def wrote(self, count: int) -> None:
        """So many bytes more have gone to the store, by a request that has been counted."""
        with self._lock:
            self._bytes_written += count
        add("adelta.store.io", count, direction="write")

    def retried(self) -> None:
        """A request is made again."""
        with self._lock:
            self._retries += 1
        add("adelta.store.retries", 1)

    @property
    def num_requests(self) -> int:
        """Requests so far."""
        return sum(self._requests.values())

    def stats(self) -> StoreStats:
        """What has been counted until now."""
        with self._lock:
            requests = MappingProxyType(dict(sorted(self._requests.items())))
            return StoreStats(requests, self._bytes_read, self._bytes_written, self._retries)
