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
    ArithmeticException,
    IllegalArgumentException,
    NumberFormatException,
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
    "as_data_source_says",
    "as_read",
    "as_spark_has_it",
    "condition_of",
    "known_as_of",
    "name_taken",
    "no_columns",
    "raises_as_spark",
    "refused",
    "tells_reasons",
    "with_condition",
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
    e.VersionNotFoundError: (RefusedRequest, "DELTA_VERSION_NOT_FOUND"),
    e.TimestampTooEarlyError: (
        RefusedRequest,
        "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
    ),
    e.TimestampOutOfRangeError: (RefusedRequest, "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
    e.ChangeFeedDisabledError: (RefusedRequest, "DELTA_MISSING_CHANGE_DATA"),
    e.ChangesNotAvailableError: (RefusedRequest, None),
    e.MissingCommitError: (SparkRuntimeException, "DELTA_VERSIONS_NOT_CONTIGUOUS"),
    e.MissingCheckpointPartError: (SparkRuntimeException, "DELTA_MISSING_PART_FILES"),
    e.MissingDataFileError: (SparkRuntimeException, "DELTA_FILE_NOT_FOUND_DETAILED"),
    e.InvalidTableError: (SparkRuntimeException, None),
    e.UnreadableTableError: (AnalysisException, "DELTA_UNSUPPORTED_FEATURES_FOR_READ"),
    e.UnwritableTableError: (AnalysisException, "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"),
    e.UnsupportedFeatureError: (AnalysisException, None),
    e.ColumnNotFoundError: (AnalysisException, "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
    e.SchemaMismatchError: (AnalysisException, None),
    e.AmbiguousColumnError: (AnalysisException, "AMBIGUOUS_REFERENCE"),
    e.UnresolvedColumnError: (AnalysisException, "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    e.InvalidExpressionError: (AnalysisException, None),
    e.UnknownPropertyError: (AnalysisException, "DELTA_UNKNOWN_CONFIGURATION"),
    e.InvalidPropertyError: (RefusedRequest, None),
    e.InvalidStatementError: (ParseException, "PARSE_SYNTAX_ERROR"),
    e.InvalidUseError: (RefusedRequest, None),
    e.HistoryRetainedError: (RefusedRequest, "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"),
    e.InvalidOptionError: (RefusedRequest, None),
    e.AppendOnlyError: (UnsupportedOperationException, "DELTA_CANNOT_MODIFY_APPEND_ONLY"),
    e.NullNotAllowedError: (SparkRuntimeException, "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"),
    e.RowsOutsideError: (AnalysisException, "DELTA_REPLACE_WHERE_MISMATCH"),
    e.InvariantViolationError: (SparkRuntimeException, "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
    e.MultipleMatchesError: (
        UnsupportedOperationException,
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
    ),
}
"""delta-spark's class and condition of each error: those of the first that it is one of."""

_OF_REASONS: dict[str, tuple[type[PySparkException], str | None]] = {
    "cast_invalid": (NumberFormatException, "CAST_INVALID_INPUT"),
    "cast_overflow": (ArithmeticException, "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"),
    "generated_at_random": (
        AnalysisException,
        "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN",
    ),
    "generated_by_aggregate": (AnalysisException, "DELTA_AGGREGATE_IN_GENERATED_COLUMN"),
    "generated_by_other_rows": (
        AnalysisException,
        "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
    ),
    "generated_by_statement": (
        AnalysisException,
        "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
    ),
    "generated_by_unknown_column": (
        AnalysisException,
        "DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
    ),
    "generated_of_other_type": (
        AnalysisException,
        "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH",
    ),
    "identity_column_set": (AnalysisException, "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"),
    "identity_column_type": (
        UnsupportedOperationException,
        "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
    ),
    "identity_of_none": (
        AnalysisException,
        "DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN",
    ),
    "unsupported_data_types": (AnalysisException, "DELTA_UNSUPPORTED_DATA_TYPES"),
    "identity_step_zero": (AnalysisException, "DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP"),
    "identity_values_given": (
        AnalysisException,
        "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
    ),
    "folders_of_other_columns": (
        RefusedRequest,
        "DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME",
    ),
    "folders_of_other_number": (
        RefusedRequest,
        "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME",
    ),
    "inserted_twice": (AnalysisException, "DELTA_DUPLICATE_COLUMNS_ON_INSERT"),
    "matched_clause_never_applies": (
        AnalysisException,
        "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
    ),
    "merge_of_all_lacks_column": (AnalysisException, "DELTA_MERGE_UNRESOLVED_EXPRESSION"),
    "merge_without_clause": (AnalysisException, "DELTA_MERGE_MISSING_WHEN"),
    "not_matched_by_source_clause_never_applies": (
        AnalysisException,
        "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
    ),
    "not_matched_clause_never_applies": (
        AnalysisException,
        "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION",
    ),
    "order_by_partition_column": (
        IllegalArgumentException,
        "DELTA_ZORDERING_ON_PARTITION_COLUMN",
    ),
    "output_mode": (AnalysisException, "DELTA_UNSUPPORTED_OUTPUT_MODE"),
    "partition_by_identity_column": (
        AnalysisException,
        "DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED",
    ),
    "partitioned_by_all": (AnalysisException, "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION"),
    "property_not_settable": (
        UnsupportedOperationException,
        "DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
    ),
    "property_value": (IllegalArgumentException, None),
    "replaced_by_misaligned_columns": (
        AnalysisException,
        "INSERT_REPLACE_USING_DISALLOW_MISALIGNED_COLUMNS",
    ),
    "replaced_by_missing_column": (AnalysisException, "UNRESOLVED_INSERT_REPLACE_USING_COLUMN"),
    "replaced_by_two": (
        IllegalArgumentException,
        "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE",
    ),
    "schema_of_partitions": (
        IllegalArgumentException,
        "DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE",
    ),
    "set_twice": (AnalysisException, "DELTA_CONFLICT_SET_COLUMN"),
    "text_too_long": (SparkRuntimeException, "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"),
    "timestamp_invalid": (RefusedRequest, "DELTA_TIMESTAMP_INVALID"),
    "where_beyond_partitions": (AnalysisException, "DELTA_NON_PARTITION_COLUMN_REFERENCE"),
    "where_of_clustered_table": (
        UnsupportedOperationException,
        "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
    ),
    "zorder_by_of_clustered_table": (AnalysisException, "DELTA_CLUSTERING_WITH_ZORDER_BY"),
}
"""The same of an error that has one of these reasons."""

_OF_ACTIONS: dict[str, Mapping[type[e.AdeltaError] | str, str]] = {
    "add constraint": {
        e.InvariantViolationError: "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION",
        e.InvalidOptionError: "DELTA_CONSTRAINT_ALREADY_EXISTS",
    },
    "add feature": {e.UnsupportedFeatureError: "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"},
    "change column": {e.NullNotAllowedError: "DELTA_NEW_NOT_NULL_VIOLATION"},
    "build": {
        e.TableAlreadyExistsError: "TABLE_OR_VIEW_ALREADY_EXISTS",
        e.TableNotFoundError: "TABLE_OR_VIEW_NOT_FOUND",
    },
    "create": {
        e.SchemaMismatchError: "DELTA_CREATE_TABLE_SCHEME_MISMATCH",
        e.TableNotFoundError: "DELTA_CANNOT_REPLACE_MISSING_TABLE",
    },
    "drop column": {e.InvalidUseError: "DELTA_UNSUPPORTED_DROP_COLUMN"},
    "drop constraint": {e.InvalidOptionError: "DELTA_CONSTRAINT_DOES_NOT_EXIST"},
    "drop feature": {
        e.InvalidOptionError: "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT",
        e.InvalidUseError: "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE",
        e.UnsupportedFeatureError: "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE",
    },
    "merge": {
        e.ColumnNotFoundError: "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        e.UnresolvedColumnError: "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    },
    "merge statement": {
        e.ColumnNotFoundError: "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        e.UnresolvedColumnError: "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        "matched_clause_never_applies": "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
        "not_matched_by_source_clause_never_applies": (
            "NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION"
        ),
        "not_matched_clause_never_applies": (
            "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION"
        ),
    },
    "open": {e.InvalidOptionError: "DELTA_TABLE_FOR_PATH_UNSUPPORTED_HADOOP_CONF"},
    "optimize": {
        e.ColumnNotFoundError: "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
        e.UnresolvedColumnError: "DELTA_NON_PARTITION_COLUMN_REFERENCE",
    },
    "replace": {
        e.AmbiguousColumnError: "DELTA_INSERT_REPLACE_ON_AMBIGUOUS_COLUMNS_IN_CONDITION",
        e.UnresolvedColumnError: "DELTA_INSERT_REPLACE_ON_UNRESOLVED_COLUMNS_IN_CONDITION",
        e.InvariantViolationError: "DELTA_REPLACE_ON_OR_USING_TABLE_CONSTRAINT_VIOLATION",
        e.SchemaMismatchError: "DELTA_METADATA_MISMATCH",
    },
    "rename column": {e.InvalidUseError: "DELTA_UNSUPPORTED_RENAME_COLUMN"},
    "restore": {
        e.TimestampTooEarlyError: "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER",
        e.TimestampOutOfRangeError: "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER",
        e.VersionNotFoundError: "DELTA_CANNOT_RESTORE_TABLE_VERSION",
    },
    "set location": {e.SchemaMismatchError: "DELTA_SET_LOCATION_SCHEMA_MISMATCH"},
    "set properties": {e.UnsupportedFeatureError: "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"},
    "travel": {e.InvalidOptionError: "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"},
    "unset properties": {e.InvalidPropertyError: "DELTA_UNSET_NON_EXISTENT_PROPERTY"},
    "update": {e.ColumnNotFoundError: "UNRESOLVED_COLUMN.WITH_SUGGESTION"},
    "vacuum": {e.InvalidOptionError: "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"},
    "write": {e.SchemaMismatchError: "DELTA_METADATA_MISMATCH"},
}
"""What a condition is instead, where an error of the class or reason is of one of these actions."""

_CONDITION = "condition_of_delta"
_KINDS: dict[str, type[PySparkException]] = {
    "DELTA_FEATURE_DROP_": UnknownException,  # of a class of Scala's that PySpark does not know
    "DELTA_NEW_": AnalysisException,
    "DELTA_REPLACE_ON_OR_USING_": AnalysisException,
    "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG": UnknownException,
    "NON_LAST_": ParseException,
}
"""delta-spark's class of conditions that begin so, where it is not that of the error's."""
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
    spark_kind, condition = _OF_REASONS.get(error.reason or "", _SPARKS[known])
    condition = vars(error).get(_CONDITION, condition)
    for beginning, its_kind in _KINDS.items():
        if condition is not None and condition.startswith(beginning):
            spark_kind = its_kind
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


def as_data_source_says(error: e.AdeltaError) -> Exception:
    """The error as one of Spark's as well; or one of Spark's that holds its text."""
    found = as_spark_has_it(error)
    if isinstance(found, PySparkException):
        return found
    return AnalysisException(f"{type(error).__name__}: {error}")


@contextmanager
def known_as_of(action: str) -> Iterator[None]:
    """Let errors that leave the block have the conditions of this action's."""
    try:
        yield
    except e.AdeltaError as error:
        own: e.AdeltaError = vars(error).get("adeltas_own", error)
        for which, condition in _OF_ACTIONS[action].items():
            if _CONDITION not in vars(own) and _is_such(own, which):
                with_condition(own, condition)
                if own is not error:  # which Spark has had already
                    raise as_spark_has_it(own) from error.__cause__
                break
        raise


def _is_such(error: e.AdeltaError, which: type[e.AdeltaError] | str) -> bool:
    if isinstance(which, str):
        return error.reason == which
    return isinstance(error, which) and error.reason not in _OF_REASONS


def with_condition(error: e.AdeltaError, condition: str) -> e.AdeltaError:
    """The error, which has this condition of delta-spark's, whatever others of its class have."""
    vars(error)[_CONDITION] = condition
    return error


def condition_of(error: e.AdeltaError) -> str | None:
    """The condition that an error was given of its own."""
    return vars(error).get(_CONDITION)


def as_read(error: e.AdeltaError, condition: str) -> e.AdeltaError:
    """The error, in the text of which this condition stood."""
    for reason, (_, its) in _OF_REASONS.items():
        if its == condition:
            error.reason = reason
            return error
    return with_condition(error, condition)


def tells_reasons(method: Callable[P, R]) -> Callable[P, R]:
    """The method of a data source, whose errors say the conditions of their reasons in their text.

    Nothing but the text comes to the driver, where `as_read` tells by it.
    """

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except e.AdeltaError as error:
            if error.reason not in _OF_REASONS:
                raise
            raise as_spark_has_it(error) from error.__cause__

    return called


def refused(text: str, condition: str) -> e.AdeltaError:
    """The error of options that do not go together, which says its condition in its text.

    Where a Python worker of Spark's raises it, nothing but the text comes to the driver.
    """
    return as_spark_has_it(with_condition(e.InvalidOptionError(text), condition))


def name_taken(text: str) -> e.TableAlreadyExistsError:
    """The error of a table that is to be a new one, where the session knows its name."""
    error = e.TableAlreadyExistsError(text)
    with_condition(error, "TABLE_OR_VIEW_ALREADY_EXISTS")
    return error


def no_columns(location: str) -> e.SchemaMismatchError:
    """The error of a table that is to be known by a name, where none is and no columns are said."""
    error = e.SchemaMismatchError(
        f"there is no Delta table at {location}, and no columns to create one with; say which "
        "columns it has"
    )
    with_condition(error, "DELTA_CREATE_EXTERNAL_TABLE_WITHOUT_SCHEMA")
    return error


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
