"""Whether a listing goes on from page to page, or would never end (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adelta.storage.object_answers import Page

__all__ = ["ListingProgress"]

_EMPTY_PAGES = 10_000  # one after the other: far more than a store has to pass over


class ListingProgress:
    """What the pages of one listing have come to."""

    def __init__(self) -> None:
        self._token: str | None = None
        self._after = ""
        self._empty = 0
        self._seen: set[tuple[str, str]] = set()  # the ends of pages that came in no order

    def goes_on(self, page: Page, *, in_order: bool) -> bool:
        """Whether the next page of a listing, in the order of paths or in none, brings it on."""
        again = page.token is not None and page.token == self._token
        self._token = page.token
        first, last = page.objects[:1], page.objects[-1:]
        paths = [meta.path for meta in last]
        if in_order:
            paths += page.folders[-1:]
            reached = max(paths, default=self._after)
            again = again or reached < self._after or (reached == self._after and bool(paths))
            self._after = reached
        elif paths:  # pages of folders alone may be alike
            ends = first[0].path, last[0].path
            again = again or ends in self._seen
            self._seen.add(ends)
        self._empty = 0 if paths else self._empty + 1
        return not again and self._empty <= _EMPTY_PAGES
