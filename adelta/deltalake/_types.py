"""The types of a schema, as deltalake's users make and read them."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any, Union

import pyarrow as pa

from adelta.deltalake._arrow import (
    PRIMITIVES,
    arrow_field,
    arrow_type,
    delta_type,
    exported_field,
    exported_schema,
    metadata_of,
    with_large_types,
)
from adelta.deltalake._util import check_text
from adelta.deltalake.exceptions import DeltaError, SchemaMismatchError
from adelta.errors import InvalidTableError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.json import data_type_from_json, type_to_json

__all__ = [
    "ArrayType",
    "DataType",
    "Field",
    "MapType",
    "PrimitiveType",
    "Schema",
    "StructType",
    "VariantType",
    "kernel_type",
    "public_type",
]

_PRIMITIVES = frozenset({*PRIMITIVES, "timestamp_nanos", "timestamp_nanos_ntz"})
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_FEW_DIGITS = 38


class _Type:
    """What all types have: a Delta type that they stand for, and its forms."""

    _kind: t.DataType
    _wanted = "Type is not primitive"
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Type) and other._kind == self._kind

    def _unordered(self, other: object) -> bool:
        raise NotImplementedError("Only == and != are supported.")

    __lt__ = __le__ = __gt__ = __ge__ = _unordered

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self).__name__, self.to_json())

    def to_json(self) -> str:
        """The type as the JSON of Delta's schemas."""
        return json.dumps(type_to_json(self._kind), separators=(",", ":"), ensure_ascii=False)

    def to_arrow(self) -> Any:
        """The equivalent `pyarrow.DataType`."""
        return arrow_type(self._kind)

    def __arrow_c_schema__(self) -> object:
        """The type as a capsule of Arrow's C data interface."""
        return self.to_arrow().__arrow_c_schema__()

    @classmethod
    def _made(cls, kind: t.DataType) -> Any:
        made = public_type(kind)
        if not isinstance(made, cls):
            raise TypeError(cls._wanted)
        return made

    @classmethod
    def _of_json(cls, text: str) -> Any:
        raw = json.loads(text)
        kind = (
            _primitive_kind(raw, "Unsupported Delta table type: {!r}")
            if isinstance(raw, str) and raw != "variant"
            else _checked_json(raw)
        )
        return cls._made(kind)

    @classmethod
    def _of_arrow(cls, exported: Any) -> Any:
        return cls._made(_kind_of_arrow(exported_field(exported).type))


class PrimitiveType(_Type):
    """A primitive type, such as ``string``, ``long``, ``timestamp_ntz`` or ``decimal(10,2)``."""

    def __init__(self, data_type: str) -> None:
        if not isinstance(data_type, str):
            raise TypeError(f"{data_type!r} is no text; pass the name of a primitive type")
        self._kind = _primitive_kind(data_type, "invalid type string: {}")

    @property
    def type(self) -> str:
        """The type's name."""
        return str(self._kind)

    def __repr__(self) -> str:
        return f'PrimitiveType("{self.type}")'

    @staticmethod
    def from_json(type_json: str) -> PrimitiveType:
        """The type that a quoted name such as ``'"integer"'`` describes."""
        return PrimitiveType._of_json(type_json)  # type: ignore[no-any-return]

    @staticmethod
    def from_arrow(data_type: Any) -> PrimitiveType:
        """The type of an Arrow type.

        Raises:
            TypeError: it is not primitive.
        """
        return PrimitiveType._of_arrow(data_type)  # type: ignore[no-any-return]


class ArrayType(_Type):
    """A list of values of one type, which may be given by a primitive type's name."""

    _wanted = "Type is not an array"

    def __init__(self, element_type: DataType, contains_null: bool = True) -> None:
        self._kind: t.ArrayType = t.ArrayType(kernel_type(element_type), contains_null)

    @property
    def type(self) -> str:
        """The text ``array``."""
        return "array"

    @property
    def element_type(self) -> DataType:
        """The type of the elements."""
        return public_type(self._kind.element_type)  # type: ignore[no-any-return]

    @property
    def contains_null(self) -> bool:
        """Whether the arrays may contain nulls."""
        return self._kind.contains_null

    def __repr__(self) -> str:
        return f"ArrayType({self.element_type!r}, contains_null={self.contains_null})"

    @staticmethod
    def from_json(type_json: str) -> ArrayType:
        """The type that JSON with ``elementType`` and ``containsNull`` describes."""
        return ArrayType._of_json(type_json)  # type: ignore[no-any-return]

    @staticmethod
    def from_arrow(data_type: Any) -> ArrayType:
        """The type of an Arrow list.

        Raises:
            TypeError: it is no list.
        """
        return ArrayType._of_arrow(data_type)  # type: ignore[no-any-return]


