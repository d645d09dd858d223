"""What file systems of fsspec say of files, and of failures, as the port has it.

Each says in words of its own when a file was changed, if it does at all. Errors are what its
library raises: those of Python for what is absent or forbidden, and any other ones for the rest.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from adelta.errors import (
    AdeltaError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["etag_of", "is_answer", "modified_ms", "translated"]

_TIMES = (
    "mtime",
    "LastModified",
    "last_modified",
    "modified",
    "modify",
    "updated",
    "last_write_time",
    "modificationTime",
    "date_time",
    "created",
)
"""Under which names the time of the last change is told, the most exact ones first."""
_TAGS = ("ETag", "etag", "md5", "sha", "content_md5", "checksum", "CRC")
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_FOUND_ABSENT = (*_ABSENT, KeyError, IndexError, StopIteration)
"""What an error of absence may come from; another cause is a failure to look."""


def modified_ms(info: Mapping[str, Any]) -> int | None:
    """When a file was changed, in milliseconds since the Unix epoch; None where it is not told."""
    for name in _TIMES:
        if (found := _ms(info.get(name))) is not None:
            return found
    return None


def _ms(value: Any) -> int | None:
    if isinstance(value, datetime):
        at = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return round(at.timestamp() * 1000)
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):  # milliseconds, where seconds would be 5,000 years
        return round(value if value > 100_000_000_000 else value * 1000)
    if isinstance(value, tuple) and len(value) == 6:  # of ZIP archives
        return _ms(datetime(*value))
    if isinstance(value, str):
        return _of_text(value)
    return None


def _of_text(value: str) -> int | None:
    try:
        if value[:14].isdecimal() and len(value) >= 14:  # of FTP
            return _ms(datetime.strptime(value[:14], "%Y%m%d%H%M%S"))
        return _ms(datetime.fromisoformat(value))
    except ValueError:
        return None


def etag_of(info: Mapping[str, Any], size: int, modified: int | None) -> str:
    """What tells versions of a file apart: a tag where there is one, else its time and size."""
    for name in _TAGS:
        if info.get(name):
            return str(info[name])
    return f"{modified}-{size}"


def is_answer(error: BaseException) -> bool:
    """Whether the other end has said something that asking again will not change."""
    return isinstance(error, PermissionError | NotImplementedError) or _is_absence(error)


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Raise what a file system raises in the block as the port's error of an address."""
    try:
        yield
    except AdeltaError:
        raise
    except Exception as error:
        if _is_absence(error):
            raise ObjectNotFoundError(f"there is no object at {address}") from error
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error, PermissionError):
            raise PermissionDeniedError(f"{address} must not be accessed: {said}") from error
        if isinstance(error, NotImplementedError):
            raise StorageError(
                f"{address}: this file system of fsspec cannot do that; copy the table to a store "
                "that can be written to"
            ) from error
        raise StorageError(f"the file system failed on {address}: {said}") from error


def _is_absence(error: BaseException) -> bool:
    """Whether it says that there is no such file, and not that looking for it has failed."""
    cause = error.__cause__
    return isinstance(error, _ABSENT) and (cause is None or isinstance(cause, _FOUND_ABSENT))
