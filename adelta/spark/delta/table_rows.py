"""What adelta says of tables and commits, as rows of the DataFrames that delta-spark has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.spark.translate.types import to_spark_schema
from adelta.sql import records
from adelta.sql.records import detail_row, history_row

if TYPE_CHECKING:
    from pyspark.sql import types as s

__all__ = ["AFFECTED", "DETAIL", "HISTORY", "detail_row", "history_row"]

HISTORY: s.StructType = to_spark_schema(from_arrow_schema(records.HISTORY))
"""The columns of `DeltaTable.history`."""

DETAIL: s.StructType = to_spark_schema(from_arrow_schema(records.DETAIL))
"""The columns of `DeltaTable.detail`."""

AFFECTED: s.StructType = to_spark_schema(from_arrow_schema(records.AFFECTED))
"""The column of what DELETE and UPDATE return."""
