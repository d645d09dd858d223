"""What merges name and is not there is told by delta-spark's condition, whoever finds it.

Spark resolves a statement MERGE of its own before adelta sees it, where delta-spark resolves it
itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from adelta.errors import AdeltaError, UnresolvedColumnError
from adelta.spark.exceptions import known_as_of, raises_as_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["is_unresolved", "known_as_of_merge", "raises_as_merge"]


def is_unresolved(error: AnalysisException) -> bool:
    """Whether Spark itself says that a column is not there."""
    condition = error.getCondition() or ""
    return not isinstance(error, AdeltaError) and condition.startswith("UNRESOLVED_COLUMN")


@contextmanager
def known_as_of_merge() -> Iterator[None]:
    """Let errors that leave the block have the conditions of a merge's, be they Spark's own."""
    try:
        with known_as_of("merge"):
            yield
    except AnalysisException as error:
        if not is_unresolved(error):
            raise
        found = UnresolvedColumnError(f"the merge cannot be resolved. Spark says of it: {error}")
        with known_as_of("merge"):
            raise found from error


def raises_as_merge(
    method: Callable[..., Any], is_merge: Callable[..., bool]
) -> Callable[..., Any]:
    """The method, where columns that are not there are those of a merge, if `is_merge` says so.

    That is asked with the method's arguments, and only where Spark has found such a column.
    """

    @wraps(method)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except AnalysisException as error:
            if not is_unresolved(error) or not is_merge(*arguments, **named):
                raise
            _raise_as_merge(error)

    return called


@raises_as_spark
def _raise_as_merge(error: AnalysisException) -> None:
    with known_as_of_merge():
        raise error
