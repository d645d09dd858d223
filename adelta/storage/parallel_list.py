"""Listing a large prefix by several requests at once, in the same order as by one.

The pages of a listing come one after the other, each request waiting for the one before. But a
listing may begin after any text, so the space of paths can be cut into ranges that are listed side
by side. Where to cut is read off the pages: if one page of a thousand went so far, so will the
next (`cuts_after`). A bad guess costs a request, never a path: ranges border on each other, and
each is listed to its end.

The number of ranges doubles from round to round, so that a short listing asks little in vain.
Pages come out in order, the earliest ranges are served first, and at most a page or two of each
range waits for its turn.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from adelta._concurrency import map_concurrent
from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from adelta.storage.object_store import ObjectMeta, ObjectStore

__all__ = ["cuts_after", "list_in_parallel"]

_FIRST_WIDTH = 4
_PAGES_A_RANGE = 2
_PRECISION = 4
_DIGITS = "0123456789"
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_ALPHABETS = (
    _DIGITS,
    _DIGITS + "abcdef",
    _DIGITS + "ABCDEF",
    _LOWER,
    _DIGITS + _LOWER,
    _DIGITS + _LOWER.upper() + _LOWER,
)


@dataclass(slots=True, eq=False)
class _Range:
    """The paths up to `end` that one listing still has to give; None is no end."""

    listing: AsyncIterator[list[ObjectMeta]]
    end: str | None
    pages: list[list[ObjectMeta]] = field(default_factory=list)
    last: list[ObjectMeta] = field(default_factory=list)
    fetched: int = 0
    done: bool = False

    async def fetch(self) -> None:
        page = await anext(self.listing, None)
        if page is None:
            self.done = True
            return
        if self.end is not None and page[-1].path > self.end:
            self.done = True
            page = [meta for meta in page if meta.path <= self.end]
        self.last = page
        self.fetched += 1
        if page:
            self.pages.append(page)


async def list_in_parallel(
    store: ObjectStore, prefix: str = "", *, start_after: str | None = None, limit: int = 16
) -> AsyncIterator[list[ObjectMeta]]:
    """Pages of exactly what ``store.list(prefix, start_after=start_after)`` gives, in that order.

    At most `limit` requests are under way at once; one, where each would list from the beginning.

    Raises: StorageError.
    """
    limit = limit if store.lists_from_anywhere else 1
    ranges = [_Range(store.list(prefix, start_after=start_after), None)]
    width = 1
    while ranges:
        todo = [each for each in ranges if not each.done][:width]
        await map_concurrent(_Range.fetch, todo, limit=min(limit, store.concurrency))
        while ranges:
            for page in ranges[0].pages:
                yield page
            ranges[0].pages.clear()
            if not ranges[0].done:
                break
            del ranges[0]
        width = min(limit, max(_FIRST_WIDTH, 2 * width))
        _split(store, prefix, ranges, width)


def _split(store: ObjectStore, prefix: str, ranges: list[_Range], width: int) -> None:
    """Cut ranges that have far to go, the earliest first, until there are `width` to fetch.

    A range that has given two pages and goes on is longer than was thought. After one page nothing
    is known: most listings end there, and that costs no request to find out.
    """
    for whole in [each for each in ranges if each.fetched > 1 and not each.done]:
        room = width - sum(not each.done for each in ranges)
        if room <= 0:
            return
        paths = [meta.path for meta in whole.last]
        cuts = cuts_after(paths, whole.end, count=room, pages=_PAGES_A_RANGE)
        if not cuts:
            continue
        at = ranges.index(whole) + 1
        ranges[at:at] = [
            _Range(store.list(prefix, start_after=cut), end)
            for cut, end in zip(cuts, [*cuts[1:], whole.end], strict=True)
        ]
        whole.end = cuts[0]


def cuts_after(paths: Sequence[str], end: str | None, *, count: int, pages: int) -> list[str]:
    """Up to `count` ascending texts between the last of `paths` and `end`.

    `paths` is a page of a listing; the cuts lie as far apart as `pages` such pages reach, if paths
    go on as they do here. Characters are read as digits: of what kind, each position tells.

    >>> page = [f"{number:04}.json" for number in range(1000)]
    >>> cuts_after(page, None, count=3, pages=2)
    ['2997.', '4995.', '6993.']
    """
    first, last = paths[0], paths[-1]
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    start = max(0, same - _PRECISION)
    alphabets = [
        _alphabet({path[at] for path in paths if len(path) > at})
        for at in range(start, same + _PRECISION)
    ]
    low, high = _number(first, start, alphabets), _number(last, start, alphabets)
    if high <= low:
        return []
    cuts: list[str] = []
    for step in range(1, count + 1):
        cut = _text(high + step * pages * (high - low), alphabets)
        if cut is None:
            break
        cut = last[:start] + cut
        if cut <= (cuts[-1] if cuts else last) or (end is not None and cut >= end):
            break
        cuts.append(cut)
    return cuts


def _alphabet(seen: set[str]) -> str:
    """The smallest usual alphabet that has every character seen, or just what was seen."""
    for alphabet in _ALPHABETS:
        if seen and seen.issubset(alphabet):
            return alphabet
    return "".join(sorted(seen)) or "0"


def _number(path: str, start: int, alphabets: Sequence[str]) -> int:
    number = 0
    for at, alphabet in enumerate(alphabets, start):
        digit = alphabet.find(path[at]) if at < len(path) else 0
        number = number * len(alphabet) + max(digit, 0)
    return number


def _text(number: int, alphabets: Sequence[str]) -> str | None:
    """The text that stands for the number, None if it has more digits than there are places."""
    characters: list[str] = []
    for alphabet in reversed(alphabets):
        number, digit = divmod(number, len(alphabet))
        characters.append(alphabet[digit])
    return None if number else "".join(reversed(characters))
