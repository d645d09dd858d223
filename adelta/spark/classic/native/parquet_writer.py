"""Rows written by Spark's own writer of Parquet, where a table asks no more of them.

The rows never leave the JVM: no Python worker has a part in it. Files lie under their final names
in the table's folder, as those that adelta's own writer makes, and what the log is to say of them
is in their footers, which adelta reads when all are written.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from adelta.kernel.actions.file_actions import encode_path
from adelta.kernel.partition import HIVE_DEFAULT_PARTITION
from adelta.kernel.schema import types as t
from adelta.kernel.schema.json import schema_from_string
from adelta.kernel.statistics import num_records
from adelta.kernel.table_features import identities_of
from adelta.kernel.table_properties import TableProperties
from adelta.operations.convert_files import ConvertTask, StatisticsWanted
from adelta.operations.distributed_write import discard_files
from adelta.spark.classic import jvm
from adelta.spark.classic.java_classes import NotCompiledError
from adelta.spark.classic.native.hadoop_root import NotNativeError, hadoop_root, shown_address
from adelta.spark.translate.identifiers import quoted
from adelta.spark.translate.types import SAME_IN_PARQUET, to_spark_schema
from adelta.storage.object_store import ObjectMeta
from adelta.table import open_table, roots_of
from adelta.write.layout import DataFileLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.operations.distributed_write import WriteJob
    from adelta.spark.cluster.task_executor import SparkTaskExecutor
    from adelta.spark.options.read_write import WriteOptions
    from adelta.write.spec import WriteSpec

__all__ = ["NativeWriter"]

_log = logging.getLogger("adelta.spark")
_IN_FOLDERS = (t.BOOLEAN, t.BYTE, t.DATE, t.INTEGER, t.LONG, t.SHORT, t.STRING)
"""Those whose values the names of folders tell exactly, in any session."""
_FAILED = "[TASK_WRITE_FAILED]"
_CODECS = ("gzip", "none", "snappy", "uncompressed", "zstd")
_REBASE = (
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.int96RebaseModeInWrite",
)
_ESCAPED = f"{HIVE_DEFAULT_PARTITION}-"
"""What the name of a folder begins with that has a text's bytes, which it cannot have as it is."""
_FACTS = 3  # of each file: path, size, time of modification
_END = "\0"  # of each, which no path has
_FILES_A_TASK = 2000


class NativeWriter:
    """Writes the rows of one job to files that belong to no table yet."""

    def __init__(self, job: WriteJob, rows: DataFrame, keys: int, writer: Any) -> None:
        self._job, self._rows, self._keys, self._writer = job, rows, keys, writer

    @classmethod
    def of(cls, df: DataFrame, job: WriteJob, options: WriteOptions) -> NativeWriter | None:
        """The writer of the rows of `df`; None where adelta has to write them. Why is logged."""
        try:
            if not options.native_write:
                raise NotNativeError("nativeWrite is false")
            return cls._of(df, job, options)
        except (NotNativeError, NotCompiledError) as error:
            _log.info("adelta writes the files of %s: %s", shown_address(options), error)
            return None

    @classmethod
    def _of(cls, df: DataFrame, job: WriteJob, options: WriteOptions) -> NativeWriter:
        spark, spec = df.sparkSession, job.spec
        if spec is None or job.catalog is not None:
            raise NotNativeError("no rows are to be written, or a catalog manages the table")
        if not jvm.ships_classes(spark):
            raise NotNativeError("the session has jars of its own")
        for setting in _REBASE:
            if str(spark.conf.get(setting, "CORRECTED")).upper() != "CORRECTED":
                raise NotNativeError(f"{setting} asks for another calendar")
        schema = schema_from_string(spec.schema_string)
        codec = _codec(spec)
        _check_files(spec, job)
        _check_rows(spec, schema)
        columns = {field.name: field.dataType for field in df.schema}
        if len(columns) < len(df.columns) or columns != {
            field.name: field.dataType for field in to_spark_schema(schema)
        }:
            raise NotNativeError("the columns are not all of the table's, of its types")
        partitions = spec.partition_columns
        stored = [field.name for field in schema if field.name not in partitions]
        texts = {field.name for field in schema if field.type == t.STRING}
        folders = (_in_folder(name) if name in texts else _column(name) for name in partitions)
        rows = df.select(*(_column(name) for name in stored), *folders)
        root, most_rows = hadoop_root(spark, options), spec.max_records_per_file
        any_text = "" if texts.isdisjoint(partitions) else "é"
        named = f"{root}/{'/'.join(partitions)}{any_text}"
        if (reason := jvm.why_not_named(spark, named)) is not None:
            raise NotNativeError(reason)
        writer = jvm.table_writer(spark, root, codec, most_rows)
        return cls(job, rows, len(partitions), writer)

    async def write(self, jobs: SparkTaskExecutor) -> list[AddFile]:
        """What the log is to say of the files of all rows.

        Raises:
            PySparkException: a task failed, or the job was cancelled.
            InvalidTableError: a file has gone, or is not what was written.
            StorageError: the store refused or failed.
        """
        try:
            await jobs.ran(self._write)
            files = await self._described(jobs)
            empty = {file.path for file in files if num_records(file.stats) == 0}
            await discard_files(self._job, empty)
            return [file for file in files if file.path not in empty]
        except BaseException:
            ended = _told(self._writer.ended())
            await discard_files(self._job, [encode_path(file.path) for file in ended])
            raise

    def _write(self) -> None:
        jvm.activate(self._rows.sparkSession)
        try:
            self._writer.write(self._rows._jdf, self._keys)
        except Py4JJavaError as error:  # PySpark has no class for what stores and disks refuse
            if _FAILED in str(error.java_exception.getMessage()):
                raise PySparkException(str(error)) from error
            raise

    async def _described(self, jobs: SparkTaskExecutor) -> list[AddFile]:
        spec = self._job.spec
        assert spec is not None
        schema = schema_from_string(spec.schema_string)
        fields = {field.name: field for field in schema}
        partitions = tuple(fields[name] for name in spec.partition_columns)
        wanted = StatisticsWanted(dict(spec.properties), schema, tells_nan=True)
        files = list(_told(self._writer.counted()))
        tasks = [
            ConvertTask(tuple(files[start : start + _FILES_A_TASK]), partitions, wanted)
            for start in range(0, len(files), _FILES_A_TASK)
        ]
        async with open_table(self._job.uri, self._job.storage_options) as table:
            done = await jobs.run(roots_of(table), tasks)
        return [_with_texts(add) for result in done for add in result.adds]


