"""CREATE and REPLACE TABLE, with rows or without."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidOptionError
from adelta.kernel.schema.alteration import shown
from adelta.kernel.schema.char_types import CHAR_TYPE
from adelta.kernel.schema.column_mapping import without_mapping
from adelta.kernel.schema.types import StructField, StructType
from adelta.kernel.table_features import (
    CLUSTERING_DOMAIN,
    DEFAULT_KEY,
    clustering_columns,
    settable_properties,
)
from adelta.kernel.table_properties import CONSTRAINT_PREFIX
from adelta.operations.create import create_table
from adelta.operations.define_with_rows import define_with_rows
from adelta.operations.replace import replace_table
from adelta.sql.execute.query import query_rows
from adelta.sql.records import INSERTED, NOTHING, table_of
from adelta.sql.statements import ColumnDefinition, Identity
from adelta.table import Table, open_table
from adelta.write.commit_options import CommitOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.sql.session import Session
    from adelta.sql.statements import CreateClone, CreateTable

__all__ = ["field_of", "layout_of", "like_table", "place_of", "run_create"]

_GENERATION = "delta.generationExpression"


async def run_create(statement: CreateTable, session: Session) -> pa.Table:
    """Create or replace the table."""
    if statement.like is not None:
        async with session.opened(statement.like) as other:
            statement = await like_table(statement, other)
    uri, options = place_of(statement, session)
    schema = StructType(tuple(map(field_of, statement.columns)))
    layout, mode = layout_of(statement), statement.mode
    if statement.query is None and not schema.fields:
        raise InvalidOptionError(
            f"say which columns the table is to have; a table that is at {uri} already is named by "
            "its path"
        )
    if statement.query is not None:
        if schema.fields:
            raise InvalidOptionError(
                "the rows of the query say which columns the table has: leave the columns out"
            )
        async with (
            open_table(uri, options) as table,
            query_rows(statement.query, session) as rows,
        ):
            written = await define_with_rows(
                table,
                rows.batches(),
                rows.schema,
                mode=mode,
                user_metadata=session.user_metadata,
                made_of=rows.versions.get(table.uri),
                **layout,
            )
        return table_of(INSERTED, [(written, written)])
    if mode in ("create", "create if not exists"):
        made = await create_table(
            uri,
            schema,
            mode="error" if mode == "create" else "ignore",
            storage_options=options,
            commits=CommitOptions(user_metadata=session.user_metadata),
            **layout,
        )
        await made.aclose()
    else:
        await replace_table(
            uri,
            schema,
            or_create=mode == "create or replace",
            user_metadata=session.user_metadata,
            storage_options=options,
            **layout,
        )
    return table_of(NOTHING)


async def like_table(statement: CreateTable, other: Table) -> CreateTable:
    """The statement, which says itself what the other table has that it is to be like."""
    snapshot = await other.snapshot()
    domains = await snapshot.domain_metadata()
    metadata, said = snapshot.metadata, statement.comment
    return replace(
        statement,
        like=None,
        columns=columns_of(without_mapping(snapshot.delta_schema)),
        partition_by=statement.partition_by or snapshot.partition_columns,
        cluster_by=statement.cluster_by
        or clustering_columns(domains.get(CLUSTERING_DOMAIN), metadata),
        properties={**settable_properties(snapshot.properties), **statement.properties},
        comment=metadata.description if said is None else said,
    )


def columns_of(schema: StructType) -> tuple[ColumnDefinition, ...]:
    """The definitions of columns that make a table of a schema."""
    return tuple(map(_column_of, schema))


def layout_of(statement: CreateTable) -> dict[str, Any]:
    """What is said of the table beside its columns, as arguments of the operations."""
    checks = {CONSTRAINT_PREFIX + name: text for name, text in statement.checks.items()}
    return {
        "partition_by": statement.partition_by,
        "cluster_by": tuple(map(shown, statement.cluster_by)),
        "properties": {**statement.properties, **checks},
        "description": statement.comment,
    }


def field_of(column: ColumnDefinition) -> StructField:
    """The field of a table's schema that a column's definition stands for."""
    metadata: dict[str, Any] = {}
    if column.comment is not None:
        metadata["comment"] = column.comment
    if column.default is not None:
        metadata[DEFAULT_KEY] = column.default
    if column.generated is not None:
        metadata[_GENERATION] = column.generated
    if column.limit is not None:
        metadata[CHAR_TYPE] = column.limit
    if column.identity is not None:
        metadata["delta.identity.start"] = column.identity.start
        metadata["delta.identity.step"] = column.identity.step
        metadata["delta.identity.allowExplicitInsert"] = not column.identity.always
    return StructField(column.name, column.type, column.nullable, metadata)


def _column_of(field: StructField) -> ColumnDefinition:
    """The definition that `field_of` makes the field of."""
    said = field.metadata
    identity = None
    if "delta.identity.start" in said:
        always = not said.get("delta.identity.allowExplicitInsert", False)
        identity = Identity(always, said["delta.identity.start"], said["delta.identity.step"])
    return ColumnDefinition(
        field.name,
        field.type,
        nullable=field.nullable,
        comment=said.get("comment"),
        default=said.get(DEFAULT_KEY),
        generated=said.get(_GENERATION),
        limit=said.get(CHAR_TYPE),
        identity=identity,
    )


def place_of(statement: CreateTable | CreateClone, session: Session) -> tuple[str, Any]:
    """Where the table is to be, and how that is opened.

    Raises:
        TableNotFoundError: the statement does not say where.
        InvalidOptionError: it says so twice.
    """
    name, location = statement.table, statement.location
    if location is not None:
        if name.path not in (None, location):
            raise InvalidOptionError(
                f"the table is named by the path {name.path!r}, and its location is {location!r}; "
                "leave one of them out"
            )
        return location, session.storage_options
    found = session.table(name)
    if isinstance(found, Table):
        return found.uri, found.storage_options
    return str(found), session.storage_options
