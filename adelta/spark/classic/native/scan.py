"""Scans of whole tables by Spark's own reader of Parquet, over files that adelta plans."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f
from pyspark.sql import types as s

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidExpressionError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.data_skipping.exact import (
    EXTREMES_COLUMNS,
    exact_extremes,
    exact_row_counts,
    may_tell_extremes,
)
from adelta.kernel.data_skipping.planner_statistics import PLANNER_COLUMNS, planner_statistics
from adelta.kernel.schema import types as t
from adelta.kernel.schema.names import physical_name, physical_schema
from adelta.kernel.schema.widening import check_type_changes
from adelta.kernel.table_features import DELETION_VECTORS, row_id_columns
from adelta.log.checksum_writer import known_checksum
from adelta.spark.classic import jvm
from adelta.spark.classic.java_classes import NotCompiledError
from adelta.spark.classic.native.file_plan import (
    FILE_COLUMNS,
    ROW_ID_COLUMNS,
    encode_files,
    encode_statistics,
    encode_values,
)
from adelta.spark.classic.native.hadoop_root import NotNativeError, hadoop_root, shown_address
from adelta.spark.classic.native.missing_files import note_root
from adelta.spark.cluster.planning import FilesOnExecutors, planned_from, planning_files_of
from adelta.spark.translate.filters import from_json
from adelta.spark.translate.identifiers import quoted
from adelta.spark.translate.types import SAME_IN_PARQUET, to_spark_schema
from adelta.spark.translate.zones import condition_in, moment_in
from adelta.storage.addresses import Place
from adelta.storage.providers import LOCAL, scheme_of
from adelta.sync._portal import abandon, call, current, is_current
from adelta.table import Table, give_back_connections

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from adelta.snapshot import Snapshot
    from adelta.spark.options.read_write import ReadOptions

__all__ = ["OpenVersion", "native_frame"]

_EXTREMES = "extremes "  # before the name of a column

_log = logging.getLogger("adelta.spark")
_FIELD_ID = "parquet.field.id"
_BY_ID = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "true",  # such columns are null
}


class OpenVersion:
    """One version of a table, open for as long as DataFrames over it plan queries."""

    def __init__(self, options: ReadOptions) -> None:
        self._portal = current()
        self._table, self.snapshot = call(_opened, options)
        self._portal.adopt(self._table)

    def __del__(self) -> None:
        if (table := getattr(self, "_table", None)) is None:
            return  # it was not opened
        if is_current(self._portal):
            self._portal.release(table)
        else:
            abandon(table)  # a forked child lets its parent's be


async def _opened(options: ReadOptions) -> tuple[Table, Snapshot]:
    table = Table(options.uri, options.storage_options, catalog=options.catalog)
    try:
        if options.timestamp is not None:
            moment = moment_in(options.timestamp, options.time_zone)
            return table, await table.snapshot(timestamp=moment)
        return table, await table.snapshot(version=options.version)
    except BaseException:
        await table.aclose()
        raise


def native_frame(
    spark: SparkSession, options: ReadOptions, version: OpenVersion | None = None
) -> DataFrame | None:
    """The rows that `options` ask for by Spark's own scan; None where that cannot be.

    They are of `version`, where that is given. Why not is logged.

    Raises:
        TableNotFoundError: there is no table.
        VersionNotFoundError: the version or time asked for is outside the history.
        UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
    """
    try:
        root = hadoop_root(spark, options)
        note_root(root)
        return _frame(spark, options, version or OpenVersion(options), root)
    except (NotNativeError, NotCompiledError) as error:
        _log.info("%s is read by adelta's data source: %s", shown_address(options), error)
        return None


def _frame(spark: SparkSession, options: ReadOptions, version: OpenVersion, root: str) -> DataFrame:
    snapshot = version.snapshot
    mode = snapshot._configuration.column_mapping_mode
    logical = snapshot.delta_schema
    check_type_changes(logical)
    _check(logical)
    physical = physical_schema(logical, mode)
    if mode == "id":
        physical = _by_id(physical)
    read_as = dict(zip((each.name for each in logical), physical, strict=True))
    partitions = [
        (physical_name(field, mode), field)
        for name in snapshot.partition_columns
        if (field := logical.field(name)) is not None
    ]
    keys = _by_name([read_as[field.name] for _, field in partitions])
    stored = [field for field in physical if field.name not in keys.fieldNames()]
    columns = to_spark_schema(t.StructType(tuple(stored))) if mode == "id" else _by_name(stored)
    by_name = {read_as[field.name].name: field for field in logical}
    large = _on_executors(spark, options, version)
    size, has_vectors = call(_totals, version, large)
    if has_vectors:
        if not jvm.ships_classes(spark):
            raise NotNativeError("it has deletion vectors, and the session has jars of its own")
        if jvm.DELETED in (field.name for field in physical):
            raise NotNativeError(f"it has a column of the name {jvm.DELETED}")
        columns.add(jvm.DELETED, s.BooleanType(), nullable=False)
    row_ids = row_id_columns(snapshot.metadata) if jvm.ships_classes(spark) else None
    plans = _Plans(
        version, large, partitions, t.StructType(tuple(physical)), root, has_vectors, bool(row_ids)
    )

    def plan(filters: str) -> bytes:
        asked = None if large is None else large.asked_here()
        if filters == "bytes":
            return call(_size, version, asked)
        if filters == "rows":
            return _number(call(_row_count, version, asked))
        if filters.startswith(_EXTREMES):
            field = by_name.get(filters.removeprefix(_EXTREMES))
            return b"" if asked or field is None else call(_extremes, version, field)
        return call(_planned, replace(plans, large=asked), filters)

    index = jvm.file_index(
        spark,
        name=f"{shown_address(options)} {snapshot.metadata.id} {snapshot.version}",
        latest="" if options.travels else f"{snapshot.version} {options.uri}",
        root=root,
        partitions=keys,
        size=size,
        vectors=has_vectors,
        row_ids=row_ids is not None,
        plan=plan,
    )
    options_ = _BY_ID if mode == "id" else {}
    weighed = jvm.plans_by_statistics(spark)
    found = jvm.frame_over(
        spark,
        index,
        columns,
        keys,
        options_,
        vectors=has_vectors,
        row_ids=row_ids,
        statistics=call(_statistics, version, large, by_name) if weighed else None,
    )
    if has_vectors:
        found = found.where(~f.col(jvm.DELETED)).drop(jvm.DELETED)
    wanted = to_spark_schema(logical)
    if found.schema != wanted:
        found = found.select(*_renamed(found.schema, physical, logical, wanted))
    if options.catalog is None:
        asked = str(snapshot.version) if options.travels else None
        jvm.mark_loaded(found, options.uri, asked)
    return _asked_for(found, spark, options, logical)


def _asked_for(
    found: DataFrame, spark: SparkSession, options: ReadOptions, schema: t.StructType
) -> DataFrame:
    """The rows and columns that the options name."""
    if options.where is not None:
        if options.time_zone != spark.conf.get("spark.sql.session.timeZone"):
            raise NotNativeError("its filter has times of another zone than the session's")
        try:  # what one road takes, and the other does not, neither takes
            condition_in(options.time_zone, options.where, schema)
            found = found.where(options.where)
        except (AnalysisException, InvalidExpressionError) as error:
            raise NotNativeError("its filter is not one of Spark's and adelta's") from error
    if options.columns is not None:
        missing = [name for name in options.columns if name not in found.columns]
        if missing:
            raise NotNativeError(f"there is no column {missing[0]!r}")  # which it says better
        found = found.select(*(found[quoted((name,))] for name in options.columns))
    return found


def _by_name(fields: list[t.StructField]) -> s.StructType:
    """The columns for Spark, which looks for field ids where they are in the schema."""
    found = to_spark_schema(t.StructType(tuple(fields)))
    return s.StructType.fromJson(_without_ids(found.jsonValue()))


def _without_ids(json: Any) -> Any:
    if isinstance(json, list):
        return [_without_ids(each) for each in json]
    if not isinstance(json, dict):
        return json
    return {key: _without_ids(value) for key, value in json.items() if key != _FIELD_ID}


def _by_id(schema: t.StructType) -> t.StructType:
    """The columns with names that no file has, where they have ids to be found by.

    Spark looks for columns by their ids, and judges row groups by their names, of which nobody
    knows what they are in a file.
    """
    return t.StructType(
        tuple(
            replace(field, name=f"__adelta_{field.metadata[_FIELD_ID]}", type=_ids_in(field.type))
            if _FIELD_ID in field.metadata
            else field
            for field in schema
        )
    )


def _ids_in(data_type: t.DataType) -> t.DataType:
    match data_type:
        case t.StructType():
            return _by_id(data_type)
        case t.ArrayType():
            return replace(data_type, element_type=_ids_in(data_type.element_type))
        case t.MapType():
            key, value = _ids_in(data_type.key_type), _ids_in(data_type.value_type)
            return replace(data_type, key_type=key, value_type=value)
    return data_type


def _check(schema: t.StructType) -> None:
    for field in schema:
        _check_type(field.type)


def _check_type(data_type: t.DataType) -> None:
    match data_type:
        case t.StructType():
            _check(data_type)
        case t.ArrayType(element):
            _check_type(element)
        case t.MapType(key, value):
            _check_type(key)
            _check_type(value)
        case t.DecimalType():
            pass
        case _ if data_type not in SAME_IN_PARQUET:
            raise NotNativeError(f"it has columns of the type {data_type}")


def _renamed(
    have: s.StructType, physical: t.StructType, logical: t.StructType, wanted: s.StructType
) -> list[Column]:
    """The columns in the table's order, under its own names."""
    found = []
    for stored, named, field in zip(physical, logical, wanted, strict=True):
        column = f.col(quoted((stored.name,)))
        if have[stored.name].dataType != field.dataType:
            column = column.cast(field.dataType)  # fields of structs, by position
        found.append(column.alias(named.name, metadata=field.metadata))
    return found


