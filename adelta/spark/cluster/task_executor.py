"""The tasks of an operation as a job of Spark's, one of its tasks each, on classic and Connect.

An operation plans and commits here, as it does without Spark. A task that Spark runs again, or in
two places, leaves files of the attempt that does not count, and no commit ever names these.
"""

from __future__ import annotations

import asyncio
import pickle
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from adelta._chance import new_uuid
from adelta._concurrency import in_io_thread, to_the_end
from adelta.errors import AdeltaError, StorageError
from adelta.spark.cluster.job_settings import JobSettings
from adelta.spark.cluster.parcels import packed, unpacked
from adelta.spark.options.commits import forget_txn, session_commits
from adelta.spark.side import side_of
from adelta.sync._portal import call
from adelta.table import Table, roots_of
from adelta.write.discarding import discard_data_files
from adelta.write.task_executor import IN_PROCESS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from adelta.commit.catalog import CatalogClient
    from adelta.storage.roots import StoreRoots
    from adelta.write.task_executor import R, Task

Done = TypeVar("Done")

__all__ = ["SparkTaskExecutor", "on_cluster", "outcome_of"]

_MIB = 1024 * 1024
_ROUNDS = 3


def on_cluster(
    spark: SparkSession,
    uri: str,
    operation: Callable[[Table], Awaitable[Done]],
    storage_options: Mapping[str, str] | None = None,
    catalog: CatalogClient | None = None,
) -> Done:
    """What an operation on the table at `uri` does, the tasks of which `spark` runs.

    `catalog` is as in `adelta.open_table`. Commits are as the session's settings say: a change of
    rows is skipped where the table shows the application's number of it as done.

    Raises:
        AdeltaError: the operation failed.
        PySparkException: Spark failed.
    """
    jobs = JobSettings.of_this_thread(spark)
    executor = SparkTaskExecutor(spark, uri, storage_options, jobs=jobs)
    commits = session_commits(spark)

    async def run() -> Done:
        async with Table(uri, storage_options, catalog=catalog, executor=executor) as table:
            return await operation(table.committing(commits))

    done = call(run)
    if commits.number is not None:
        forget_txn(spark)
    return done


class SparkTaskExecutor:
    """Runs tasks as a job of Spark's. A single one is run here, where that saves the job.

    `jobs` are the settings of the jobs, which those who ask for the work have in their thread: an
    operation's own threads have none, and who cancels theirs means these jobs, too.
    """

    bytes_a_task: int | None = 256 * _MIB

    def __init__(
        self,
        spark: SparkSession,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        jobs: JobSettings,
    ) -> None:
        self._spark = spark
        self._jobs = jobs
        self._address = uri, dict(storage_options or {})

    @property
    def tasks_at_once(self) -> int:
        """How many tasks the cluster runs at the same time, as far as the session knows."""
        return side_of(self._spark).tasks_at_once(self._spark)

    async def run(
        self,
        roots: StoreRoots,
        tasks: Sequence[Task[R]],
        *,
        on_done: Callable[[R], object] | None = None,
    ) -> list[R]:
        """What the tasks have done, in their order.

        Where a store fails a task, it is run again, which may be elsewhere. Where one fails for
        good, what the others wrote is deleted, as far as Spark tells of them.

        Raises:
            AdeltaError: what a task raised.
            PySparkException: Spark failed, or the job was cancelled.
        """
        if len(tasks) <= 1:
            return await IN_PROCESS.run(roots, tasks, on_done=on_done)
        parcels, shared = packed(tasks)
        left = dict(enumerate(parcels))
        outcomes: dict[int, Any] = {}
        for _ in range(_ROUNDS):
            found = await self._outcomes(list(left.values()), shared)
            outcomes.update(zip(left, found, strict=True))
            failed = {n for n, each in outcomes.items() if isinstance(each, Exception)}
            if not failed or not all(isinstance(outcomes[n], StorageError) for n in failed):
                break
            left = {number: left[number] for number in sorted(failed)}
        done: list[R] = [outcomes[n] for n in range(len(tasks)) if n not in failed]
        try:
            for result in done:
                if on_done is not None:
                    on_done(result)
            for number in sorted(failed):
                raise outcomes[number]
        except BaseException:
            await discard_data_files(roots.store, [path for one in done for path in one.paths])
            raise
        return done

    async def _outcomes(
        self, tasks: Sequence[bytes], shared: tuple[pa.RecordBatch, ...]
    ) -> list[Any]:
        """What became of each task: its result, or its error."""
        work: Any = _Work(tuple(tasks), shared, *self._address)

        def job() -> DataFrame:
            return self.numbers(len(tasks)).mapInArrow(work, "id bigint, outcome binary")

        found = {row["id"]: pickle.loads(row["outcome"]) for row in await self.collected(job)}
        return [found[number] for number in range(len(tasks))]

    def numbers(self, count: int) -> DataFrame:
        """The numbers of tasks, one a partition, in the column ``id``."""
        return self._spark.range(0, count, 1, count)

    async def collected(self, frame: Callable[[], DataFrame]) -> list[Row]:
        """The rows of a job, which is cancelled where nobody wants them any more.

        Raises: as `ran` does.
        """
        return await self.ran(lambda: frame().collect())

    async def ran(self, job: Callable[[], Done]) -> Done:
        """What a job comes to, which is cancelled where nobody wants it any more.

        Raises:
            PySparkException: Spark failed, or the job was cancelled.
        """
        tag = f"adelta-{new_uuid()}"
        running = asyncio.ensure_future(in_io_thread(self._run, tag, job))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await to_the_end(self._interrupted(tag, running))
            raise

    async def _interrupted(self, tag: str, job: asyncio.Future[Any]) -> None:
        """Wait for the end of a job that nobody wants any more, and see to it that it comes."""
        while not job.done():
            await in_io_thread(side_of(self._spark).cancel_jobs, self._spark, tag)
            await asyncio.wait((job,), timeout=1)
        job.exception()  # seen; what it wrote is in nobody's log

    def _run(self, tag: str, job: Callable[[], Done]) -> Done:
        with self._jobs.applied(self._spark, tag):  # the job is of this thread
            return job()


class _Work:
    """What Spark's tasks do: numbers of tasks in, what became of these out."""

    def __init__(
        self,
        tasks: tuple[bytes, ...],
        shared: tuple[pa.RecordBatch, ...],
        uri: str,
        options: Mapping[str, str],
    ) -> None:
        self.tasks = tasks
        self._shared = shared
        self._address = uri, options

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in map(int, batch.column("id").to_numpy()):
                task = unpacked(self.tasks[number], self._shared)
                outcome = pickle.dumps(self._outcome(task))
                yield pa.record_batch(
                    {"id": pa.array([number], pa.int64()), "outcome": pa.array([outcome])}
                )

    def _outcome(self, task: Task[Any]) -> object:
        return outcome_of(task.run, *self._address)


def outcome_of(
    work: Callable[[StoreRoots], Awaitable[object]], uri: str, options: Mapping[str, str]
) -> object:
    """What work on a table did, or its error: Spark would run again what fails for good."""

    async def run() -> object:
        async with Table(uri, options) as table:
            return await work(roots_of(table))

    try:
        return call(run)
    except AdeltaError as error:
        return error
