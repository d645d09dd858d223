"""Tables by the names that a session knows: where they are, and how they come to be known.

In a classic session its catalog is asked; through Spark Connect, what Spark's own statements say.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import types as s

from adelta._chance import new_uuid
from adelta.errors import InvalidOptionError, TableNotFoundError
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.side import NamedTable, side_of
from adelta.spark.sql_hook import plain_sql
from adelta.spark.translate.identifiers import (
    FORMAT,
    identifier_parts,
    path_named,
    quoted,
    string_literal,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

    from adelta.sql.statements import TableName

__all__ = [
    "add_name",
    "catalog_fails",
    "describe_table",
    "drop_name",
    "find_table",
    "format_of",
    "in_session_catalog",
    "location_of",
    "name_as_delta",
    "named_table",
    "place_of",
    "without_views",
]

_SESSION_CATALOG: Final = "spark_catalog"
_NO_SUCH_TABLE: Final = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND")


def location_of(spark: SparkSession, name: str) -> tuple[str, str | None]:
    """Where the Delta table of a name is, and its full name; a path in backticks has none.

    Raises:
        TableNotFoundError: there is no such table, or it is no Delta table.
        InvalidOptionError: it is no name.
    """
    if (path := path_named(name)) is not None:
        return path, None
    found = find_table(spark, name)
    if found is None:
        raise TableNotFoundError(
            f"{name} is not a Delta table: the session knows no table of that name"
        )
    if not found.is_delta or found.location is None:
        what = f"a table of {found.provider}" if found.provider else "a view"
        raise TableNotFoundError(f"{name} is not a Delta table: it is {what}")
    return found.location, found.name


def find_table(spark: SparkSession, name: str) -> NamedTable | None:
    """What the session knows by a name; None where that is nothing.

    Raises:
        InvalidOptionError: it is no name.
    """
    parts = identifier_parts(name)
    try:
        return side_of(spark).find_table(spark, parts)
    except AnalysisException as error:
        if error.getCondition() in _NO_SUCH_TABLE:
            return None
        raise


def in_session_catalog(spark: SparkSession, parts: tuple[str, ...]) -> bool:
    """Whether a name is looked for in Spark's own catalog."""
    catalog = parts[0] if len(parts) > 2 else spark.catalog.currentCatalog()
    return catalog.lower() == _SESSION_CATALOG and len(parts) < 4


def describe_table(spark: SparkSession, parts: tuple[str, ...]) -> NamedTable | None:
    """What Spark's statements say of a name; None where there is nothing of that name.

    Raises:
        AnalysisException: there is no such schema or catalog.
    """
    if not spark.catalog.tableExists(quoted(parts)):
        return None  # which PySpark would write to the error stream, where that is raised
    found = _described(spark, parts)
    if found.location is None and found.kind is not None and in_session_catalog(spark, parts):
        return _listed(spark, parts) or found
    return found


def format_of(spark: SparkSession) -> str:
    """The format by which a session's catalog is to know tables: delta-spark's where it answers."""
    return "delta" if "delta" in side_of(spark).formats(spark) else FORMAT


def without_views(spark: SparkSession, name: str) -> str:
    """The name by which the catalog has a table, where a temporary view has the same one.

    Such a view is meant by the name alone where rows are read or changed, and not where a table is
    created or replaced.

    Raises:
        InvalidOptionError: it is no name.
    """
    parts = identifier_parts(name)
    found = find_table(spark, name) if len(parts) == 1 else None
    if found is None or found.provider is not None or found.location is not None:
        return name
    catalog = spark.catalog.currentCatalog()
    before = () if catalog == _SESSION_CATALOG else (catalog,)
    return quoted((*before, spark.catalog.currentDatabase(), *parts))


def add_name(
    spark: SparkSession,
    name: str,
    columns: s.StructType,
    *,
    location: str | None = None,
    comment: str | None = None,
) -> NamedTable:
    """Let the session's catalog know a table; without a location it chooses one, and keeps it.

    Raises:
        AnalysisException: it cannot be known by that name.
        InvalidOptionError: it has no columns, of which Spark would ask the data source.
    """
    side = side_of(spark)
    if not columns.fields and side.names_need_columns:
        raise InvalidOptionError(
            f"through Spark Connect {name} is known by its name with a column at least: add one, "
            "or create the table by its location alone"
        )
    side.ensure_registered(spark)
    listed = ", ".join(_column(field, " ") for field in columns.fields)
    said = f" ({listed})" if listed else ""
    text = f"CREATE TABLE {quoted(identifier_parts(name))}{said} USING {format_of(spark)}"
    if location is not None:
        text += f" LOCATION {string_literal(location)}"
    if comment is not None:
        text += f" COMMENT {string_literal(comment)}"
    plain_sql(spark, text)
    found = find_table(spark, name)
    if found is None or found.location is None:
        raise TableNotFoundError(
            f"the session's catalog does not say where it keeps {name}; give a location"
        )
    return found


def drop_name(spark: SparkSession, name: str) -> None:
    """Let the session's catalog know a table no longer."""
    plain_sql(spark, f"DROP TABLE IF EXISTS {quoted(identifier_parts(name))}")


