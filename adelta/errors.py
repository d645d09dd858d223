"""Every error that adelta raises, grouped by what the caller does next.

Each class can be caught by its adelta name or, where one fits, by the builtin that it also is::

    AdeltaError
    ├── TableNotFoundError (FileNotFoundError)      check the address, or create the table
    ├── TableAlreadyExistsError (FileExistsError)   open it instead, or choose another mode
    ├── VersionNotFoundError (LookupError)          ask for a version inside the range named
    │   ├── TimestampOutOfRangeError                ask for a time inside the range named
    │   │   └── TimestampTooEarlyError
    │   └── ChangesNotAvailableError                start again from a version that is still there
    │       └── ChangeFeedDisabledError             enable the feed, for what comes after
    ├── InvalidTableError                           the table is damaged: repair or restore it
    │   ├── MissingCommitError
    │   ├── MissingCheckpointPartError
    │   ├── MissingDataFileError
    │   └── ChecksumMismatchError
    ├── RootNotAllowedError (PermissionError)       allow the root named, or do not read the table
    ├── UnsupportedFeatureError                     upgrade adelta, or use the engine named
    │   ├── UnreadableTableError                    likewise: the table cannot be read
    │   └── UnwritableTableError                    likewise: it cannot be written
    ├── SchemaMismatchError (ValueError)            change the data or the schema
    │   └── ColumnNotFoundError                     name a column that there is
    ├── InvariantViolationError (ValueError)        the data breaks a rule of the table
    │   ├── AppendOnlyError                         append, or change that property of the table
    │   ├── NullNotAllowedError                     give a value, or drop NOT NULL
    │   ├── RowsOutsideError                        leave out rows for which `where` is not true
    │   └── MultipleMatchesError                    leave one row of each group in the source
    ├── InvalidExpressionError (ValueError)         correct the expression
    │   ├── AmbiguousColumnError                    say which of the columns is meant
    │   └── UnresolvedColumnError                   name a column that there is
    ├── InvalidPropertyError (ValueError)           correct the table property
    │   └── UnknownPropertyError                    likewise: there is none of that name
    ├── InvalidOptionError (ValueError)             correct the argument or the storage option
    ├── InvalidUseError (RuntimeError)              the call is not allowed in this state
    ├── OutOfMemoryError (MemoryError)              raise `memory_limit`, or ask for less at once
    ├── HistoryRetainedError                        wait until old versions have expired
    ├── ConsumerTakenOverError                      stop one of the processes of the consumer named
    ├── CommitConflictError                         read again and retry, or give up
    │   ├── ConcurrentAppendError
    │   ├── ConcurrentDeleteReadError
    │   ├── ConcurrentDeleteDeleteError
    │   ├── ConcurrentTransactionError
    │   ├── MetadataChangedError
    │   └── ProtocolChangedError
    ├── CommitOutcomeUnknownError                   it may have happened: look before retrying
    │   └── CommitNotDurableError                   it has, and a crash may undo it: see to the disk
    └── StorageError (OSError)                      the store refused or failed
        ├── ObjectNotFoundError (FileNotFoundError)
        ├── ObjectExistsError (FileExistsError)
        ├── ObjectChangedError                      read it again from its start
        ├── ThrottledError
        └── PermissionDeniedError (PermissionError)
            └── OutsideRootError                    a link leads out of the root: see where to

Every error can be pickled: it crosses process borders in Spark tasks. A message is for people: of a
long one the beginning and the end are kept, and of an address neither a password nor a signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._secrets import without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "AdeltaError",
    "AmbiguousColumnError",
    "AppendOnlyError",
    "ChangeFeedDisabledError",
    "ChangesNotAvailableError",
    "ChecksumMismatchError",
    "ColumnNotFoundError",
    "CommitConflictError",
    "CommitNotDurableError",
    "CommitOutcomeUnknownError",
    "ConcurrentAppendError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentDeleteReadError",
    "ConcurrentTransactionError",
    "ConsumerTakenOverError",
    "HistoryRetainedError",
    "InvalidExpressionError",
    "InvalidOptionError",
    "InvalidPropertyError",
    "InvalidStatementError",
    "InvalidTableError",
    "InvalidUseError",
    "InvariantViolationError",
    "MetadataChangedError",
    "MissingCheckpointPartError",
    "MissingCommitError",
    "MissingDataFileError",
    "MultipleMatchesError",
    "NullNotAllowedError",
    "ObjectChangedError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "OutOfMemoryError",
    "OutsideRootError",
    "PermissionDeniedError",
    "ProtocolChangedError",
    "RootNotAllowedError",
    "RowsOutsideError",
    "SchemaMismatchError",
    "StorageError",
    "TableAlreadyExistsError",
    "TableNotFoundError",
    "ThrottledError",
    "TimestampOutOfRangeError",
    "TimestampTooEarlyError",
    "UnknownPropertyError",
    "UnreadableTableError",
    "UnresolvedColumnError",
    "UnsupportedFeatureError",
    "UnwritableTableError",
    "VersionNotFoundError",
]


_BEGINNING, _END = 1300, 500  # characters of a message
_EXAMINED = 20_000  # likewise


class AdeltaError(Exception):
    """Root of every error that adelta raises.

    Attributes:
        reason: what was refused, as one word that no release changes, where the class alone does
            not say it and a program may want to know; else None.
    """

    reason: str | None = None

    def __init__(self, message: str = "", *, reason: str | None = None) -> None:
        if len(message) > _EXAMINED:
            message = f"{message[: _EXAMINED // 2]} [...] {message[-_EXAMINED // 2 :]}"
        message = without_secrets(message)
        left_out = len(message) - _BEGINNING - _END
        if left_out > 100:
            message = f"{message[:_BEGINNING]} [{left_out:,} characters left out] {message[-_END:]}"
        super().__init__(message)
        if reason is not None:
            self.reason = reason


class TableNotFoundError(AdeltaError, FileNotFoundError):
    """Raised when there is no Delta table at the address."""


class TableAlreadyExistsError(AdeltaError, FileExistsError):
    """Raised when a table is to be created where one already is."""


class VersionNotFoundError(AdeltaError, LookupError):
    """Raised when the version asked for does not exist, or is no longer kept.

    Attributes:
        earliest_version: the earliest version that can be read, or that changes can be read from,
            where that is known.
        latest_version: the latest one, where that is known.
    """

    def __init__(
        self,
        message: str = "",
        *,
        earliest_version: int | None = None,
        latest_version: int | None = None,
    ) -> None:
        super().__init__(message)
        self.earliest_version = earliest_version
        self.latest_version = latest_version


class TimestampOutOfRangeError(VersionNotFoundError):
    """Raised when no commit that is still kept was the latest at the time asked for."""


class TimestampTooEarlyError(TimestampOutOfRangeError):
    """Raised when the time asked for is before all commits that are still kept."""


class ChangesNotAvailableError(VersionNotFoundError):
    """Raised when commits that a consumer has not seen yet have been cleaned up."""


class ChangeFeedDisabledError(ChangesNotAvailableError):
    """Raised when a version wrote no change data, as the table's feed was not enabled."""


