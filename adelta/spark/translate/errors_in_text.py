"""Errors of adelta's that come back from another process as the text of a traceback.

Spark tells of what failed in a Python worker, or in a server of Spark Connect's, by its text. The
last error in it is made again, so that it has its own class and delta-spark's.
"""

from __future__ import annotations

import re
from functools import wraps
from typing import Any

from pyspark.errors import PySparkException, StreamingQueryException

from adelta import errors
from adelta.spark.exceptions import as_read, as_spark_has_it

__all__ = ["error_in", "recognise_remote_errors"]

_RAISED = re.compile(
    r"^adelta\.(?:errors|spark\.exceptions)\.(\w+): (?:\[(\w[\w.]*)\] )?", re.MULTILINE
)
_BEGINS = "Traceback (most recent call last):"
_END = re.compile(r"\n\s*SQLSTATE: |\n\s*(?:JVM|Driver) stacktrace:|\n\s+at |\Z")


def error_in(text: str) -> Exception | None:
    """The error that a traceback ends with, as one of Spark's as well; None of another's."""
    found = None
    for each in _RAISED.finditer(text):
        found = each
    if found is None or _BEGINS in text[found.end() :]:
        return None
    kind = getattr(errors, found[1], None)
    if not isinstance(kind, type) or not issubclass(kind, errors.AdeltaError):
        return None
    end = _END.search(text, found.end())
    error = kind(text[found.end() : end.start() if end else None].strip())
    if found[2] is not None:
        error = as_read(error, found[2])
    known = as_spark_has_it(error)
    return known if isinstance(known, PySparkException) else None


def recognise_remote_errors() -> None:
    """Let clients of Spark Connect raise such errors as what they are, from now on."""
    from pyspark.errors.exceptions import connect  # which needs grpc
    from pyspark.sql.connect.client import core

    client: Any = core
    plain: Any = client.convert_exception
    if hasattr(plain, "__wrapped__"):
        return

    @wraps(plain)
    def convert(*arguments: Any, **named: Any) -> Any:
        converted = plain(*arguments, **named)
        if isinstance(converted, StreamingQueryException):
            return converted
        found = error_in(str(converted))
        return converted if found is None else found

    client.convert_exception = connect.convert_exception = convert
