"""Statistic: one statistic of files, by its name in the log, and columns of such values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from adelta.kernel.schema.types import DataType

__all__ = [
    "MAX_VALUES",
    "MIN_VALUES",
    "NULL_COUNT",
    "NUM_RECORDS",
    "PARTITION_VALUES",
    "Columns",
    "Statistic",
]

NUM_RECORDS = "numRecords"
MIN_VALUES = "minValues"
MAX_VALUES = "maxValues"
NULL_COUNT = "nullCount"
PARTITION_VALUES = "partitionValues"

Columns: TypeAlias = "Mapping[tuple[str, ...], pa.Array[Any]]"
"""Columns by their path, such as ``("minValues", "id")``, a value per file or row group."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic: `path` names it logically, `source` as `stats` and `stats_parsed` spell it.

    Example: the minimum of `a.b` is ``("minValues", "a", "b")``. A bound of doubles in a column
    that `was_float` may be the shortest digits of a float, such as 0.1 for 0.10000000149.
    """

    path: tuple[str, ...]
    source: tuple[str, ...]
    type: DataType
    was_float: bool = False

    @property
    def kind(self) -> str:
        """`numRecords`, `minValues`, `maxValues` or `nullCount`."""
        return self.path[0]
