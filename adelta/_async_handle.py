"""What all asynchronous handles have in common."""

from __future__ import annotations

from typing import NoReturn

from adelta.errors import InvalidUseError

__all__ = ["AsyncHandle"]


class AsyncHandle:
    """A handle for `async with`, which says so to whoever takes it for a blocking one."""

    __slots__ = ()

    def __enter__(self) -> NoReturn:
        """Refuse `with`. Raises: InvalidUseError."""
        name = type(self).__name__.lstrip("_")
        raise InvalidUseError(
            f"this {name} is asynchronous: open it by `async with`; what adelta.sync gives is for "
            "a plain `with`"
        )

    def __exit__(self, *_: object) -> None:
        """Never called: nothing was entered."""
