"""Fields of actions in checkpoints, as columns of the types that all actions have."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of
from adelta.errors import InvalidTableError
from adelta.kernel.actions.file_schemas import DELETION_VECTOR
from adelta.log.map_columns import as_maps
from adelta.parquet.column_slices import MOST_ROWS

if TYPE_CHECKING:
    from adelta.log.column_arena import ColumnArena

__all__ = ["conform", "fields_of", "kept_maps", "nulls"]

arrow: Any = pa  # likewise of types that are known at run time only

Values: TypeAlias = Any  # an array, or a chunked one, of a type that the stubs cannot follow

_NULL_BLOCK = 64 * 1024
_MOST_SHARED = 256  # bytes in the keys of a map


def fields_of(actions: Values) -> dict[str, Values]:
    """The fields of an action's structs, by name; null where the action is."""
    names = [actions.type.field(index).name for index in range(actions.type.num_fields)]
    return {name: as_maps(field) for name, field in zip(names, actions.flatten(), strict=True)}


def conform(values: Values, kind: pa.DataType, what: str) -> Values:
    """The values in the type that a field of an action has.

    Raises:
        InvalidTableError: they are of another type.
    """
    if values.type.equals(kind):
        return values
    try:
        return _cast(values, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidTableError(
            f"{what} is {values.type}, where a {kind} belongs; the checkpoint is damaged: delete "
            "it, and the log is read without it"
        ) from error


def _cast(values: Values, kind: pa.DataType) -> Values:
    if kind.equals(DELETION_VECTOR):
        if pa.types.is_null(values.type):
            return arrow.nulls(len(values), kind)
        if not pa.types.is_struct(values.type):
            raise pa.ArrowTypeError("not a struct")
        return _struct(values, kind)
    if pa.types.is_string(kind) and pa.types.is_primitive(values.type):
        raise pa.ArrowTypeError("not a text")
    return values.cast(kind)


def _struct(values: Any, kind: Any) -> Values:
    """Structs with the fields of `kind`, by name; nulls where the values lack one."""
    fields = []
    for field in kind:
        at = values.type.get_field_index(field.name)
        fields.append(
            arrow.nulls(len(values), field.type)
            if at < 0
            else pc.struct_field(values, [at]).cast(field.type)
        )
    return arrow.StructArray.from_arrays(fields, fields=list(kind), mask=values.is_null())


def nulls(rows: int, kind: pa.DataType) -> list[Values]:
    """Nulls that share their memory with those of every other table."""
    block = _null_block(kind)
    starts = range(0, rows, _NULL_BLOCK)
    return [block.slice(0, min(_NULL_BLOCK, rows - start)) for start in starts]


@lru_cache(maxsize=16)
def _null_block(kind: pa.DataType) -> Values:
    return arrow.nulls(_NULL_BLOCK, kind)


def kept_maps(maps: Values, arena: ColumnArena) -> Values:
    """Maps whose rows all have the same keys, as those of a table do, have keys that all share."""
    rows, offsets = len(maps), maps.offsets
    end = offsets[rows].as_py()
    keys, each = maps.keys.slice(0, end), end // rows
    if maps.null_count or offsets[0].as_py() or not each or each * rows != end:
        return arena.keep(maps)
    if keys[:each].nbytes > _MOST_SHARED:
        return arena.keep(maps)
    try:
        regular, shared = _repeated(tuple(keys[:each].to_pylist()))
    except UnicodeDecodeError:
        return arena.keep(maps)
    regular, shared = regular[: rows + 1], shared[:end]
    if not (offsets.equals(regular) and keys.equals(shared)):
        return arena.keep(maps)
    items = arena.keep(maps.items[:end])
    return arrow.MapArray.from_arrays(regular, shared, items, type=maps.type)


@lru_cache(maxsize=4)
def _repeated(names: tuple[str, ...]) -> tuple[Values, Values]:
    """Offsets and keys of maps that all have the keys `names`."""
    offsets = pc.cast(arrow.arange(0, MOST_ROWS * len(names) + 1, max(1, len(names))), pa.int32())
    return offsets, array_of(names * MOST_ROWS, pa.string())
