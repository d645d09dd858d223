"""A bar on a terminal, for what takes long."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bar,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Task
    from rich.text import Text

    from adelta.progress import OnProgress, Progress

__all__ = ["progress_bar"]


@contextmanager
def progress_bar() -> Iterator[OnProgress | None]:
    """What to give an operation as `on_progress`; None where standard error is no terminal.

    Each phase of the operation is a line on standard error, which is gone at the end.
    """
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), _Amount(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        phases: dict[str, int] = {}

        def show(now: Progress) -> None:
            if now.phase not in phases:
                phases[now.phase] = bar.add_task(now.phase, total=now.total, unit=now.unit)
            bar.update(phases[now.phase], completed=now.done, total=now.total)  # type: ignore[arg-type]

        yield show


class _Amount(ProgressColumn):
    """How much is done: bytes as people write them, all else counted."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes, self._count = DownloadColumn(), MofNCompleteColumn()

    def render(self, task: Task) -> Text:
        """The amount of one phase."""
        return (self._bytes if task.fields["unit"] == "bytes" else self._count).render(task)