def _on_executors(
    spark: SparkSession, options: ReadOptions, version: OpenVersion
) -> FilesOnExecutors | None:
    """Who looks for files of a large table; None where the driver does."""
    least = planned_from(options, planning_files_of(spark))
    if call(version.snapshot._state.about_files) < least:
        return None
    return FilesOnExecutors(spark, options)


async def _totals(version: OpenVersion, large: FilesOnExecutors | None) -> tuple[int | None, bool]:
    """Bytes of the files, where that is known by now, and whether one has a deletion vector.

    Files are looked at only where neither the protocol nor a checksum tells of vectors.
    """
    snapshot = version.snapshot
    possible = snapshot._configuration.supports(DELETION_VECTORS)
    try:
        known = await known_checksum(snapshot._state)
        if known is not None and (not possible or known.num_deletion_vectors is not None):
            return known.table_size_bytes, bool(possible and known.num_deletion_vectors)
        if not possible:
            return None, False
        if large is not None:
            totals = await large.totals(snapshot)
            return totals.size, bool(totals.num_vectors)
        files = await snapshot.files(columns=["size", "deletion_vector"])
    finally:
        await give_back_connections(version._table)
    vectors = files.column("deletion_vector")
    return _sum(files), vectors.null_count < len(vectors)


async def _size(version: OpenVersion, large: FilesOnExecutors | None) -> bytes:
    """Bytes of the files, as `TableFileIndex.java` reads it."""
    try:
        if large is not None:
            return _number((await large.totals(version.snapshot)).size)
        files = await version.snapshot.files(columns=["size"])
    finally:
        await give_back_connections(version._table)
    return _number(_sum(files))


