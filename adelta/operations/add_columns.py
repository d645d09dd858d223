"""ADD COLUMNS: columns and fields of structs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta.errors import InvalidOptionError, SchemaMismatchError
from adelta.kernel.schema.alteration import change_type, insert_fields, shown, type_at
from adelta.kernel.schema.column_mapping import without_mapping
from adelta.kernel.schema.evolution import merge_schemas
from adelta.kernel.schema.json import schema_to_string, type_to_json
from adelta.kernel.schema.storable import check_storable
from adelta.kernel.schema.types import StructType
from adelta.kernel.table_features import DEFAULT_KEY
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.clustering import check_still_clustered
from adelta.operations.create import ArrowSchema, delta_schema
from adelta.operations.dependents import column_path
from adelta.operations.evolve import stage_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.schema.types import StructField
    from adelta.table import TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["add_columns", "stage_added"]

_COMPUTED = (
    "delta.generationExpression",
    "delta.identity.start",
    "delta.identity.step",
    "delta.invariants",
    DEFAULT_KEY,
)


@checked
async def add_columns(
    table: TableOrAddress,
    columns: ArrowSchema | StructType | str,
    *,
    parent: str | None = None,
    first: bool = False,
    after: str | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Add the columns of a schema to a table, where the rows that are there have nulls.

    They become fields of the struct `parent`, where one is named (``address``, ``prices.element``).
    A struct that is there already gains the fields that `columns` gives it. New columns stand
    behind the others, or with `first` in front of them, or behind the one that `after` names.

    Raises:
        TableNotFoundError: there is no table.
        SchemaMismatchError: a column is there already, forbids nulls, is computed from others, or
            has a name that is not allowed; or there is no struct `parent` or no column `after`.
        InvalidOptionError: `columns` is no schema, or both `first` and `after` are given.
        UnsupportedFeatureError: the table would need a feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    if first and after is not None:
        raise InvalidOptionError("first and after both say where columns go; choose one")
    given = delta_schema(columns)
    new = without_mapping(given)  # ids are this table's to give
    async with altering(
        table,
        "ADD COLUMNS",
        {},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, _):
        added = await stage_added(tx, new, parent=parent, first=first, after=after)
        tx.describe(columns=added)
    return AlterMetrics(tx.version)


async def stage_added(
    tx: TransactionCore, new: StructType, *, parent: str | None, first: bool, after: str | None
) -> list[dict[str, object]]:
    """Stage new columns; what the history says of each.

    Raises:
        SchemaMismatchError: they cannot be added so; see `add_columns`.
    """
    wider, described = await in_thread(_widened, tx, new, parent, first=first, after=after)
    if wider is not None:
        await in_thread(stage_metadata, tx, wider)
        if parent is not None or first or after is not None:
            await check_still_clustered(tx)  # others may have moved out of statistics
    return described


def _widened(
    tx: TransactionCore, new: StructType, parent: str | None, *, first: bool, after: str | None
) -> tuple[Metadata | None, list[dict[str, object]]]:
    """The metadata with the new columns, None where there is none; and these in words."""
    before = tx.metadata.schema
    path = column_path(before, parent) if parent is not None else ()
    struct = type_at(before, path)
    if not isinstance(struct, StructType):
        raise SchemaMismatchError(
            f"{shown(path)!r} is of type {struct}, which has no fields to add to; name a struct"
        )
    added = list(_added(struct, new, ".".join(path)))
    place = {"position": "FIRST" if first else f"AFTER {after}"} if first or after else {}
    said: list[dict[str, object]] = [{"column": _described(p, f), **place} for p, f in added]
    if not added:
        return None, said
    mapped = tx.configuration.column_mapping_mode != "none"
    merged = merge_schemas(struct, new, mapped=mapped)
    if first or after is not None:
        merged = _placed(struct, merged, after)
    schema = change_type(before, path, lambda _: merged)
    assert isinstance(schema, StructType)
    return replace(tx.metadata, schema_string=schema_to_string(schema)), said


def _placed(before: StructType, merged: StructType, after: str | None) -> StructType:
    """`merged`, in which the columns that `before` lacks stand behind `after`; None is in front."""
    there = StructType(tuple(f for f in merged if before.field(f.name) is not None))
    new = tuple(f for f in merged if before.field(f.name) is None)
    return insert_fields(there, (), new, after)


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
    check_storable(field.type, shown)
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
