"""`icebergCompatV1` to `V3`: data that Iceberg clients can read (PROTOCOL.md, "IcebergCompat").

Versions 1 to 3 are kept; version 3 is an RFC (protocol_rfcs/iceberg-compat-v3.md) that Delta Spark
and Delta Kernel follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adelta.errors import InvalidPropertyError, SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.geospatial import shape_of
from adelta.kernel.schema.json import data_type_from_json
from adelta.kernel.schema.names import NESTED_IDS_KEY, physical_name, walk_fields
from adelta.kernel.schema.widening import TYPE_CHANGES_KEY
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import with_properties
from adelta.kernel.table_features.allow_column_defaults import DEFAULT_KEY, has_literal_default
from adelta.kernel.table_features.column_mapping import (
    COLUMN_MAPPING,
    COLUMN_MAPPING_MODE,
    with_mapped_columns,
)
from adelta.kernel.table_features.deletion_vectors import DELETION_VECTORS
from adelta.kernel.table_features.row_tracking import (
    ROW_TRACKING,
    ROW_TRACKING_ENABLED,
    may_hold_row_ids,
    row_id_columns,
)
from adelta.kernel.table_properties import Property, TableProperties, parse_boolean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.table_features._feature import ProtocolAndMetadata

__all__ = [
    "ICEBERG_COMPAT_V1",
    "ICEBERG_COMPAT_V2",
    "ICEBERG_COMPAT_V3",
    "iceberg_compat_version",
    "nested_types",
    "switches_row_tracking_on",
]

_PRIMITIVES: Final = (
    t.BYTE,
    t.SHORT,
    t.INTEGER,
    t.LONG,
    t.FLOAT,
    t.DOUBLE,
    t.STRING,
    t.BINARY,
    t.BOOLEAN,
    t.TIMESTAMP,
    t.TIMESTAMP_NTZ,
    t.DATE,
)
_WHOLE: Final = (t.BYTE, t.SHORT, t.INTEGER, t.LONG)

_NESTED_IDS_FROM: Final = 2

_V1 = Property("delta.enableIcebergCompatV1", parse_boolean, False)
_V2 = Property("delta.enableIcebergCompatV2", parse_boolean, False)
_V3 = Property("delta.enableIcebergCompatV3", parse_boolean, False)
_ATOMIC_CONVERSION = TableProperties.iceberg_atomic_conversion


def _switch(enabled: Property[bool]) -> Callable[[Metadata], bool]:
    return lambda metadata: enabled.read(metadata.configuration)


def iceberg_compat_version(protocol: Protocol, metadata: Metadata) -> int:
    """The version of compatibility that a table keeps: 1, 2 or 3; 0 where it keeps none."""
    names = protocol.writer_features or ()
    kept = (
        number
        for number, feature in enumerate(
            (ICEBERG_COMPAT_V1, ICEBERG_COMPAT_V2, ICEBERG_COMPAT_V3), start=1
        )
        if feature.name in names and feature.active(metadata)
    )
    return max(kept, default=0)


def switches_row_tracking_on(configuration: Mapping[str, str]) -> bool:
    """Whether a table that gets these properties has to track its rows from then on."""
    return ROW_TRACKING_ENABLED.read(configuration) or _V3.read(configuration)


def _completing(
    enabled: Property[bool],
) -> Callable[[Metadata | None, Metadata, Protocol, Callable[[], str]], Metadata]:
    """A hook: what compatibility with Iceberg takes, where it is unsaid.

    A new table gets column mapping and, as in Delta Spark, the property of atomic conversion; if
    version 3 is enabled, row tracking is, too. From version 2 on elements of
    arrays, and keys and values of maps, have ids too (B12-09, B12-10).
    """

    def hook(
        before: Metadata | None, after: Metadata, protocol: Protocol, unique: Callable[[], str]
    ) -> Metadata:
        if not enabled.read(after.configuration):
            return after
        wanted = {}
        if before is None and COLUMN_MAPPING_MODE.text(after.configuration) is None:
            wanted[COLUMN_MAPPING_MODE.key] = "name"
        if before is None and _ATOMIC_CONVERSION.text(after.configuration) is None:
            wanted[_ATOMIC_CONVERSION.key] = "true"
        begins = before is None or not enabled.read(before.configuration)
        unsaid = ROW_TRACKING_ENABLED.text(after.configuration) is None
        if enabled is _V3 and begins and unsaid:
            wanted[ROW_TRACKING_ENABLED.key] = "true"
        after = with_properties(after, wanted) if wanted else after
        nested = iceberg_compat_version(protocol, after) >= _NESTED_IDS_FROM
        return with_mapped_columns(before, after, unique, nested=True) if nested else after

    return hook


# ------------------------------------------------------------------------------------------ checks


def _check_v1(before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
    if not _V1.read(after.configuration):
        return
    _check_common(_V1, before, after)
    if DELETION_VECTORS.name in (after.protocol.writer_features or ()):
        raise InvalidPropertyError(
            f"{_V1.key} does not go together with deletion vectors; drop the feature "
            f"{DELETION_VECTORS.name} first (drop_feature)"
        )
    begins = before is not None and not _V1.read(before.configuration)
    if begins and after.metadata.partition_columns:
        raise InvalidPropertyError(
            f"{_V1.key} needs partition columns in every file, and those that are there lack them; "
            f"set {_V2.key} instead, or create another table"
        )
    for path, data_type in nested_types(after.schema):
        if isinstance(data_type, (t.ArrayType, t.MapType)):
            raise _unknown_type(_V1, path, data_type)


def _check_v2(before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
    if not _V2.read(after.configuration):
        return
    _check_common(_V2, before, after)
    if DELETION_VECTORS.active(after.metadata):
        raise InvalidPropertyError(
            f"{_V2.key} does not go together with deletion vectors; set "
            "delta.enableDeletionVectors to false first"
        )


def _check_v3(before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
    was = before is not None and _V3.read(before.configuration)
    if not _V3.read(after.configuration):
        if was:
            raise InvalidPropertyError(
                f"{_V3.key} cannot be unset: Iceberg clients may follow the table, and no Delta "
                "client ends that; write the rows into a new table instead"
            )
        return
    _check_common(_V3, before, after)
    if before is not None and not was and may_hold_row_ids(before.metadata):
        raise InvalidPropertyError(
            f"{_V3.key} cannot be set where rows have been tracked before: files may hold row ids "
            f"without Iceberg's field ids; drop the feature {ROW_TRACKING.name} first "
            "(drop_feature), then set the property, which gives all rows new ids"
        )
    # rows that are there get their ids before the table begins to keep this version
    states = (after,) if before is None else (before, after)
    supported = all(ROW_TRACKING.name in (s.protocol.writer_features or ()) for s in states)
    hidden = row_id_columns(after.metadata)
    if not supported or hidden is None or not all(hidden):
        raise InvalidPropertyError(
            f"{_V3.key} needs tracked rows; set {ROW_TRACKING_ENABLED.key} to true as well, by "
            "set_properties or when the table is created"
        )
    from adelta.kernel.partition import can_partition

    for name in after.metadata.partition_columns:
        field = after.schema.field(name)
        if field is not None and not can_partition(field.type):
            raise SchemaMismatchError(
                f"the table is partitioned by {name!r} of type {field.type}, which {_V3.key} does "
                "not allow; partition it by another column"
            )
    for path, nested in _without_nested_id(after.metadata):
        raise SchemaMismatchError(
            f"{nested!r} of column {'.'.join(path)!r} has no id in {NESTED_IDS_KEY}, which "
            f"{_V3.key} demands; add the column by add_columns or by a write, which give it one"
        )
    for path, field in walk_fields(after.schema):
        if DEFAULT_KEY in field.metadata and not has_literal_default(field):
            raise SchemaMismatchError(
                f"column {'.'.join(path)!r} has the default {field.metadata[DEFAULT_KEY]}, and "
                f"{_V3.key} allows only literal values of the column's type, such as 5, 'text' or "
                "'2020-01-01'; write it so, or leave the default out"
            )


def _without_nested_id(metadata: Metadata) -> Iterator[tuple[tuple[str, ...], str]]:
    """The elements, keys and values that lack an id: the column's path, and their own."""
    mode = COLUMN_MAPPING_MODE.read(metadata.configuration)
    for path, field in walk_fields(metadata.schema):
        ids = field.metadata.get(NESTED_IDS_KEY, {})
        for nested in _parts(field.type, physical_name(field, mode)):
            if nested not in ids:
                yield path, nested


