"""Statements that create tables, or write and merge the rows of a query."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as s

from adelta.errors import InvalidOptionError, TableNotFoundError
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema.alteration import shown
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.json import type_to_json
from adelta.kernel.schema.types import StructType
from adelta.kernel.table_properties import CONSTRAINT_PREFIX
from adelta.operations.clone_source import is_delta
from adelta.operations.convert import convert
from adelta.operations.convert_iceberg import convert_iceberg
from adelta.operations.create import exists
from adelta.spark.cluster.staged_rows import staged_rows
from adelta.spark.exceptions import name_taken
from adelta.spark.options.hadoop_conf import allow_origin, prefixed, storage_of_session
from adelta.spark.options.read_write import ReadOptions, WriteOptions, absolute_uri
from adelta.spark.options.replacing import ReplaceOptions
from adelta.spark.options.session_settings import (
    default_format,
    merges_schemas,
    with_default_properties,
    write_settings,
)
from adelta.spark.options.writer import WriteState
from adelta.spark.rows.by_position import by_position
from adelta.spark.rows.own_reads import made_of
from adelta.spark.rows.replacing import replace_rows
from adelta.spark.rows.saving import save
from adelta.spark.side import side_of
from adelta.spark.tables.access import TableAccess
from adelta.spark.tables.answers import cluster_session, frame
from adelta.spark.tables.creation import TableWish, create_as_wished
from adelta.spark.tables.names import add_name, drop_name, find_table, named_table, without_views
from adelta.spark.translate.identifiers import FORMAT, FORMATS, identifier_parts, quoted
from adelta.spark.translate.types import to_declared_schema, to_delta_schema, to_spark_schema
from adelta.sql.execute.definition import columns_of, field_of, layout_of, like_table
from adelta.sql.execute.full_names import merge_by_aliases
from adelta.sql.execute.rows import overwrites_dynamically, replaced_rows, target_columns
from adelta.sql.records import NOTHING, table_of
from adelta.sql.run import run_statement
from adelta.sql.session import Session
from adelta.sql.statements import Query, TableName, TableReference
from adelta.sync._portal import call
from adelta.table import open_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from adelta.operations.write_transactions import DefinedBy
    from adelta.sql.statements import (
        CreateClone,
        CreateTable,
        Insert,
        InsertReplacing,
        Merge,
        Vacuum,
    )

_DEFINITIONS: dict[str, tuple[str, DefinedBy]] = {
    "create": ("ErrorIfExists", "CREATE TABLE AS SELECT"),
    "create if not exists": ("Ignore", "CREATE TABLE AS SELECT"),
    "replace": ("Overwrite", "REPLACE TABLE AS SELECT"),
    "create or replace": ("Overwrite", "CREATE OR REPLACE TABLE AS SELECT"),
}
"""What a writer does of a definition by a query's rows, and what the history says of it."""

__all__ = [
    "rows_of",
    "run_clone",
    "run_create",
    "run_insert",
    "run_merge",
    "run_replacing",
    "run_vacuum",
    "source_of",
]


def rows_of(spark: SparkSession, reference: TableReference, zone: str) -> DataFrame | None:
    """The rows of a Delta table; None of another table or view."""
    try:
        uri = str(named_table(spark, reference.name).path)
    except TableNotFoundError:
        return None  # another table or view, which Spark knows
    access, as_of = TableAccess(spark, uri, storage_of_session(spark, uri)), reference.as_of
    if as_of is None or as_of.timestamp is None:
        return access.rows(None if as_of is None else as_of.version)
    return access.rows(timestamp=Session(zone=zone).moment(as_of.timestamp))


