"""Several changes of columns as one commit, and REPLACE COLUMNS."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.kernel.schema.alteration import shown
from adelta.kernel.schema.json import schema_to_string, type_to_json
from adelta.kernel.schema.types import StructField, StructType
from adelta.operations.add_columns import stage_added
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.change_column import ColumnChange, stage_changed
from adelta.operations.clustering import check_still_clustered
from adelta.operations.drop_columns import stage_dropped
from adelta.operations.evolve import stage_metadata
from adelta.operations.rename_column import stage_renamed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.table import Table, TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["AddedColumn", "ChangedColumn", "DroppedColumn", "RenamedColumn", "alter_columns"]
__all__ += ["replace_columns"]


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A new column, in the struct `parent` where one is named; `default` is for later rows."""

    field: StructField
    parent: str | None = None
    first: bool = False
    after: str | None = None
    default: str | None = None

    @property
    def name(self) -> str:
        """Its name, as operations take it."""
        own = f"`{self.field.name.replace('`', '``')}`"
        return own if self.parent is None else f"{self.parent}.{own}"


@dataclass(frozen=True, slots=True)
class DroppedColumn:
    """A column that is to be gone."""

    column: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenamedColumn:
    """A column that is to have another name."""

    column: str
    new_name: str


@dataclass(frozen=True, slots=True)
class ChangedColumn:
    """A column that is to be otherwise."""

    column: str
    change: ColumnChange


async def alter_columns(
    table: TableOrAddress,
    changes: Sequence[AddedColumn | DroppedColumn | RenamedColumn | ChangedColumn],
    *,
    user_metadata: str | None = None,
) -> AlterMetrics:
    """Change the columns of a table, in order, in one commit.

    Raises:
        AdeltaError: as `add_columns`, `drop_columns`, `rename_column` and `change_column` do; then
            nothing is changed.
    """
    kinds = {type(change) for change in changes}
    operation = "CHANGE COLUMNS"
    if kinds == {AddedColumn}:
        operation = "ADD COLUMNS"
    elif kinds == {DroppedColumn}:
        operation = "DROP COLUMNS"
    elif len(changes) == 1:
        operation = "RENAME COLUMN" if kinds == {RenamedColumn} else "CHANGE COLUMN"
    async with altering(
        table, operation, {}, user_metadata=user_metadata, storage_options=None
    ) as (tx, at):
        said = list[Any]()
        for change in changes:
            said += await _staged(tx, at, change)
        if operation in ("RENAME COLUMN", "CHANGE COLUMN"):
            tx.describe(**said[0])
        else:
            tx.describe(columns=said)
    return AlterMetrics(tx.version)


async def _staged(
    tx: TransactionCore,
    table: Table,
    change: AddedColumn | DroppedColumn | RenamedColumn | ChangedColumn,
) -> list[Any]:
    """Stage a change; what the history says of it."""
    match change:
        case AddedColumn(field, parent, first, after, default):
            said = await stage_added(
                tx, StructType((field,)), parent=parent, first=first, after=after
            )
            if default is not None:
                await stage_changed(tx, table, change.name, ColumnChange(default=default))
            return list(said)
        case DroppedColumn(column, if_exists):
            return list(await stage_dropped(tx, table, [column], if_exists=if_exists))
        case RenamedColumn(column, new_name):
            return [await stage_renamed(tx, table, column, new_name)]
        case ChangedColumn(column, what):
            return [await stage_changed(tx, table, column, what)]


async def replace_columns(
    table: TableOrAddress, columns: Sequence[AddedColumn], *, user_metadata: str | None = None
) -> AlterMetrics:
    """Let these be the columns of a table, in this order; those of the same name keep their values.

    So do the fields of structs, which are added, dropped and put in order alike.

    Raises:
        SchemaMismatchError: a column that is there would become another type that is no wider one.
        AdeltaError: as `alter_columns` does.
    """
    async with altering(
        table, "REPLACE COLUMNS", {}, user_metadata=user_metadata, storage_options=None
    ) as (tx, at):
        await _replace(tx, at, (), columns)
        tx.describe(
            columns=[
                {
                    "name": field.name,
                    "type": type_to_json(field.type),
                    "nullable": field.nullable,
                    "metadata": dict(field.metadata),
                }
                for field in tx.metadata.schema
            ]
        )
    return AlterMetrics(tx.version)


async def _replace(
    tx: TransactionCore, table: Table, inside: tuple[str, ...], columns: Sequence[AddedColumn]
) -> None:
    """Let these be the fields of the struct at a path, or of the table."""
    for column in columns:
        present = _fields(tx, inside).field(column.field.name)
        if present is None:
            parent = shown(inside) if inside else None
            await _staged(tx, table, replace(column, parent=parent, first=False, after=None))
            continue
        path, new = (*inside, present.name), column.field.type
        if isinstance(present.type, StructType) and isinstance(new, StructType):
            await _replace(tx, table, path, [AddedColumn(field) for field in new])
            column = replace(column, field=replace(column.field, type=_fields(tx, path)))
            present = replace(present, type=_fields(tx, path))
        change = _difference(present, column)
        if change != ColumnChange():
            await stage_changed(tx, table, shown(path), change)
    wanted = [column.field.name.lower() for column in columns]
    gone = [f.name for f in _fields(tx, inside) if f.name.lower() not in wanted]
    if gone:
        await stage_dropped(tx, table, [shown((*inside, name)) for name in gone])
    await _in_order(tx, inside, wanted)


def _fields(tx: TransactionCore, inside: tuple[str, ...]) -> StructType:
    """The fields of the struct at a path, as they are staged, or those of the table."""
    found = tx.metadata.schema
    for name in inside:
        found = _struct(found, name)
    return found


def _struct(schema: StructType, name: str) -> StructType:
    """The fields of a struct among fields."""
    field = schema.field(name)
    assert field is not None
    assert isinstance(field.type, StructType)
    return field.type


def _difference(present: StructField, wanted: AddedColumn) -> ColumnChange:
    """What makes a column that is there the one that is wanted, its values kept."""
    field = wanted.field
    comment = field.metadata.get("comment")
    same = present.type == field.type or type_to_json(present.type) == type_to_json(field.type)
    return ColumnChange(
        type=None if same else field.type,
        nullable=None if present.nullable == field.nullable else field.nullable,
        comment=None if comment == present.metadata.get("comment") else str(comment or ""),
        default=wanted.default,
    )


async def _in_order(tx: TransactionCore, inside: tuple[str, ...], names: Sequence[str]) -> None:
    """Stage the fields at a path in the order of these names, which are in lower case."""
    fields = _fields(tx, inside)
    ordered = sorted(fields, key=lambda field: names.index(field.name.lower()))
    if ordered != list(fields):
        text = schema_to_string(_with(tx.metadata.schema, inside, StructType(tuple(ordered))))
        changed = replace(tx.metadata, schema_string=text)
        await in_thread(stage_metadata, tx, changed)
        await check_still_clustered(tx)


def _with(schema: StructType, inside: tuple[str, ...], fields: StructType) -> StructType:
    """The schema with other fields in the struct at a path."""
    if not inside:
        return fields
    name, *deeper = inside
    changed = _with(_struct(schema, name), tuple(deeper), fields)
    return StructType(tuple(replace(f, type=changed) if f.name == name else f for f in schema))
