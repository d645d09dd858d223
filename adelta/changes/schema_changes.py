"""What of a table's metadata changed, as a stream that tracks schemas sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.names import physical_schema, walk_fields, without_field_metadata
from adelta.kernel.schema.widening import can_widen

if TYPE_CHECKING:
    from adelta.changes.schema_log import SchemaTracking, TrackedMetadata
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["check_accepted", "differs_for_streams"]

_PREFIX = "delta."
_OF_WRITERS = (
    "delta.generationExpression", "delta.identity.start", "delta.identity.step",
    "delta.identity.highWaterMark", "delta.identity.allowExplicitInsert", "CURRENT_DEFAULT",
    "EXISTS_DEFAULT",
)  # fmt: skip


def differs_for_streams(one: TableConfiguration, other: TableConfiguration) -> bool:
    """Whether a stream that tracks schemas stops between the two.

    It does if columns, their partitions, properties of Delta's or the protocol differ, but for what
    is about writing alone.
    """
    first, second = one.metadata, other.metadata
    return (
        one.protocol != other.protocol
        or first.partition_columns != second.partition_columns
        or without_field_metadata(first.schema, *_OF_WRITERS)
        != without_field_metadata(second.schema, *_OF_WRITERS)
        or _properties(one) != _properties(other)
    )


def _properties(of: TableConfiguration) -> dict[str, str]:
    found = of.metadata.configuration
    return {key: value for key, value in found.items() if key.startswith(_PREFIX)}


@dataclass(frozen=True, slots=True)
class _Change:
    """One kind of change: in words, the option that accepts it, and what that says."""

    what: str
    option: str
    accepted: str | None


def check_accepted(
    uri: str, before: TrackedMetadata, now: TrackedMetadata, tracking: SchemaTracking
) -> None:
    """Hold the changes between two entries of a log of schemas to what the stream was told.

    Raises:
        SchemaMismatchError: columns were renamed or dropped, or types widened, which nobody has
            accepted; or types are others, which nobody can.
    """
    renamed, dropped, widened = list[str](), list[str](), list[str]()
    old, new = _columns(before.configuration), _columns(now.configuration)
    for path, (name, kind) in old.items():
        if path not in new:
            dropped.append(name)
            continue
        new_name, new_kind = new[path]
        if name.rpartition(".")[2] != new_name.rpartition(".")[2]:
            renamed.append(f"{name} to {new_name}")
        if kind != new_kind:
            if not _widens(kind, new_kind):
                raise SchemaMismatchError(
                    f"{uri}: version {now.version} changed the type of the column {name}, which a "
                    "stream cannot go on after; start it with a new checkpoint, and a new "
                    "schemaTrackingLocation"
                )
            widened.append(f"{name} to {new_name}" if name != new_name else name)
    changes = [
        _Change(f"renamed {', '.join(renamed)}", "allowSourceColumnRename", tracking.renames),
        _Change(f"dropped {', '.join(dropped)}", "allowSourceColumnDrop", tracking.drops),
        _Change(
            f"widened the types of {', '.join(widened)}",
            "allowSourceColumnTypeChange",
            tracking.type_changes,
        ),
    ]
    found = [
        change
        for change, columns in zip(changes, (renamed, dropped, widened), strict=True)
        if columns and change.accepted not in ("always", str(now.version))
    ]
    if found:
        options = " and ".join(change.option for change in found)
        raise SchemaMismatchError(
            f"{uri}: from version {before.version} to {now.version} somebody "
            f"{'; '.join(change.what for change in found)}. See to what comes after the stream, "
            f"and start it again with {options} set to '{now.version}', or to 'always'"
        )


def _columns(of: TableConfiguration) -> dict[tuple[str, ...], tuple[str, t.DataType]]:
    """Names and types of all columns, the nested ones included, by their physical path."""
    schema = of.metadata.schema
    stored = walk_fields(physical_schema(schema, of.column_mapping_mode))
    return {
        path: (".".join(name), _outline(field.type))
        for (path, _), (name, field) in zip(stored, walk_fields(schema), strict=True)
    }


def _outline(data_type: t.DataType) -> t.DataType:
    """The type without the fields of structs, which are columns of their own."""
    match data_type:
        case t.StructType():
            return t.StructType(())
        case t.ArrayType(element):
            return t.ArrayType(_outline(element), True)
        case t.MapType(key, value):
            return t.MapType(_outline(key), _outline(value), True)
    return data_type


def _widens(old: t.DataType, new: t.DataType) -> bool:
    match old, new:
        case t.ArrayType(element), t.ArrayType(other):
            return _widens(element, other)
        case t.MapType(key, value), t.MapType(other_key, other):
            return _widens(key, other_key) and _widens(value, other)
    return old == new or can_widen(old, new)
