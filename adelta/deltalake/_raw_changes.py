"""What changes a table, under the names that deltalake's own inside has for it.

Metrics are JSON texts here. Programs that look into ``DeltaTable._table`` call these.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.deltalake._merger import PyMergeBuilder
    from adelta.deltalake._raw import RawDeltaTable
    from adelta.deltalake.table import DeltaTable

__all__ = ["RawChanges"]


def _json(metrics: dict[str, Any]) -> str:
    texts = {
        name: json.dumps(value) if isinstance(value, list) else value
        for name, value in metrics.items()
    }
    return json.dumps(texts, separators=(",", ":"))


class RawChanges:
    """The part of a `RawDeltaTable` that changes the table."""

    def _public(self) -> DeltaTable:
        """The `DeltaTable` whose `_table` this is."""
        from adelta.deltalake.table import DeltaTable

        made = DeltaTable.__new__(DeltaTable)
        made._table = self._raw()
        made._storage_options = made._table._options
        return made

    def _raw(self) -> RawDeltaTable:
        return cast("RawDeltaTable", self)

    def delete(
        self,
        predicate: str | None = None,
        writer_properties: Any = None,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> str:
        """Delete rows; what that did."""
        return _json(
            self._public().delete(
                predicate,
                writer_properties,
                commit_properties=commit_properties,
                post_commithook_properties=post_commithook_properties,
            )
        )

    def update(
        self,
        updates: dict[str, str],
        predicate: str | None = None,
        writer_properties: Any = None,
        safe_cast: bool = False,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> str:
        """Set columns; what that did."""
        return _json(
            self._public().update(
                updates,
                predicate=predicate,
                writer_properties=writer_properties,
                error_on_type_mismatch=not safe_cast,
                commit_properties=commit_properties,
                post_commithook_properties=post_commithook_properties,
            )
        )

    def repair(
        self,
        dry_run: bool = True,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> str:
        """Take files that are gone out of the table; which these are."""
        return _json(
            self._public().repair(
                dry_run,
                commit_properties=commit_properties,
                post_commithook_properties=post_commithook_properties,
            )
        )

    def restore(
        self,
        target: Any,
        *,
        ignore_missing_files: bool = False,
        protocol_downgrade_allowed: bool = False,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> str:
        """Go back to a version or a moment; what that did."""
        return _json(
            self._public().restore(
                target,
                ignore_missing_files=ignore_missing_files,
                protocol_downgrade_allowed=protocol_downgrade_allowed,
                commit_properties=commit_properties,
                post_commithook_properties=post_commithook_properties,
            )
        )

    def vacuum(
        self,
        dry_run: bool,
        retention_hours: int | None = None,
        enforce_retention_duration: bool = True,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
        full: bool = False,
        keep_versions: list[int] | None = None,
    ) -> list[str]:
        """Delete files that have left the table; which these are."""
        return self._public().vacuum(
            retention_hours,
            dry_run,
            enforce_retention_duration,
            full=full,
            keep_versions=keep_versions,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def compact_optimize(
        self,
        partition_filters: Any = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: int | None = None,
        writer_properties: Any = None,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> str:
        """Merge small files; what that did."""
        return _json(
            self._public().optimize.compact(
                partition_filters,
                target_size,
                max_concurrent_tasks,
                max_spill_size,
                max_temp_directory_size,
                min_commit_interval,
                writer_properties,
                commit_properties=commit_properties,
                post_commithook_properties=post_commithook_properties,
            )
        )

    def z_order_optimize(
        self,
        z_order_columns: list[str],
        partition_filters: Any = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: int | None = None,
        writer_properties: Any = None,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> str:
        """Sort rows along a curve; what that did."""
        return _json(
            self._public().optimize.z_order(
                z_order_columns,
                partition_filters,
                target_size,
                max_concurrent_tasks,
                max_spill_size,
                max_temp_directory_size,
                min_commit_interval,
                writer_properties,
                commit_properties=commit_properties,
                post_commithook_properties=post_commithook_properties,
            )
        )

    def add_columns(
        self, fields: Any, commit_properties: Any = None, post_commithook_properties: Any = None
    ) -> None:
        """Add columns."""
        self._public().alter.add_columns(
            fields,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def add_constraints(
        self,
        constraints: dict[str, str],
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Add constraints."""
        self._public().alter.add_constraint(
            constraints,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def add_feature(
        self,
        feature: Any,
        allow_protocol_versions_increase: bool,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Let the table support features."""
        self._public().alter.add_feature(
            feature,
            allow_protocol_versions_increase,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def drop_column_not_null(
        self,
        column_name: str,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Let a column hold nulls."""
        self._public().alter.drop_column_not_null(
            column_name,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def drop_constraints(
        self,
        name: str,
        raise_if_not_exists: bool,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Remove a constraint."""
        self._public().alter.drop_constraint(
            name,
            raise_if_not_exists,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def set_column_metadata(
        self,
        field_name: str,
        metadata: dict[str, str],
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Say more of a column."""
        self._public().alter.set_column_metadata(
            field_name,
            metadata,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def set_table_description(
        self,
        description: str,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Describe the table."""
        self._public().alter.set_table_description(
            description,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def set_table_name(
        self, name: str, commit_properties: Any = None, post_commithook_properties: Any = None
    ) -> None:
        """Name the table."""
        self._public().alter.set_table_name(
            name,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def set_table_properties(
        self,
        properties: dict[str, str],
        raise_if_not_exists: bool,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Set properties."""
        self._public().alter.set_table_properties(
            properties,
            raise_if_not_exists,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def create_write_transaction(
        self,
        actions: list[Any],
        mode: str,
        partition_by: list[str],
        schema: Any,
        partitions_filters: Any = None,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Commit files that are in place."""
        self._public().create_write_transaction(
            actions,
            mode,
            schema,
            partition_by,
            partitions_filters,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def create_merge_builder(
        self,
        source: Any,
        batch_schema: Any,
        predicate: str,
        source_alias: str | None = None,
        target_alias: str | None = None,
        merge_schema: bool = False,
        safe_cast: bool = False,
        streamed_exec: bool = False,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        writer_properties: Any = None,
        post_commithook_properties: Any = None,
        commit_properties: Any = None,
    ) -> PyMergeBuilder:
        """A merge without clauses."""
        merger = self._public().merge(
            source,
            predicate,
            source_alias,
            target_alias,
            merge_schema,
            not safe_cast,
            writer_properties,
            streamed_exec,
            max_spill_size,
            max_temp_directory_size,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )
        return merger._builder

    def merge_execute(self, merge_builder: PyMergeBuilder) -> str:
        """Carry a merge out; what that did."""
        from adelta.deltalake._merger import TableMerger

        return _json(TableMerger(merge_builder, self._raw()).execute())

    def write(
        self,
        data: Any,
        batch_schema: Any,
        mode: Any,
        schema_mode: Any = None,
        partition_by: list[str] | None = None,
        predicate: str | None = None,
        target_file_size: int | None = None,
        name: str | None = None,
        description: str | None = None,
        configuration: Any = None,
        writer_properties: Any = None,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Write rows."""
        from adelta.deltalake.writer import write_deltalake

        write_deltalake(
            self._public(),
            data,
            mode=mode,
            schema_mode=schema_mode,
            partition_by=partition_by,
            predicate=predicate,
            target_file_size=target_file_size,
            name=name,
            description=description,
            configuration=configuration,
            writer_properties=writer_properties,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def load_cdf(
        self,
        starting_version: int | None = None,
        ending_version: int | None = None,
        starting_timestamp: str | None = None,
        ending_timestamp: str | None = None,
        columns: list[str] | None = None,
        predicate: str | None = None,
        allow_out_of_range: bool = False,
    ) -> pa.RecordBatchReader:
        """The changed rows of a range."""
        return self._public().load_cdf(
            starting_version or 0,
            ending_version,
            starting_timestamp,
            ending_timestamp,
            columns,
            predicate,
            allow_out_of_range,
        )

    def dataset_partitions(
        self, schema: Any, file_pruning_predicate: Any = None
    ) -> list[tuple[str, Any]]:
        """The path of each file, and what is true of all of its rows."""
        from adelta.deltalake._dataset import dataset_partitions

        return dataset_partitions(self._raw(), file_pruning_predicate)

    def generate(self) -> None:
        """Write the symlink manifests of the table."""
        self._public().generate()

    def create_checkpoint(self) -> None:
        """Write a checkpoint."""
        self._public().create_checkpoint()

    def compact_logs(self, starting_version: int, ending_version: int) -> None:
        """Write what the commits of a range leave into one file of the log."""
        self._public().compact_logs(starting_version, ending_version)

    def cleanup_metadata(self) -> None:
        """Delete what has expired in the log."""
        self._public().cleanup_metadata()

    def __datafusion_table_provider__(self, session: Any = None) -> Any:
        """Raise `DeltaProtocolError`: adelta has no table provider of DataFusion's."""
        return self._public().__datafusion_table_provider__(session)