async def _row_count(version: OpenVersion, large: FilesOnExecutors | None) -> int | None:
    """How many rows the version has; None where the log does not say."""
    try:
        if large is not None:
            return (await large.totals(version.snapshot)).num_rows
        files = await version.snapshot.files(columns=["stats", "deletion_vector"])
    finally:
        await give_back_connections(version._table)
    found = await in_thread(exact_row_counts, files, None, ())
    if found is None or len(found[1]):
        return None
    return found[0]


async def _statistics(
    version: OpenVersion, large: FilesOnExecutors | None, columns: Mapping[str, t.StructField]
) -> tuple[int, bytes] | None:
    """How many rows the version has, and what its columns have; None where the log does not say.

    `columns` are by the names that files have for them. Of a table whose files are looked at on
    executors rows alone are told.
    """
    if large is not None:
        rows = await _row_count(version, large)
        return None if rows is None else (rows, b"")
    snapshot = version.snapshot
    try:
        files = await snapshot.files(columns=PLANNER_COLUMNS)
    finally:
        await give_back_connections(version._table)
    mode = snapshot._configuration.column_mapping_mode
    fields, keys = list(columns.values()), snapshot.partition_columns
    found = await in_thread(planner_statistics, files, fields, mode, keys)
    if found is None:
        return None
    told = {
        name: found.columns[each.name]
        for name, each in columns.items()
        if each.name in found.columns
    }
    return found.num_rows, encode_statistics(told)


