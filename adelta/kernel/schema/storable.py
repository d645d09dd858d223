"""Types that columns can be given: those of the protocol, and no others that a log may name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.geospatial import shape_of
from adelta.kernel.schema.json import PRIMITIVES

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check_storable"]


def check_storable(data_type: t.DataType, shown: str = "") -> None:
    """Refuse a type that a new column, `shown` so, cannot have; of a struct, what its fields have.

    Tables of other engines may have such columns: newer types, and intervals, which Spark's Delta
    has written.

    Raises:
        SchemaMismatchError: it is no type of the protocol's, or holds one that is none.
    """
    for path, each in _leaves(data_type, shown):
        if (
            isinstance(each, t.DecimalType)
            or each in PRIMITIVES.values()
            or shape_of(each) is not None
        ):
            continue
        raise SchemaMismatchError(
            f"column {path!r} is of type {each}, which Delta tables do not have; choose another "
            "type, or leave it out",
            reason="unsupported_data_types",
        )


def _leaves(data_type: t.DataType, path: str) -> Iterator[tuple[str, t.DataType]]:
    match data_type:
        case t.StructType(fields):
            for field in fields:
                yield from _leaves(field.type, f"{path}.{field.name}" if path else field.name)
        case t.ArrayType(element):
            yield from _leaves(element, f"{path}.element")
        case t.MapType(key, value):
            yield from _leaves(key, f"{path}.key")
            yield from _leaves(value, f"{path}.value")
        case _:
            yield path, data_type
