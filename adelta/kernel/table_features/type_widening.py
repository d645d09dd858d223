"""`typeWidening`: columns of files in narrower types (PROTOCOL.md, "Type Widening")."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.names import as_nullable, physical_schema, without_field_metadata
from adelta.kernel.schema.widening import TYPE_CHANGES_KEY
from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_field_metadata
from adelta.kernel.table_features._removal import Removal, unset
from adelta.kernel.table_features.column_mapping import COLUMN_MAPPING_MODE
from adelta.kernel.table_properties import Property, parse_boolean

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.kernel.actions.metadata import Metadata

__all__ = ["TYPE_WIDENING", "TYPE_WIDENING_ENABLED"]

TYPE_WIDENING_ENABLED = Property("delta.enableTypeWidening", parse_boolean, False)
"""Whether columns may come to be of wider types than those in files."""


def _active(metadata: Metadata) -> bool:
    return TYPE_WIDENING_ENABLED.read(metadata.configuration)


_used = has_field_metadata(TYPE_CHANGES_KEY)


def _cleaned(metadata: Metadata) -> Metadata:
    rest = unset(metadata, TYPE_WIDENING_ENABLED.key)
    schema = without_field_metadata(rest.schema, TYPE_CHANGES_KEY)
    if schema == rest.schema:
        return rest
    return replace(rest, schema_string=schema_to_string(schema))


def _clean(file: pa.Schema, metadata: Metadata) -> bool:
    """Whether a file holds its columns in the types of now."""
    from adelta.kernel.schema.arrow import to_arrow_schema
    from adelta.kernel.schema.conform import find_fields

    mode = COLUMN_MAPPING_MODE.read(metadata.configuration)
    wanted = as_nullable(physical_schema(metadata.schema, mode))
    found = find_fields(list(file), metadata.schema.fields, mode)
    now = to_arrow_schema(wanted)
    return all(
        place is None or file.field(place).type.equals(field.type)
        for place, field in zip(found, now, strict=True)
    )


TYPE_WIDENING = TableFeature(
    name="typeWidening",
    kind=FeatureKind.READER_WRITER,
    aliases=("typeWidening-preview",),
    properties=(TYPE_WIDENING_ENABLED,),
    can_read=True,
    can_write=True,
    wanted=_active,
    active=_active,
    needed_to_read=_used,
    removal=Removal(
        "REORG",
        cleaned=_cleaned,
        all_files=_used,  # no action tells whether its file was written before a change of types
        clean=_clean,
        protects_history=True,
        used=_used,
    ),
    rebasable=True,
)
