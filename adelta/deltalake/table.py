"""DeltaTable: deltalake's handle on a table, over `adelta.sync`."""

from __future__ import annotations

import warnings
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from adelta._dataclasses import dataclass
from adelta.deltalake import _rows
from adelta.deltalake._actions import commit_options
from adelta.deltalake._alterer import TableAlterer
from adelta.deltalake._dataset import dataset_of
from adelta.deltalake._definition import (
    FSCK_METRICS_FILES_REMOVED_LABEL,
    MAX_SUPPORTED_PYARROW_WRITER_VERSION,
    MAX_SUPPORTED_READER_VERSION,
    NOT_SUPPORTED_PYARROW_WRITER_VERSIONS,
    NOT_SUPPORTED_READER_VERSION,
    SUPPORTED_READER_FEATURES,
    SUPPORTED_WRITER_FEATURES,
    DeltaTableConfig,
    FilePruningPredicateType,
    FilterConjunctionType,
    FilterDNFType,
    FilterLiteralType,
    FilterType,
    Metadata,
    PartitionFilterType,
    ProtocolVersions,
)
from adelta.deltalake._features import TableFeatures as TableFeatures
from adelta.deltalake._filters import conjunctions, one_of, texts_of
from adelta.deltalake._merger import PyMergeBuilder as PyMergeBuilder
from adelta.deltalake._merger import TableMerger, merge_builder
from adelta.deltalake._optimizer import TableOptimizer
from adelta.deltalake._raw import RawDeltaTable
from adelta.deltalake._types import Field as DeltaField
from adelta.deltalake._types import Schema as DeltaSchema
from adelta.deltalake._upkeep import changed_rows, repaired, restored, vacuumed, write_transaction
from adelta.deltalake._util import deprecate_positional_commit_args, positional_as_named
from adelta.deltalake._util import encode_partition_value as encode_partition_value
from adelta.deltalake.exceptions import DeltaProtocolError as DeltaProtocolError
from adelta.deltalake.writer.creation import create

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa
    import pyarrow.dataset as ds  # noqa: TID251 - what to_pyarrow_dataset gives
    import pyarrow.fs as pa_fs  # noqa: TID251

    from adelta.deltalake._actions import (
        AddAction,
        CommitProperties,
        PostCommitHookProperties,
        RemoveAction,
    )
    from adelta.deltalake.writer.properties import WriterProperties

__all__ = [
    "FSCK_METRICS_FILES_REMOVED_LABEL",
    "MAX_SUPPORTED_PYARROW_WRITER_VERSION",
    "MAX_SUPPORTED_READER_VERSION",
    "NOT_SUPPORTED_PYARROW_WRITER_VERSIONS",
    "NOT_SUPPORTED_READER_VERSION",
    "SUPPORTED_READER_FEATURES",
    "SUPPORTED_WRITER_FEATURES",
    "DeltaField",
    "DeltaSchema",
    "DeltaTable",
    "DeltaTableConfig",
    "FilePruningPredicateType",
    "FilterConjunctionType",
    "FilterDNFType",
    "FilterLiteralType",
    "FilterType",
    "Metadata",
    "PartitionFilterType",
    "ProtocolVersions",
    "TableAlterer",
    "TableMerger",
    "TableOptimizer",
]

_LATER_FIRST = ("post_commithook_properties", "commit_properties")


