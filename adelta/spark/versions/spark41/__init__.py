"""Spark 4.1: constraints in SQL, geospatial types, filters for data sources in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.spark.versions.spark40 import Spark40

if TYPE_CHECKING:
    from pyspark.sql import types as s
    from pyspark.sql.datasource import DataSourceStreamWriter

__all__ = ["Spark41"]


class Spark41(Spark40):
    """The adapter for Spark 4.1."""

    release = "4.1"
    pushes_filters = True
    parses_constraints = True

    def geospatial_types(self) -> tuple[type[s.DataType], ...]:
        """Spark's types of geometries and geographies."""
        from pyspark.sql.types import GeographyType, GeometryType

        return (GeographyType, GeometryType)

    def time_types(self) -> tuple[type[s.DataType], ...]:
        """Spark's types of times of a day."""
        from pyspark.sql.types import TimeType

        return (TimeType,)

    def stream_writer_base(self) -> type[DataSourceStreamWriter]:
        """The class of stream writers that are given Arrow batches."""
        from pyspark.sql.datasource import DataSourceStreamArrowWriter

        return DataSourceStreamArrowWriter
