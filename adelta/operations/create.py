"""CREATE TABLE: the first commit of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import orjson
import pyarrow as pa

from adelta._arguments import checked
from adelta._chance import new_uuid
from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import in_thread
from adelta.errors import (
    InvalidOptionError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.column_mapping import adopt_mapping
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.names import check_column_names
from adelta.kernel.schema.storable import check_storable
from adelta.kernel.schema.type_text import parse_columns
from adelta.kernel.schema.types import StructType
from adelta.kernel.statistics import check_stats_columns
from adelta.kernel.table_features import (
    CLUSTERING_DOMAIN,
    COLUMN_MAPPING_MODE,
    KINDS,
    check_change,
    check_identity_columns,
    check_replacement,
    clustering_configuration,
    completed_metadata,
    outlasting_properties,
    outlasting_protocol,
    protocol_for_new_table,
    protocol_with,
    stored_properties,
    supported_features,
    validate_properties,
    with_owner_of,
)
from adelta.kernel.table_properties import TableProperties
from adelta.kernel.transaction.creation import NewTable
from adelta.operations.clustering import CLUSTERED, clustering_paths
from adelta.operations.evolve import partition_names
from adelta.operations.identity_column import with_identities
from adelta.table import begin, give_back_connections, known_state, latest_state, open_table
from adelta.write.generated_columns import check_generated_columns
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from adelta._clock import Clock
    from adelta.commit.catalog import CatalogClient
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.table import Table
    from adelta.write.commit_options import CommitOptions

__all__ = ["ArrowSchema", "create_table"]


@runtime_checkable
class ArrowSchema(Protocol):
    """Anything that exports an Arrow schema."""

    def __arrow_c_schema__(self) -> object:
        """The schema as a capsule of the Arrow C data interface."""
        ...


@checked
async def create_table(
    uri: str | os.PathLike[str],
    schema: ArrowSchema | StructType | str,
    *,
    partition_by: Iterable[str] = (),
    cluster_by: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    mode: Literal["error", "ignore"] = "error",
    storage_options: Mapping[str, str] | None = None,
    unsafe_single_writer: bool = False,
    catalog: CatalogClient | None = None,
    commits: CommitOptions | None = None,
) -> Table:
    """Create an empty table at `uri`, and open it.

    The handle holds no connections until it is used: drop it, or use it as an asynchronous context
    manager, as one of `open_table`.

    `schema` is a `pyarrow.Schema` or whatever exports one, a text as Spark has it (``id BIGINT NOT
    NULL, city STRING``), or Delta's own types; columns that number rows are made by
    `identity_column`. `cluster_by` names up to four columns by which
    whoever optimises the table keeps rows together; a table is partitioned or clustered, not both.
    Where there is a table already, ``error`` raises, and ``ignore`` opens that table as it is.
    `unsafe_single_writer` and `catalog` are as in `open_table`. `commits` says more of how the
    commit is made; it is not for those that the handle makes later.

    A table that a catalog is to manage is created at the place that the catalog has given it, with
    its client and the property ``delta.feature.catalogManaged=supported`` (and those that the
    catalog asks for), and registered with the catalog afterwards.

    Raises:
        TableAlreadyExistsError: there is a table, and the mode is ``error``.
        SchemaMismatchError: Delta cannot have such a schema, or a partition column is not in it.
        InvalidPropertyError: a property is unknown or has a value that is not allowed.
        InvalidUseError: the table asks for no statistics of a column that is to cluster it.
        UnsupportedFeatureError: the table would need a feature that adelta does not have.
        InvalidOptionError: there is no such mode, the address or an option is not allowed, or the
            store cannot exclude other writers; or a catalog is to manage the table, and there is no
            client for it, or the reverse.
        StorageError: the store refused or failed.
    """
    if mode not in ("error", "ignore"):
        raise InvalidOptionError(f"there is no mode {mode!r} for a new table: 'error' or 'ignore'")
    clustered = tuple(cluster_by)
    first = await in_thread(
        new_table,
        delta_schema(schema),
        partition_by=tuple(partition_by),
        cluster_by=clustered,
        properties=properties or {},
        name=name,
        description=description,
    )
    request = TransactionRequest(
        operation="CREATE TABLE",
        parameters=definition_parameters(first, clustered, properties or {}),
    )
    table = open_table(
        uri, storage_options, unsafe_single_writer=unsafe_single_writer, catalog=catalog
    )
    try:
        first_commit = table if commits is None else table.committing(commits)
        if await exists(table):
            if mode == "error":
                raise TableAlreadyExistsError(
                    f"there is a Delta table at {table.uri} already; open it, or choose the mode "
                    "'ignore'"
                )
        else:
            try:
                async with begin(first_commit, request, creates=first):
                    pass
            except TableAlreadyExistsError:
                if mode == "error":
                    raise
        await give_back_connections(table)
    except BaseException:
        await table.aclose()
        raise
    return table


def definition_parameters(
    table: NewTable, cluster_by: Sequence[str], properties: Mapping[str, str]
) -> dict[str, object]:
    """What the history says of how a table was defined."""
    return {
        "isManaged": "false",
        "description": table.metadata.description,
        "partitionBy": list(table.metadata.partition_columns),
        "clusterBy": list(cluster_by),
        "properties": orjson.dumps(stored_properties(validate_properties(properties))).decode(),
    }


async def exists(table: Table, *, now: bool = True) -> bool:
    """Whether there is a table at the address of `table`; else whether one was known to be."""
    try:
        await (latest_state(table) if now else known_state(table))
    except TableNotFoundError:
        return False
    return True


def delta_schema(schema: ArrowSchema | StructType | str) -> StructType:
    """The table schema that an Arrow schema or a text says.

    Raises:
        InvalidOptionError: `schema` is none.
        SchemaMismatchError: Delta has no such type.
    """
    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, str):
        return parse_columns(schema)
    try:
        # the stubs do not know that anything which exports a schema is taken
        arrow = pa.schema(schema)  # type: ignore[arg-type]
        return with_identities(from_arrow_schema(arrow), arrow)
    except (TypeError, ValueError, AttributeError, pa.ArrowException) as error:
        raise InvalidOptionError(
            f"{schema!r:.100} is no schema: hand over a pyarrow.Schema, anything that exports one, "
            "or a text such as 'id bigint, city string'"
        ) from error


def new_table(
    schema: StructType,
    *,
    partition_by: tuple[str, ...],
    properties: Mapping[str, str],
    cluster_by: tuple[str, ...] = (),
    name: str | None = None,
    description: str | None = None,
    instead_of: TableConfiguration | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> NewTable:
    """What the first commit of a table says of it, or the one that puts it `instead_of` another.

    Then it stays closed to whom that one was closed to, and columns that were in that one, with the
    same type, go by the same ids.

    Raises:
        SchemaMismatchError: Delta cannot have such a schema, a partition column is not in it, or a
            column is generated by what cannot give its values.
        InvalidPropertyError: a property is unknown or has a value that is not allowed.
        UnsupportedFeatureError: the table would need a feature that adelta does not have.
    """
    asked = validate_properties(properties)
    if cluster_by:
        asked = {**asked, **CLUSTERED}
    check_column_names(schema, mapped=COLUMN_MAPPING_MODE.read(asked) != "none")
    check_storable(schema)
    partition_columns = partition_names(schema, partition_by)
    check_identity_columns(schema, partition_columns)
    check_generated_columns(schema)
    metadata = Metadata(
        id=str(new_uuid()),
        schema_string=schema_to_string(schema),
        partition_columns=partition_columns,
        configuration=stored_properties(asked),
        name=name,
        description=description,
        created_time=clock.now_ms(),
    )
    protocol = protocol_for_new_table(schema, asked)
    if instead_of is not None:
        kept = outlasting_protocol(instead_of.protocol, metadata)
        protocol = protocol_with(kept, *supported_features(protocol))
        metadata = _succeeding(metadata, instead_of)
        if not any(kind.has_owner(metadata) for kind in KINDS):
            protocol, metadata = with_owner_of(instead_of, protocol, metadata)
    metadata = completed_metadata(None, metadata, protocol, lambda: str(new_uuid()))
    table = NewTable(protocol, metadata)
    if instead_of is None:
        check_change(None, table.configuration)
    else:
        check_replacement(instead_of, table.configuration)
    table.configuration.check_writable("the new table")
    check_stats_columns(schema, table.configuration.properties, partition_columns)
    if not cluster_by:
        return table
    paths = clustering_paths(table.configuration, cluster_by)
    columns = clustering_configuration(paths, metadata)
    return replace(table, domains=(DomainMetadata(CLUSTERING_DOMAIN, columns),))


def _succeeding(metadata: Metadata, before: TableConfiguration) -> Metadata:
    """The metadata, with what outlasts the table in whose place it comes."""
    kept = outlasting_properties(before, metadata)
    if before.column_mapping_mode == COLUMN_MAPPING_MODE.read(metadata.configuration) != "none":
        schema = adopt_mapping(metadata.schema, before.schema)
        metadata = replace(metadata, schema_string=schema_to_string(schema))
    if before.management is not None:
        metadata = replace(metadata, id=before.metadata.id)
    # Users may change this property by a new definition; the others are kept from the old table.
    atomic = TableProperties.iceberg_atomic_conversion.key
    said = {key: value for key, value in metadata.configuration.items() if key == atomic}
    return metadata.with_configuration({**metadata.configuration, **kept, **said})
