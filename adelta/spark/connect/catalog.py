"""`spark.catalog` of a session of Spark Connect, where it is asked about Delta tables.

The server's catalog keeps what a table was when it got its name, and makes none by itself: so the
client answers from the table, as `adelta.spark.connect.tables` reads and writes it.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidOptionError
from adelta.operations.detail import detail
from adelta.spark.connect.formats import formats_of, place_of
from adelta.spark.connect.statements import run_sql
from adelta.spark.exceptions import raises_as_spark
from adelta.spark.options.session_settings import default_format
from adelta.spark.rows.target import Target, is_table
from adelta.spark.tables.creation import TableWish, create_as_wished
from adelta.spark.translate.identifiers import identifier_parts, path_named, quoted
from adelta.spark.versions import SPARK

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["hook_catalog"]

_COMMENT, _PROPERTY = "comment", "delta."


def hook_catalog() -> None:
    """Let catalogs of sessions know the tables of their formats."""
    from pyspark.sql.connect.catalog import Catalog  # which needs more packages

    catalog: Any = Catalog
    catalog.createTable = _creating(catalog.createTable)
    catalog.tableExists = _looking(catalog.tableExists)
    catalog.listColumns = _listing(catalog.listColumns)
    catalog.getTable = _describing(catalog.getTable)
    if SPARK.has_catalog_statements:
        for name, does in _STATEMENTS.items():
            setattr(catalog, name, _stated(getattr(catalog, name), does))


def _analyzed(spark: SparkSession, name: str, noScan: bool = False) -> None:
    run_sql(
        spark, f"ANALYZE TABLE {name} COMPUTE STATISTICS{' NOSCAN' if noScan else ''}", None, {}
    )


def _truncated(spark: SparkSession, name: str) -> None:
    run_sql(spark, f"TRUNCATE TABLE {name}", None, {})


def _properties(spark: SparkSession, name: str) -> dict[str, str]:
    return {
        row[0]: row[1] for row in run_sql(spark, f"SHOW TBLPROPERTIES {name}", None, {}).collect()
    }


def _definition(spark: SparkSession, name: str, asSerde: bool = False) -> str:
    if asSerde:
        raise InvalidOptionError("a Delta table has no definition of Hive's: leave asSerde out")
    found: str = run_sql(spark, f"SHOW CREATE TABLE {name}", None, {}).collect()[0][0]
    return found


_STATEMENTS: dict[str, Callable[..., Any]] = {
    "analyzeTable": _analyzed,
    "getCreateTableString": _definition,
    "getTableProperties": _properties,
    "truncateTable": _truncated,
}


def _stated(plain: Any, does: Callable[..., Any]) -> Any:
    @wraps(plain)
    @raises_as_spark
    def method(self: Any, tableName: str, *arguments: Any, **named: Any) -> Any:
        spark: SparkSession = self._sparkSession
        if place_of(spark, tableName) is None:
            return plain(self, tableName, *arguments, **named)
        return does(spark, quoted(identifier_parts(tableName)), *arguments, **named)

    return method


def _creating(plain: Any) -> Any:
    @wraps(plain)
    @raises_as_spark
    def create(
        self: Any,
        tableName: str,
        path: str | None = None,
        source: str | None = None,
        schema: StructType | None = None,
        description: str | None = None,
        **options: str,
    ) -> DataFrame:
        spark: SparkSession = self._sparkSession
        formats = formats_of(spark)
        kind = source or (default_format(spark) if formats else "")
        if kind.lower() not in formats:
            return plain(self, tableName, path, source, schema, description, **options)  # type: ignore[no-any-return]
        properties = {key: value for key, value in options.items() if key.startswith(_PROPERTY)}
        place = options.get("path") if path is None else path
        if unknown := sorted(options.keys() - properties.keys() - {"path"}):
            raise InvalidOptionError(
                f"a Delta table has no option {unknown[0]!r}: leave it out, or set a property of "
                "the table's"
            )
        wish = TableWish(
            tableName,
            place,
            description,
            () if schema is None else tuple(schema),
            properties=properties,
        )
        create_as_wished(spark, wish, "create")
        return spark.table(tableName)

    return create


def _looking(plain: Any) -> Any:
    @wraps(plain)
    @raises_as_spark
    def exists(self: Any, tableName: str, dbName: str | None = None) -> bool:
        spark: SparkSession = self._sparkSession
        path = path_named(tableName, formats_of(spark)) if dbName is None else None
        if path is None:
            return plain(self, tableName, dbName)  # type: ignore[no-any-return]
        return is_table(spark, path)

    return exists


def _listing(plain: Any) -> Any:
    @wraps(plain)
    @raises_as_spark
    def columns(self: Any, tableName: str, dbName: str | None = None) -> list[Any]:
        from pyspark.sql.catalog import Column

        spark: SparkSession = self._sparkSession
        name = tableName
        if dbName is not None:
            name = quoted((*identifier_parts(dbName), *identifier_parts(tableName)))
        place = place_of(spark, name)
        if place is None:
            return plain(self, tableName, dbName)  # type: ignore[no-any-return]
        table = Target.at(spark, place).existing()
        about = table.access.learn(detail)
        return [
            Column(
                name=field.name,
                description=field.metadata.get(_COMMENT),
                dataType=field.dataType.simpleString(),
                nullable=field.nullable,
                isPartition=field.name in about.partition_columns,
                isBucket=False,
                isCluster=field.name in about.clustering_columns,
            )
            for field in table.rows().schema
        ]

    return columns


def _describing(plain: Any) -> Any:
    @wraps(plain)
    @raises_as_spark
    def get(self: Any, tableName: str) -> Any:
        spark: SparkSession = self._sparkSession
        formats = formats_of(spark)
        place = place_of(spark, tableName)
        if place is None or path_named(tableName, formats) is not None:
            return plain(self, tableName)
        found = plain(self, tableName)
        about = Target.at(spark, place).existing().access.learn(detail)
        return found._replace(description=about.description)

    return get
