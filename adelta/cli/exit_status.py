"""What the exit status says: one number for one kind of mistake, whichever command made it.

======  ===========================================================================================
status  meaning
======  ===========================================================================================
0       done
1       it failed: the store or the owner refused, the table is damaged or in a state that does not
        allow it, or something is needed that adelta does not have, or that is not installed
2       it was asked wrongly: arguments, options, columns, expressions, statements, properties, or
        rows that do not fit the table
3       the table or the version that was named is not there, or a table is there already
4       another commit came first: run it again
5       the commit may have happened: look at the history before it is run again
130     it was interrupted
======  ===========================================================================================
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from adelta import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DONE", "INTERRUPTED", "STATUSES", "exit_status"]

DONE = 0
_FAILED, _MISUSED, _NOT_THERE, _LOST, _UNKNOWN = 1, 2, 3, 4, 5
INTERRUPTED = 130

STATUSES: Mapping[type[errors.AdeltaError], int] = MappingProxyType(
    {
        errors.AdeltaError: _FAILED,
        errors.HistoryRetainedError: _FAILED,
        errors.InvalidTableError: _FAILED,
        errors.InvalidUseError: _FAILED,
        errors.OutOfMemoryError: _FAILED,
        errors.RootNotAllowedError: _FAILED,
        errors.StorageError: _FAILED,
        errors.UnsupportedFeatureError: _FAILED,
        errors.InvalidExpressionError: _MISUSED,
        errors.InvalidOptionError: _MISUSED,
        errors.InvalidPropertyError: _MISUSED,
        errors.InvalidStatementError: _MISUSED,
        errors.InvariantViolationError: _MISUSED,
        errors.SchemaMismatchError: _MISUSED,
        errors.TableAlreadyExistsError: _NOT_THERE,
        errors.TableNotFoundError: _NOT_THERE,
        errors.VersionNotFoundError: _NOT_THERE,
        errors.CommitConflictError: _LOST,
        errors.CommitOutcomeUnknownError: _UNKNOWN,
    }
)
"""The status of each kind of error. Those derived from one have its status."""


def exit_status(error: errors.AdeltaError) -> int:
    """The status by which the command ends when `error` is raised."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
