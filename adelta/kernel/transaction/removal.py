"""Tombstones: the `remove` actions that take files out of a table, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of, scalar_of
from adelta.kernel.actions.file_schemas import REMOVE_SCHEMA
from adelta.kernel.file_set import remove_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from adelta.kernel.actions.file_actions import RemoveFile

__all__ = ["removals", "remove_actions", "removed_at", "removes_table"]

_SLICE = 1024


def removals(files: pa.Table, deletion_timestamp: int, *, data_change: bool = True) -> pa.Table:
    """Tombstones of `REMOVE_SCHEMA` for `files` of `ADD_SCHEMA`.

    Example: the live files a and b become two removes with their partition values and sizes.
    """
    count = files.num_rows
    made: dict[str, pa.Array[Any]] = {
        "deletion_timestamp": pa.repeat(scalar_of(deletion_timestamp, pa.int64()), count),
        "data_change": pa.repeat(scalar_of(data_change, pa.bool_()), count),
        "extended_file_metadata": pa.repeat(scalar_of(True, pa.bool_()), count),
        "stats": pa.nulls(count, pa.string()),
    }
    columns = [made[f.name] if f.name in made else files.column(f.name) for f in REMOVE_SCHEMA]
    return pa.Table.from_arrays(columns, schema=REMOVE_SCHEMA)


def removed_at(removes: pa.Table, time_ms: int) -> pa.Table:
    """The same tombstones, none of which says that it was made before a time.

    Example: at 5, those of 3 and 7 are of 5 and 7.
    """
    place = removes.schema.get_field_index("deletion_timestamp")
    times: Any = removes.column(place)
    later = pc.max_element_wise(times, scalar_of(time_ms, pa.int64()))
    return removes.set_column(place, removes.schema.field(place), later)


def removes_table(rows: Iterable[RemoveFile]) -> pa.Table:
    """Single tombstones as a table of `REMOVE_SCHEMA`."""
    taken = tuple(rows)
    columns = [
        array_of([_cell(getattr(row, f.name)) for row in taken], f.type) for f in REMOVE_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=REMOVE_SCHEMA)


def _cell(value: Any) -> Any:
    return value.to_json() if hasattr(value, "to_json") else value


def remove_actions(removes: pa.Table) -> Iterator[RemoveFile]:
    """The rows of `removes`, made a slice at a time, since there may be very many."""
    for start in range(0, removes.num_rows, _SLICE):
        yield from remove_files(removes.slice(start, _SLICE))