class InvalidTableError(AdeltaError):
    """Raised when the table's log or files break the protocol."""


class MissingCommitError(InvalidTableError):
    """Raised when a commit inside the log is missing."""


class MissingCheckpointPartError(InvalidTableError):
    """Raised when a checkpoint names a part or sidecar that is not there."""


class MissingDataFileError(InvalidTableError):
    """Raised when the log names a data file that is not there."""


class ChecksumMismatchError(InvalidTableError):
    """Raised when a checksum does not agree with what it covers."""


class RootNotAllowedError(AdeltaError, PermissionError):
    """Raised when a table leads to objects outside its root that the caller has not allowed."""


class UnsupportedFeatureError(AdeltaError):
    """Raised when the table needs a table feature that adelta does not have."""


class UnreadableTableError(UnsupportedFeatureError):
    """Raised when a table needs features of its readers that adelta does not have."""


class UnwritableTableError(UnsupportedFeatureError):
    """Raised when a table needs features of its writers that adelta does not have."""


class SchemaMismatchError(AdeltaError, ValueError):
    """Raised when data or a request does not fit the table's schema."""


class ColumnNotFoundError(SchemaMismatchError):
    """Raised when a request names a column that the table does not have."""


class InvariantViolationError(AdeltaError, ValueError):
    """Raised when rows break a constraint, an invariant or a NOT NULL of the table."""


class AppendOnlyError(InvariantViolationError):
    """Raised when rows of a table that only takes appends are to change, or to go."""


class NullNotAllowedError(InvariantViolationError):
    """Raised when a column that may not be null is."""


class RowsOutsideError(InvariantViolationError):
    """Raised when rows are to replace those of a condition that is not true for them."""


class MultipleMatchesError(InvariantViolationError):
    """Raised when several rows of a merge's source would change one row of the table."""


class InvalidExpressionError(AdeltaError, ValueError):
    """Raised when an expression cannot be parsed, typed or evaluated."""


class AmbiguousColumnError(InvalidExpressionError):
    """Raised when an expression names a column of which there are several."""


