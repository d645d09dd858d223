"""`icebergWriterCompatV1`: tables that Iceberg clients can write too (B12-11).

An RFC (protocol_rfcs/iceberg-writer-compat-v1.md) that Delta Kernel follows: everything that
`icebergCompatV2` asks for, and that files call columns by their ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adelta.errors import InvalidPropertyError, SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.names import column_id, physical_name, walk_fields
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import with_properties
from adelta.kernel.table_features.append_only import APPEND_ONLY
from adelta.kernel.table_features.catalog_managed import CATALOG_MANAGED
from adelta.kernel.table_features.change_data_feed import CHANGE_DATA_FEED
from adelta.kernel.table_features.check_constraints import CHECK_CONSTRAINTS
from adelta.kernel.table_features.checkpoint_protection import CHECKPOINT_PROTECTION
from adelta.kernel.table_features.clustering import CLUSTERING
from adelta.kernel.table_features.column_mapping import (
    COLUMN_MAPPING,
    COLUMN_MAPPING_MODE,
    with_mapped_columns,
)
from adelta.kernel.table_features.domain_metadata import DOMAIN_METADATA
from adelta.kernel.table_features.generated_columns import GENERATED_COLUMNS
from adelta.kernel.table_features.iceberg_compat import (
    ICEBERG_COMPAT_V2,
    iceberg_compat_version,
    nested_types,
)
from adelta.kernel.table_features.identity_columns import IDENTITY_COLUMNS
from adelta.kernel.table_features.in_commit_timestamp import IN_COMMIT_TIMESTAMP
from adelta.kernel.table_features.invariants import INVARIANTS
from adelta.kernel.table_features.row_tracking import ROW_TRACKING, ROW_TRACKING_ENABLED
from adelta.kernel.table_features.timestamp_ntz import TIMESTAMP_NTZ
from adelta.kernel.table_features.type_widening import TYPE_WIDENING
from adelta.kernel.table_features.v2_checkpoint import V2_CHECKPOINT
from adelta.kernel.table_features.vacuum_protocol_check import VACUUM_PROTOCOL_CHECK
from adelta.kernel.table_properties import Property, parse_boolean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.table_features._feature import ProtocolAndMetadata

__all__ = ["ICEBERG_WRITER_COMPAT_V1"]

_ENABLED = Property("delta.enableIcebergWriterCompatV1", parse_boolean, False)

_V2_ENABLED: Final = ICEBERG_COMPAT_V2.properties[0]

_IDLE: Final = (
    INVARIANTS,
    CHANGE_DATA_FEED,
    CHECK_CONSTRAINTS,
    IDENTITY_COLUMNS,
    GENERATED_COLUMNS,
)
_ALLOWED: Final = (
    APPEND_ONLY,
    COLUMN_MAPPING,
    ICEBERG_COMPAT_V2,
    DOMAIN_METADATA,
    VACUUM_PROTOCOL_CHECK,
    V2_CHECKPOINT,
    IN_COMMIT_TIMESTAMP,
    CLUSTERING,
    TIMESTAMP_NTZ,
    TYPE_WIDENING,
    ROW_TRACKING,
    CATALOG_MANAGED,  # this one and the next are Delta Kernel's; neither touches data files
    CHECKPOINT_PROTECTION,
    *_IDLE,
)


def _active(metadata: Metadata) -> bool:
    return _ENABLED.read(metadata.configuration)


def _complete_metadata(
    before: Metadata | None, after: Metadata, protocol: Protocol, unique: Callable[[], str]
) -> Metadata:
    """What the feature takes, where it is unsaid: files call columns ``col-<id>``."""
    if not _active(after):
        return after
    if before is None:
        wanted = {COLUMN_MAPPING_MODE: "id", _V2_ENABLED: "true"}
        unsaid = {p.key: v for p, v in wanted.items() if p.text(after.configuration) is None}
        after = with_properties(after, unsaid)
    nested = iceberg_compat_version(protocol, after) > 1
    return with_mapped_columns(before, after, unique, nested=nested, numbered=True)


def _check(before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
    is_on = _active(after.metadata)
    if before is not None and is_on != _active(before.metadata):
        done = "set on a table that exists" if is_on else "unset"
        raise InvalidPropertyError(
            f"{_ENABLED.key} cannot be {done}: it decides what files call columns from the first "
            "one on; write the rows into a new table instead"
        )
    if not is_on:
        return
    if COLUMN_MAPPING_MODE.read(after.configuration) != "id":
        raise InvalidPropertyError(
            f"{_ENABLED.key} needs columns mapped by id; set {COLUMN_MAPPING_MODE.key} to 'id'"
        )
    if not ICEBERG_COMPAT_V2.active(after.metadata):
        raise InvalidPropertyError(
            f"{_ENABLED.key} needs {_V2_ENABLED.key}; set that to true as well"
        )
    _check_features(after)
    _check_schema(after)
    if before is not None:
        _check_keys(before, after)


def _check_features(after: ProtocolAndMetadata) -> None:
    known = {name for feature in _ALLOWED for name in feature.names}
    listed = set(after.protocol.writer_features or ()) | set(after.protocol.reader_features or ())
    others = sorted(listed - known - {ICEBERG_WRITER_COMPAT_V1.name})
    idle = [feature.name for feature in _IDLE if feature.active(after.metadata)]
    if ROW_TRACKING_ENABLED.read(after.configuration):
        idle.append(ROW_TRACKING.name)
    if others or idle:
        raise InvalidPropertyError(
            f"{_ENABLED.key} does not go together with {', '.join((*others, *idle))}; leave out "
            "what asks for it, or write into a table without that property"
        )


def _check_schema(after: ProtocolAndMetadata) -> None:
    for path, data_type in nested_types(after.schema):
        if data_type in (t.BYTE, t.SHORT):
            raise SchemaMismatchError(
                f"column {'.'.join(path)!r} is of type {data_type}, which {_ENABLED.key} does not "
                "allow; make it an integer"
            )
    for path, field in walk_fields(after.schema):
        name = physical_name(field, "id")
        if name != f"col-{column_id(field)}":
            raise SchemaMismatchError(
                f"files call column {'.'.join(path)!r}, whose id is {column_id(field)}, {name!r}, "
                f"but {_ENABLED.key} wants col-{column_id(field)}; leave the column's mapping out, "
                "and it is made"
            )


def _check_keys(before: ProtocolAndMetadata, after: ProtocolAndMetadata) -> None:
    now = {place: key for place, _, key in _keys(after.schema)}
    for place, path, key in _keys(before.schema):
        if now.get(place, key) != key:
            raise SchemaMismatchError(
                f"the keys of the map in column {'.'.join(path)!r} hold a struct, which cannot "
                f"change while {_ENABLED.key} is true; add another column instead"
            )


def _keys(
    schema: t.StructType,
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], t.DataType]]:
    """The keys of maps that hold structs: where they are by column id, their column, their type."""
    for path, field in walk_fields(schema):
        for place, data_type in nested_types(field.type, (str(column_id(field)),)):
            if isinstance(data_type, t.MapType):
                parts = nested_types(data_type.key_type, ("key",))
                if any(isinstance(part, t.StructType) for _, part in parts):
                    yield place, path, data_type.key_type


ICEBERG_WRITER_COMPAT_V1 = TableFeature(
    name="icebergWriterCompatV1",
    kind=FeatureKind.WRITER,
    requires=(ICEBERG_COMPAT_V2,),
    properties=(_ENABLED,),
    can_write=True,
    wanted=_active,
    active=_active,
    check=_check,
    followed=True,
    complete_metadata=_complete_metadata,
)
