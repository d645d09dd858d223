"""deltalake's errors, and how adelta's become them.

The error of adelta's own, which says more (which commit won, which versions are there), is the
``__cause__`` of what is raised here.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar
from urllib.parse import unquote

from adelta import errors as e

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "CommitFailedError",
    "DeltaError",
    "DeltaProtocolError",
    "SchemaMismatchError",
    "TableNotFoundError",
]

P = ParamSpec("P")
R = TypeVar("R")


class DeltaError(Exception):
    """The base class for Delta-specific errors."""


class TableNotFoundError(DeltaError):
    """Raised when a Delta table cannot be loaded from a location."""


class CommitFailedError(DeltaError):
    """Raised when a commit to a Delta table fails."""


class DeltaProtocolError(DeltaError):
    """Raised when a violation with the Delta protocol specs occurred."""


class SchemaMismatchError(DeltaError):
    """Raised when a schema mismatch is detected."""


_OTHERS: dict[type[e.AdeltaError], tuple[type[Exception], str]] = {
    e.TableAlreadyExistsError: (DeltaError, "Generic error: A table already exists at: "),
    e.CommitConflictError: (CommitFailedError, "Failed to commit transaction: "),
    e.CommitOutcomeUnknownError: (CommitFailedError, "Failed to commit transaction: "),
    e.UnsupportedFeatureError: (DeltaProtocolError, ""),
    e.SchemaMismatchError: (SchemaMismatchError, ""),
    e.InvariantViolationError: (DeltaError, "Invalid data found: "),
    e.MissingDataFileError: (FileNotFoundError, ""),
    e.ObjectNotFoundError: (FileNotFoundError, ""),
    e.PermissionDeniedError: (PermissionError, ""),
    e.StorageError: (OSError, ""),
}

_WRONG_ROWS = re.compile(
    r" is violated by (\d+) of \d+ rows"
    r"| may not be null, and (\d+) of \d+ values given for it are null"
    r"|^(\d+) rows of .* do not satisfy ",
    re.DOTALL,
)
"""The parts of adelta's messages that say how many rows violate a rule."""


def as_deltalake_has_it(error: e.AdeltaError) -> Exception:
    """The error that deltalake raises where adelta raises `error`."""
    if isinstance(error, e.InvariantViolationError) and " is append-only: " in str(error):
        return CommitFailedError(
            "The transaction includes Remove action with data change but Delta table is "
            f"append-only: {error}"
        )
    if isinstance(error, e.InvariantViolationError) and (found := _WRONG_ROWS.search(str(error))):
        rows = found[1] or found[2] or found[3]
        return DeltaError(f"Invalid data found: {rows} rows failed validation check: {error}")
    if isinstance(error, e.MultipleMatchesError):
        return DeltaError(
            "MERGE matched a target row with multiple source rows that satisfy duplicate relevant "
            f"WHEN MATCHED clauses: {error}"
        )
    if isinstance(error, e.InvalidPropertyError) and (
        found := re.match(r"('[^']*') is not a table property", str(error))
    ):
        return DeltaError(
            f"Kernel: Generic delta kernel error: Error parsing property {found[1]}: {error}"
        )
    if isinstance(error, e.VersionNotFoundError) and (
        found := re.search(r"version (\d+) does not exist; the latest version is (\d+)", str(error))
    ):
        return DeltaError(
            f"Kernel error: Generic delta kernel error: LogSegment end version {found[2]} not the "
            f"same as the specified end version {found[1]}: {error}"
        )
    if isinstance(error, e.TableNotFoundError):
        return TableNotFoundError(f"{_where_no_table_is(str(error))}{error}")
    for kind in type(error).__mro__:
        if kind in _OTHERS:
            known, beginning = _OTHERS[kind]
            beginning = beginning or _of_a_schema(str(error))
            return known(f"{beginning}{error}")
    if isinstance(error, e.InvalidExpressionError):
        return DeltaError(f"{_in_other_words(str(error))}{error}")
    return DeltaError(str(error))


def _where_no_table_is(message: str) -> str:
    """What deltalake's message about a table that is not there begins with."""
    if message.startswith("Unknown scheme"):
        return ""
    found = re.search(r"there is no Delta table at file://(.*?): its _delta_log", message)
    if found and not os.path.isdir(path := unquote(found[1])):
        return f'Local path "{path}" does not exist or you don\'t have access! '
    return "Generic delta kernel error: No files in log segment: " if found else ""


def _in_other_words(message: str) -> str:
    """What deltalake's message about an expression begins with, where programs look for it."""
    if found := re.search(r"there is no (?:column|field of (\S+)) named '([^']*)'", message):
        within = "" if found[1] is None else f"{found[1]}."
        return f"Schema error: No field named {within}{found[2]}. "
    if found := re.search(r"^(.*) cannot be cast to (\w+): ", message, re.DOTALL):
        value, kind = found[1], _ARROW_TYPES.get(found[2], found[2].capitalize())
        if value.startswith("'"):
            word = "value" if kind == "Boolean" else "string"
            return f"Cast error: Cannot cast {word} {value} to value of {kind} type. "
        return f"Cast error: Can't cast value {value} to type {kind}. "
    return "Generic error: sql parser error: " if " at character " in message else ""


def _of_a_schema(message: str) -> str:
    """What deltalake's message about columns that no table can have begins with."""
    if found := re.search(r"is of the Arrow type (.*?),? (?:which|but) Delta", message):
        return f"Schema error: Invalid data type for Delta Lake: {_in_rust(found[1])}. "
    if found := re.search(r"has two columns '([^']*)' and '([^']*)', which", message):
        return f"Schema error: Duplicate field name (case-insensitive): '{found[2]}'. "
    if found := re.search(r"column ('[^']*') is named twice to partition by", message):
        return f"Kernel error: Generic delta kernel error: Duplicate partition column: {found[1]}. "
    return ""


def _in_rust(name: str) -> str:
    """The name of a type of Arrow's as Rust has it."""
    known = {"halffloat": "Float16", "month_day_nano_interval": "Interval(MonthDayNano)"}
    return (
        known.get(name, name[:1].upper() + name[1:])
        .translate({ord("["): "(", ord("]"): ")"})
        .replace("(us)", "(µs)")
    )


_ARROW_TYPES = {
    "byte": "Int8",
    "short": "Int16",
    "integer": "Int32",
    "long": "Int64",
    "float": "Float32",
    "double": "Float64",
    "date": "Date32",
}
"""What deltalake's messages call the types of Delta."""


@contextmanager
def as_deltalake_errors() -> Iterator[None]:
    """A block whose errors of adelta's are raised as deltalake's."""
    try:
        yield
    except e.AdeltaError as error:
        raise as_deltalake_has_it(error) from error


def raises_as_deltalake(method: Callable[P, R]) -> Callable[P, R]:
    """The function, whose errors of adelta's are raised as deltalake's."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with as_deltalake_errors():
            return method(*args, **kwargs)

    return called
