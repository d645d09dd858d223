"""Tables in Ray Data: `read_delta` has a task read each group of files; `write_delta` writes.

It needs ``adelta[ray]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray.data
from ray.data.block import BlockAccessor, BlockMetadata
from ray.data.datasource import Datasink, Datasource, ReadTask

from adelta.errors import InvalidOptionError, SchemaMismatchError
from adelta.frames.parts import (
    PART_BYTES,
    ReadPart,
    WrittenPart,
    commit_parts,
    parts_of,
    plan_parts,
    write_part,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ray.data.datasource import WriteResult

    from adelta.kernel.expressions.dnf import Where
    from adelta.operations.distributed_write import WriteJob
    from adelta.operations.write_kind import WriteMode
    from adelta.sync import Table

__all__ = ["DeltaDatasink", "DeltaDatasource", "read_delta", "write_delta"]


class DeltaDatasource(Datasource):
    """The rows of a version of a table, which Ray reads by a task for each group of files."""

    def __init__(
        self,
        source: str | os.PathLike[str] | Table,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        storage_options: Mapping[str, str] | None = None,
        part_bytes: int = PART_BYTES,
    ) -> None:
        """As in `read_delta`; the version is settled here.

        Raises:
            AdeltaError: as `Table.snapshot` and `Snapshot.scan` do.
        """
        super().__init__()
        self._parts = parts_of(
            source,
            columns=columns,
            where=where,
            version=version,
            timestamp=timestamp,
            storage_options=storage_options,
            part_bytes=part_bytes,
        )
        self._filtered = where is not None

    def get_name(self) -> str:
        """What Ray calls the tasks."""
        return "Delta"

    def estimate_inmemory_data_size(self) -> int:
        """The bytes of the files, which are compressed: rows take more."""
        return sum(part.size for part in self._parts)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """A task for each group of files, whatever `parallelism`: Ray splits what they give.

        The number of rows is told where the statistics say it of each file and all rows are read.
        """
        return [
            ReadTask(
                _Rows(part),
                BlockMetadata(
                    num_rows=None if self._filtered else part.num_rows,
                    size_bytes=part.size,
                    input_files=tuple(file.path for file in part.files),
                    exec_stats=None,
                ),
                schema=part.schema,
                per_task_row_limit=per_task_row_limit,
            )
            for part in self._parts
        ]


class _Rows:
    """What a task reads, as blocks of Ray's."""

    def __init__(self, part: ReadPart) -> None:
        self._part = part

    def __call__(self) -> list[pa.Table]:
        return [self._part.read()]


class DeltaDatasink(Datasink):
    """What writes the rows of a planned write by Ray's tasks, and commits when all have ended.

    Of a task that Ray runs again the files of the run that succeeded count. Where a task fails
    nothing is committed; files of other tasks stay until VACUUM finds them.
    """

    def __init__(self, job: WriteJob, schema: pa.Schema) -> None:
        self._job = job
        self._schema = schema

    def get_name(self) -> str:
        """What Ray calls the tasks."""
        return "Delta"

    def write(self, blocks: Iterable[Any], ctx: Any) -> WrittenPart:
        """Write a task's rows.

        Raises:
            AdeltaError: as `write_table` does.
        """
        tables = [self._fitted(BlockAccessor.for_block(block).to_arrow()) for block in blocks]
        rows = pa.concat_tables([self._schema.empty_table(), *tables])
        return write_part(self._job, rows, ctx.task_idx)

    def on_write_complete(self, write_result: WriteResult[WrittenPart]) -> None:
        """Commit what all tasks have written.

        Raises:
            AdeltaError: as `write_table` does; the files are deleted where it has certainly failed.
        """
        commit_parts(self._job, write_result.write_returns)

    def _fitted(self, rows: pa.Table) -> pa.Table:
        if not rows.num_rows:
            return self._schema.empty_table()
        if set(rows.column_names) != set(self._schema.names):
            raise SchemaMismatchError(
                f"a block of rows has the columns {rows.column_names}, and {self._schema.names} "
                "are written; select these from the data set, or pass schema="
            )
        try:
            return rows.select(self._schema.names).cast(self._schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaMismatchError(
                f"a block of rows does not fit the schema that is written: {error}; cast its "
                "columns, or pass schema="
            ) from error


def read_delta(
    source: str | os.PathLike[str] | Table,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
    *,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    part_bytes: int = PART_BYTES,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> ray.data.Dataset:
    """A data set of a version of a table, by default of the latest one at this moment.

    `columns` and `where` are as in `Snapshot.scan`. Each group of files, of about `part_bytes`
    bytes, is read by a task; tasks do not look at the log. `concurrency` tasks run at once at most,
    with `ray_remote_args`, as in `ray.data.read_datasource`.

    Raises:
        AdeltaError: as `Table.snapshot` and `Snapshot.scan` do.
    """
    found = DeltaDatasource(
        source,
        columns,
        where,
        version=version,
        timestamp=timestamp,
        storage_options=storage_options,
        part_bytes=part_bytes,
    )
    arguments = None if ray_remote_args is None else dict(ray_remote_args)
    return ray.data.read_datasource(found, concurrency=concurrency, ray_remote_args=arguments)


def write_delta(
    dataset: ray.data.Dataset,
    target: str | os.PathLike[str],
    *,
    mode: WriteMode = "append",
    schema: pa.Schema | None = None,
    partition_by: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> None:
    """Write a data set's rows into a table, in one commit: the files by Ray's tasks.

    `schema` is that of the rows; by default the data set's own, which Ray may run a part of it to
    find. With `txn`, the id of an application and a version, a write that is in the table already
    is not done again, and no row is computed. `concurrency` and `ray_remote_args` are as in
    `Dataset.write_datasink`, the others as in `write_table`. Where a task fails nothing is
    committed; files of other tasks stay until VACUUM finds them.

    Raises:
        AdeltaError: as `write_table` does.
    """
    found = _schema(dataset) if schema is None else schema
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
    arguments = None if ray_remote_args is None else dict(ray_remote_args)
    sink = DeltaDatasink(job, found)
    dataset.write_datasink(sink, concurrency=concurrency, ray_remote_args=arguments)


def _schema(dataset: ray.data.Dataset) -> pa.Schema:
    known = dataset.schema()
    fields = [] if known is None else list(zip(known.names, known.types, strict=True))
    if not fields or not all(isinstance(kind, pa.DataType) for _, kind in fields):
        raise InvalidOptionError(
            "the data set does not say what its rows are in Arrow's types; pass schema="
        )
    return pa.schema(fields)
