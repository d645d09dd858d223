"""Which tables are so large that executors look for the files of a query, and that they do.

From `PLANNING_FILES` files on, the checkpoint is replayed by tasks, each of which prunes its share.
The driver opens the table, and holds no more of its list than is left.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.errors import InvalidOptionError
from adelta.kernel.data_skipping.prune import Skipping
from adelta.log.matching_files import shown
from adelta.operations.distributed_files import files_by_tasks, totals_by_tasks
from adelta.spark.cluster.job_settings import JobSettings
from adelta.spark.cluster.task_executor import SparkTaskExecutor
from adelta.spark.options.session_settings import PLANNING_FILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from adelta.kernel.expressions.dnf import Where
    from adelta.operations.distributed_files import FileTotals
    from adelta.snapshot import Snapshot
    from adelta.spark.options.read_write import ReadOptions

__all__ = ["FilesOnExecutors", "planned_from", "planning_files_of"]

DEFAULT_PLANNING_FILES = 5_000_000


def planning_files_of(spark: SparkSession) -> str | None:
    """What a session says of `PLANNING_FILES`; None where it says nothing."""
    return spark.conf.get(PLANNING_FILES, None)


def planned_from(options: ReadOptions, setting: str | None = None) -> int:
    """From how many files on executors plan a read: its own option counts, and then the session's.

    Raises:
        InvalidOptionError: the setting is no number.
    """
    if options.distributed_planning_files is not None:
        return options.distributed_planning_files
    if setting is None:
        return DEFAULT_PLANNING_FILES
    if not (setting.isascii() and setting.isdigit()):
        raise InvalidOptionError(f"{PLANNING_FILES} is {setting!r}: give it a number of files")
    return int(setting)


class FilesOnExecutors:
    """The files of a snapshot, for which the executors of a session look."""

    def __init__(self, spark: SparkSession, options: ReadOptions) -> None:
        self._spark = spark
        self._options = options
        self._totals: list[FileTotals] = []
        self._executor = self._executor_here()

    def _executor_here(self) -> SparkTaskExecutor:
        jobs = JobSettings.of_this_thread(self._spark)
        uri, storage_options = self._options.uri, self._options.storage_options
        return SparkTaskExecutor(self._spark, uri, storage_options, jobs=jobs)

    def asked_here(self) -> FilesOnExecutors:
        """The same, but that its jobs are those of the thread that asks now."""
        found = copy(self)
        found._executor = self._executor_here()
        return found

    async def files(
        self, snapshot: Snapshot, where: Where | None, columns: Sequence[str]
    ) -> pa.Table:
        """What `Snapshot.files` gives.

        Raises:
            InvalidExpressionError: the predicate does not fit the schema.
            InvalidTableError: a checkpoint is damaged.
        """
        plan = await in_thread(lambda: snapshot.scan(where=where).plan)
        skipping = None
        if plan.where is not None:
            skipping = await in_thread(Skipping.for_plan, plan.where, plan)
        found = await files_by_tasks(
            snapshot._state, snapshot._roots, self._executor, skipping, columns
        )
        return await shown(found.table)

    async def totals(self, snapshot: Snapshot) -> FileTotals:
        """Totals of all files, which are counted once.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        if not self._totals:
            found = await totals_by_tasks(snapshot._state, snapshot._roots, self._executor)
            self._totals.append(found)
        return self._totals[0]