def _parts(data_type: t.DataType, path: str) -> Iterator[str]:
    """The paths of elements, keys and values of a type, but for those of fields inside it."""
    match data_type:
        case t.ArrayType(element):
            yield f"{path}.element"
            yield from _parts(element, f"{path}.element")
        case t.MapType(key, value):
            yield from (f"{path}.key", f"{path}.value")
            yield from _parts(key, f"{path}.key")
            yield from _parts(value, f"{path}.value")


def _check_common(
    version: Property[bool], before: ProtocolAndMetadata | None, after: ProtocolAndMetadata
) -> None:
    """What all versions have in common."""
    others = [p.key for p in (_V1, _V2, _V3) if p is not version and p.read(after.configuration)]
    if others:
        raise InvalidPropertyError(
            f"{version.key} and {others[0]} cannot both be true; unset one of them"
        )
    if not COLUMN_MAPPING.active(after.metadata):
        raise InvalidPropertyError(
            f"{version.key} needs mapped columns; set {COLUMN_MAPPING_MODE.key} to 'name' as well"
        )
    if before is not None:
        was, now = before.metadata.partition_columns, after.metadata.partition_columns
        if was and was != now:
            raise SchemaMismatchError(
                f"the table is partitioned by ({', '.join(was)}), and cannot come to be "
                f"partitioned by ({', '.join(now)}) while {version.key} is true"
            )
    for path, data_type in nested_types(after.schema):
        known = isinstance(data_type, (t.DecimalType, t.StructType, t.ArrayType, t.MapType))
        newer = data_type == t.VARIANT or shape_of(data_type) is not None
        if not known and data_type not in _PRIMITIVES and not (newer and version is _V3):
            raise _unknown_type(version, path, data_type)
    for path, field in walk_fields(after.schema):
        for change in field.metadata.get(TYPE_CHANGES_KEY, []):
            narrow = data_type_from_json(change["fromType"])
            wide = data_type_from_json(change["toType"])
            if not _iceberg_widens(narrow, wide):
                raise SchemaMismatchError(
                    f"column {'.'.join(path)!r} was {narrow} once and is {wide} now, which Iceberg "
                    f"does not allow, and so neither does {version.key}"
                )