def run_insert(spark: SparkSession, statement: Insert, session: Session) -> DataFrame:
    """Write the rows of a query, by Spark's tasks."""
    uri, options = str(statement.table.path), session.storage_options
    source: Any = statement.source
    if merges_schemas(spark):
        statement = replace(statement, evolves_schema=True)

    async def columns() -> StructType:
        async with open_table(uri, options) as table:
            return (await table.snapshot()).delta_schema

    schema = call(columns)
    rows = side_of(spark).query(spark, source, session.zone)
    names = target_columns(statement, schema, rows.columns)
    if not statement.by_name:
        rows = by_position(rows, names, to_spark_schema(schema))
    for name, node in statement.partition:
        if node is not None:
            rows = rows.withColumn(name, f.expr(to_sql(node)))
    said: dict[str, str] = {}
    if statement.evolves_schema:
        said["mergeSchema"] = "true"
    if (where := replaced_rows(statement, schema, session)) is not None:
        said["replaceWhere"] = to_sql(where)
    elif statement.overwrite:
        dynamic = overwrites_dynamically(statement, session)
        said["partitionOverwriteMode"] = "dynamic" if dynamic else "static"
    given = {"path": uri, **prefixed(options), **said}
    mode = "Overwrite" if statement.overwrite else "Append"
    save(rows, WriteState(FORMAT, mode, given, None, None, buckets=False))
    return frame(spark, table_of(NOTHING))


def run_replacing(spark: SparkSession, statement: InsertReplacing, session: Session) -> DataFrame:
    """Write the rows of a query in the place of those that they match."""
    uri, source = str(statement.table.path), statement.source
    assert isinstance(source, Query)
    said = {"path": uri, **prefixed(session.storage_options)}
    options = replace(
        WriteOptions.parse({**said, **write_settings(spark, spark.conf.getAll, ())}),
        schema_mode="merge" if statement.evolves_schema or merges_schemas(spark) else None,
    )
    on = None if statement.on is None else statement.on.text
    using = statement.using
    wanted = ReplaceOptions(on or ", ".join(using or ()), using, on, statement.target_alias)
    replace_rows(
        side_of(spark).query(spark, source, session.zone),
        options,
        wanted,
        by_order=not statement.by_name,
        source_alias=statement.source_alias,
    )
    return frame(spark, table_of(NOTHING))


def source_of(spark: SparkSession, statement: Merge, zone: str) -> tuple[DataFrame, str | None]:
    """The rows that are to be merged, and what expressions call them."""
    source, alias = statement.source, statement.source_alias
    if isinstance(source, Query):
        return side_of(spark).query(spark, source, zone), alias
    found = rows_of(spark, TableReference(source, statement.source_as_of, 0, 0), zone)
    rows = spark.table(quoted(source.parts)) if found is None else found
    return rows, alias or (source.parts[-1] if source.parts else None)


def run_vacuum(spark: SparkSession, statement: Vacuum, session: Session) -> DataFrame:
    """Delete files that are not needed; the list of those that there are may be Spark's."""
    source = statement.inventory
    if isinstance(source, Query):
        rows = side_of(spark).query(spark, source, session.zone)
    elif source is not None:
        found = rows_of(spark, TableReference(source, None, 0, 0), session.zone)
        rows = spark.table(quoted(source.parts)) if found is None else found
    else:
        return frame(spark, call(run_statement, statement, session))
    listed = replace(session, tables={"inventory": rows.toArrow()})
    return frame(
        spark, call(run_statement, replace(statement, inventory=TableName(("inventory",))), listed)
    )


def run_merge(spark: SparkSession, statement: Merge, session: Session) -> DataFrame:
    """Merge rows that Spark gives, by way of this process."""
    rows, alias = source_of(spark, statement, session.zone)
    if merges_schemas(spark):
        statement = replace(statement, evolves_schema=True)
    target = statement.target_alias or (statement.table.parts or ("target",))[-1]
    statement = merge_by_aliases(statement, target, alias or "source")
    named = TableName(("source",))
    place = str(statement.table.path)
    to = ReadOptions(place, session.storage_options or {})
    staged: Any = staged_rows(spark, rows, place, session.storage_options)  # as rows at hand
    return frame(
        spark,
        call(
            run_statement,
            replace(statement, source=named, source_as_of=None, source_alias=alias),
            replace(session, tables={"source": staged}, made_of=made_of(rows, to)),
        ),
    )


def run_create(spark: SparkSession, statement: CreateTable, zone: str) -> DataFrame | None:
    """Create or replace a table; None where the statement is about one of another format."""
    name = statement.table
    if statement.like is not None:
        found = _like(spark, statement)
        if found is None:
            return None
        statement = found
    if name.path is None and statement.provider is None and default_format(spark) not in FORMATS:
        return None
    side_of(spark).ensure_registered(spark)
    if name.path is not None:
        table = named_table(spark, name)
        if statement.query is None:
            session = cluster_session(spark, str(table.path), zone)
            made = replace(_with_defaults(spark, statement), table=table)
            call(run_statement, made, session)
        else:
            _define(spark, statement, str(table.path), zone)
    elif statement.query is None:
        create_as_wished(spark, _wish(statement), statement.mode)
    else:
        _define_named(spark, statement, zone)
    return frame(spark, table_of(NOTHING))


