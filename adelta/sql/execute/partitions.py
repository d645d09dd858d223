"""SHOW PARTITIONS: the partitions that have files, in Spark's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

from adelta._concurrency import in_thread
from adelta.errors import InvalidUseError, SchemaMismatchError
from adelta.kernel.partition import lookup_partition_values, partition_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.snapshot import Snapshot

pc: Any = pyarrow.compute  # the stubs lack some of its functions

__all__ = ["shown_partitions"]


async def shown_partitions(snapshot: Snapshot, wanted: Mapping[str, str]) -> list[str]:
    """The partitions with the `wanted` values, such as ``day=2024-01-01/city=Bern``, in order.

    Raises:
        InvalidUseError: the table is not partitioned.
        SchemaMismatchError: it is not partitioned by a column of `wanted`.
    """
    columns = snapshot.partition_columns
    if not columns:
        raise InvalidUseError("the table is not partitioned, so it has no partitions to show")
    known = {name.lower(): name for name in columns}
    for name in wanted:
        if name.lower() not in known:
            raise SchemaMismatchError(
                f"the table is not partitioned by {name!r}, but by {', '.join(columns)}"
            )
    values = {known[name.lower()]: value for name, value in wanted.items()}

    files = await snapshot.files(columns=["partition_values"])
    return await in_thread(_shown, files, snapshot, values)


def _shown(files: pa.Table, snapshot: Snapshot, wanted: Mapping[str, str]) -> list[str]:
    """The distinct partitions of files. CPU-heavy: there may be very many."""
    maps: Any = files.column("partition_values")
    stored = snapshot._configuration.physical_partition_columns
    texts = {
        name: lookup_partition_values(maps, key)
        for name, key in zip(snapshot.partition_columns, stored, strict=True)
    }
    distinct = pa.table(texts).group_by(list(texts)).aggregate([])
    return sorted(
        partition_directory(row.items())
        for row in distinct.to_pylist()
        if all(row[name] == value for name, value in wanted.items())
    )
