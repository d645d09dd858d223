"""Whether a stream that was started with some columns can read what other metadata describe.

A stream has the columns of the moment when it was started. Rows that were written under other ones
may lack columns, or have narrower types. What has later columns, or other names, ends the stream:
started again it has the columns of that moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import ChangesNotAvailableError, SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.names import physical_schema, walk_fields
from adelta.kernel.schema.widening import can_widen

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["check_readable_by_stream"]

_NO_MAPPING = "none"


def check_readable_by_stream(
    uri: str, start: TableConfiguration, start_version: int, now: TableConfiguration, version: int
) -> None:
    """Hold what the metadata are at a version to those that a stream was started with.

    Raises:
        SchemaMismatchError: the stream cannot read what is written under them; the message says
            what to do.
        ChangesNotAvailableError: they are of another table.
    """
    started, found = start.metadata, now.metadata
    if found.id != started.id:
        raise ChangesNotAvailableError(
            f"{uri}: version {version} made the table anew; start the stream with a new checkpoint"
        )
    is_earlier = version <= start_version
    old, new = (now, start) if is_earlier else (start, now)
    if (change := _rename(old, new)) is not None:
        raise SchemaMismatchError(
            f"{uri}: between the versions {version} and {start_version} {change}, and what was "
            "written before cannot be told apart by a stream; start it with a new checkpoint, and "
            "the option startingVersion for the version from which it is to read"
        )
    if found.partition_columns == started.partition_columns and _reads(
        found.schema, started.schema, widening=is_earlier
    ):
        return
    if not is_earlier and _reads(started.schema, found.schema, widening=True):
        raise SchemaMismatchError(
            f"{uri}: version {version} changed the table's columns, from {_shown(started)} to "
            f"{_shown(found)}; start the stream again, with the same checkpoint: it goes on with "
            "the new columns"
        )
    raise SchemaMismatchError(
        f"{uri}: version {version} has the columns {_shown(found)}, which a stream with the "
        f"columns {_shown(started)} cannot read; start it with a new checkpoint"
    )


def _shown(metadata: Metadata) -> str:
    return "(" + ", ".join(f"{field.name} {field.type}" for field in metadata.schema) + ")"


def _reads(written: t.DataType, wanted: t.DataType, *, widening: bool) -> bool:
    """Whether values of `written` are read as `wanted`, which may have more columns."""
    match written, wanted:
        case t.StructType(), t.StructType():
            wanted_of = {field.name.lower(): field for field in wanted}
            for field in written:
                other = wanted_of.get(field.name.lower())
                if (
                    other is None
                    or other.name != field.name
                    or (field.nullable and not other.nullable)
                    or not _reads(field.type, other.type, widening=widening)
                ):
                    return False
            return True
        case t.ArrayType(element, nulls), t.ArrayType(other, others_nulls):
            return (others_nulls or not nulls) and _reads(element, other, widening=widening)
        case t.MapType(key, value, nulls), t.MapType(other_key, other, others_nulls):
            return (
                (others_nulls or not nulls)
                and _reads(key, other_key, widening=widening)
                and _reads(value, other, widening=widening)
            )
    return written == wanted or (widening and can_widen(written, wanted))


def _rename(old: TableConfiguration, new: TableConfiguration) -> str | None:
    """Which column was renamed or dropped, where columns are mapped; None where none was."""
    mode = new.column_mapping_mode
    if mode == _NO_MAPPING:
        return None
    before = _names(old.schema, old.column_mapping_mode)
    after = _names(new.schema, mode)
    for path, name in before.items():
        if path not in after:
            return f"the column {name} was dropped"
        if after[path] != name:
            return f"the column {name} was renamed to {after[path]}"
    return None


def _names(schema: t.StructType, mode: str) -> dict[tuple[str, ...], str]:
    """Logical names of all columns, the nested ones included, by their physical path."""
    stored = walk_fields(physical_schema(schema, mode))
    named = walk_fields(schema)
    return {path: ".".join(name) for (path, _), (name, _) in zip(stored, named, strict=True)}