def _told(counted: str) -> Iterator[ObjectMeta]:
    facts = counted.split(_END)
    for at in range(0, len(facts) - 1, _FACTS):
        path, size, modified_ms = facts[at : at + _FACTS]
        yield ObjectMeta(path, int(size), int(modified_ms))


def _column(name: str) -> Column:
    return f.col(quoted((name,)))


def _in_folder(name: str) -> Column:
    """A text as a folder's name can have it, none of which is that of nulls; or an error."""
    text = f.validate_utf8(_column(name))
    escaped = text.startswith(HIVE_DEFAULT_PARTITION) | text.contains("\0")
    return f.when(escaped, f.concat(f.lit(_ESCAPED), f.hex(text))).otherwise(text).alias(name)


def _with_texts(add: AddFile) -> AddFile:
    """A file with the texts that its folders' names stand for."""
    escaped = {
        name: bytes.fromhex(text.removeprefix(_ESCAPED)).decode()
        for name, text in add.partition_values.items()
        if text is not None and text.startswith(_ESCAPED)
    }
    return replace(add, partition_values={**add.partition_values, **escaped}) if escaped else add


def _codec(spec: WriteSpec) -> str:
    properties = TableProperties.parse(dict(spec.properties))
    if properties.parquet_format_version != "1.0.0":
        raise NotNativeError("it asks for pages of another version")
    if properties.target_file_size is not None:
        raise NotNativeError("it asks for files of another size")
    codec = (spec.compression or properties.parquet_compression_codec).lower()
    if codec not in _CODECS:
        raise NotNativeError(f"the codec is {codec}")
    return codec


def _check_files(spec: WriteSpec, job: WriteJob) -> None:
    """Refuse what is asked of files beside their codec."""
    asked = job.request.data_files
    if spec.writer_options is not None:
        raise NotNativeError("files are asked for that Spark does not write")
    if asked.target_file_size is not None or (spec.optimize_write and spec.partition_columns):
        raise NotNativeError("files of a size are asked for")
    if spec.column_mapping_mode != "none" or spec.iceberg_compat or spec.partition_columns_in_files:
        raise NotNativeError("columns have other names, or ids, in files")


def _check_rows(spec: WriteSpec, schema: t.StructType) -> None:
    """Refuse rows that are to be completed, or held to rules."""
    rules = DataFileLayout.of(spec).rules
    if rules is None or rules.defaults or rules.generated or rules.checks or rules.shapes:
        raise NotNativeError("rows are computed, or held to rules")
    if identities_of(schema):
        raise NotNativeError("rows are numbered")
    for field in schema:
        if not field.nullable or field.metadata.keys() - {"comment"}:
            raise NotNativeError(f"column {field.name} is held to rules")
        if field.type not in SAME_IN_PARQUET and not isinstance(field.type, t.DecimalType):
            raise NotNativeError(f"it has columns of the type {field.type}")
        if field.name in spec.partition_columns and field.type not in _IN_FOLDERS:
            raise NotNativeError(f"it is partitioned by {field.type}")
