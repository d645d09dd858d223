"""Arrow's complaints about a Parquet object, said in adelta's errors.

Everything that Arrow raises while it reads an object names the object here, once.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from adelta._lazy_arrow import pa
from adelta.errors import (
    AdeltaError,
    InvalidTableError,
    ObjectChangedError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["reading", "rows_missing", "unchanged"]


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Translate what Arrow raises while it reads the object at `path`.

    Raises:
        InvalidTableError: the object is damaged, or is no Parquet.
        UnsupportedFeatureError: it uses a part of Parquet that Arrow does not read.
    """
    try:
        yield
    except (AdeltaError, MemoryError):
        raise
    except (NotImplementedError, pa.ArrowNotImplementedError) as error:
        raise UnsupportedFeatureError(
            f"{path}: uses a part of Parquet that Arrow {pa.__version__} does not read: {error}. "
            "Read the table with Spark, or rewrite the file."
        ) from error
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError) as error:
        raise InvalidTableError(
            f"{path}: cannot be read as Parquet: {error}. The object is damaged: restore it, or "
            "remove it from the table."
        ) from error


@contextmanager
def unchanged(path: str) -> Iterator[None]:
    """Say what it means that the object at `path` was written again while it was read.

    Raises:
        InvalidTableError: it was.
    """
    try:
        yield
    except ObjectChangedError as error:
        raise InvalidTableError(
            f"{path}: {error}. Data files are never overwritten in a Delta table: find out what "
            "wrote this one again."
        ) from error


def rows_missing(path: str, found: int, said: int) -> InvalidTableError:
    """The error for an object that has not as many rows as its footer says."""
    return InvalidTableError(
        f"{path}: holds {found:,} rows where its footer says {said:,}. The object is damaged: "
        "restore it, or remove it from the table."
    )
