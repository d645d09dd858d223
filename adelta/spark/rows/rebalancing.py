"""Optimised writes: rows of a partition brought together by a shuffle of Spark's, before they go.

Otherwise each task writes a file for every partition of which it has a row. Spark's adaptive
execution makes tasks of about `spark.sql.adaptive.advisoryPartitionSizeInBytes` of them, be they of
many small partitions or a part of a large one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from adelta.errors import AdeltaError
from adelta.spark.options.read_write import WriteOptions
from adelta.spark.translate.identifiers import quoted
from adelta.sync._portal import call
from adelta.table import latest_state, open_table
from adelta.write.spec import WriteSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

__all__ = ["rebalanced"]


def rebalanced(df: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """The rows of `df`, arranged as a write with these options is to find them.

    Raises:
        InvalidOptionError: an option is unknown, missing or has a wrong value.
    """
    asked = WriteOptions.parse(options)
    wanted = asked.data_files.optimize_write
    if wanted is False:
        return df
    partition_by: tuple[str, ...] = asked.partition_by or ()
    if wanted is None or asked.partition_by is None:
        try:
            spec = call(_spec, asked)
        except AdeltaError:  # no table yet, or none that can be opened here: see the writer
            properties = {key.lower(): value for key, value in asked.properties.items()}
            found = properties.get("delta.autooptimize.optimizewrite", "false")
            wanted = wanted or found.lower() == "true"
        else:
            wanted, partition_by = spec.optimize_write, spec.partition_columns
    if not wanted:
        return df
    names = {name.lower(): name for name in df.columns}
    held = [names[name.lower()] for name in partition_by if name.lower() in names]
    return df.hint("rebalance", *(sf.col(quoted((name,))) for name in held))


async def _spec(asked: WriteOptions) -> WriteSpec:
    async with open_table(asked.uri, asked.storage_options) as table:
        state = await latest_state(table)
        return WriteSpec.of(state.configuration, files=asked.data_files)
