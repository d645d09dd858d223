"""Tables in Dask: `read_delta` has a task read each group of files; `to_delta` writes.

It needs ``adelta[dask]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask
import dask.dataframe as dd
import pyarrow as pa

from adelta.errors import TableNotFoundError
from adelta.frames.parts import (
    PART_BYTES,
    ReadPart,
    WrittenPart,
    commit_parts,
    parts_of,
    plan_parts,
    write_part,
)
from adelta.sync import Table, open_table

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pandas as pd

    from adelta.kernel.expressions.dnf import Where
    from adelta.operations.distributed_write import WriteJob
    from adelta.operations.write_kind import WriteMode

__all__ = ["read_delta", "to_delta"]


def read_delta(
    source: str | os.PathLike[str] | Table,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
    *,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    part_bytes: int = PART_BYTES,
) -> dd.DataFrame:
    """A data frame of a version of a table, by default of the latest one at this moment.

    `columns` and `where` are as in `Snapshot.scan`. Each part is read by a task, of about
    `part_bytes` bytes of files; tasks do not look at the log.

    Raises:
        AdeltaError: as `Table.snapshot` and `Snapshot.scan` do.
    """
    parts = parts_of(
        source,
        columns=columns,
        where=where,
        version=version,
        timestamp=timestamp,
        storage_options=storage_options,
        part_bytes=part_bytes,
    )
    return dd.from_map(_frame, parts, meta=parts[0].schema.empty_table().to_pandas())


def to_delta(
    frame: dd.DataFrame,
    target: str | os.PathLike[str],
    *,
    mode: WriteMode = "append",
    schema: pa.Schema | None = None,
    partition_by: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Write a data frame's rows into a table, in one commit: each part's files by a task.

    The index is left out. `schema` is that of the rows; by default the table's own, and that of
    the frame's types where there is none. The other arguments are as in `write_table`. Where a task
    fails nothing is committed; files of other tasks stay until VACUUM finds them.

    Raises:
        AdeltaError: as `write_table` does.
    """
    found = schema or _schema(frame, target, storage_options)
    job = plan_parts(
        target,
        found,
        mode=mode,
        partition_by=partition_by,
        properties=properties,
        txn=txn,
        user_metadata=user_metadata,
        storage_options=storage_options,
    )
    if job.spec is None:
        return
    write = dask.delayed(_write, pure=False)
    tasks = [write(job, part, found, number) for number, part in enumerate(frame.to_delayed())]
    commit_parts(job, dask.compute(*tasks))


def _frame(part: ReadPart) -> pd.DataFrame:
    return part.read().to_pandas()


def _write(job: WriteJob, rows: pd.DataFrame, schema: pa.Schema, number: int) -> WrittenPart:
    return write_part(job, pa.Table.from_pandas(rows, schema, preserve_index=False), number)


def _schema(
    frame: dd.DataFrame,
    target: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
) -> pa.Schema:
    """The columns of the frame, with the types of the table's where it has them."""
    own = pa.Schema.from_pandas(frame._meta_nonempty, preserve_index=False).remove_metadata()
    try:
        with open_table(target, storage_options) as table:
            known: Any = table.snapshot().schema
    except TableNotFoundError:
        return own
    return pa.schema([known.field(f.name) if f.name in known.names else f for f in own])
