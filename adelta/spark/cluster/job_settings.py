"""What the jobs of a thread have in common: their group, tags, pool and description.

Spark keeps these by thread, and adelta starts jobs of an operation in threads of its own. They get
what the caller's thread has, so that who cancels a group or a tag cancels them, too.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.utils import is_remote

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["JobSettings"]


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Local properties of a thread, as the JVM has them, and the session's tags there."""

    tags: frozenset[str] = frozenset()
    properties: Any = None

    @classmethod
    def of_this_thread(cls, spark: SparkSession) -> JobSettings:
        """Those that a job would have that this thread began now."""
        tags = frozenset(spark.getTags())
        return cls(tags) if is_remote() else cls(tags, _copy(_context(spark).getLocalProperties()))

    @contextmanager
    def applied(self, spark: SparkSession, tag: str) -> Iterator[None]:
        """Let jobs that this thread begins have them, and a tag of their own; no longer behind.

        That tag is one of Spark's context in a classic session, whose actions bear no other.
        """
        classic = not is_remote()
        tags = self.tags if classic else self.tags | {tag}
        if classic:
            before = _copy(_context(spark).getLocalProperties())
            if self.properties is not None:
                _context(spark).setLocalProperties(_copy(self.properties))
            spark.sparkContext.addJobTag(tag)
            spark.sparkContext.setInterruptOnCancel(True)
        for each in tags:
            spark.addTag(each)
        try:
            yield
        finally:
            for each in tags:
                spark.removeTag(each)
            if classic:
                _context(spark).setLocalProperties(before)


def _context(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext
    return context._jsc.sc()


def _copy(properties: Any) -> Any:
    return properties.clone()
