"""The Python data source ``adelta``: what ``spark.read.format("adelta")`` reaches.

Spark makes it anew in worker processes, from its options alone, and pickles it between them. Each
process does one thing with it, and loads what that needs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from adelta.spark.translate.identifiers import FORMAT
from adelta.spark.versions import SPARK

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from adelta.spark.options.read_write import ReadOptions
    from adelta.spark.source.stream_reader import DeltaStreamReader
    from adelta.spark.source.stream_writer import DeltaStreamWriter
    from adelta.spark.source.writer import DeltaWriter

__all__ = ["AsDeltaDataSource", "DeltaDataSource"]

_FILTER_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class DeltaDataSource(DataSource):
    """Delta tables as a Spark data source. See `ReadOptions` and `WriteOptions` for its options."""

    _version: int | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the table, or those that the option `columns` names.

        This also settles the version: a DataFrame is of one version, however often it is used.
        """
        from adelta.spark.options.path_travel import read_options
        from adelta.spark.options.streams import (
            StreamOptions,
            tracks_schemas,
            without_stream_options,
        )

        if tracks_schemas(self.options):
            from adelta.spark.source.stream_reader import load_tracked_schema

            return load_tracked_schema(StreamOptions.parse(self.options))
        options = read_options(without_stream_options(self.options))
        if options.changes is None:
            from adelta.spark.source.reader import load_schema

            self._version, schema = load_schema(options)
        else:
            from adelta.spark.source.change_reader import load_change_schema

            self._version, schema = load_change_schema(options)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns of `schema`."""
        from adelta.spark.options.path_travel import read_options

        options = read_options(self.options)
        if options.changes is not None:
            from adelta.spark.source.change_reader import ChangeReader

            return ChangeReader(options, schema, self._version)
        from adelta.spark.source.reader import DeltaReader, FilteringDeltaReader

        filtering = _takes_filters(options)
        return (FilteringDeltaReader if filtering else DeltaReader)(options, schema, self._version)

    def streamReader(self, schema: StructType) -> DeltaStreamReader:
        """A reader of the columns of `schema`, from a table as it grows."""
        from adelta.spark.options.streams import StreamOptions
        from adelta.spark.source.stream_reader import DeltaStreamReader

        return DeltaStreamReader(StreamOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DeltaWriter:
        """A writer of rows of `schema`, which replace the table's where `overwrite`."""
        from adelta.spark.options.read_write import WriteOptions
        from adelta.spark.source.writer import DeltaWriter

        return DeltaWriter.plan(WriteOptions.parse(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DeltaStreamWriter:
        """A writer of micro-batches, each of which replaces the table's rows where `overwrite`."""
        from adelta.spark.options.read_write import WriteOptions
        from adelta.spark.source.stream_writer import DeltaStreamWriter, stream_write_options

        options = WriteOptions.parse(stream_write_options(self.options))
        return DeltaStreamWriter(options, schema, overwrite=overwrite)


class AsDeltaDataSource(DeltaDataSource):
    """The same under delta-spark's name, which statements find tables' formats by."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "delta"


def _takes_filters(options: ReadOptions) -> bool:
    """Whether the reader that is asked for here may be one that takes filters.

    Spark fails a query whose reader takes filters while `spark.sql.python.filterPushdown.enabled`
    is off, and tells a data source nothing of its configuration: but filters come in a worker of
    their own.

    And PySpark up to 4.3 keeps the filters of a query with the DataFrame that was loaded: the next
    query on it, and the other half of a union with itself, are handed the rows that these filters
    left. It is safe since limits can be pushed down too, which put an end to that.
    """
    if not SPARK.pushes_filters or _FILTER_WORKER not in sys.modules:
        return False
    return options.filter_pushdown or hasattr(DataSourceReader, "pushLimit")