def name_as_delta(spark: SparkSession, table: NamedTable, columns: s.StructType) -> None:
    """Let the session's catalog know a table, which is Delta's now, as one, through Spark Connect.

    Its entry is made anew, as that of a table at a given place.

    Raises:
        InvalidOptionError: the catalog would delete the files with the entry.
    """
    name = quoted(identifier_parts(table.name))
    if table.kind != "EXTERNAL":
        elsewhere = f"{table.location}-{new_uuid().hex}"  # which is what Spark deletes then
        plain_sql(spark, f"ALTER TABLE {name} SET LOCATION {string_literal(elsewhere)}")
        moved = find_table(spark, name)
        if moved is None or moved.location != elsewhere:
            raise InvalidOptionError(
                f"{table.name} is a Delta table now, and the catalog does not let go of the files: "
                f"open it by its path, {table.location}"
            )
    drop_name(spark, name)
    add_name(spark, name, columns, location=table.location)


def catalog_fails(spark: SparkSession) -> bool:
    """Whether the session cannot load the class that is set as its catalog."""
    try:
        spark.catalog.tableExists("adelta")
    except PySparkException as error:
        condition = error.getCondition() or ""
        return not isinstance(error, AnalysisException) or "PLUGIN_CLASS_NOT_FOUND" in condition
    return False


def _described(spark: SparkSession, parts: tuple[str, ...]) -> NamedTable:
    rows = plain_sql(spark, f"DESCRIBE TABLE EXTENDED {quoted(parts)}").collect()
    said: dict[str, str] = {}
    begun = False
    for row in rows:
        begun = begun or row.col_name == "# Detailed Table Information"
        if begun and row.data_type and row.col_name not in said:
            said[row.col_name] = row.data_type
    name = ".".join(
        said[key] for key in ("Catalog", "Database", "Table") if key in said
    ) or ".".join(parts)
    location = _plain(said.get("Location"))
    kind = said.get("Type", "") if begun else None
    return NamedTable(name, said.get("Provider"), location, kind)


def _listed(spark: SparkSession, parts: tuple[str, ...]) -> NamedTable | None:
    """What is known of a table whose description leaves out where it is.

    Raises:
        InvalidOptionError: what Spark lists of it can be read in two ways.
    """
    namespace = parts[-2] if len(parts) > 1 else spark.catalog.currentDatabase()
    pattern = re.sub(r"[*|.]", ".", parts[-1])
    listing = f"SHOW TABLE EXTENDED IN {quoted([namespace])} LIKE {string_literal(pattern)}"
    for row in plain_sql(spark, listing).collect():
        if row.tableName.lower() != parts[-1].lower():
            continue
        found = {}
        for key in ("Provider", "Location"):
            values = re.findall(rf"^{key}: (.*)$", row.information, re.MULTILINE)
            if len(values) > 1:
                raise InvalidOptionError(
                    f"Spark says more than once what the {key.lower()} of {'.'.join(parts)} is; "
                    "open the table by its path"
                )
            found[key] = values[0] if values else None
        name = f"{_SESSION_CATALOG}.{namespace}.{row.tableName}"
        return NamedTable(name, found["Provider"], _plain(found["Location"]))
    return None


def _plain(location: str | None) -> str | None:
    """The location, a local one as a path."""
    local = location is not None and location.startswith("file:/")
    return re.sub("^file:/+", "/", location) if local and location is not None else location


def _column(field: s.StructField, between: str) -> str:
    """A column or a field, its type and its comment, as Spark SQL writes them."""
    comment = (field.metadata or {}).get("comment")
    said = "" if comment is None else f" COMMENT {string_literal(comment)}"
    return f"{quoted([field.name])}{between}{_ddl(field.dataType)}{said}"


def _ddl(data_type: s.DataType) -> str:
    """The type as Spark SQL writes it."""
    match data_type:
        case s.StructType(fields=fields):
            return f"STRUCT<{', '.join(_column(field, ': ') for field in fields)}>"
        case s.ArrayType(elementType=element):
            return f"ARRAY<{_ddl(element)}>"
        case s.MapType(keyType=key, valueType=value):
            return f"MAP<{_ddl(key)}, {_ddl(value)}>"
    return data_type.simpleString()


def place_of(spark: SparkSession, name: str, formats: Collection[str]) -> str | None:
    """Where the table of a name is, if it is one of `formats`; None of other names.

    Raises:
        InvalidOptionError: it is no name.
    """
    if (path := path_named(name, formats)) is not None:
        return path
    found = find_table(spark, name)
    if found is None or (found.provider or "").lower() not in formats:
        return None
    if found.location is None:
        raise TableNotFoundError(
            f"the session does not say where the table {name} is; give the stream its path"
        )
    return found.location


def named_table(spark: SparkSession, name: TableName) -> TableName:
    """The table under its full name, with the path where it is.

    Raises:
        TableNotFoundError: the session knows no Delta table of that name.
    """
    if name.path is not None:
        return replace(name, path=absolute_uri(name.path))
    location, full = location_of(spark, quoted(name.parts))
    return replace(name, parts=identifier_parts(full or ""), path=absolute_uri(location))
