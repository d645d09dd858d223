"""Abortable: what is written piece by piece, and given up where its block fails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Abortable"]


class Abortable(ABC):
    """As an async context manager it aborts where the block fails or is cancelled."""

    @abstractmethod
    async def abort(self) -> None:
        """Give up: nothing of what was written stays."""

    async def _leave(self) -> None:
        """What the end of the block does by itself: nothing, where it has to be asked for."""
        return

    async def __aenter__(self) -> Self:
        """The writer itself."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give up where the block failed."""
        if exc_type is not None:
            await self.abort()
        else:
            await self._leave()
