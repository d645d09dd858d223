"""The rows of a DataFrame for an operation that is planned here: computed once, by Spark's tasks.

What a task has of them comes here with its answer where that is little, and is laid into the
table's store where it is much: into a folder of its own, under names of data files that no log
names, which go when they have been read. VACUUM takes those that are left behind, such as by a
driver that dies. So the driver holds one such file at a time, and every row is the same however
often it is looked at, whatever the DataFrame is computed from.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from adelta._chance import new_uuid
from adelta._concurrency import in_thread, to_the_end
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.names import as_nullable
from adelta.kernel.schema.types import StructType
from adelta.operations.merge.source import OpenSource
from adelta.spark.cluster.job_settings import JobSettings
from adelta.spark.cluster.task_executor import SparkTaskExecutor
from adelta.spark.translate.types import arrow_schema
from adelta.sync._portal import call
from adelta.table import Table, roots_of
from adelta.write.discarding import discard_data_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, Row, SparkSession

    from adelta.storage.object_store import ObjectStore

__all__ = ["staged_rows"]

_KIB = 1024
_TOLD_BYTES = 64 * _KIB  # of a task, which its answer may hold
_FILE_BYTES = 32 * _KIB * _KIB  # of rows in memory, which become a file


def staged_rows(
    spark: SparkSession, rows: DataFrame, uri: str, storage_options: Mapping[str, str] | None = None
) -> OpenSource:
    """The rows, which are computed when the first one is asked for, near the table at `uri`.

    Raises:
        SchemaMismatchError: a column has a type that Delta does not have.
    """
    schema = arrow_schema(rows.schema)
    known = as_nullable(from_arrow_schema(schema))
    assert isinstance(known, StructType)
    jobs = JobSettings.of_this_thread(spark)
    executor = SparkTaskExecutor(spark, uri, storage_options, jobs=jobs)
    wanted = list(schema.names)

    def narrow(columns: Collection[str]) -> None:
        wanted[:] = [name for name in schema.names if name in columns] or schema.names[:1]

    batches = _batches(executor, rows, schema.names, wanted, uri, storage_options)
    return OpenSource(known, batches, narrow)


async def _batches(
    executor: SparkTaskExecutor,
    rows: DataFrame,
    names: list[str],
    wanted: list[str],
    uri: str,
    storage_options: Mapping[str, str] | None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    folder = f"adelta-rows-{new_uuid()}/"
    places = [str(at) for at, name in enumerate(names) if name in wanted]

    def frame() -> DataFrame:
        # PySpark cannot hand over columns whose names hold dots or backticks.
        numbered = rows.toDF(*(str(at) for at in range(len(names))))
        return numbered.select(*places).mapInArrow(work, "path string, told binary")

    work: Any = _Staging(uri, dict(storage_options or {}), folder)
    async with Table(uri, storage_options) as table:
        store = roots_of(table).store
        staged = True
        try:
            answers = await executor.collected(frame)
            staged = any(answer.path is not None for answer in answers)
            while answers:
                found = await _rows_of(store, answers.pop(0))
                for batch in await in_thread(found.to_batches):
                    yield batch.rename_columns(wanted)
        finally:
            if staged:
                await to_the_end(_discard(store, folder))


async def _rows_of(store: ObjectStore, answer: Row) -> pa.Table:
    """What one answer of a task's tells of."""
    if answer.path is None:
        return await in_thread(_decoded, answer.told)
    return await in_thread(_decoded, await store.get(answer.path))


def _decoded(data: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(data))


async def _discard(store: ObjectStore, folder: str) -> None:
    """Delete what tasks have laid there, those of attempts that do not count among them."""
    async with aclosing(store.list(folder)) as pages:
        async for page in pages:
            await discard_data_files(store, [meta.path for meta in page])
    if store.local is not None:
        await store.local.remove_empty_directories(
            lambda name: f"{name}/" != folder, older_than_ms=0, emptied=(folder,)
        )


class _Staging:
    """What each task does: rows in, and out comes where they are, or what they are."""

    def __init__(self, uri: str, options: Mapping[str, str], folder: str) -> None:
        self._uri = uri
        self._options = options
        self._folder = folder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size >= _FILE_BYTES:
                yield self._told(waiting, size)
                waiting, size = [], 0
        if waiting:
            yield self._told(waiting, size)

    def _told(self, batches: list[pa.RecordBatch], size: int) -> pa.RecordBatch:
        data = _encoded(pa.Table.from_batches(batches))
        path = None
        if size > _TOLD_BYTES:
            path = f"{self._folder}part-00000-{new_uuid()}.c000.lz4.parquet"
            call(self._put, path, data)
            data = b""
        return pa.record_batch(
            {"path": pa.array([path], pa.string()), "told": pa.array([data], pa.binary())}
        )

    async def _put(self, path: str, data: bytes) -> None:
        async with Table(self._uri, self._options) as table:
            await roots_of(table).store.put(path, data)


def _encoded(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="lz4", write_statistics=False)
    return sink.getvalue().to_pybytes()
