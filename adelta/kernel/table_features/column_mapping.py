"""`columnMapping`: files name columns by ids or made-up names (PROTOCOL.md, "Column Mapping")."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import InvalidPropertyError, SchemaMismatchError
from adelta.kernel.schema.column_mapping import (
    check_mapping,
    has_mapping,
    map_columns,
    without_mapping,
)
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.names import (
    COLUMN_ID_KEY,
    NESTED_IDS_KEY,
    PHYSICAL_NAME_KEY,
    column_id,
    walk_fields,
)
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal, unset, with_properties
from adelta.kernel.table_properties import Property, parse_one_of, parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.schema.types import StructField
    from adelta.kernel.table_features._feature import ProtocolAndMetadata

__all__ = ["COLUMN_MAPPING", "COLUMN_MAPPING_MAX_ID", "COLUMN_MAPPING_MODE", "with_mapped_columns"]

COLUMN_MAPPING_MODE = Property(
    "delta.columnMapping.mode", parse_one_of("none", "id", "name"), "none"
)
"""How files name columns."""
COLUMN_MAPPING_MAX_ID = Property(
    "delta.columnMapping.maxColumnId", parse_whole(0), 0, settable=False
)
"""The highest id that a column has ever had."""

_UNMAPPED = "none"


def _mode(metadata: Metadata) -> str:
    return COLUMN_MAPPING_MODE.read(metadata.configuration)


def _active(metadata: Metadata) -> bool:
    return _mode(metadata) != _UNMAPPED


def _check(before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
    was, now = _UNMAPPED if before is None else _mode(before.metadata), _mode(after.metadata)
    key = COLUMN_MAPPING_MODE.key
    if before is not None and was != now:
        if was != _UNMAPPED and now == _UNMAPPED:
            raise InvalidPropertyError(
                f"{key} cannot go from {was} to {now} within this change: data files have to be "
                f"rewritten for that; set it by set_properties, or drop the feature "
                f"{COLUMN_MAPPING.name}"
            )
        if (was, now) != (_UNMAPPED, "name"):
            raise InvalidPropertyError(
                f"{key} cannot go from {was} to {now}: files that are there bear no ids; the only "
                "mode that an existing table can change to is name"
            )
        if has_mapping(before.schema):
            raise InvalidPropertyError(
                f"{key} cannot be set to {now}: columns bear ids or physical names already, though "
                "the table does not map them, so nobody knows what files call them"
            )
    if now != _UNMAPPED:
        check_mapping(after.schema, COLUMN_MAPPING_MAX_ID.read(after.configuration))


def with_mapped_columns(
    before: Metadata | None,
    after: Metadata,
    unique: Callable[[], str],
    *,
    nested: bool = False,
    numbered: bool = False,
) -> Metadata:
    """`after` with ids and physical names for the columns that lack them, where it maps columns.

    A table that begins to map its columns calls them in files what it called them so far; other
    columns get a name from `unique`, or from their ids where they are `numbered`. Schemas of new
    tables that are not mapped lose what they bear of another table's mapping. With `nested`,
    elements, keys and values get ids too.

    Raises:
        SchemaMismatchError: columns change at the moment when they begin to be mapped.
    """
    if COLUMN_MAPPING_MODE.read(after.configuration) == _UNMAPPED:
        if before is not None or not has_mapping(after.schema):
            return after
        return replace(after, schema_string=schema_to_string(without_mapping(after.schema)))
    known = highest = 0
    names: dict[tuple[str, ...], str] | None = None
    if before is not None:
        known = COLUMN_MAPPING_MAX_ID.read(before.configuration)
        if COLUMN_MAPPING_MODE.read(before.configuration) == _UNMAPPED:
            names = {path: field.name for path, field in walk_fields(before.schema)}

    def physical(path: tuple[str, ...], field: StructField) -> str:
        if names is None:
            return f"col-{column_id(field) if numbered else unique()}"
        if path not in names:
            raise SchemaMismatchError(
                f"column {'.'.join(path)!r} cannot be added in the same commit in which the table "
                "begins to map its columns; add it afterwards"
            )
        return names[path]

    schema, highest = map_columns(
        after.schema,
        max(known, COLUMN_MAPPING_MAX_ID.read(after.configuration)),
        physical,
        nested=nested,
    )
    if schema != after.schema:
        after = replace(after, schema_string=schema_to_string(schema))
    if COLUMN_MAPPING_MAX_ID.text(after.configuration) == str(highest):
        return after
    return with_properties(after, {COLUMN_MAPPING_MAX_ID.key: str(highest)})


def _complete_metadata(
    before: Metadata | None, after: Metadata, _protocol: Protocol, unique: Callable[[], str]
) -> Metadata:
    return with_mapped_columns(before, after, unique)


def _cleaned(metadata: Metadata) -> Metadata:
    rest = unset(metadata, COLUMN_MAPPING_MODE.key, COLUMN_MAPPING_MAX_ID.key)
    if not has_mapping(rest.schema):
        return rest
    return replace(rest, schema_string=schema_to_string(without_mapping(rest.schema)))


def _switched_on(before: Metadata, after: Metadata) -> bool:
    """By name, on a table whose files go on bearing the names that they have."""
    modes = [_mode(metadata) for metadata in (before, after)]
    return modes == [_UNMAPPED, "name"] and all(
        field.metadata.get(PHYSICAL_NAME_KEY) == field.name
        for _, field in walk_fields(after.schema)
    )


COLUMN_MAPPING = TableFeature(
    name="columnMapping",
    kind=FeatureKind.READER_WRITER,
    legacy_writer=5,
    legacy_reader=2,
    properties=(COLUMN_MAPPING_MODE, COLUMN_MAPPING_MAX_ID),
    can_read=True,
    can_write=True,
    wanted=_active,
    active=_active,
    needed_to_read=_active,
    rebasable=True,
    tolerates=_switched_on,
    field_metadata=(PHYSICAL_NAME_KEY, COLUMN_ID_KEY, NESTED_IDS_KEY),
    check=_check,
    complete_metadata=_complete_metadata,
    outlasting=(COLUMN_MAPPING_MAX_ID.key,),
    removal=Removal(
        "REMOVE COLUMN MAPPING",
        cleaned=_cleaned,
        all_files=_active,
        exclusive=True,
        protects_history=True,
        used=_active,
    ),
)