class MapType(_Type):
    """A map from values of one type to values of another."""

    _wanted = "Type is not a map"

    def __init__(
        self, key_type: DataType, value_type: DataType, value_contains_null: bool = True
    ) -> None:
        self._kind: t.MapType = t.MapType(
            kernel_type(key_type), kernel_type(value_type), value_contains_null
        )

    @property
    def type(self) -> str:
        """The text ``map``."""
        return "map"

    @property
    def key_type(self) -> DataType:
        """The type of the keys."""
        return public_type(self._kind.key_type)  # type: ignore[no-any-return]

    @property
    def value_type(self) -> DataType:
        """The type of the values."""
        return public_type(self._kind.value_type)  # type: ignore[no-any-return]

    @property
    def value_contains_null(self) -> bool:
        """Whether values may be null."""
        return self._kind.value_contains_null

    def __repr__(self) -> str:
        return (
            f"MapType({self.key_type!r}, {self.value_type!r}, "
            f"value_contains_null={self.value_contains_null})"
        )

    @staticmethod
    def from_json(type_json: str) -> MapType:
        """The type that JSON with ``keyType``, ``valueType`` and so on describes."""
        return MapType._of_json(type_json)  # type: ignore[no-any-return]

    @staticmethod
    def from_arrow(data_type: Any) -> MapType:
        """The type of an Arrow map.

        Raises:
            TypeError: it is no map.
        """
        return MapType._of_arrow(data_type)  # type: ignore[no-any-return]


class VariantType(_Type):
    """Delta's VARIANT, as a struct of its binary `metadata` and `value` in Arrow."""

    _wanted = "Type is not variant"

    def __init__(self) -> None:
        self._kind = t.VARIANT

    @property
    def type(self) -> str:
        """The text ``variant``."""
        return "variant"

    def __repr__(self) -> str:
        return "VariantType()"

    @staticmethod
    def from_json(type_json: str) -> VariantType:
        """The type that ``'"variant"'`` describes."""
        return VariantType._of_json(type_json)  # type: ignore[no-any-return]

    @staticmethod
    def from_arrow(data_type: Any) -> VariantType:
        """The type of an Arrow struct of `metadata` and `value`.

        Raises:
            TypeError: it is no variant.
        """
        return VariantType._of_arrow(data_type)  # type: ignore[no-any-return]


class Field:
    """A field of a struct or schema; `metadata` are texts, or what JSON makes of other values."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        name: str,
        type: DataType,
        nullable: bool = True,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        check_text(name)
        if not isinstance(nullable, bool):
            raise TypeError(f"{nullable!r} is not an instance of 'bool'")
        texts = {
            str(key): value if _is_kept(value) else json.dumps(value, separators=(",", ":"))
            for key, value in (metadata or {}).items()
        }
        self._field = t.StructField(name, kernel_type(type), nullable, texts)

    @classmethod
    def _of(cls, field: t.StructField) -> Field:
        made = cls.__new__(cls)
        made._field = field
        return made

    @property
    def name(self) -> str:
        """The field's name."""
        return self._field.name

    @property
    def type(self) -> DataType:
        """The field's type."""
        return public_type(self._field.type)  # type: ignore[no-any-return]

    @property
    def nullable(self) -> bool:
        """Whether there may be nulls."""
        return self._field.nullable

    @property
    def metadata(self) -> dict[str, Any]:
        """What the schema says of the field beside its type."""
        return dict(self._field.metadata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and other._field == self._field

    def __repr__(self) -> str:
        metadata = f", metadata={self.metadata!r}" if self._field.metadata else ""
        return f"Field({self.name}, {self.type!r}, nullable={self.nullable}{metadata})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Field.from_json, (self.to_json(),)

    def to_json(self) -> str:
        """The field as the JSON of Delta's schemas."""
        (found,) = _json_of(t.StructType((self._field,)))["fields"]
        return json.dumps(found, separators=(",", ":"), ensure_ascii=False)

    @staticmethod
    def from_json(field_json: str) -> Field:
        """The field that JSON with ``name``, ``type``, ``nullable`` and ``metadata`` describes."""
        kind = _checked_json({"type": "struct", "fields": [json.loads(field_json)]})
        return Field._of(kind.fields[0])  # type: ignore[union-attr]

    def to_arrow(self) -> Any:
        """The equivalent `pyarrow.Field`."""
        return arrow_field(self._field)

    @staticmethod
    def from_arrow(field: Any) -> Field:
        """The field of an Arrow field."""
        found = exported_field(field)
        kind = _kind_of_arrow(found.type)
        return Field._of(t.StructField(found.name, kind, found.nullable, metadata_of(found)))

    def __arrow_c_schema__(self) -> object:
        """The field as a capsule of Arrow's C data interface."""
        return self.to_arrow().__arrow_c_schema__()


class StructType(_Type):
    """A struct of fields."""

    _wanted = "Type is not a struct"

    def __init__(self, fields: list[Field]) -> None:
        for field in fields:
            if not isinstance(field, Field):
                raise TypeError(f"{field!r} is no Field; pass a list of fields")
        self._kind: t.StructType = t.StructType(tuple(field._field for field in fields))
        seen: set[str] = set()
        for name in self._kind.names:
            if name.lower() in seen:
                raise SchemaMismatchError(
                    f"Schema error: Duplicate field name (case-insensitive): '{name}'"
                )
            seen.add(name.lower())

    @property
    def type(self) -> str:
        """The text ``struct``."""
        return "struct"

    @property
    def fields(self) -> list[Field]:
        """The fields in order."""
        return [Field._of(field) for field in self._kind]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fields!r})"

    @staticmethod
    def from_json(type_json: str) -> StructType:
        """The type that JSON with ``fields`` describes."""
        return StructType._of_json(type_json)  # type: ignore[no-any-return]

    @staticmethod
    def from_arrow(data_type: Any) -> StructType:
        """The type of an Arrow struct, or of a schema.

        Raises:
            TypeError: it is no struct.
        """
        return StructType._of_arrow(data_type)  # type: ignore[no-any-return]


