"""Snapshot: an immutable handle on one version of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.expressions.dnf import Where, to_predicate
from adelta.kernel.history import from_ms
from adelta.kernel.scan_plan import plan_columns
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.scan import Scan, prune

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.schema.types import StructType
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.state import LogState
    from adelta.storage.roots import StoreRoots

__all__ = ["Snapshot"]


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

    @property
    def version(self) -> int:
        """The version."""
        return self._state.version

    @property
    def timestamp(self) -> datetime:
        """When the version was committed: its in-commit timestamp where it has one."""
        return from_ms(self._state.timestamp_ms)

    @property
    def schema(self) -> pa.Schema:
        """The table's logical columns, in order, as an Arrow schema."""
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

    async def files(self, where: Where | None = None) -> pa.Table:
        """The live files that may hold rows for which `where` is true, a row a file.

        Columns: ``path`` (percent-encoded, as the log has it), ``partition_values`` (texts by
        physical name), ``size`` (bytes), ``modification_time`` (ms since the epoch),
        ``data_change``, ``stats`` (JSON text), ``tags``, ``deletion_vector``, ``base_row_id``,
        ``default_row_commit_version``, ``clustering_provider``.

        Raises:
            InvalidExpressionError: the predicate does not fit the schema.
            InvalidTableError: a checkpoint is damaged.
        """
        plan = self.scan(where=where).plan
        return (await prune(self._state, plan.where, plan)).table

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
    ) -> Scan:
        """A scan of the rows for which `where` is true, with the named columns, at most `limit`.

        `where` is Spark SQL text, or tuples as pyarrow has them: ``[("a", ">", 1), ...]`` for all
        of several conditions, a list of such lists for any of them.

        Raises:
            SchemaMismatchError: there is no such column.
            InvalidExpressionError: the predicate cannot be parsed, or does not fit the schema.
        """
        plan = plan_columns(
            self.delta_schema,
            columns=columns,
            where=to_predicate(where),
            partition_columns=self.partition_columns,
            mapping_mode=self._configuration.column_mapping_mode,
        )
        return Scan(self._state, self._roots, plan, limit=limit)