def _unknown_type(
    version: Property[bool], path: tuple[str, ...], data_type: t.DataType
) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"column {'.'.join(path)!r} is of type {data_type}, which {version.key} does not allow; "
        "leave it out, or give it another type"
    )


def _iceberg_widens(before: t.DataType, after: t.DataType) -> bool:
    if isinstance(before, t.DecimalType) and isinstance(after, t.DecimalType):
        return before.scale == after.scale
    whole = before in _WHOLE and after in _WHOLE
    return whole or (before, after) == (t.FLOAT, t.DOUBLE)


def nested_types(
    data_type: t.DataType, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], t.DataType]]:
    """Every type in a schema, or in another type, with the path that leads to it."""
    if path:
        yield path, data_type
    match data_type:
        case t.StructType(fields):
            for field in fields:
                yield from nested_types(field.type, (*path, field.name))
        case t.ArrayType(element):
            yield from nested_types(element, (*path, "element"))
        case t.MapType(key, value):
            yield from nested_types(key, (*path, "key"))
            yield from nested_types(value, (*path, "value"))


# ---------------------------------------------------------------------------------------- features


def _feature(
    name: str,
    enabled: Property[bool],
    *requires: TableFeature,
    check: Callable[[ProtocolAndMetadata | None, ProtocolAndMetadata], None],
) -> TableFeature:
    active = _switch(enabled)
    return TableFeature(
        name=name,
        kind=FeatureKind.WRITER,
        requires=requires,
        properties=(enabled,),
        can_write=True,
        followed=True,
        wanted=active,
        active=active,
        rebasable=True,
        check=check,
        complete_metadata=_completing(enabled),
        outlasting=(_ATOMIC_CONVERSION.key,),
    )


ICEBERG_COMPAT_V1 = _feature("icebergCompatV1", _V1, COLUMN_MAPPING, check=_check_v1)
ICEBERG_COMPAT_V2 = _feature("icebergCompatV2", _V2, COLUMN_MAPPING, check=_check_v2)
ICEBERG_COMPAT_V3 = _feature("icebergCompatV3", _V3, COLUMN_MAPPING, ROW_TRACKING, check=_check_v3)
