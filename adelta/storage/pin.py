"""Several reads of one object as reads of one version of it."""

from __future__ import annotations

from adelta.errors import ObjectChangedError

__all__ = ["Pin"]


class Pin:
    """Holds the reads of one object that it is given to, to what the first of them saw.

    It goes by the entity tag that every answer has, and costs no request: a store is told which tag
    is wanted once it is known, and the tags of reads that were under way together must agree. It
    may be used from several threads.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    @property
    def etag(self) -> str | None:
        """The entity tag of the version that is read; None before the first answer."""
        return self._seen.get("etag")

    def saw(self, address: str, etag: str | None) -> None:
        """Note the tag that an answer has; None says nothing.

        Raises:
            ObjectChangedError: it is another one than before.
        """
        if etag is not None and self._seen.setdefault("etag", etag) != etag:
            raise self.broken(address)

    @staticmethod
    def broken(address: str) -> ObjectChangedError:
        """The error for an object that has been written again between two reads."""
        return ObjectChangedError(f"{address} changed while it was read: it was written again")