async def _extremes(version: OpenVersion, field: t.StructField) -> bytes:
    """The least and the greatest value of a column, as `TableFileIndex.java` reads them."""
    snapshot = version.snapshot
    is_partition = field.name in snapshot.partition_columns
    if not may_tell_extremes(field.type, is_partition=is_partition):
        return b""
    try:
        files = await snapshot.files(columns=EXTREMES_COLUMNS)
    finally:
        await give_back_connections(version._table)
    mode = snapshot._configuration.column_mapping_mode
    found = await in_thread(exact_extremes, files, field, mode, is_partition=is_partition)
    return b"" if found is None else b"".join(encode_values(found, field.type))


def _number(value: int | None) -> bytes:
    """A number as `TableFileIndex.java` reads it: less than none where it is not known."""
    return (-1 if value is None else value).to_bytes(8, "big", signed=True)


def _sum(files: pa.Table) -> int:
    total: int = pc.sum(files.column("size")).as_py() or 0
    return total


@dataclass(frozen=True, slots=True)
class _Plans:
    """What files of a version are planned by, whatever the filters."""

    version: OpenVersion
    large: FilesOnExecutors | None
    partitions: list[tuple[str, t.StructField]]
    stored_as: t.StructType
    root: str
    vectors: bool
    row_ids: bool


async def _planned(plans: _Plans, filters: str) -> bytes:
    snapshot = plans.version.snapshot
    where = from_json(filters, snapshot.delta_schema, plans.stored_as)
    encode = partial(encode_files, vectors=plans.vectors, row_ids=plans.row_ids)
    columns = (*FILE_COLUMNS, *ROW_ID_COLUMNS) if plans.row_ids else FILE_COLUMNS
    try:
        if plans.large is not None:
            files = await plans.large.files(snapshot, where, columns)
        else:
            files = await snapshot.files(where, columns=columns)
        return await in_thread(encode, files, plans.partitions, _addresses(snapshot, plans.root))
    finally:
        await give_back_connections(plans.version._table)


def _addresses(snapshot: Snapshot, root: str) -> Callable[[str], str]:
    """What Hadoop opens for a path in the log."""

    def address(path: str) -> str:
        store, below = snapshot._roots.locate(path, decode_path(path))
        if store is snapshot._roots.store:
            return f"{root}/{below}"
        place = Place.of(store.uri)
        if place.provider is LOCAL:
            return f"file:{place.address}/{below}"
        # Another place in the same kind of store, whose connector the JVM has.
        return "/".join(
            (f"{scheme_of(root)}:/", place.authority, *filter(None, (place.path,)), below)
        )

    return address
