"""Answers of the page's service: JSON of bounded length, in which a table's values are texts."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from adelta.console.json_values import dumps, rows
from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from aiohttp import web

__all__ = ["Asked", "cells", "pairs", "shortened", "text_of", "time_of"]

_LONGEST = 1_000  # characters of a value
_MOST_PAIRS = 100
_MOST_VERSION = 2**63 - 1


def shortened(text: str, longest: int = _LONGEST) -> str:
    """A text, or its beginning and how long it is; half of a surrogate pair is replaced."""
    text = text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"
    return text.encode("utf-8", "replace").decode()


def text_of(value: object) -> str | None:
    """A value as text; None where there is none."""
    if value is None or isinstance(value, str):
        return None if value is None else shortened(value)
    return shortened(dumps(value))


def time_of(when: dt.datetime) -> str:
    """A time as ISO 8601 text in UTC, to the millisecond."""
    return when.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def pairs(values: Mapping[str, object]) -> list[tuple[str, str | None]]:
    """Names with their values, as texts; at most some hundred."""
    items = list(values.items())
    told = [(shortened(str(name)), text_of(value)) for name, value in items[:_MOST_PAIRS]]
    if len(items) > _MOST_PAIRS:
        told.append(("…", f"{len(items) - _MOST_PAIRS:,} more"))
    return told


def cells(batch: pa.RecordBatch) -> Iterator[list[str | None]]:
    """The rows of a batch, as texts."""
    for row in rows(batch):
        yield [text_of(value) for value in row.values()]


class Asked:
    """What a request asks for, in its address."""

    def __init__(self, request: web.Request) -> None:
        self._query = request.query

    def number(self, name: str, most: int = _MOST_VERSION) -> int | None:
        """A whole number from 0 on; None where it is not given.

        Raises:
            InvalidOptionError: it is none.
        """
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > most:
            raise InvalidOptionError(
                f"{name} is a whole number up to {most:,}; {text!r:.50} is none"
            )
        return int(text)

    def text(self, name: str) -> str | None:
        """A text; None where it is not given, or empty."""
        return self._query.get(name, "").strip() or None
