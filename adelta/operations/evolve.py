"""The metadata that a write with ``schema_mode`` gives its table.

With ``merge`` the table takes in the columns of the data; with ``overwrite``, which goes together
with overwriting all rows, the data's columns become the table's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from adelta._chance import new_uuid
from adelta.errors import ColumnNotFoundError, SchemaMismatchError
from adelta.kernel.partition import can_partition
from adelta.kernel.schema.column_mapping import adopt_mapping
from adelta.kernel.schema.evolution import merge_schemas
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.names import check_column_names
from adelta.kernel.schema.storable import check_storable
from adelta.kernel.statistics import check_stats_columns
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import (
    TYPE_WIDENING,
    completed_metadata,
    upgraded_protocol,
)
from adelta.kernel.table_properties import TableProperties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol as TableProtocol
    from adelta.kernel.schema.types import StructType

__all__ = ["MetadataStage", "merge_schema", "overwrite_schema", "partition_names", "stage_metadata"]


class MetadataStage(Protocol):
    """What takes new metadata: a transaction, or the plan of one."""

    @property
    def protocol(self) -> TableProtocol:
        """The protocol, staged or the table's."""
        ...

    @property
    def metadata(self) -> Metadata:
        """The metadata, staged or the table's."""
        ...

    def update_metadata(self, metadata: Metadata, protocol: TableProtocol | None = None) -> None:
        """Stage new metadata, and a new protocol where these need one."""
        ...


def merge_schema(tx: MetadataStage, data: StructType, *, assigns: bool = False) -> None:
    """Stage the columns and fields that the table lacks, behind those that it has.

    A column becomes wider where the table allows it (`delta.enableTypeWidening`). With `assigns`
    values of other types are to be stored as the table's.

    Raises:
        SchemaMismatchError: a column has a type that the table's column cannot take.
        UnsupportedFeatureError: the table would need a feature that adelta does not have.
    """
    configuration = TableConfiguration(tx.protocol, tx.metadata)
    merged = merge_schemas(
        configuration.schema,
        data,
        mapped=configuration.column_mapping_mode != "none",
        widening=configuration.uses(TYPE_WIDENING),
        assigns=assigns,
    )
    if merged != configuration.schema:
        stage_metadata(tx, replace(tx.metadata, schema_string=schema_to_string(merged)))


def overwrite_schema(
    tx: MetadataStage, data: StructType, partition_by: Sequence[str] | None
) -> None:
    """Stage the columns of `data` instead of the table's, and its partitioning.

    Without `partition_by` the table stays partitioned as it is.

    Raises:
        SchemaMismatchError: Delta cannot have such a schema, or a partition column is not in it.
        InvalidPropertyError: a column is gone whose statistics the table's properties ask for.
        UnsupportedFeatureError: the table would need a feature that adelta does not have.
    """
    before = tx.metadata
    columns = before.partition_columns if partition_by is None else tuple(partition_by)
    lost = [name for name in columns if partition_by is None and data.field(name) is None]
    if lost:
        raise SchemaMismatchError(
            f"the table is partitioned by {lost[0]!r}, which the new schema does not have; say by "
            "partition_by what to partition it by, or () for nothing"
        )
    mapped = TableConfiguration(tx.protocol, before).column_mapping_mode != "none"
    check_column_names(data, mapped=mapped)
    check_storable(data)
    if mapped:
        data = adopt_mapping(data, before.schema)
    after = replace(
        before,
        schema_string=schema_to_string(data),
        partition_columns=partition_names(data, columns),
    )
    if after.schema == before.schema and after.partition_columns == before.partition_columns:
        return
    check_stats_columns(data, TableProperties(after.configuration), after.partition_columns)
    stage_metadata(tx, after)


def stage_metadata(
    tx: MetadataStage, after: Metadata, asked: Mapping[str, str] | None = None
) -> None:
    """Stage `after`, with the protocol that it needs; `asked` are features asked for by name.

    Nothing is staged where nothing would change.

    Raises:
        UnsupportedFeatureError: the table would need a feature that adelta does not have.
        InvalidPropertyError: a property has a value that is not allowed.
    """
    protocol = upgraded_protocol(tx.protocol, tx.metadata, after, asked)
    after = completed_metadata(tx.metadata, after, protocol or tx.protocol, lambda: str(new_uuid()))
    if protocol is not None or after != tx.metadata:
        tx.update_metadata(after, protocol)


def partition_names(schema: StructType, wanted: Sequence[str]) -> tuple[str, ...]:
    """The partition columns `wanted`, as `schema` spells them.

    Raises:
        SchemaMismatchError: there is no such column, it is named twice, a table cannot be
            partitioned by it, or no column would be left.
    """
    found: list[str] = []
    for name in wanted:
        field = schema.field(name)
        if field is None:
            raise ColumnNotFoundError(
                f"there is no column {name!r} to partition by; the columns are "
                f"{', '.join(schema.names)}"
            )
        if not can_partition(field.type):
            raise SchemaMismatchError(
                f"column {field.name!r} is a {field.type}, by which a table cannot be partitioned"
            )
        if field.name in found:
            raise SchemaMismatchError(f"column {field.name!r} is named twice to partition by")
        found.append(field.name)
    if found and len(found) == len(schema):
        raise SchemaMismatchError(
            "a table cannot be partitioned by all of its columns: data files would be empty",
            reason="partitioned_by_all",
        )
    return tuple(found)
