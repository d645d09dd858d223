"""How far a long operation is: what its `on_progress` callback is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from adelta._dataclasses import dataclass

__all__ = ["Meter", "OnProgress", "Progress", "ProgressUnit"]

ProgressUnit = Literal["files", "bytes", "rows", "objects"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operation is in one of its phases, which come one after the other.

    `phase` is a verb such as ``"rewriting"``. `done` counts in `unit` and never falls within a
    phase; `total` is what it will be at the end, or None where that is not known.
    """

    phase: str
    done: int
    total: int | None
    unit: ProgressUnit


OnProgress: TypeAlias = Callable[[Progress], object]
"""Is called on the event loop, so it must return at once; what it raises ends the operation."""


class Meter:
    """Counts what one phase has done, and tells the callback, where there is one."""

    def __init__(
        self,
        on_progress: OnProgress | None,
        phase: str,
        *,
        total: int | None = None,
        unit: ProgressUnit = "files",
    ) -> None:
        self._on_progress = on_progress
        self._now = Progress(phase, 0, total, unit)
        self._tell()

    def advance(self, count: int = 1) -> None:
        """`count` more are done."""
        now = self._now
        self._now = Progress(now.phase, now.done + count, now.total, now.unit)
        self._tell()

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._now)
