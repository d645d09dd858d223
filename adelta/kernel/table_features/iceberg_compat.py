"""`icebergCompatV1` to `V3`: data that Iceberg clients can read (PROTOCOL.md, "IcebergCompat").

Versions 1 and 2 are kept; the later ones are known by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adelta.errors import InvalidPropertyError, SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.json import data_type_from_json
from adelta.kernel.schema.names import walk_fields
from adelta.kernel.schema.widening import TYPE_CHANGES_KEY
from adelta.kernel.table_features._feature import FeatureKind, TableFeature, allows_anything
from adelta.kernel.table_features._removal import with_properties
from adelta.kernel.table_features.column_mapping import COLUMN_MAPPING, COLUMN_MAPPING_MODE
from adelta.kernel.table_features.deletion_vectors import DELETION_VECTORS
from adelta.kernel.table_features.row_tracking import ROW_TRACKING
from adelta.kernel.table_properties import Property, parse_boolean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.table_state import TableState

__all__ = [
    "ICEBERG_COMPAT_V1",
    "ICEBERG_COMPAT_V2",
    "ICEBERG_COMPAT_V3",
    "ICEBERG_WRITER_COMPAT_V1",
    "with_iceberg_properties",
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

_V1 = Property("delta.enableIcebergCompatV1", parse_boolean, False)
_V2 = Property("delta.enableIcebergCompatV2", parse_boolean, False)
_V3 = Property("delta.enableIcebergCompatV3", parse_boolean, False)
_WRITER_V1 = Property("delta.enableIcebergWriterCompatV1", parse_boolean, False)


def _switch(enabled: Property[bool]) -> Callable[[TableState], bool]:
    return lambda state: enabled.read(state.configuration)


def with_iceberg_properties(after: Metadata) -> Metadata:
    """The metadata of a new table, which maps its columns where Iceberg clients are to read it."""
    asked = any(each.read(after.configuration) for each in (_V1, _V2))
    if not asked or COLUMN_MAPPING_MODE.text(after.configuration) is not None:
        return after
    return with_properties(after, {COLUMN_MAPPING_MODE.key: "name"})


# ------------------------------------------------------------------------------------------ checks


def _check_v1(before: TableState | None, after: TableState) -> None:
    if not _V1.read(after.configuration):
        return
    _check_both(_V1, before, after)
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
    for path, data_type in _types(after.schema):
        if isinstance(data_type, (t.ArrayType, t.MapType)):
            raise _unknown_type(_V1, path, data_type)


def _check_v2(before: TableState | None, after: TableState) -> None:
    if not _V2.read(after.configuration):
        return
    _check_both(_V2, before, after)
    if DELETION_VECTORS.active(after):
        raise InvalidPropertyError(
            f"{_V2.key} does not go together with deletion vectors; set "
            "delta.enableDeletionVectors to false first"
        )


def _check_both(version: Property[bool], before: TableState | None, after: TableState) -> None:
    """What versions 1 and 2 have in common."""
    others = [p.key for p in (_V1, _V2, _V3) if p is not version and p.read(after.configuration)]
    if others:
        raise InvalidPropertyError(
            f"{version.key} and {others[0]} cannot both be true; unset one of them"
        )
    if not COLUMN_MAPPING.active(after):
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
    for path, data_type in _types(after.schema):
        known = isinstance(data_type, (t.DecimalType, t.StructType, t.ArrayType, t.MapType))
        if not known and data_type not in _PRIMITIVES:
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


def _types(
    data_type: t.DataType, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], t.DataType]]:
    """Every type in a schema, with the path that leads to it."""
    if path:
        yield path, data_type
    match data_type:
        case t.StructType(fields):
            for field in fields:
                yield from _types(field.type, (*path, field.name))
        case t.ArrayType(element):
            yield from _types(element, (*path, "element"))
        case t.MapType(key, value):
            yield from _types(key, (*path, "key"))
            yield from _types(value, (*path, "value"))


# ---------------------------------------------------------------------------------------- features


def _feature(
    name: str,
    enabled: Property[bool],
    *requires: TableFeature,
    can_write: bool = False,
    rebasable: bool = True,
    check: Callable[[TableState | None, TableState], None] = allows_anything,
) -> TableFeature:
    active = _switch(enabled)
    return TableFeature(
        name=name,
        kind=FeatureKind.WRITER,
        requires=requires,
        properties=(enabled,),
        can_write=can_write,
        wanted=active,
        active=active,
        rebasable=rebasable,
        check=check,
    )


ICEBERG_COMPAT_V1 = _feature(
    "icebergCompatV1", _V1, COLUMN_MAPPING, can_write=True, check=_check_v1
)
ICEBERG_COMPAT_V2 = _feature(
    "icebergCompatV2", _V2, COLUMN_MAPPING, can_write=True, check=_check_v2
)
ICEBERG_COMPAT_V3 = _feature("icebergCompatV3", _V3, COLUMN_MAPPING, ROW_TRACKING)
ICEBERG_WRITER_COMPAT_V1 = _feature(
    "icebergWriterCompatV1", _WRITER_V1, ICEBERG_COMPAT_V2, rebasable=False
)
