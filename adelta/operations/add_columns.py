"""ADD COLUMNS: columns and fields of structs, behind the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import SchemaMismatchError
from adelta.kernel.schema.evolution import merge_schemas
from adelta.kernel.schema.json import schema_to_string, type_to_json
from adelta.kernel.schema.types import StructType
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.create import ArrowSchema, delta_schema
from adelta.operations.evolve import stage_metadata
from adelta.transaction import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adelta.kernel.schema.types import StructField
    from adelta.table import Table

__all__ = ["add_columns"]

_COMPUTED = (
    "delta.generationExpression",
    "delta.identity.start",
    "delta.identity.step",
    "delta.invariants",
    "CURRENT_DEFAULT",
)


async def add_columns(
    table: Table | str,
    columns: ArrowSchema | StructType,
    *,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Add the columns of a schema to a table, where the rows that are there have nulls.

    A struct that the table has already gains the fields that `columns` gives it.

    Raises:
        TableNotFoundError: there is no table.
        SchemaMismatchError: a column is there already, forbids nulls, is computed from others, or
            has a name that is not allowed.
        InvalidOptionError: `columns` is no schema.
        UnsupportedFeatureError: the table would need a feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    new = columns if isinstance(columns, StructType) else delta_schema(columns)
    async with altering(
        table,
        "ADD COLUMNS",
        {},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, _):
        before = tx.metadata.schema
        added = list(_added(before, new, ""))
        describe(tx, columns=[{"column": _described(path, field)} for path, field in added])
        if added:
            merged = merge_schemas(before, new)
            stage_metadata(tx, replace(tx.metadata, schema_string=schema_to_string(merged)))
    return AlterMetrics(tx.version)


def _added(current: StructType, new: StructType, path: str) -> Iterator[tuple[str, StructField]]:
    for field in new:
        shown = f"{path}.{field.name}" if path else field.name
        present = current.field(field.name)
        if present is None:
            _check_addable(field, shown)
            yield shown, field
        elif isinstance(present.type, StructType) and isinstance(field.type, StructType):
            yield from _added(present.type, field.type, shown)
        else:
            raise SchemaMismatchError(
                f"the table has a column {shown!r} already, of type {present.type}; choose another "
                "name, or leave it out"
            )


def _check_addable(field: StructField, shown: str) -> None:
    if not field.nullable:
        raise SchemaMismatchError(
            f"the new column {shown!r} forbids nulls, but the rows that are there have no value "
            "for it; let it be nullable"
        )
    computed = [key for key in _COMPUTED if key in field.metadata]
    if computed:
        raise SchemaMismatchError(
            f"the new column {shown!r} bears {computed[0]}, which rows that are there do not "
            "satisfy; create the table with such a column"
        )


def _described(path: str, field: StructField) -> dict[str, object]:
    return {
        "name": path,
        "type": type_to_json(field.type),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }
