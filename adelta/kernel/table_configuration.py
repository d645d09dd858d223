"""How a table is to be read and written: its protocol and metadata as its features take them.

Here logical columns meet physical ones, and properties that belong to table features count only
where the protocol supports the feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import AppendOnlyError, InvalidTableError
from adelta.kernel.schema.names import as_nullable, physical_name, physical_schema
from adelta.kernel.schema.types import StructType
from adelta.kernel.table_features import (
    APPEND_ONLY,
    CHANGE_DATA_FEED,
    CHECKPOINT_PROTECTION,
    CHECKPOINT_PROTECTION_BEFORE,
    COLUMN_MAPPING,
    COLUMN_MAPPING_MODE,
    IN_COMMIT_TIMESTAMP,
    MATERIALIZE_PARTITION_COLUMNS,
    PARTITION_COLUMNS_TO_PARQUET,
    ROW_TRACKING,
    V2_CHECKPOINT,
    check_readable,
    check_writable,
    iceberg_compat_version,
    in_commit_timestamp_enablement,
    is_active,
    is_supported,
    management_by,
    row_id_columns,
)
from adelta.kernel.table_properties import TableProperties

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.schema.types import StructField
    from adelta.kernel.table_features import Management, TableFeature

__all__ = ["TableConfiguration"]


@dataclass(frozen=True, slots=True)
class TableConfiguration:
    """One version's protocol and metadata, and what follows from the two.

    Making one checks nothing; `check_readable` and `check_writable` do.
    """

    protocol: Protocol
    metadata: Metadata

    def check_readable(self, table: str = "the table") -> None:
        """Refuse a table that adelta would read wrongly; `table` is for the message.

        Raises:
            UnsupportedFeatureError: reading it takes features that adelta does not have.
            InvalidTableError: its protocol or its metadata is damaged.
        """
        check_readable(self.protocol, self.metadata, table=table)
        if self.metadata.format_provider.lower() != "parquet":
            raise InvalidTableError(
                f"{table} keeps its files as {self.metadata.format_provider[:80]}, but Delta "
                "tables hold Parquet only; its metadata is damaged"
            )
        try:
            _ = self.schema, self.partition_fields
        except InvalidTableError as error:
            raise InvalidTableError(
                f"{table}: {error}; restore the table to an earlier version"
            ) from error

    def check_writable(self, table: str = "the table") -> None:
        """Refuse a table that adelta would damage by writing to it; `table` is for the message.

        Raises:
            UnsupportedFeatureError: writing it takes features that adelta does not have.
            InvalidTableError: its protocol or its metadata is damaged.
            InvalidPropertyError: a property of it has a value that is not allowed.
        """
        self.check_readable(table)
        check_writable(self.protocol, self.metadata, table=table)

    def check_removable(self, table: str = "the table") -> None:
        """Refuse to take rows out of a table that only takes appends; `table` is for the message.

        Raises:
            InvariantViolationError: the table only takes appends.
        """
        if self.append_only:
            raise AppendOnlyError(
                f"{table} is append-only: its rows can be neither changed nor removed; append to "
                "it, or change that property of it first"
            )

    def supports(self, feature: TableFeature) -> bool:
        """Whether the protocol supports a feature."""
        return is_supported(feature, self.protocol)

    def uses(self, feature: TableFeature) -> bool:
        """Whether the protocol supports a feature and the metadata switches it on.

        Raises:
            InvalidPropertyError: a property that decides on it has a value that is not allowed.
        """
        return is_active(feature, self)

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties as they are stored."""
        return self.metadata.configuration

    @property
    def properties(self) -> TableProperties:
        """The table's properties by name and type."""
        return TableProperties(self.metadata.configuration)

    @property
    def schema(self) -> StructType:
        """The columns as users know them, partition columns included, in the table's order."""
        return self.metadata.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """`schema` in Arrow's types."""
        from adelta.kernel.schema.arrow import to_arrow_schema

        return to_arrow_schema(self.schema)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The logical names of the partition columns, in the order of partitioning."""
        return self.metadata.partition_columns

    @property
    def partition_fields(self) -> tuple[StructField, ...]:
        """The logical fields of the partition columns, in the order of partitioning.

        Raises:
            InvalidTableError: the schema lacks one of them, or spells it in another case.
        """
        fields = []
        for name in self.partition_columns:
            field = self.schema.field(name)
            if field is None:
                raise InvalidTableError(
                    f"the table is partitioned by {name[:80]!r}, which its schema does not have; "
                    "its metadata is damaged"
                )
            if field.name != name:
                raise InvalidTableError(
                    f"the table is partitioned by {name[:80]!r}, but its schema spells that column "
                    f"{field.name[:80]!r}, and Delta compares these names by case; its metadata is "
                    "damaged"
                )
            fields.append(field)
        return tuple(fields)

    @property
    def data_schema(self) -> StructType:
        """The columns that data files hold, under their logical names: all but the partition's."""
        parts = {f.name for f in self.partition_fields}
        return StructType(tuple(f for f in self.schema if f.name not in parts))

    @property
    def column_mapping_mode(self) -> str:
        """How files name columns: ``none``, ``name`` or ``id``.

        Raises:
            InvalidPropertyError: the table says something else.
        """
        if not self.supports(COLUMN_MAPPING):
            return "none"
        return COLUMN_MAPPING_MODE.read(self.metadata.configuration)

    @property
    def physical_schema(self) -> StructType:
        """`schema` under the names that files use."""
        return physical_schema(self.schema, self.column_mapping_mode)

    @property
    def physical_data_schema(self) -> StructType:
        """`data_schema` under the names that files use."""
        return physical_schema(self.data_schema, self.column_mapping_mode)

    @property
    def physical_arrow_schema(self) -> pa.Schema:
        """What data files are written with: physical names, field ids where mapped, all nullable.

        That no null is in a column that forbids it is for the writer to check; files declare every
        column nullable, as Spark's do, so that the rule can be lifted later. A column of nulls
        without a type is not in files at all.
        """
        from adelta.kernel.schema.arrow import to_arrow_schema

        return to_arrow_schema(as_nullable(self.physical_data_schema))

    @property
    def physical_partition_columns(self) -> tuple[str, ...]:
        """The names of the partition columns in `partitionValues`, in the order of partitioning."""
        mode = self.column_mapping_mode
        return tuple(physical_name(f, mode) for f in self.partition_fields)

    @property
    def supports_v2_checkpoints(self) -> bool:
        """Whether checkpoints may have sidecars; then they must not have several parts."""
        return self.supports(V2_CHECKPOINT)

    @property
    def writes_v2_checkpoints(self) -> bool:
        """Whether checkpoints are to have sidecars."""
        return self.supports_v2_checkpoints and self.properties.checkpoint_policy == "v2"

    @property
    def protected_before(self) -> int:
        """History before this version is cleaned up all at once or not at all."""
        if not self.supports(CHECKPOINT_PROTECTION):
            return 0
        return CHECKPOINT_PROTECTION_BEFORE.read(self.metadata.configuration)

    @property
    def management(self) -> Management | None:
        """Who decides on the table's commits; None where that is the filesystem.

        Raises:
            InvalidPropertyError: what the table says of its owner cannot be read.
        """
        return management_by(self.protocol, self.metadata)

    @property
    def append_only(self) -> bool:
        """Whether rows may only be added."""
        return self.uses(APPEND_ONLY)

    @property
    def change_data_feed_enabled(self) -> bool:
        """Whether row changes are kept."""
        return self.uses(CHANGE_DATA_FEED)

    @property
    def row_id_columns(self) -> tuple[str, str] | None:
        """The hidden columns of files for row ids and their versions; None without tracking."""
        if not self.supports(ROW_TRACKING):
            return None
        return row_id_columns(self.metadata)

    @property
    def partition_columns_in_files(self) -> bool:
        """Whether new data files hold the partition columns too, behind the others."""
        return (
            self.counts_rows
            or self.supports(MATERIALIZE_PARTITION_COLUMNS)
            or PARTITION_COLUMNS_TO_PARQUET.read(self.metadata.configuration)
        )

    @property
    def counts_rows(self) -> bool:
        """Whether every file that is added has to say how many rows it holds."""
        return self.iceberg_compat > 0

    @property
    def counts_new_rows(self) -> bool:
        """Whether a file that is new to the table has to: `counts_rows`, or its rows get ids."""
        return self.counts_rows or self.uses(ROW_TRACKING)

    @property
    def iceberg_compat(self) -> int:
        """The version of its compatibility with Iceberg, 0 where it keeps none."""
        return iceberg_compat_version(self.protocol, self.metadata)

    @property
    def in_commit_timestamps_enabled(self) -> bool:
        """Whether commits carry their own time."""
        return self.uses(IN_COMMIT_TIMESTAMP)

    @property
    def in_commit_timestamp_enablement(self) -> tuple[int, int] | None:
        """Version and time (ms) from which commits carry their own time; None where all do."""
        return in_commit_timestamp_enablement(self.metadata.configuration)