def _with_defaults(spark: SparkSession, statement: CreateTable) -> CreateTable:
    """The statement, with the session's properties for new tables."""
    properties = with_default_properties(statement.properties, spark.conf.getAll)
    return replace(statement, properties=properties)


def _like(spark: SparkSession, statement: CreateTable) -> CreateTable | None:
    """The statement, with what the other table has; None where both are of other formats."""
    assert statement.like is not None
    try:
        uri = str(named_table(spark, statement.like).path)
    except TableNotFoundError:
        if (statement.provider or "").lower() not in FORMATS:
            return None
        return _like_other(spark, statement, quoted(statement.like.parts))

    async def said() -> CreateTable:
        async with open_table(uri, storage_of_session(spark, uri)) as other:
            return await like_table(statement, other)

    found = call(said)
    return found if found.provider is not None else replace(found, provider="delta")


def _like_other(spark: SparkSession, statement: CreateTable, other: str) -> CreateTable:
    """The statement, with the columns of what the session knows by another name, a view maybe."""
    schema = to_declared_schema(spark.table(other).schema)
    found = spark.catalog.listColumns(other)
    return replace(
        statement,
        like=None,
        columns=columns_of(schema),
        partition_by=statement.partition_by or tuple(c.name for c in found if c.isPartition),
    )


def run_clone(spark: SparkSession, statement: CreateClone, zone: str) -> DataFrame:
    """Make another table with the rows of a version, by its path or under a name.

    Raises:
        TableNotFoundError: there is no source, or no table of that name to replace.
        TableAlreadyExistsError: there is a table of that name, and it is not to be replaced.
        InvalidOptionError: the table of that name is elsewhere.
    """
    side_of(spark).ensure_registered(spark)
    statement = with_source(spark, statement)
    if statement.table.path is not None:
        return _cloned(spark, statement, str(named_table(spark, statement.table).path), zone)
    name, location = without_views(spark, quoted(statement.table.parts)), statement.location
    statement = replace(statement, table=TableName(identifier_parts(name)))
    if find_table(spark, name) is not None:
        if statement.mode == "create":
            raise name_taken(f"table {name} already exists; choose another name")
        if statement.mode == "create if not exists":
            return frame(spark, table_of(NOTHING))
        place = str(named_table(spark, statement.table).path)
        if location is not None and absolute_uri(location) != place:
            raise InvalidOptionError(
                f"the location of the existing table {name} is {place!r}, not {location!r}; leave "
                "the location out"
            )
        return _cloned(spark, statement, place, zone)
    if statement.mode == "replace":
        raise TableNotFoundError(f"table {name} cannot be replaced as it does not exist")
    if location is not None:
        done = _cloned(spark, statement, absolute_uri(location), zone)
        add_name(spark, name, _columns(spark, absolute_uri(location)), location=location)
        return done
    made = add_name(spark, name, columns_of_source(spark, statement))
    try:
        place = str(named_table(spark, statement.table).path)
        return _cloned(spark, replace(statement, mode="create or replace"), place, zone)
    except BaseException:
        drop_name(spark, made.name)
        raise


def _cloned(spark: SparkSession, statement: CreateClone, place: str, zone: str) -> DataFrame:
    """Make the table at a place the clone."""
    source = str(statement.source.path)
    options = storage_of_session(spark, source) or storage_of_session(spark, place)
    session = replace(cluster_session(spark, place, zone), storage_options=options)
    asked = replace(statement, table=TableName((), place), location=None)
    done = call(run_statement, asked, session)
    if statement.shallow:
        allow_origin(spark, source)
    return frame(spark, done)


def _columns(spark: SparkSession, uri: str) -> s.StructType:
    return TableAccess(spark, uri, storage_of_session(spark, uri)).rows().schema


