from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable

VERSION = "1"
Mode = Literal["append", "overwrite"]
Rows: TypeAlias = "bytes | AsyncIterable[int] | Iterable[int]"


class Closed(Exception):
    pass


def is_name(text: str) -> bool:
    return text.isidentifier()
