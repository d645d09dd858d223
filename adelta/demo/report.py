"""What the demo shows a person: a progress bar on a terminal, and a line for each event.

Lines come from the event loop and from the pipeline's thread; rich serialises them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

__all__ = ["Report"]

_STYLES = {"spark": "yellow", "service": "cyan", "consumer": "green", "check": "bold"}


class Report:
    """A progress bar over lines that say who saw what, each with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("start", total=None)

    def __enter__(self) -> Report:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def expect(self, steps: int) -> None:
        """Set how many steps there will be."""
        self._progress.update(self._task, total=steps)

    def step(self, name: str, who: str = "spark") -> None:
        """Say which step begins; the one before it is done."""
        self._progress.update(self._task, description=name)
        self._progress.advance(self._task)
        self.say(who, name)

    def say(self, who: str, what: str) -> None:
        """Print a line of one of the actors."""
        line = Text()
        line.append(f"{self.seconds:6.1f} s  ", style="dim")
        line.append(f"{who:<9}", style=_STYLES.get(who, ""))
        line.append(what)
        self._console.print(line)
