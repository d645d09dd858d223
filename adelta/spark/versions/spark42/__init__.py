"""Spark 4.2: statements in PySpark's catalog, limits of micro-batches in Python, new parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.spark.versions.spark41 import Spark41

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types as s
    from pyspark.sql.datasource import DataSourceStreamReader

__all__ = ["Spark42"]


class Spark42(Spark41):
    """The adapter for Spark 4.2."""

    release = "4.2"
    has_catalog_statements = True
    limits_micro_batches = True
    parses_evolving_inserts = True
    catalog_methods = (
        *Spark41.catalog_methods,
        "dropTable", "getCreateTableString", "getTableProperties", "truncateTable",
    )  # fmt: skip

    def arrow_schema(self, schema: s.StructType) -> pa.Schema:
        """The Arrow schema in which Spark exchanges rows with Python; timestamps are in UTC."""
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(schema, timezone="UTC")

    def stream_reader_base(self) -> type[DataSourceStreamReader]:
        """The class that calls `next_offset` of a stream reader for the end of a micro-batch."""
        from adelta.spark.versions.spark42.streams import StreamReader

        return StreamReader