def _wish(statement: CreateTable) -> TableWish:
    schema: Any = type_to_json(StructType(tuple(map(field_of, statement.columns))))
    checks = {CONSTRAINT_PREFIX + name: text for name, text in statement.checks.items()}
    return TableWish(
        quoted(statement.table.parts),
        statement.location,
        statement.comment,
        tuple(s.StructType.fromJson(schema)),
        statement.partition_by,
        tuple(map(shown, statement.cluster_by)),
        {**statement.properties, **checks},
    )


def _define_named(spark: SparkSession, statement: CreateTable, zone: str) -> None:
    name = without_views(spark, quoted(statement.table.parts))
    statement = replace(statement, table=TableName(identifier_parts(name)))
    found = find_table(spark, name)
    if found is not None:
        if statement.mode == "create":
            raise name_taken(f"table {name} already exists; choose another name")
        if statement.mode == "create if not exists":
            return
        _define(spark, statement, str(named_table(spark, statement.table).path), zone)
        return
    if statement.mode == "replace":
        raise TableNotFoundError(f"table {name} cannot be replaced as it does not exist")
    assert statement.query is not None
    rows = side_of(spark).query(spark, statement.query, zone)
    made = add_name(
        spark, name, rows.schema, location=statement.location, comment=statement.comment
    )
    try:
        place = str(named_table(spark, TableName(statement.table.parts)).path)
        _define(spark, statement, place, zone)
    except BaseException:
        drop_name(spark, made.name)
        raise


def _define(spark: SparkSession, statement: CreateTable, uri: str, zone: str) -> None:
    """Make the table of a query's rows, in one commit; its files are written by Spark's tasks."""
    if statement.columns:
        raise InvalidOptionError(
            "the rows of the query say which columns the table has: leave the columns out"
        )
    assert statement.query is not None
    layout = layout_of(statement)
    options = {"path": uri, "tableProperties": json.dumps(layout["properties"])}
    mode, defined_by = _DEFINITIONS[statement.mode]
    if mode == "Overwrite":
        options |= {"overwriteSchema": "true", "partitionOverwriteMode": "static"}
    if statement.mode == "replace" and not call(_is_there, uri, storage_of_session(spark, uri)):
        raise TableNotFoundError(
            f"there is no Delta table at {uri} to replace; say CREATE OR REPLACE TABLE"
        )
    clusters = list(layout["cluster_by"]) or None
    told = WriteState(FORMAT, mode, options, list(statement.partition_by), clusters, buckets=False)
    rows = side_of(spark).query(spark, statement.query, zone)
    save(rows, told, defined_by=defined_by, description=statement.comment)


async def _is_there(uri: str, options: dict[str, str]) -> bool:
    async with open_table(uri, options) as table:
        return await exists(table)


def with_source(spark: SparkSession, statement: CreateClone) -> CreateClone:
    """The statement, whose source is told by its path, and is of the format that it says.

    What the session knows as a table of Parquet's is partitioned as it knows.

    Raises:
        TableNotFoundError: the session knows no such table, or another one.
    """
    name = statement.source
    if name.path is None:
        found = find_table(spark, quoted(name.parts))
        provider = None if found is None else (found.provider or "").lower()
        if found is not None and provider == "parquet" and found.location is not None:
            partitions = to_delta_schema(side_of(spark).parquet_entry(spark, found).partitions)
            source = TableName((), absolute_uri(found.location))
            return replace(
                statement,
                source=source,
                source_format="parquet",
                partition_by=columns_of(partitions),
            )
    return replace(statement, source=TableName((), named_table(spark, name).path))


def columns_of_source(spark: SparkSession, statement: CreateClone) -> s.StructType:
    """The columns that the clone is to have; files of other formats are looked at for them."""
    uri = str(statement.source.path)
    options = storage_of_session(spark, uri)
    if statement.source_format == "delta":
        return TableAccess(spark, uri, options).rows().schema

    async def looked() -> pa.Schema:
        if statement.source_format == "iceberg":
            found = await convert_iceberg(uri, dry_run=True, storage_options=options)
        else:
            partitions = StructType(tuple(map(field_of, statement.partition_by)))
            found = await convert(
                uri,
                partition_schema=partitions if partitions.fields else None,
                dry_run=True,
                storage_options=options,
            )
        if found.schema is None:
            raise is_delta(uri)
        return found.schema

    return to_spark_schema(from_arrow_schema(call(looked)))
