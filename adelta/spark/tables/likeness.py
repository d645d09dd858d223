"""Whether two tables have the same columns, and are partitioned alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.errors import SchemaMismatchError, TableNotFoundError
from adelta.kernel.schema.json import type_to_json
from adelta.table import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.schema.types import StructType

__all__ = ["check_alike", "columns_at", "names_and_types"]

_BESIDE_TYPES = ("metadata", "nullable", "containsNull", "valueContainsNull")


async def columns_at(
    uri: str, storage_options: Mapping[str, str]
) -> tuple[StructType, tuple[str, ...]] | None:
    """The columns and partition columns of the table at a place; None where there is none."""
    async with open_table(uri, storage_options) as table:
        try:
            snapshot = await table.snapshot()
        except TableNotFoundError:
            return None
        return snapshot.delta_schema, snapshot.partition_columns


async def check_alike(
    one: tuple[str, Mapping[str, str]], another: tuple[str, Mapping[str, str]]
) -> None:
    """Hold the table at one place, opened by options, to be like that at another one.

    Raises:
        TableNotFoundError: there is no table at the other one.
        SchemaMismatchError: it has other columns, or is partitioned by others.
    """
    (uri, _), (other, _) = one, another
    before, after = await columns_at(*one), await columns_at(*another)
    if after is None:
        raise TableNotFoundError(
            f"there is no Delta table at {other}, so no entry can be for it; create one there first"
        )
    if before is not None and (names_and_types(before[0]), before[1]) != (
        names_and_types(after[0]),
        after[1],
    ):
        raise SchemaMismatchError(
            f"the table at {other} has other columns, or is partitioned by others, than the one at "
            f"{uri}: create an entry of its own for it"
        )


def names_and_types(schema: StructType) -> list[tuple[str, Any]]:
    """The columns by name and type, without what else is said of them."""
    return [(field.name, _names_and_types(type_to_json(field.type))) for field in schema]


def _names_and_types(said: Any) -> Any:
    """The JSON of a type without what is said of fields inside beside their names and types."""
    if isinstance(said, dict):
        return {k: _names_and_types(v) for k, v in said.items() if k not in _BESIDE_TYPES}
    return [_names_and_types(each) for each in said] if isinstance(said, list) else said
