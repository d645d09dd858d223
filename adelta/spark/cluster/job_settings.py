"""What the jobs of a thread have in common: their group, tags, pool and description.

Spark keeps these by thread, and adelta starts jobs of an operation in threads of its own. They get
what the caller's thread has, so that who cancels a group or a tag cancels them, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass
from adelta.spark.side import side_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

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
        return cls(frozenset(spark.getTags()), side_of(spark).job_properties(spark))

    def applied(self, spark: SparkSession, tag: str) -> AbstractContextManager[None]:
        """Let jobs that this thread begins have them, and a tag of their own; no longer behind."""
        return side_of(spark).jobs_as(spark, self.tags, self.properties, tag)
