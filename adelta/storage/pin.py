"""Several reads of one object as reads of one version of it.

    pin = Pin()
    with pinned(pin):
        end = await store.get_suffix(path, 100)
    with pinned(pin):  # later: of the version of which the end was
        start = await store.get_range(path, 0, 100)

It is no argument of the port's verbs, so that a store that wraps another one cannot lose it. What
reads files of this machine by itself, in other contexts, is given the pin.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

from adelta.errors import ObjectChangedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Pin", "current_pin", "pinned"]


class Pin:
    """Holds the reads of ranges of an object inside `pinned` to what the first of them saw.

    It goes by the entity tag that every answer has, and costs no request: a store is told which tag
    is wanted once it is known, and the tags of reads that were under way together must agree. It
    may be used from several threads.
    """

    __slots__ = ("__weakref__", "_seen")

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}  # by address

    def etag(self, address: str) -> str | None:
        """The entity tag of the version that is read; None before the first answer."""
        return self._seen.get(address)

    def saw(self, address: str, etag: str | None) -> None:
        """Note the tag that an answer has; None says nothing.

        Raises:
            ObjectChangedError: it is another one than before.
        """
        if etag is not None and self._seen.setdefault(address, etag) != etag:
            raise self.broken(address)

    @staticmethod
    def broken(address: str) -> ObjectChangedError:
        """The error for an object that has been written again between two reads."""
        return ObjectChangedError(f"{address} changed while it was read: it was written again")


_pin: ContextVar[Pin | None] = ContextVar("adelta: pin", default=None)


@contextmanager
def pinned(pin: Pin) -> Iterator[Pin]:
    """Reads of ranges that are begun inside are of the version that `pin` holds to."""
    before = _pin.set(pin)
    try:
        yield pin
    finally:
        with suppress(ValueError):  # a coroutine that was left is closed in some other context
            _pin.reset(before)


def current_pin() -> Pin | None:
    """The pin of the block that the caller is in."""
    return _pin.get()
