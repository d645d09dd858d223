"""JSON values one behind the other, over as many lines as they like.

Commit files have an action a line. Readers that take a stream of values, as delta-kernel's Rust
does, also read files whose actions are spread over several lines, so people have such files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["json_values"]

_SPACE = re.compile(rb"[ \t\r\n]*+")
_WORD = re.compile(rb"[^ \t\r\n]++")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\]]', re.DOTALL)


def json_values(data: bytes, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The place and the text of each value from `start` on, with white space between them.

    Nothing is left out: what has no end goes to the end of the data, and what is no JSON is given
    like anything else. So whoever parses every text has read all, or fails.

    Example: of ``{"a": 1} {}`` these are ``{"a": 1}`` at 0 and ``{}`` at 9.
    """
    size = len(data)
    while (start := _end(_SPACE, data, start)) < size:
        end = _close(data, start) if data[start] in b"{[" else start
        end = _end(_WORD, data, end)  # what is stuck to a value is no white space
        yield start, data[start:end]
        start = end


def _end(pattern: re.Pattern[bytes], data: bytes, start: int) -> int:
    match = pattern.match(data, start)
    return start if match is None else match.end()


def _close(data: bytes, start: int) -> int:
    """The end of the object or array that begins at `start`; the data's where it has none."""
    depth = 0
    for token in _TOKEN.finditer(data, start):
        match data[token.start()]:
            case 0x7B | 0x5B:  # {[
                depth += 1
            case 0x7D | 0x5D:  # }]
                depth -= 1
                if not depth:
                    return token.end()
            case _ if token.end() == token.start() + 1:  # a text that does not end
                break
    return len(data)
