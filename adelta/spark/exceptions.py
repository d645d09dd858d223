"""Errors as Spark's users catch them: by adelta's names, and by PySpark's and delta-spark's, too.

What `DeltaTable` raises is at once the error of `adelta.errors` that it is elsewhere, and the one
that delta-spark raises there: of a table that is not there ``except AnalysisException`` and
``except TableNotFoundError`` both hear. The classes of conflicts bear delta-spark's names. Where
delta-spark has a condition for it, such as ``DELTA_MISSING_DELTA_TABLE``, the message begins with
it, in brackets.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
    UnknownException,
    UnsupportedOperationException,
)

from adelta import errors as e

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "CONFLICTS",
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "DeltaConcurrentModificationException",
    "MetadataChangedException",
    "NoSessionError",
    "ProtocolChangedException",
    "RefusedRequest",
    "WrongTypeError",
    "as_spark_has_it",
    "known_as",
    "raises_as_spark",
]

P = ParamSpec("P")
R = TypeVar("R")


class WrongTypeError(e.InvalidOptionError, TypeError):
    """Raised when an argument is of another type than it has to be."""


class NoSessionError(e.InvalidOptionError, AssertionError):
    """Raised when there is no session where one has to be."""


class RefusedRequest(AnalysisException, IllegalArgumentException):
    """What delta-spark raises as the one or as the other, by reasons that adelta has as one."""


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
    e.VersionNotFoundError: (RefusedRequest, None),
    e.UnsupportedFeatureError: (AnalysisException, None),
    e.SchemaMismatchError: (AnalysisException, None),
    e.InvalidExpressionError: (AnalysisException, None),
    e.InvalidPropertyError: (AnalysisException, None),
    e.InvalidStatementError: (ParseException, None),
    e.InvalidUseError: (RefusedRequest, None),
    e.HistoryRetainedError: (RefusedRequest, None),
    e.InvalidOptionError: (RefusedRequest, None),
    e.InvariantViolationError: (SparkRuntimeException, None),
    e.MultipleMatchesError: (
        UnsupportedOperationException,
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
    ),
}
_CONDITION = "condition_of_delta"
_OF_FEATURES = ("DELTA_FEATURE_DROP_", "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG")
"""How conditions begin that delta-spark has a class of its own for, which PySpark does not know."""
_made: dict[tuple[type[e.AdeltaError], type[PySparkException]], type[e.AdeltaError]] = {}


CONFLICTS: dict[str, type[DeltaConcurrentModificationException]] = {
    kind.__name__: kind
    for kind in (
        DeltaConcurrentModificationException,
        ConcurrentWriteException,
        MetadataChangedException,
        ProtocolChangedException,
        ConcurrentAppendException,
        ConcurrentDeleteReadException,
        ConcurrentDeleteDeleteException,
        ConcurrentTransactionException,
    )
}
"""The classes of conflicts by delta-spark's names, the one that all are of first."""


def as_spark_has_it(error: e.AdeltaError) -> e.AdeltaError:
    """The error as one of Spark's as well; itself where Spark's users know none for it."""
    kind = type(error)
    known = next((base for base in kind.__mro__ if base in _SPARKS), None)
    if known is None or isinstance(error, PySparkException):
        return error
    spark_kind, condition = _SPARKS[known]
    condition = vars(error).get(_CONDITION, condition)
    if condition is not None and condition.startswith(_OF_FEATURES):
        spark_kind = UnknownException
    if (kind, spark_kind) not in _made:
        members = {"__str__": _message, "__reduce__": _reduced, "__doc__": kind.__doc__}
        _made[kind, spark_kind] = type(kind.__name__, (kind, spark_kind), members)
    made = _made[kind, spark_kind]
    found: Any = made.__new__(made, *error.args)
    spark_kind.__init__(found, message=str(error), errorClass=condition)
    found.args = error.args
    vars(found).update(vars(error))
    found.adeltas_own = error
    return found.with_traceback(error.__traceback__)  # type: ignore[no-any-return]


@contextmanager
def known_as(conditions: Mapping[type[e.AdeltaError], str]) -> Iterator[None]:
    """Let errors of some kinds, where they leave the block, have conditions of delta-spark's."""
    try:
        yield
    except e.AdeltaError as error:
        for kind, condition in conditions.items():
            if isinstance(error, kind):
                setattr(error, _CONDITION, condition)
                break
        raise


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
    text = str(self.args[0]) if self.args else ""
    condition = self.getCondition()
    return text if condition is None else f"[{condition}] {text}"


def _reduced(self: Any) -> tuple[Any, ...]:
    return as_spark_has_it, (self.adeltas_own,)
