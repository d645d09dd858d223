"""Spark 4.0, and what the adapters of all later versions have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types as s
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter

__all__ = ["Spark40"]


class Spark40:
    """What one version of Spark offers, and what adelta uses in its place where it does not.

    Attributes:
        version: the full version of the PySpark that runs.
        is_known: whether adelta has been tested with this release. What is inside Spark's JVM is
            used only then.
    """

    release = "4.0"
    """The release that the adapter is for, without the number of the patch."""

    catalog_methods: tuple[str, ...] = (
        "cacheTable", "createExternalTable", "createTable", "getTable", "isCached", "listColumns",
        "listTables", "refreshTable", "setCurrentCatalog", "tableExists", "uncacheTable",
    )  # fmt: skip
    """The methods of PySpark's `Catalog` that take names of tables or list them."""

    has_catalog_statements = False
    """Whether `Catalog` has methods for statements such as TRUNCATE TABLE."""

    pushes_filters = False
    """Whether readers of data sources in Python may be given filters."""

    limits_micro_batches = False
    """Whether streams of data sources in Python tell where a micro-batch starts, and its limit."""

    parses_constraints = False
    """Whether SQL has ALTER TABLE ... ADD CONSTRAINT and DROP CONSTRAINT."""

    parses_evolving_inserts = False
    """Whether SQL has INSERT WITH SCHEMA EVOLUTION."""

    def __init__(self, version: str, *, is_known: bool) -> None:
        self.version = version
        self.is_known = is_known

    def java_packages(self) -> tuple[str, ...]:
        """The packages to search for Java sources that differ by version, in this order."""
        return tuple(each.__module__ for each in type(self).__mro__ if "release" in vars(each))

    def geospatial_types(self) -> tuple[type[s.DataType], ...]:
        """Spark's types of geometries and geographies."""
        return ()

    def time_types(self) -> tuple[type[s.DataType], ...]:
        """Spark's types of times of a day."""
        return ()

    def arrow_schema(self, schema: s.StructType) -> pa.Schema:
        """The Arrow schema in which Spark exchanges rows with Python; timestamps are in UTC."""
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(schema)

    def stream_reader_base(self) -> type[DataSourceStreamReader]:
        """The class that calls `next_offset` of a stream reader for the end of a micro-batch."""
        from adelta.spark.versions.spark40.streams import StreamReader

        return StreamReader

    def stream_writer_base(self) -> type[DataSourceStreamWriter]:
        """The class of stream writers that are given Arrow batches."""
        from adelta.spark.versions.spark40.streams import StreamWriter

        return StreamWriter
