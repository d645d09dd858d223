"""Schema strings ⇄ types (PROTOCOL.md, "Schema Serialization Format")."""

from __future__ import annotations

import re
from typing import Any

import orjson

from adelta.errors import InvalidTableError
from adelta.kernel.schema import types as t

__all__ = [
    "PRIMITIVES",
    "data_type_from_json",
    "schema_from_string",
    "schema_to_string",
    "type_to_json",
]

PRIMITIVES = {
    p.name: p
    for p in (
        t.STRING,
        t.LONG,
        t.INTEGER,
        t.SHORT,
        t.BYTE,
        t.FLOAT,
        t.DOUBLE,
        t.BOOLEAN,
        t.BINARY,
        t.DATE,
        t.TIMESTAMP,
        t.TIMESTAMP_NTZ,
        t.VARIANT,
        t.VOID,
    )
}
_ALIASES = {"null": t.VOID, "bigint": t.LONG, "int": t.INTEGER, "smallint": t.SHORT}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_ ]{0,60}(\([^()]{0,200}\))?")
_MAX_PRECISION = 38
_MAX_DEPTH = 200


def schema_from_string(text: str) -> t.StructType:
    """The schema that `text`, a `metaData.schemaString`, describes.

    Raises:
        InvalidTableError: the text is not a schema.
    """
    try:
        raw = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidTableError(
            f"the table's schemaString is not JSON ({error}); the metaData action is damaged"
        ) from error
    parsed = data_type_from_json(raw)
    if not isinstance(parsed, t.StructType):
        raise InvalidTableError(f"the table's schemaString is a {parsed}, not a struct")
    return parsed


def data_type_from_json(raw: object, _depth: int = 0) -> t.DataType:
    """The type that a decoded schema JSON value describes.

    Raises:
        InvalidTableError: the value describes no Delta type.
    """
    if _depth > _MAX_DEPTH:
        raise InvalidTableError(f"the table's schema nests deeper than {_MAX_DEPTH} levels")
    if isinstance(raw, str):
        return _primitive(raw)
    if not isinstance(raw, dict):
        raise InvalidTableError(f"the table's schema has {raw!r} where a type belongs")
    kind = raw.get("type")
    try:
        if kind == "struct":
            return t.StructType(_distinct(tuple(_field(f, _depth) for f in raw["fields"])))
        if kind == "array":
            element = data_type_from_json(raw["elementType"], _depth + 1)
            return t.ArrayType(element, bool(raw.get("containsNull", True)))
        if kind == "map":
            return t.MapType(
                data_type_from_json(raw["keyType"], _depth + 1),
                data_type_from_json(raw["valueType"], _depth + 1),
                bool(raw.get("valueContainsNull", True)),
            )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidTableError(f"the table's schema has an incomplete {kind}: {error}") from error
    if kind == "udt" and "sqlType" in raw:
        return data_type_from_json(raw["sqlType"], _depth + 1)
    raise InvalidTableError(f"the table's schema has the unknown type {kind!r}")


def _primitive(name: str) -> t.DataType:
    found = PRIMITIVES.get(name) or _ALIASES.get(name)
    if found is not None:
        return found
    if name == "decimal":
        return t.DecimalType(10, 0)
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if not (0 < precision <= _MAX_PRECISION and 0 <= scale <= precision):
            raise InvalidTableError(f"the table's schema has the impossible type {name}")
        return t.DecimalType(precision, scale)
    if _WORDS.fullmatch(name):
        # Newer types are kept by name: whoever wants such a column's values is told so then.
        return t.PrimitiveType(name)
    raise InvalidTableError(
        f"the table's schema has {name[:80]!r} where the name of a type belongs"
    )


def _distinct(fields: tuple[t.StructField, ...]) -> tuple[t.StructField, ...]:
    """The fields of a struct, whose names must differ in more than case."""
    seen: dict[str, str] = {}
    for f in fields:
        folded = f.name.lower()
        if folded in seen:
            raise InvalidTableError(
                f"the table's schema has two columns {seen[folded][:80]!r} and {f.name[:80]!r}, "
                "which Delta cannot tell apart"
            )
        seen[folded] = f.name
    return fields


def _field(raw: dict[str, Any], depth: int) -> t.StructField:
    return t.StructField(
        name=str(raw["name"]),
        type=data_type_from_json(raw["type"], depth + 1),
        nullable=bool(raw.get("nullable", True)),
        metadata=dict(raw.get("metadata") or {}),
    )


def type_to_json(data_type: t.DataType) -> object:
    """The JSON value, ready to be encoded, that describes `data_type` in a schema string."""
    match data_type:
        case t.StructType(fields):
            return {
                "type": "struct",
                "fields": [
                    {
                        "name": f.name,
                        "type": type_to_json(f.type),
                        "nullable": f.nullable,
                        "metadata": dict(f.metadata),
                    }
                    for f in fields
                ],
            }
        case t.ArrayType(element, contains_null):
            return {
                "type": "array",
                "elementType": type_to_json(element),
                "containsNull": contains_null,
            }
        case t.MapType(key, value, value_contains_null):
            return {
                "type": "map",
                "keyType": type_to_json(key),
                "valueType": type_to_json(value),
                "valueContainsNull": value_contains_null,
            }
    return str(data_type)


def schema_to_string(schema: t.StructType) -> str:
    """The `metaData.schemaString` of a schema."""
    return orjson.dumps(type_to_json(schema)).decode()
