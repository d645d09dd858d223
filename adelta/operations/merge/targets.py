"""Structs of a merge's target that those of its source do not fill."""

from __future__ import annotations

from adelta.kernel.schema.types import ArrayType, DataType, MapType, StructType

__all__ = ["covers"]


def covers(target: DataType, source: DataType, path: str) -> str | None:
    """The first field, at any depth, that the target's structs have and the source's lack."""
    match target, source:
        case StructType(), StructType():
            for field in target:
                inner, given = f"{path}.{field.name}", source.field(field.name)
                lacking = inner if given is None else covers(field.type, given.type, inner)
                if lacking is not None:
                    return lacking
        case ArrayType(), ArrayType():
            return covers(target.element_type, source.element_type, f"{path}.element")
        case MapType(), MapType():
            return covers(target.key_type, source.key_type, f"{path}.key") or covers(
                target.value_type, source.value_type, f"{path}.value"
            )
    return None
