"""What the exit status says: one number for one kind of mistake, whichever command made it.

======  ===========================================================================================
status  meaning
======  ===========================================================================================
0       done
1       it failed: the table or the version is not there, another commit came first, the store or
        the owner refused, the table is damaged or in a state that does not allow it, or something
        is needed that adelta does not have, or that is not installed
2       it was asked wrongly: arguments, options, columns, expressions, statements, properties, or
        rows that do not fit the table
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
_FAILED, _MISUSED = 1, 2
INTERRUPTED = 130

STATUSES: Mapping[type[errors.AdeltaError], int] = MappingProxyType(
    {
        errors.AdeltaError: _FAILED,
        errors.ConsumerTakenOverError: _FAILED,
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
        errors.TableAlreadyExistsError: _FAILED,
        errors.TableNotFoundError: _FAILED,
        errors.VersionNotFoundError: _FAILED,
        errors.CommitConflictError: _FAILED,
        errors.CommitOutcomeUnknownError: _FAILED,
    }
)
"""The status of each kind of error. Those derived from one have its status."""


def exit_status(error: errors.AdeltaError) -> int:
    """The status by which the command ends when `error` is raised."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
