"""Errors that go through the JVM: told to it as text, and recognised when they come back.

What Python tells Java of a conflict, Spark throws, and PySpark makes one of its own exceptions of
it, by a function that is extended here, as delta-spark does. delta-spark's own exceptions are
recognised, too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException, UnknownException
from pyspark.errors.exceptions import captured

from adelta.spark.classic.java_exceptions import PACKAGE
from adelta.spark.classic.native.missing_files import missing_file
from adelta.spark.exceptions import CONFLICTS, DeltaConcurrentModificationException, as_spark_has_it
from adelta.spark.translate.errors_in_text import error_in

if TYPE_CHECKING:
    from adelta.errors import AdeltaError

__all__ = ["conflict_of", "recognise_errors", "remembered"]

_MOST = 100  # that are kept for those who ask: most are asked for at once
_REFUSED = "adelta.spark.InPython$Refused"
_OF_STREAM = "org.apache.spark.sql.streaming.StreamingQueryException"
_DEEPEST = 10  # causes that are looked at

_kept: OrderedDict[str, AdeltaError] = OrderedDict()
_numbers = count()
_lock = threading.Lock()


def remembered(error: AdeltaError) -> str:
    """The word by which an error is known that comes back from the JVM."""
    error.__context__ = error.__cause__ = None  # which hold what was at hand where it was raised
    error.__traceback__ = None
    with _lock:
        token = str(next(_numbers))
        _kept[token] = error
        while len(_kept) > _MOST:
            _kept.popitem(last=False)
    return token


def recognise_errors() -> None:
    """Let PySpark raise errors that are `remembered` as what they are, from now on."""
    plain: Any = captured.convert_exception
    if hasattr(plain, "__wrapped__"):
        return

    @wraps(plain)
    def convert(error: Any) -> Any:
        found = _recognised(error)
        return plain(error) if found is None else found

    captured.convert_exception = convert  # type: ignore[assignment]  # it takes the same


def conflict_of(error: Any) -> DeltaConcurrentModificationException | None:
    """One of delta-spark's conflicts that the JVM throws, as Python's; None of other exceptions."""
    package, _, name = error.getClass().getName().rpartition(".")
    if package != PACKAGE or name not in CONFLICTS:
        return None
    return CONFLICTS[name](message=error.getMessage())


def _recognised(error: Any) -> Exception | None:
    found = _found(error)
    of_stream = error is not None and error.getClass().getName() == _OF_STREAM
    if of_stream and not isinstance(found, DeltaConcurrentModificationException):
        return None
    return found


def _found(error: Any) -> Exception | None:
    for _ in range(_DEEPEST):
        if error is None:
            return None
        if (conflict := conflict_of(error)) is not None:
            return conflict
        if error.getClass().getName() == _REFUSED:
            token = error.token()
            with _lock:
                found = None if token is None else _kept.pop(token, None)
            known = None if found is None else as_spark_has_it(found)
            has_class = isinstance(known, PySparkException)
            return known if has_class and not isinstance(known, UnknownException) else None
        message = error.getMessage() or ""
        told = error_in(message)
        if told is not None:
            return told
        missing = missing_file(message)
        if missing is not None:
            return as_spark_has_it(missing)
        error = error.getCause()
    return None
