"""CHANGE COLUMN: a column's type, comment, default, place, and whether it may be null."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta import _compute as pc
from adelta._arguments import checked
from adelta._clock import moment
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import (
    InvalidOptionError,
    InvalidUseError,
    NullNotAllowedError,
    SchemaMismatchError,
)
from adelta.kernel.expressions.nodes import Cast, Column, IsNull, Not, disjunction
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind
from adelta.kernel.scan_plan import plan_columns
from adelta.kernel.schema.alteration import (
    change_field,
    change_type,
    move_field,
    shown,
    type_at,
)
from adelta.kernel.schema.arrow import from_arrow_type
from adelta.kernel.schema.json import schema_to_string, type_to_json
from adelta.kernel.schema.type_text import parse_type
from adelta.kernel.schema.types import VOID, ArrayType, MapType, StructField, StructType
from adelta.kernel.schema.widening import can_widen, with_type_changes
from adelta.kernel.table_features import (
    DEFAULT_KEY,
    TYPE_WIDENING,
    check_identity_columns,
    identities_of,
    with_high_water_marks,
)
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.clustering import check_still_clustered
from adelta.operations.constraints import violations
from adelta.operations.dependents import check_independent, column_path
from adelta.operations.evolve import stage_metadata
from adelta.read.data_files import read_files
from adelta.table import roots_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import DataType
    from adelta.table import Table, TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["ColumnChange", "change_column", "stage_changed"]

_COMMENT = "comment"
_GENERATION = "delta.generationExpression"


@checked
async def change_column(
    table: TableOrAddress,
    column: str,
    *,
    type: DataType | pa.DataType | str | None = None,
    nullable: bool | None = None,
    comment: str | None = None,
    default: str | None = None,
    first: bool = False,
    after: str | None = None,
    sync_identity: bool = False,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Change a column, or a field inside one (``address.city``, ``prices.element``).

    What is None stays as it is. A `type` is a wider one, which the table has to allow
    (`delta.enableTypeWidening`): Delta's, Arrow's, or text such as ``decimal(9,2)``. With
    `nullable` false all rows that are there are read, and none may have a null; a field of a struct
    may still be missing where the struct is null. `comment` and `default`, a constant in Spark SQL
    for rows that leave the column out, are taken away by an empty text. The column moves in front
    of the others with `first`, or behind the one beside it that `after` names. With
    `sync_identity` an identity column numbers on behind the values that are there, which are all
    read: those that users gave, or another engine.

    Raises:
        TableNotFoundError: there is no table.
        SchemaMismatchError: there is no such column, or it cannot have that type or place, or it
            is no identity column and is to be synchronised as one.
        InvalidUseError: the table does not allow wider types, or a constraint or a generated
            column depends on the column, and so on its type.
        InvariantViolationError: a null is there in a column that is to hold none.
        InvalidExpressionError: the default is no constant that fits the column.
        InvalidOptionError: `column` is no name, or both `first` and `after` are given.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    if first and after is not None:
        raise InvalidOptionError("first and after both say where the column goes; choose one")
    wanted = None if type is None else _delta_type(type)
    change = ColumnChange(wanted, nullable, comment, default, first, after, sync_identity)
    async with altering(
        table,
        "CHANGE COLUMN",
        {},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, opened):
        tx.describe(**await stage_changed(tx, opened, column, change))
    return AlterMetrics(tx.version)


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """What becomes of a column, as `change_column` has it; what is None stays as it is."""

    type: DataType | None = None
    nullable: bool | None = None
    comment: str | None = None
    default: str | None = None
    first: bool = False
    after: str | None = None
    sync_identity: bool = False

    @property
    def moves(self) -> bool:
        """Whether the column changes its place."""
        return self.first or self.after is not None

    @property
    def is_of_fields(self) -> bool:
        """Whether anything is asked for that elements, keys and values do not have."""
        return self.moves or self.comment is not None or self.default is not None


async def stage_changed(
    tx: TransactionCore, table: Table, column: str, change: ColumnChange
) -> dict[str, object]:
    """Stage the change of a column; what the history says of it.

    Raises:
        AdeltaError: it cannot be so; see `change_column`.
    """
    schema = tx.metadata.schema
    path = column_path(schema, column)
    if change.nullable is not None:
        schema = await _with_nullability(tx, table, path, change.nullable)
    if change.sync_identity:
        schema = await _synchronised(tx, table, path)
    changed, said = await in_thread(_changed, tx, schema, path, change)
    await in_thread(stage_metadata, tx, changed)
    if change.moves:
        await check_still_clustered(tx)
    return said


def _changed(
    tx: TransactionCore, schema: StructType, path: tuple[str, ...], change: ColumnChange
) -> tuple[Metadata, dict[str, object]]:
    """The metadata of the table with the change, and what the history is told of it."""
    said: dict[str, object] = {}
    if change.type is not None and change.type != type_at(schema, path):
        schema = _with_type(tx, schema, path, change.type)
    if change.is_of_fields:
        _check_field(schema, path)
    if change.comment is not None:
        schema = _with_metadata(schema, path, _COMMENT, change.comment)
    if change.default is not None:
        _check_default(change.default, schema, path)
        schema = _with_metadata(schema, path, DEFAULT_KEY, change.default)
    if change.moves:
        schema = move_field(schema, path, change.after)
        said["position"] = "FIRST" if change.first else f"AFTER {change.after}"
    said["column"] = _described(schema, path)
    check_identity_columns(schema, tx.metadata.partition_columns)
    if schema == tx.metadata.schema:
        return tx.metadata, said
    return replace(tx.metadata, schema_string=schema_to_string(schema)), said


def _delta_type(given: DataType | pa.DataType | str) -> DataType:
    if isinstance(given, str):
        return parse_type(given)
    return from_arrow_type(given) if isinstance(given, pa.DataType) else given


def _is_field(schema: StructType, path: tuple[str, ...]) -> bool:
    return isinstance(type_at(schema, path[:-1]), StructType)


def _check_field(schema: StructType, path: tuple[str, ...]) -> None:
    if not _is_field(schema, path):
        raise SchemaMismatchError(
            f"{shown(path)!r} is a part of every value of {shown(path[:-1])!r} and no column: it "
            "can only change its type"
        )


def _with_metadata(schema: StructType, path: tuple[str, ...], key: str, text: str) -> StructType:
    def changed(field: StructField) -> StructField:
        rest = {k: v for k, v in field.metadata.items() if k != key}
        return replace(field, metadata={**rest, key: text} if text else rest)

    return change_field(schema, path, changed)


# -------------------------------------------------------------------------------------------- type


def _with_type(
    tx: TransactionCore, schema: StructType, path: tuple[str, ...], wanted: DataType
) -> StructType:
    current = type_at(schema, path)
    configuration = tx.configuration
    if current != VOID:
        if isinstance(current, (StructType, ArrayType, MapType)):
            raise SchemaMismatchError(
                f"column {shown(path)!r} is of type {current}, whose parts change one by one; name "
                "one of them, or add columns to it (add_columns)"
            )
        if not can_widen(current, wanted):
            raise SchemaMismatchError(
                f"column {shown(path)!r} cannot become {wanted}: values of type {current} are "
                "there, and that is none of the wider types that Delta allows; add another column"
            )
        if not configuration.uses(TYPE_WIDENING):
            raise InvalidUseError(
                f"column {shown(path)!r} can only become {wanted} where the table allows wider "
                "types; set delta.enableTypeWidening to true first (set_properties)"
            )
        check_independent(tx.metadata, path, "change its type")
    made = change_type(schema, path, lambda _: wanted)
    assert isinstance(made, StructType)
    return with_type_changes(schema, made)


# ------------------------------------------------------------------------------------- nullability


async def _with_nullability(
    tx: TransactionCore, table: Table, path: tuple[str, ...], nullable: bool
) -> StructType:
    schema = tx.metadata.schema
    _check_field(schema, path)
    if not nullable:
        files = await tx.read()
        schema = tx.metadata.schema  # of the version that was read
        configuration = tx.configuration
        condition = _no_null(schema, path)
        broken = await violations(table, configuration, files, condition)
        if broken:
            raise NullNotAllowedError(
                f"{broken} rows of {table.uri} have a null in column {shown(path)!r}, so it cannot "
                "come to forbid them; correct them first"
            )
    return change_field(schema, path, lambda f: replace(f, nullable=nullable))


async def _synchronised(tx: TransactionCore, table: Table, path: tuple[str, ...]) -> StructType:
    """The schema whose identity column goes on behind all of its values."""
    files = await tx.read()
    configuration = tx.configuration
    identities = {column.name: column for column in identities_of(configuration.schema)}
    column = identities.get(path[0]) if len(path) == 1 else None
    if column is None:
        raise SchemaMismatchError(
            f"column {shown(path)!r} is no identity column, so that there is nothing to "
            f"synchronise; such are {', '.join(identities) or 'none'}",
            reason="identity_of_none",
        )
    plan = plan_columns(
        configuration.schema,
        columns=[column.name],
        where=None,
        partition_columns=configuration.partition_columns,
        mapping_mode=configuration.column_mapping_mode,
    )
    farthest: int | None = None
    async with aclosing(read_files(roots_of(table), plan, files)) as tables:
        async for found in tables:
            ends = pc.min_max(found.column(0))
            value = ends["max" if column.step > 0 else "min"].as_py()
            if value is not None and (farthest is None or (value - farthest) * column.step > 0):
                farthest = value
    mark = None if farthest is None else column.after(farthest)
    if mark is None:
        return configuration.schema
    return with_high_water_marks(configuration.schema, {column.name: mark})


def _no_null(schema: StructType, path: tuple[str, ...]) -> Node:
    for end in range(1, len(path)):
        if not isinstance(type_at(schema, path[:end]), StructType):
            raise SchemaMismatchError(
                f"{shown(path)!r} lies inside an array or a map, whose values cannot come to "
                "forbid nulls; write the table anew"
            )
    missing = [IsNull(Column(path[:end])) for end in range(1, len(path))]
    return disjunction(*missing, Not(IsNull(Column(path))))


# ----------------------------------------------------------------------------------------- default


def _check_default(text: str, schema: StructType, path: tuple[str, ...]) -> None:
    """Refuse a default that no row could take."""
    if not text:
        return
    if len(path) > 1:
        raise SchemaMismatchError(
            f"{shown(path)!r} is a field inside a column; only whole columns have defaults"
        )
    field = schema.field(path[0])
    assert field is not None
    if _GENERATION in field.metadata:
        raise SchemaMismatchError(
            f"column {shown(path)!r} is generated from others, so that it can have no default"
        )
    bind(Cast(parse_expression(text, now=moment()), field.type), StructType())


def _described(schema: StructType, path: tuple[str, ...]) -> dict[str, object]:
    described: dict[str, object] = {
        "name": shown(path),
        "type": type_to_json(type_at(schema, path)),
    }
    if _is_field(schema, path):
        parent = type_at(schema, path[:-1])
        assert isinstance(parent, StructType)
        field = parent.field(path[-1])
        assert field is not None
        described |= {"nullable": field.nullable, "metadata": dict(field.metadata)}
    return described