class Schema(StructType):
    """The columns of a table."""

    @classmethod
    def _of(cls, kind: t.StructType) -> Schema:
        made = cls.__new__(cls)
        made._kind = kind
        return made

    @property
    def invariants(self) -> list[tuple[str, str]]:
        """The invariants: the path of a column and an expression in SQL each."""
        return list(_invariants(self._kind, ()))

    def json(self) -> dict[str, Any]:
        """The schema as a dictionary; deprecated, as `to_json` gives the text of it."""
        warnings.warn(
            "Schema.json() is deprecated. Use json.loads(Schema.to_json()) instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return _json_of(self._kind)

    @staticmethod
    def from_json(schema_json: str) -> Schema:
        """The schema that JSON with ``fields`` describes."""
        return Schema._of(StructType.from_json(schema_json)._kind)

    def to_arrow(self, as_large_types: bool = False) -> Any:
        """The equivalent `pyarrow.Schema`, with 64-bit counts of texts and lists if asked for."""
        fields = [field.to_arrow() for field in self.fields]
        if as_large_types:
            fields = [field.with_type(with_large_types(field.type)) for field in fields]
        return pa.schema(fields)

    @staticmethod
    def from_arrow(data_type: Any) -> Schema:
        """The schema of an Arrow schema.

        Raises:
            DeltaError: Delta has no such type.
        """
        fields = [Field.from_arrow(field) for field in exported_schema(data_type)]
        return Schema._of(t.StructType(tuple(field._field for field in fields)))


def _unpickled(name: str, text: str) -> Any:
    return globals()[name].from_json(text)


DataType = Union["PrimitiveType", "MapType", "StructType", "ArrayType", "VariantType"]


def kernel_type(value: Any) -> t.DataType:
    """The type of adelta's that one of these, or the name of a primitive one, stands for.

    Raises:
        ValueError: it stands for none.
    """
    if isinstance(value, str):
        return PrimitiveType(value)._kind
    if isinstance(value, _Type):
        return t.StructType(value._kind.fields) if isinstance(value, Schema) else value._kind
    raise ValueError("Invalid data type")


def public_type(kind: t.DataType) -> Any:
    """The type as deltalake's users read it."""
    made: _Type
    if isinstance(kind, t.ArrayType):
        made = ArrayType.__new__(ArrayType)
    elif isinstance(kind, t.MapType):
        made = MapType.__new__(MapType)
    elif isinstance(kind, t.StructType):
        made = StructType.__new__(StructType)
    elif kind == t.VARIANT:
        made = VariantType.__new__(VariantType)
    else:
        made = PrimitiveType.__new__(PrimitiveType)
    made._kind = kind
    return made


def _primitive_kind(name: str, refusal: str) -> t.DataType:
    if name.startswith("decimal"):
        found = _DECIMAL.fullmatch(name)
        digits, scale = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 0 < digits <= _FEW_DIGITS or not 0 <= scale <= digits:
            raise ValueError(
                f"{refusal.format(name)}, precision/scale can't be larger than {_FEW_DIGITS}"
            )
        return t.DecimalType(digits, scale)
    if name not in _PRIMITIVES:
        raise ValueError(refusal.format(name))
    return t.PrimitiveType(name)


def _is_kept(value: object) -> bool:
    """Whether an entry of a field's metadata is kept as it is, and not as JSON's text of it."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def _json_of(kind: t.DataType) -> dict[str, Any]:
    found = type_to_json(kind)
    assert isinstance(found, dict)
    return found


def _checked_json(raw: object) -> t.DataType:
    try:
        return data_type_from_json(raw)
    except InvalidTableError as error:
        raise ValueError(str(error)) from error


def _kind_of_arrow(arrow: Any) -> t.DataType:
    try:
        return delta_type(arrow)
    except ValueError as error:
        raise DeltaError(f"Schema error: {error}") from None


def _invariants(kind: t.DataType, path: tuple[str, ...]) -> Any:
    if not isinstance(kind, t.StructType):
        return
    for field in kind:
        here = (*path, field.name)
        if text := field.metadata.get("delta.invariants"):
            yield ".".join(here), json.loads(text)["expression"]["expression"]
        yield from _invariants(field.type, here)