@dataclass(init=False, repr=False, eq=False)
class DeltaTable:
    """A Delta table at a version, under deltalake's names.

    Reads give that version; what changes the table works on its newest one, as adelta does, and
    takes the handle to the version that it makes. Errors are those of
    `adelta.deltalake.exceptions`, whose ``__cause__`` is adelta's own.
    """

    def __init__(
        self,
        table_uri: str | Path | os.PathLike[str],
        version: int | None = None,
        storage_options: dict[str, str] | None = None,
        without_files: bool = False,
        log_buffer_size: int | None = None,
        skip_stats: bool = False,
    ) -> None:
        for name, given, why in (
            (
                "without_files",
                without_files,
                "Table loading materializes active-file metadata.",
            ),
            (
                "log_buffer_size",
                log_buffer_size is not None,
                "Log buffering is managed internally.",
            ),
            ("skip_stats", skip_stats, "Table loading retains file statistics."),
        ):
            if given:
                warnings.warn(
                    f"The '{name}' parameter is deprecated and ignored. {why}",
                    DeprecationWarning,
                    stacklevel=2,
                )
        self._storage_options = storage_options
        self._table = RawDeltaTable(str(table_uri), version, storage_options)

    def __repr__(self) -> str:
        return f"DeltaTable({self.table_uri!r}, version={self.version()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeltaTable) and (other.table_uri, other.version()) == (
            self.table_uri,
            self.version(),
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def table_config(self) -> DeltaTableConfig:
        """What deprecated arguments would be by default."""
        warnings.warn(
            "The 'table_config' property is deprecated and will be removed in a future release. "
            "It reports effective defaults; deprecated constructor options are ignored.",
            DeprecationWarning,
            stacklevel=2,
        )
        return DeltaTableConfig(*self._table.table_config())

    @staticmethod
    def is_deltatable(
        table_uri: str | Path | os.PathLike[str], storage_options: dict[str, str] | None = None
    ) -> bool:
        """Whether there is a Delta table."""
        return RawDeltaTable.is_deltatable(str(table_uri), storage_options)

    @classmethod
    def create(
        cls,
        table_uri: str | Path,
        schema: Any,
        mode: Literal["error", "append", "overwrite", "ignore"] = "error",
        partition_by: list[str] | str | None = None,
        name: str | None = None,
        description: str | None = None,
        configuration: Mapping[str, str | None] | None = None,
        storage_options: dict[str, str] | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        raise_if_key_not_exists: bool = True,
    ) -> DeltaTable:
        """Create an empty table, or replace the one that is there with the mode ``overwrite``."""
        taken = positional_as_named(
            "create",
            args,
            {
                "commit_properties": commit_properties,
                "post_commithook_properties": post_commithook_properties,
                "raise_if_key_not_exists": None if raise_if_key_not_exists else False,
            },
            ("commit_properties", "post_commithook_properties", "raise_if_key_not_exists"),
        )
        create(
            str(table_uri),
            schema if isinstance(schema, DeltaSchema) else DeltaSchema.from_arrow(schema),
            mode,
            [partition_by] if isinstance(partition_by, str) else partition_by or [],
            name,
            description,
            configuration,
            storage_options,
            commit_options(taken["commit_properties"], taken["post_commithook_properties"]),
            knows_keys=taken["raise_if_key_not_exists"] is not False,
        )
        return cls(table_uri=table_uri, storage_options=storage_options)

    # -------------------------------------------------------------------------------- what it is

    def version(self) -> int:
        """The version that the handle is at."""
        return self._table.version()

    @property
    def table_uri(self) -> str:
        """The table's address."""
        return self._table.table_uri()

    def schema(self) -> DeltaSchema:
        """The table's columns."""
        return self._table.schema

    def metadata(self) -> Metadata:
        """The table's metadata."""
        return Metadata(self._table)

    def protocol(self) -> ProtocolVersions:
        """Which clients may read and write the table."""
        return ProtocolVersions(*self._table.protocol_versions())

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits, newest first, as `commitInfo` has them, with their `version`."""
        return self._table.history(limit)

    def count(self) -> int:
        """How many rows the statistics of the files count; files without them count as empty."""
        counts = self._table.get_add_actions(False).column("num_records").to_pylist()
        return sum(count for count in counts if count is not None)

    def transaction_version(self, app_id: str) -> int | None:
        """How far an application has got; None where it has recorded nothing."""
        return self._table.transaction_version(app_id)

    def get_add_actions(self, flatten: bool = False) -> pa.Table:
        """The live files, one row each: path, size, and what statistics and partitions say.

        Columns are ``path``, ``size_bytes``, ``modification_time``, ``num_records``, and structs
        ``null_count``, ``min``, ``max`` and ``partition``; with `flatten` each field of a struct is
        a column, such as ``min.x``.
        """
        return self._table.get_add_actions(flatten)

    def partitions(
        self,
        partition_filters: FilterType | None = None,
        *,
        file_pruning_predicate: FilePruningPredicateType | None = None,
    ) -> list[dict[str, str]]:
        """The partitions that live files are in, as texts by column."""
        predicate = one_of("partition_filters", partition_filters, file_pruning_predicate)
        return self._table.get_active_partitions(texts_of(predicate))

    def file_uris(
        self,
        partition_filters: FilterType | None = None,
        *,
        file_pruning_predicate: FilePruningPredicateType | None = None,
    ) -> list[str]:
        """The addresses of the live files that may hold rows that the predicate is true for.

        The predicate is SQL, or ``(column, op, value)`` tuples: a list of them is an AND, a list of
        such lists an OR of those. A tuple's value may be the text of a partition value, and the
        empty text stands for null.
        """
        predicate = one_of("partition_filters", partition_filters, file_pruning_predicate)
        return self._table.file_uris(texts_of(predicate))

    # ------------------------------------------------------------------------------ other versions

    def load_as_version(self, version: int | str | datetime) -> None:
        """Go to a version, or to that of a moment; one without a zone is taken as UTC, if no text.

        Raises:
            TypeError: it is neither.
        """
        if isinstance(version, int):
            self._table.load_version(version)
        elif isinstance(version, datetime):
            self._table.load_with_datetime(_rows.with_zone(version).isoformat())
        elif isinstance(version, str):
            self._table.load_with_datetime(version)
        else:
            raise TypeError(
                "Invalid datatype provided for version, only int, str or datetime are accepted."
            )

    def update_incremental(self) -> None:
        """Go to the newest version."""
        self._table.update_incremental()

    def restore(
        self,
        target: int | datetime | str,
        *,
        ignore_missing_files: bool = False,
        protocol_downgrade_allowed: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Make the table what it was at a version or a moment, by a new version."""
        return restored(
            self._table,
            target,
            ignore_missing_files,
            protocol_downgrade_allowed,
            commit_options(commit_properties, post_commithook_properties),
        )

    # --------------------------------------------------------------------------------------- rows

    def scan(
        self, columns: list[str] | None = None, predicate: str | None = None
    ) -> pa.RecordBatchReader:
        """The rows for which a predicate in SQL is true, as a stream."""
        return self._table.scan(columns, predicate)

    def to_pyarrow_dataset(
        self,
        partitions: FilterType | None = None,
        filesystem: str | pa_fs.FileSystem | None = None,
        parquet_read_options: ds.ParquetReadOptions | None = None,
        schema: pa.Schema | None = None,
        as_large_types: bool = False,
        file_pruning_predicate: FilePruningPredicateType | None = None,
    ) -> Any:
        """The data files as a data set of pyarrow's, which reads them by itself.

        Raises:
            DeltaProtocolError: the files do not hold the rows as they are: deletion vectors, mapped
                columns. `to_pyarrow_table` and `scan` read such tables.
        """
        predicate = one_of("partitions", partitions, file_pruning_predicate)
        if schema is None:
            schema = self.schema().to_arrow(as_large_types=as_large_types)
        return dataset_of(
            self._table,
            texts_of(predicate),
            filesystem,
            parquet_read_options,
            schema,
            storage_options=self._storage_options,
        )

    def to_pyarrow_table(
        self,
        partitions: FilterType | None = None,
        columns: list[str] | None = None,
        filesystem: str | pa_fs.FileSystem | None = None,
        filters: FilterType | ds.Expression | None = None,
    ) -> pa.Table:
        """The rows for which the filters are true: tuples, or an expression of pyarrow's.

        adelta reads them, whatever the table's features; pyarrow does for a given `filesystem`.
        """
        if partitions is not None:
            warnings.warn(
                "`partitions` is deprecated; use `filters` instead",
                DeprecationWarning,
                stacklevel=2,
            )
        if filesystem is not None:
            files: Any = self.to_pyarrow_dataset(
                file_pruning_predicate=partitions, filesystem=filesystem
            )
            found: pa.Table = files.to_table(columns=columns, filter=_rows.expression_of(filters))
            return found
        return _rows.read(self._table, columns, filters, texts_of(partitions))

    def to_pandas(
        self,
        partitions: FilterType | None = None,
        columns: list[str] | None = None,
        filesystem: str | pa_fs.FileSystem | None = None,
        filters: FilterType | ds.Expression | None = None,
        types_mapper: Callable[[pa.DataType], Any] | None = None,
    ) -> pd.DataFrame:
        """The rows for which the filters are true, as a frame of pandas."""
        return self.to_pyarrow_table(
            partitions=partitions, columns=columns, filesystem=filesystem, filters=filters
        ).to_pandas(types_mapper=types_mapper)

    def load_cdf(
        self,
        starting_version: int = 0,
        ending_version: int | None = None,
        starting_timestamp: str | None = None,
        ending_timestamp: str | None = None,
        columns: list[str] | None = None,
        predicate: str | None = None,
        allow_out_of_range: bool = False,
    ) -> pa.RecordBatchReader:
        """The changed rows of a range of versions or moments, both ends included, as a stream.

        With `allow_out_of_range` a range that is not there is empty.
        """
        return _rows.load_cdf(
            self._table,
            starting_version,
            ending_version,
            starting_timestamp,
            ending_timestamp,
            columns,
            predicate,
            allow_out_of_range,
        )

    def deletion_vectors(self) -> pa.RecordBatchReader:
        """The files that have deletion vectors: ``filepath``, and which of their rows are kept."""
        return self._table.deletion_vectors()

    def __datafusion_table_provider__(self, session: Any | None = None) -> Any:
        """Raise `DeltaProtocolError`: adelta has no table provider of DataFusion's."""
        return _rows.no_table_provider()

    # ------------------------------------------------------------------------------------ changes

    def update(
        self,
        updates: dict[str, str] | None = None,
        new_values: dict[str, int | float | str | datetime | bool | list[Any]] | None = None,
        predicate: str | None = None,
        writer_properties: WriterProperties | None = None,
        error_on_type_mismatch: bool = True,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Set columns to SQL expressions (`updates`) or Python values (`new_values`)."""
        commit, after = deprecate_positional_commit_args(
            "update", args, commit_properties, post_commithook_properties, _LATER_FIRST
        )
        return changed_rows(
            self._table,
            updates,
            new_values,
            predicate,
            writer_properties,
            error_on_type_mismatch,
            commit_options(commit, after),
        )

    def delete(
        self,
        predicate: str | None = None,
        writer_properties: WriterProperties | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Delete the rows for which a predicate in SQL is true; all of them without one."""
        commit, after = deprecate_positional_commit_args(
            "delete", args, commit_properties, post_commithook_properties, _LATER_FIRST
        )
        return _rows.deleted(
            self._table, predicate, writer_properties, commit_options(commit, after)
        )

    def merge(
        self,
        source: Any,
        predicate: str,
        source_alias: str | None = None,
        target_alias: str | None = None,
        merge_schema: bool = False,
        error_on_type_mismatch: bool = True,
        writer_properties: WriterProperties | None = None,
        streamed_exec: bool = True,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> TableMerger:
        """A merge of the source's rows, to which clauses are added before it is executed.

        `streamed_exec`, `max_spill_size` and `max_temp_directory_size` tune another engine, and are
        taken and not followed: the source is read once, in any case.
        """
        commit, after = deprecate_positional_commit_args(
            "merge", args, commit_properties, post_commithook_properties, _LATER_FIRST
        )
        builder = merge_builder(
            source,
            predicate,
            source_alias,
            target_alias,
            merge_schema,
            error_on_type_mismatch,
            writer_properties,
            commit_options(commit, after),
        )
        return TableMerger(builder, self._table)

    def create_write_transaction(
        self,
        actions: list[AddAction | RemoveAction],
        mode: str,
        schema: Any,
        partition_by: list[str] | str | None = None,
        partition_filters: FilterType | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Commit files that are in place, and removals of others, as one version."""
        commit, after = deprecate_positional_commit_args(
            "create_write_transaction", args, commit_properties, post_commithook_properties
        )
        write_transaction(
            self._table,
            actions,
            mode,
            schema if isinstance(schema, DeltaSchema) else DeltaSchema.from_arrow(schema),
            [partition_by] if isinstance(partition_by, str) else partition_by or [],
            conjunctions(partition_filters),
            commit_options(commit, after),
        )

    @property
    def optimize(self) -> TableOptimizer:
        """What rewrites files."""
        return TableOptimizer(self)

    @property
    def alter(self) -> TableAlterer:
        """What changes the table's definition."""
        return TableAlterer(self)

    # ------------------------------------------------------------------------------------- upkeep

    def vacuum(
        self,
        retention_hours: int | None = None,
        dry_run: bool = True,
        enforce_retention_duration: bool = True,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        full: bool = False,
        keep_versions: list[int] | None = None,
    ) -> list[str]:
        """Delete files that have left the table, or with `dry_run` list them.

        With `full` files go, too, that no commit has ever named. Files of `keep_versions` stay.
        """
        taken = positional_as_named(
            "vacuum",
            args,
            {
                "post_commithook_properties": post_commithook_properties,
                "commit_properties": commit_properties,
                "full": None if full is False else full,
                "keep_versions": keep_versions,
            },
            ("post_commithook_properties", "commit_properties", "full", "keep_versions"),
        )
        return vacuumed(
            self._table,
            retention_hours,
            dry_run,
            enforce_retention_duration,
            commit_options(taken["commit_properties"], taken["post_commithook_properties"]),
            full=taken["full"] or False,
            keep_versions=taken["keep_versions"],
        )

    def repair(
        self,
        dry_run: bool = False,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Take files that are gone out of the table, or with `dry_run` say which are."""
        commit, after = deprecate_positional_commit_args(
            "repair", args, commit_properties, post_commithook_properties, _LATER_FIRST
        )
        return repaired(self._table, dry_run, commit_options(commit, after))

    def generate(self) -> None:
        """Write the symlink manifests of the table."""
        _rows.on_latest(self._table, "generate_manifest")

    def create_checkpoint(self) -> None:
        """Write a checkpoint."""
        _rows.on_latest(self._table, "checkpoint")

    def compact_logs(self, starting_version: int, ending_version: int) -> None:
        """Write what the commits of a range leave into one file of the log."""
        _rows.compact_logs(self._table, starting_version, ending_version)

    def cleanup_metadata(self) -> None:
        """Delete what has expired in the log, by `delta.logRetentionDuration`."""
        _rows.on_latest(self._table, "cleanup_log")
