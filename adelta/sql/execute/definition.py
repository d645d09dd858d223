"""CREATE and REPLACE TABLE, with rows or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidOptionError
from adelta.kernel.schema.alteration import shown
from adelta.kernel.schema.types import StructField, StructType
from adelta.kernel.table_features import DEFAULT_KEY
from adelta.kernel.table_properties import CONSTRAINT_PREFIX
from adelta.operations.create import create_table
from adelta.operations.define_with_rows import define_with_rows
from adelta.operations.replace import replace_table
from adelta.sql.execute.query import query_rows
from adelta.sql.records import INSERTED, NOTHING, table_of
from adelta.table import Table, open_table

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.sql.session import Session
    from adelta.sql.statements import ColumnDefinition, CreateClone, CreateTable

__all__ = ["field_of", "layout_of", "place_of", "run_create"]

_GENERATION = "delta.generationExpression"
_SPARK_TYPE = "__CHAR_VARCHAR_TYPE_STRING"


async def run_create(statement: CreateTable, session: Session) -> pa.Table:
    """Create or replace the table."""
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
        metadata[_SPARK_TYPE] = column.limit
    if column.identity is not None:
        metadata["delta.identity.start"] = column.identity.start
        metadata["delta.identity.step"] = column.identity.step
        metadata["delta.identity.allowExplicitInsert"] = not column.identity.always
    return StructField(column.name, column.type, column.nullable, metadata)


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
