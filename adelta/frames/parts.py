"""A table in parts, each of which a task elsewhere reads; and rows in parts, written as one commit.

The tasks are values that are pickled to wherever they run. One that reads does not look at the log:
it is told which files, and what is to be read of them. One that writes gives back the files that it
has written, which belong to the table when all of them are committed.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import field
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._arguments import address
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.operations.distributed_write import commit_write, live_rows, plan_write, write_files
from adelta.operations.write_kind import WriteKind
from adelta.operations.write_transactions import WriteRequest
from adelta.scan import read_files
from adelta.sync import Snapshot, Table, open_table
from adelta.sync._portal import call
from adelta.table import open_table as open_async
from adelta.table import roots_of

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.operations.distributed_write import WriteJob
    from adelta.operations.write_kind import WriteMode

__all__ = [
    "PART_BYTES",
    "ReadPart",
    "WrittenPart",
    "commit_parts",
    "parts_of",
    "plan_parts",
    "write_part",
]

PART_BYTES = 128 * 1024 * 1024
"""Bytes of files that one task reads, but for a single larger file."""


@dataclass(frozen=True, slots=True)
class ReadPart:
    """Some files of a version, and what is read of them."""

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    plan: ScanPlan = field(repr=False)
    files: tuple[AddFile, ...] = field(repr=False)

    @property
    def size(self) -> int:
        """The bytes of the files."""
        return sum(file.size for file in self.files)

    @property
    def num_rows(self) -> int | None:
        """The rows of the files, whatever is read of them; None where statistics do not say it."""
        counts = [live_rows(file) for file in self.files]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.plan.arrow_schema

    def read(self) -> pa.Table:
        """The rows.

        Raises:
            MissingDataFileError: a file is not there.
            InvalidTableError: a file is damaged.
        """
        return call(self._read)

    async def _read(self) -> pa.Table:
        async with open_async(self.uri, self.storage_options) as table:
            found = read_files(roots_of(table), self.plan, self.files)
            async with aclosing(found) as tables:
                rows = [rows async for rows in tables]
        return pa.concat_tables(rows) if rows else self.schema.empty_table()


def parts_of(
    source: str | os.PathLike[str] | Table | Snapshot,
    *,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    part_bytes: int = PART_BYTES,
) -> list[ReadPart]:
    """The version of a table in parts of about so many bytes; one at least, perhaps without files.

    Raises:
        AdeltaError: as `Table.snapshot` and `Snapshot.scan` do.
    """
    if isinstance(source, Snapshot):
        raise InvalidOptionError(
            "a table is read in parts by its address; pass that, and a version"
        )
    table = source if isinstance(source, Table) else open_table(source, storage_options)
    snapshot = table.snapshot(version=version, timestamp=timestamp)
    scan = snapshot.scan(columns, where)
    groups: list[list[AddFile]] = [[]]
    size = 0
    for file in snapshot.add_files(where):
        if groups[-1] and size + file.size > part_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    plan, options = scan.plan, dict(table.storage_options)
    return [ReadPart(table.uri, options, plan, tuple(group)) for group in groups]


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """The files that a task has written, and what identity columns have come to in it."""

    files: tuple[AddFile, ...]
    marks: Mapping[str, int]


def plan_parts(
    target: str | os.PathLike[str],
    schema: pa.Schema,
    *,
    mode: WriteMode = "append",
    partition_by: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> WriteJob:
    """The job that writes rows of a schema, in parts, as `write_table` would in one.

    Raises:
        AdeltaError: as `write_table` does, before a row is written.
    """
    request = WriteRequest(
        WriteKind(mode, None, None, "static"),
        None if partition_by is None else tuple(partition_by),
        None,
        properties or {},
        txn,
        user_metadata,
    )
    uri, options = address(target), dict(storage_options or {})
    columns = from_arrow_schema(schema)

    async def plan() -> WriteJob:
        return await plan_write(uri, options, request, columns, schema)

    return call(plan)


def write_part(job: WriteJob, rows: pa.Table, number: int) -> WrittenPart:
    """Write the rows of the task of that number; the files, which belong to no table yet.

    Raises:
        AdeltaError: as `write_table` does.
    """

    async def batches() -> AsyncIterator[pa.RecordBatch]:
        for batch in rows.to_batches():
            yield batch

    async def write() -> WrittenPart:
        written = await write_files(job, batches(), task=number)
        return WrittenPart(tuple(written.files), dict(written.high_water_marks))

    return call(write)


def commit_parts(job: WriteJob, parts: Sequence[WrittenPart]) -> None:
    """Add the files of all tasks to the table, in one commit.

    Raises:
        AdeltaError: as `write_table` does; the files are deleted where it has certainly failed.
    """

    async def commit() -> None:
        files = [file for part in parts for file in part.files]
        await commit_write(job, files, [part.marks for part in parts])

    call(commit)
