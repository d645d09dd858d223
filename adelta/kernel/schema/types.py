"""Delta's types as frozen values, under the names of PROTOCOL.md's schema serialisation.

A `StructType` is a table's schema. Field metadata is kept as it was read, unknown keys included, so
that a schema survives a round trip.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "BINARY",
    "BOOLEAN",
    "BYTE",
    "DATE",
    "DOUBLE",
    "FLOAT",
    "INTEGER",
    "LONG",
    "SHORT",
    "STRING",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "VARIANT",
    "VOID",
    "ArrayType",
    "DataType",
    "DecimalType",
    "MapType",
    "PrimitiveType",
    "StructField",
    "StructType",
]


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type named by one word, such as ``long`` or ``timestamp_ntz``."""

    name: str

    def __str__(self) -> str:
        """The name that the schema string uses."""
        return self.name


STRING = PrimitiveType("string")
LONG = PrimitiveType("long")
INTEGER = PrimitiveType("integer")
SHORT = PrimitiveType("short")
BYTE = PrimitiveType("byte")
FLOAT = PrimitiveType("float")
DOUBLE = PrimitiveType("double")
BOOLEAN = PrimitiveType("boolean")
BINARY = PrimitiveType("binary")
DATE = PrimitiveType("date")
TIMESTAMP = PrimitiveType("timestamp")
TIMESTAMP_NTZ = PrimitiveType("timestamp_ntz")
VARIANT = PrimitiveType("variant")
VOID = PrimitiveType("void")


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A decimal number of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        """The name that the schema string uses."""
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of values of one type."""

    element_type: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        """A short form for messages."""
        return f"array<{self.element_type}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from values of one type to values of another."""

    key_type: DataType
    value_type: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        """A short form for messages."""
        return f"map<{self.key_type},{self.value_type}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """One named field; `metadata` holds what the schema string says of it beside its type."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class StructType:
    """A sequence of fields; as a table's schema, its columns in order."""

    fields: tuple[StructField, ...] = ()

    def __iter__(self) -> Iterator[StructField]:
        """The fields in order."""
        return iter(self.fields)

    def __len__(self) -> int:
        """How many fields there are."""
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The fields' names in order."""
        return tuple(f.name for f in self.fields)

    def field(self, name: str) -> StructField | None:
        """The field of this name: as written, else ignoring case, else None."""
        for f in self.fields:
            if f.name == name:
                return f
        folded = name.lower()
        for f in self.fields:
            if f.name.lower() == folded:
                return f
        return None

    def __str__(self) -> str:
        """A short form for messages."""
        return "struct<" + ",".join(f"{f.name}:{f.type}" for f in self.fields) + ">"


DataType = PrimitiveType | DecimalType | ArrayType | MapType | StructType
"""Any Delta type."""
