"""Which new metadata the files that stay live can be read under.

Files keep what they were written with: names and types of columns, and partition values by the
physical names of the partition columns. So columns may be added, nullable; a column may be renamed
or dropped where the table maps its columns, and become wider where the table allows it and its
metadata tell of it (PROTOCOL.md, "Column Mapping" and "Type Widening"). Whatever else changes needs
every file to be replaced. Whether rows hold nulls, or violate a constraint, is not seen here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.errors import SchemaMismatchError
from adelta.kernel.schema.json import type_to_json
from adelta.kernel.schema.names import column_id, physical_name, walk_fields
from adelta.kernel.schema.types import VOID, ArrayType, DataType, MapType, StructField, StructType
from adelta.kernel.schema.widening import TYPE_CHANGES_KEY, can_widen, is_text
from adelta.kernel.table_features import TYPE_WIDENING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["check_kept_files"]

_UNMAPPED = "none"


def check_kept_files(before: TableConfiguration, after: TableConfiguration) -> None:
    """Refuse metadata that files written for `before` could not be read under as they are.

    Raises:
        SchemaMismatchError: the table would be partitioned by other columns; a column would get
            another type, physical name or id, be gone from a table that does not map its columns,
            or be new and forbid nulls.
    """
    was, now = before.physical_partition_columns, after.physical_partition_columns
    if set(was) != set(now):
        raise SchemaMismatchError(
            f"the table would be partitioned by {_listed(now)} instead of {_listed(was)}"
        )
    _Check(before, after).structs(before.schema, after.schema, "")


class _Check:
    def __init__(self, before: TableConfiguration, after: TableConfiguration) -> None:
        self._was = before.column_mapping_mode
        self._now = after.column_mapping_mode
        self._widening = after.supports(TYPE_WIDENING)
        self._ids: set[int | None] = set()
        if self._was != _UNMAPPED:
            self._ids = {column_id(field) for _, field in walk_fields(before.schema)} - {None}

    def structs(self, before: StructType, after: StructType, path: str) -> None:
        kept = {self._key(field, self._now): field for field in after}
        for field in before:
            now = kept.pop(self._key(field, self._was), None)
            shown = f"{path}{field.name}"
            if now is not None:
                self._field(field, now, shown)
            elif _UNMAPPED in (self._was, self._now):
                raise SchemaMismatchError(
                    f"column {shown!r} would be gone, or be called something else in data files, "
                    "which hold it under this name: the table does not map its columns so far"
                    if self._was == _UNMAPPED
                    else f"column {shown!r} would be gone, though data files hold it and the table "
                    "would not map its columns"
                )
        for field in kept.values():
            self._new(field, f"{path}{field.name}")

    def _key(self, field: StructField, mode: str) -> str:
        """What files know a field by, to the letter: some engines tell names apart by case."""
        return physical_name(field, mode)

    def _field(self, before: StructField, after: StructField, path: str) -> None:
        mapped = _UNMAPPED not in (self._was, self._now)
        if mapped and column_id(before) != column_id(after):
            raise SchemaMismatchError(
                f"column {path!r} would have the id {column_id(after)} instead of "
                f"{column_id(before)}"
            )
        self._types(before.type, after.type, path, after.metadata, ())

    def _new(self, field: StructField, path: str) -> None:
        if column_id(field) in self._ids:
            raise SchemaMismatchError(
                f"column {path!r} has the id of a column that files have under another name"
            )
        if not field.nullable:
            raise SchemaMismatchError(
                f"the new column {path!r} forbids nulls, but the rows that are there have no value "
                "for it"
            )

    def _types(
        self,
        before: DataType,
        after: DataType,
        path: str,
        recorded: Mapping[str, Any],
        inside: tuple[str, ...],
    ) -> None:
        """Compare types; `recorded` are the nearest field's metadata, `inside` the way from it."""
        match before, after:
            case StructType(), StructType():
                self.structs(before, after, f"{path}.")
            case ArrayType(element), ArrayType(other):
                self._types(element, other, f"{path}.element", recorded, (*inside, "element"))
            case MapType(key, value), MapType(other_key, other_value):
                self._types(key, other_key, f"{path}.key", recorded, (*inside, "key"))
                self._types(value, other_value, f"{path}.value", recorded, (*inside, "value"))
            case _ if before in (after, VOID) or (is_text(before) and is_text(after)):
                return
            case _ if self._widening and _records(recorded, inside, before, after):
                return
            case _:
                raise SchemaMismatchError(
                    f"column {path!r} would change from {before} to {after}, but data files hold "
                    f"{before}"
                )


def _records(
    metadata: Mapping[str, Any], inside: tuple[str, ...], before: DataType, after: DataType
) -> bool:
    """Whether a field's metadata has the changes that lead from one type to the other.

    They are in the order in which they were made, each with the way to the type inside the field.
    """
    changes = metadata.get(TYPE_CHANGES_KEY)
    now, wanted = type_to_json(before), type_to_json(after)
    for change in changes if isinstance(changes, list) else ():
        if not isinstance(change, dict) or change.get("fieldPath", "") != ".".join(inside):
            continue
        if change.get("fromType") == now:
            now = change.get("toType")
    return now == wanted and can_widen(before, after)


def _listed(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})" if names else "nothing"
