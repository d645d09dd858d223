"""Arrow fields with fields inside them changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["change_fields"]

Field: TypeAlias = "pa.Field[Any]"


def change_fields(field: Field, change: Callable[[Field], Field | None]) -> Field:
    """`field` with what `change` makes of it, or of the fields inside where that makes nothing.

    It is `field` itself where nothing is changed.
    """
    changed = change(field)
    if changed is not None:
        return changed
    data_type: Any = field.type
    if pa.types.is_map(data_type):
        inside = [data_type.key_field, data_type.item_field]
    else:
        inside = [data_type.field(index) for index in range(data_type.num_fields)]
    made = [change_fields(each, change) for each in inside]
    if all(new is old for new, old in zip(made, inside, strict=True)):
        return field
    if pa.types.is_map(data_type):
        nested: Any = pa.map_(*made)
    elif pa.types.is_struct(data_type):
        nested = pa.struct(made)
    else:
        nested = pa.list_(made[0])
    return field.with_type(nested)
