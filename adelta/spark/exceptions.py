"""Errors as Spark's users catch them: by adelta's names, and by PySpark's and delta-spark's, too.

What `DeltaTable` raises is at once the error of `adelta.errors` that it is elsewhere, and the one
that delta-spark raises there: of a table that is not there ``except AnalysisException`` and
``except TableNotFoundError`` both hear. The classes of conflicts bear delta-spark's names.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
)

from adelta import errors as e

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "DeltaConcurrentModificationException",
    "MetadataChangedException",
    "ProtocolChangedException",
    "WrongTypeError",
    "as_spark_has_it",
    "raises_as_spark",
]

P = ParamSpec("P")
R = TypeVar("R")


class WrongTypeError(e.InvalidOptionError, TypeError):
    """Raised when an argument is of another type than it has to be."""


class DeltaConcurrentModificationException(PySparkException):  # delta-spark's names
    """Another commit won, and the work has to be done again."""


class ConcurrentWriteException(DeltaConcurrentModificationException):
    """Another commit came between that nothing more is known of."""


class ConcurrentAppendException(DeltaConcurrentModificationException):
    """Another commit added files that this one should have read."""


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    """Another commit removed files that this one has read."""


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    """Another commit removed a file that this one removes too."""


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    """Another commit moved an application's transaction that this one uses."""


class MetadataChangedException(DeltaConcurrentModificationException):
    """Another commit changed the table's metadata."""


class ProtocolChangedException(DeltaConcurrentModificationException):
    """Another commit changed the table's protocol."""


_SPARKS: dict[type[e.AdeltaError], tuple[type[PySparkException], str | None]] = {
    e.ConcurrentAppendError: (ConcurrentAppendException, "DELTA_CONCURRENT_APPEND"),
    e.ConcurrentDeleteDeleteError: (
        ConcurrentDeleteDeleteException,
        "DELTA_CONCURRENT_DELETE_DELETE",
    ),
    e.ConcurrentDeleteReadError: (ConcurrentDeleteReadException, "DELTA_CONCURRENT_DELETE_READ"),
    e.ConcurrentTransactionError: (ConcurrentTransactionException, "DELTA_CONCURRENT_TRANSACTION"),
    e.MetadataChangedError: (MetadataChangedException, "DELTA_METADATA_CHANGED"),
    e.ProtocolChangedError: (ProtocolChangedException, "DELTA_PROTOCOL_CHANGED"),
    e.CommitConflictError: (ConcurrentWriteException, "DELTA_CONCURRENT_WRITE"),
    e.TableNotFoundError: (AnalysisException, "DELTA_MISSING_DELTA_TABLE"),
    e.TableAlreadyExistsError: (AnalysisException, "DELTA_TABLE_ALREADY_EXISTS"),
    e.VersionNotFoundError: (AnalysisException, None),
    e.UnsupportedFeatureError: (AnalysisException, None),
    e.SchemaMismatchError: (AnalysisException, None),
    e.InvalidExpressionError: (AnalysisException, None),
    e.InvalidPropertyError: (AnalysisException, None),
    e.InvalidStatementError: (ParseException, None),
    e.InvalidUseError: (AnalysisException, None),
    e.HistoryRetainedError: (AnalysisException, None),
    e.InvalidOptionError: (IllegalArgumentException, None),
    e.InvariantViolationError: (SparkRuntimeException, None),
}
_made: dict[type[e.AdeltaError], type[e.AdeltaError]] = {}


def as_spark_has_it(error: e.AdeltaError) -> e.AdeltaError:
    """The error as one of Spark's as well; itself where Spark's users know none for it."""
    kind = type(error)
    known = next((base for base in kind.__mro__ if base in _SPARKS), None)
    if known is None or isinstance(error, PySparkException):
        return error
    spark_kind, condition = _SPARKS[known]
    if kind not in _made:
        members = {"__str__": _message, "__reduce__": _reduced, "__doc__": kind.__doc__}
        _made[kind] = type(kind.__name__, (kind, spark_kind), members)
    found: Any = _made[kind].__new__(_made[kind], *error.args)
    spark_kind.__init__(found, message=str(error), errorClass=condition)
    found.args = error.args
    vars(found).update(vars(error))
    found.adeltas_own = error
    return found.with_traceback(error.__traceback__)  # type: ignore[no-any-return]


def raises_as_spark(method: Callable[P, R]) -> Callable[P, R]:
    """The method, whose errors of adelta's are Spark's as well."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except e.AdeltaError as error:
            found = as_spark_has_it(error)
            if found is error:
                raise
            raise found from error.__cause__

    return called


def _message(self: Any) -> str:
    return str(self.args[0]) if self.args else ""


def _reduced(self: Any) -> tuple[Any, ...]:
    return as_spark_has_it, (self.adeltas_own,)
