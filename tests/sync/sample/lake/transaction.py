from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from lake.values import Mode, Rows

__all__ = ["Transaction"]


class Transaction:
    """Rows to be committed together."""

    def __init__(self, commits: list[list[int]], operation: str, *, fail: bool) -> None:
        self._commits = commits
        self._rows: list[int] = []
        self._fail = fail
        self._version: int | None = None
        self._kept: AsyncIterable[int] | None = None

    @property
    def version(self) -> int | None:
        """The version it became."""
        return self._version

    async def append(self, rows: Rows, mode: Mode = "append") -> None:
        """Add `rows`."""
        if mode == "overwrite":
            self._rows.clear()
        if isinstance(rows, AsyncIterable):
            async for row in rows:
                self._rows.append(row)
        else:
            self._rows.extend(rows)

    async def append_later(self, rows: AsyncIterable[int]) -> None:
        """Add `rows` at the end, when nobody can give them any more."""
        self._kept = rows

    def discard(self, row: int) -> None:
        """Take `row` out again."""
        self._rows.remove(row)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if self._kept is not None:
            await self.append(self._kept)
        if self._fail:
            raise OSError("the disk is full")
        if error is None:
            self._commits.append(self._rows)
            self._version = len(self._commits)