class UnresolvedColumnError(InvalidExpressionError):
    """Raised when an expression names a column that there is not."""


class InvalidStatementError(AdeltaError, ValueError):
    """Raised when SQL text is no statement that adelta runs.

    Attributes:
        position: the character, counted from 0, at which the text can no longer be read.
        line: the line of that character, counted from 1.
        column: its place in the line, counted from 1.
    """

    def __init__(
        self, message: str = "", *, position: int = 0, line: int = 1, column: int = 1
    ) -> None:
        super().__init__(message)
        self.position = position
        self.line = line
        self.column = column


class InvalidPropertyError(AdeltaError, ValueError):
    """Raised when a table property is unknown or has a value that is not allowed."""


class UnknownPropertyError(InvalidPropertyError):
    """Raised when a table property has the name of one of Delta's, and Delta has none of it."""


class InvalidOptionError(AdeltaError, ValueError):
    """Raised when an argument or a storage option has a value that is not allowed."""


class InvalidUseError(AdeltaError, RuntimeError):
    """Raised when a call is not allowed in the state that its object is in."""


class OutOfMemoryError(AdeltaError, MemoryError):
    """Raised when something takes more memory than `memory_limit` allows, or than there is."""


class HistoryRetainedError(AdeltaError):
    """Raised when what is to be dropped is used by old versions that are still kept."""


class ConsumerTakenOverError(AdeltaError):
    """Raised when another process has moved the position of the consumer of this name."""


class CommitConflictError(AdeltaError):
    """Raised when another commit won and this one cannot be replayed on top of it.

    Attributes:
        winning_version: version of the commit that won, where known.
        winning_operation: its operation, where its commit info names one.
        retryable: whether reading again and doing the work again may succeed.
        path: the first file in which both commits meet, as the winner's log entry has it, where
            it is files that they meet in.
        partition: the partition values of that file.
        table: the table's address, of a commit that was attempted.
    """

    def __init__(
        self,
        message: str = "",
        *,
        winning_version: int | None = None,
        winning_operation: str | None = None,
        retryable: bool = True,
        path: str | None = None,
        partition: Mapping[str, str | None] | None = None,
    ) -> None:
        super().__init__(message)
        self.winning_version = winning_version
        self.winning_operation = winning_operation
        self.retryable = retryable
        self.path = path
        self.partition = dict(partition or {})
        self.table: str | None = None

    def name_table(self) -> None:
        """Begin the message with the table, where it does not say of which one it is."""
        if self.table is not None and not str(self).startswith(without_secrets(self.table)):
            self.args = (f"{without_secrets(self.table)}: {self}",)


class ConcurrentAppendError(CommitConflictError):
    """Raised when another commit added files that this one should have read."""


class ConcurrentDeleteReadError(CommitConflictError):
    """Raised when another commit removed files that this one has read."""


class ConcurrentDeleteDeleteError(CommitConflictError):
    """Raised when another commit removed a file that this one removes too."""


class ConcurrentTransactionError(CommitConflictError):
    """Raised when another commit moved a `txn` or a domain that this one uses."""


class MetadataChangedError(CommitConflictError):
    """Raised when another commit changed the table's metadata."""


class ProtocolChangedError(CommitConflictError):
    """Raised when another commit changed the table's protocol."""


class CommitOutcomeUnknownError(AdeltaError):
    """Raised when a commit may or may not have happened, and the store cannot be asked.

    Attributes:
        version: the version that was attempted.
        transaction_id: `commitInfo.txnId` of the attempt: whoever finds it in the log knows that
            the commit happened.
    """

    def __init__(
        self, message: str = "", *, version: int | None = None, transaction_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.version = version
        self.transaction_id = transaction_id


class CommitNotDurableError(CommitOutcomeUnknownError):
    """Raised when a commit is in place, and the store failed to make it outlive a crash."""


class StorageError(AdeltaError, OSError):
    """Raised when an object store refuses or fails a request."""


class ObjectNotFoundError(StorageError, FileNotFoundError):
    """Raised when there is no object at the path."""


class ObjectChangedError(StorageError):
    """Raised when an object was written again between two reads of parts of it."""


class ObjectExistsError(StorageError, FileExistsError):
    """Raised when put-if-absent finds an object at the path."""


class ThrottledError(StorageError):
    """Raised when the store asks to slow down for longer than the retries last."""


class PermissionDeniedError(StorageError, PermissionError):
    """Raised when the credentials do not allow the request."""


class OutsideRootError(PermissionDeniedError):
    """Raised when what is to be written or deleted is a link, lies behind one, or is no file.

    It does not matter where the link leads. Of the links above the store's root none counts.
    """
