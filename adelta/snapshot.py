"""Snapshot: an immutable handle on one version of a table."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from adelta._arguments import check_choice, check_count, check_flag, check_names, check_text
from adelta._arrow_values import array_of, arrow_is_ready
from adelta._clock import moment
from adelta._concurrency import in_thread, map_concurrent
from adelta._frames import to_pandas, to_polars
from adelta._html import described, of_columns
from adelta._lazy_arrow import pa
from adelta._streams import stream
from adelta.commit.choose import may_be_stale
from adelta.errors import InvalidOptionError, SchemaMismatchError
from adelta.kernel.timestamps import from_ms
from adelta.log.matching_files import prune, prune_batches, shown

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
    from datetime import datetime

    import pandas as pd
    import polars as pl

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.kernel.schema.types import StructType
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.state import LogState
    from adelta.scan import Scan
    from adelta.storage.roots import StoreRoots

__all__ = ["Snapshot"]

_VECTORS_AT_ONCE = 16


class Snapshot:
    """One version of a table. Files and rows are read when asked for, the rest is at hand."""

    def __init__(
        self, state: LogState, roots: StoreRoots, configuration: TableConfiguration
    ) -> None:
        self._state = state
        self._roots = roots
        self._configuration = configuration

    def __repr__(self) -> str:
        return f"<Snapshot of {self._state.root} at version {self.version}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: what the table was at this version, as far as it is at hand."""
        protocol, known = self.protocol, self._state.counted
        return described(
            "Snapshot of a Delta table",
            {
                "location": self._state.root,
                "version": self.version,
                "committed": f"{self.timestamp:%Y-%m-%d %H:%M:%S} UTC",
                "name": self.metadata.name,
                "description": self.metadata.description,
                "files": None if known is None else f"{known.num_files:,}",
                "bytes": None if known is None else f"{known.table_size_bytes:,}",
                "partitioned by": ", ".join(self.partition_columns),
                "protocol": f"reader {protocol.min_reader_version}, "
                f"writer {protocol.min_writer_version}",
                "features": ", ".join(sorted(protocol.writer_features or ())),
                "properties": ", ".join(f"{k} = {v}" for k, v in self.properties.items()),
            },
            of_columns(self.delta_schema, self.partition_columns),
        )

    @property
    def version(self) -> int:
        """The version."""
        return self._state.version

    @property
    def may_be_stale(self) -> bool:
        """Whether there may be later versions that only the table's commit owner knows of.

        So it is where the owner is not asked, since nothing here speaks to it: the table is read as
        far as the filesystem shows it.
        """
        return may_be_stale(self._state.store, self._configuration)

    @property
    def timestamp(self) -> datetime:
        """When the version was committed: its in-commit timestamp where it has one."""
        return from_ms(self._state.timestamp_ms)

    @property
    def schema(self) -> pa.Schema:
        """The table's logical columns, in order, as an Arrow schema."""
        from adelta.kernel.schema.arrow import to_arrow_schema

        return to_arrow_schema(self.delta_schema)

    @property
    def delta_schema(self) -> StructType:
        """The table's logical columns in Delta's own types."""
        return self._configuration.schema

    @property
    def protocol(self) -> Protocol:
        """Which clients may read and write the table."""
        return self._state.protocol

    @property
    def metadata(self) -> Metadata:
        """The table's id, name, schema string and configuration."""
        return self._state.metadata

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, as they are stored."""
        return self._state.metadata.configuration

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The logical names of the columns that the table is partitioned by."""
        return self._state.metadata.partition_columns

    async def files(
        self, where: Where | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The live files that may hold rows for which `where` is true, a row a file.

        Columns, of which `columns` names those that are wanted: ``path`` (percent-encoded, as the
        log has it), ``partition_values`` (texts by physical name, null where they are empty),
        ``size`` (bytes), ``modification_time`` (ms since the epoch), ``data_change``, ``stats``
        (JSON text), ``tags``, ``deletion_vector``, ``base_row_id``, ``clustering_provider`` and
        ``default_row_commit_version``.

        Raises:
            SchemaMismatchError: there is no such column.
            InvalidExpressionError: the predicate does not fit the schema.
            InvalidTableError: a checkpoint is damaged.
        """
        plan = await in_thread(self._plan, where)
        files = await prune(self._state, plan.where, plan, _file_columns(columns))
        return await shown(files.table)

    async def add_files(self, where: Where | None = None) -> list[AddFile]:
        """The live files that may hold rows for which `where` is true, as transactions take them.

        One value a file: for small numbers of them. `files` gives any number as columns.

        Raises:
            InvalidExpressionError: the predicate does not fit the schema.
            InvalidTableError: a checkpoint is damaged.
        """
        plan = await in_thread(self._plan, where)
        files = await prune(self._state, plan.where, plan)
        return await in_thread(lambda: list(files.rows()))

    @stream
    async def files_batches(
        self, where: Where | None = None, *, columns: Sequence[str] | None = None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """What `files` gives, batch by batch, in the memory of a few row groups of a checkpoint.

        Raises:
            SchemaMismatchError: there is no such column.
            InvalidExpressionError: the predicate does not fit the schema.
            InvalidTableError: a checkpoint is damaged.
        """
        plan = await in_thread(self._plan, where)
        tables = prune_batches(self._state, plan.where, plan, _file_columns(columns))
        async with aclosing(tables):
            async for table in tables:
                for batch in (await shown(table)).to_batches():
                    yield batch

    async def domain_metadata(self) -> Mapping[str, str]:
        """The configuration of every domain, those of Delta's own included, by its name.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        known = await self._state.domain_metadata()
        return {name: domain.configuration for name, domain in known.items()}

    async def application_version(self, app_id: str) -> int | None:
        """How far the application has got by its `txn` actions; None where it has recorded nothing.

        Raises:
            InvalidOptionError: `app_id` is no text.
            InvalidTableError: a checkpoint is damaged.
        """
        found = (await self._state.set_transactions()).get(check_text("app_id", app_id))
        return None if found is None else found.version

    async def deleted_rows(self) -> Mapping[str, pa.Array[Any]]:
        """The rows that deletion vectors take out of files: their places in the file, from 0 on.

        By the file's path, percent-encoded as the log has it, as ascending int64; files without a
        deletion vector are left out.

        Raises:
            MissingDataFileError: a file of deletion vectors is not there.
            InvalidTableError: one of them, or a checkpoint, is damaged.
            OutOfMemoryError: one is larger than `memory_limit`.
        """
        from adelta.log.deletion_vector_reader import read_deletion_vector

        files = [file for file in await self.add_files() if file.deletion_vector is not None]

        async def rows_of(file: AddFile) -> pa.Array[Any]:
            assert file.deletion_vector is not None
            rows = await read_deletion_vector(self._roots, file.deletion_vector, file.path)
            return array_of(list(rows), pa.int64())

        found = await map_concurrent(rows_of, files, limit=_VECTORS_AT_ONCE)
        return {file.path: rows for file, rows in zip(files, found, strict=True)}

    async def verify(self) -> bool:
        """Hold the version to its checksum file: True where they agree, False where it has none.

        All live files are read for it.

        Raises:
            ChecksumMismatchError: they do not agree; the message says where.
            InvalidTableError: the checksum file, or a checkpoint, is damaged.
        """
        from adelta.log.checksum_io import verify_checksum

        return await verify_checksum(self._state)

    async def to_pandas(self) -> pd.DataFrame:
        """All rows of the version as a data frame of pandas, which has to be installed.

        Raises:
            InvalidUseError: pandas is not installed.
            MissingDataFileError: the log names a file that is not there.
            InvalidTableError: a file is damaged.
        """
        return await to_pandas(await self.scan().to_arrow())

    async def to_polars(self) -> pl.DataFrame:
        """All rows of the version as a data frame of polars, which has to be installed.

        Raises:
            InvalidUseError: polars is not installed.
            MissingDataFileError: the log names a file that is not there.
            InvalidTableError: a file is damaged.
        """
        return await to_polars(await self.scan().to_arrow())

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        with_row_ids: bool = False,
        variant: Literal["binary", "json"] = "binary",
        files: Iterable[AddFile] | None = None,
        verify_checksums: bool = False,
    ) -> Scan:
        """A scan of the rows for which `where` is true, with the named columns, at most `limit`.

        `where` is Spark SQL text, or tuples as pyarrow has them: ``[("a", ">", 1), ...]`` for all
        of several conditions, a list of such lists for any of them. `with_row_ids` adds the columns
        ``_row_id``, which a row keeps through updates and moves, and ``_row_commit_version``, the
        version that last wrote it. Variants are structs of their binary `value` and `metadata`, or
        with ``variant="json"`` their JSON text. A predicate of some hundred values is looked
        into when rows or files are first asked for, and its errors are raised then; the values of
        a process's first predicate are computed then, too.

        With `files` only these are read, as `add_files` and `Transaction.read` give them; whether
        they are live at this version is not asked. With `verify_checksums`, the pages that are read
        are held to the checksums that Parquet files have of them, which costs some percent of the
        time; where rows are read to be written again, as by updates, that is always so.

        Raises:
            SchemaMismatchError: there is no such column.
            InvalidExpressionError: the predicate cannot be parsed, or does not fit the schema.
            InvalidOptionError: row ids are asked for, and the table does not track rows; or an
                argument is not as it is said here.
            UnsupportedFeatureError: a column is of a type that adelta does not read.
        """
        from adelta.scan import Scan

        check_choice("variant", variant, ("binary", "json"))
        check_count("limit", limit)
        check_flag("with_row_ids", with_row_ids)
        check_flag("verify_checksums", verify_checksums)
        columns = None if columns is None else check_names("columns", columns)
        chosen = None
        if files is not None:
            from adelta.kernel.transaction.precommit import check_files

            chosen = check_files(files)
        row_ids = self._configuration.row_id_columns if with_row_ids else None
        if with_row_ids and row_ids is None:
            raise InvalidOptionError(
                f"{self._state.root} does not track rows, so they have no ids; set "
                "delta.enableRowTracking to true, or scan without row ids"
            )

        plan = partial(
            self._plan,
            columns=columns,
            row_ids=row_ids,
            variants_as_json=variant == "json",
            verifies=verify_checksums,
        )
        scan = partial(Scan, self._state, self._roots, limit=limit, files=chosen)
        if where is None:
            return scan(plan(None))
        from adelta.kernel.expressions.dnf import is_long, to_predicate
        from adelta.kernel.expressions.resolve import check_predicate

        if not is_long(where):
            if arrow_is_ready():
                return scan(plan(where))
            predicate = to_predicate(where, now=moment())
            if predicate is not None:
                check_predicate(predicate, self.delta_schema)
        return scan(plan(None), complete=partial(plan, where))

    def _plan(
        self, where: Where | None, *, columns: Sequence[str] | None = None, **of_rows: Any
    ) -> ScanPlan:
        from adelta.kernel.scan_plan import plan_columns

        predicate = None
        if where is not None:
            from adelta.kernel.expressions.dnf import to_predicate

            predicate = to_predicate(where, now=moment())
        return plan_columns(
            self.delta_schema,
            columns=columns,
            where=predicate,
            partition_columns=self.partition_columns,
            mapping_mode=self._configuration.column_mapping_mode,
            **of_rows,
        )


def _file_columns(columns: Sequence[str] | None) -> Sequence[str] | None:
    from adelta.kernel.actions.file_schemas import ADD_SCHEMA

    if columns is not None:
        columns = check_names("columns", columns)
    for name in columns or ():
        if name not in ADD_SCHEMA.names:
            raise SchemaMismatchError(
                f"the list of files has no column {name!r}; it has {', '.join(ADD_SCHEMA.names)}"
            )
    return columns
