"""Changes of single columns of a schema, at any depth, by their paths.

A path leads from a column through the fields of structs; the steps ``element``, ``key`` and
``value`` lead into arrays and maps. Whether a table may undergo a change is for others to judge.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import ColumnNotFoundError, SchemaMismatchError
from adelta.kernel.schema.types import ArrayType, DataType, MapType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "change_field",
    "change_type",
    "find_path",
    "insert_fields",
    "move_field",
    "shown",
    "type_at",
]


def shown(path: tuple[str, ...]) -> str:
    """A path as users write it: names with dots, commas, backticks or blanks at an end quoted."""
    return ".".join(
        f"`{s.replace('`', '``')}`" if set(s) & set(".`,") or s != s.strip() else s for s in path
    )


def find_path(schema: StructType, path: tuple[str, ...]) -> tuple[str, ...]:
    """`path` as the schema spells it.

    Raises:
        SchemaMismatchError: it leads to nothing.
    """
    found: list[str] = []
    here: DataType = schema
    for step in path:
        match here, step.lower():
            case StructType(), _:
                field = here.field(step)
                if field is None:
                    where = f"{shown(tuple(found))} has" if found else "the table has"
                    raise ColumnNotFoundError(
                        f"there is no column {shown(path)!r}: {where} {', '.join(here.names)}"
                    )
                found.append(field.name)
                here = field.type
            case ArrayType(element), "element":
                found.append("element")
                here = element
            case MapType(key, _), "key":
                found.append("key")
                here = key
            case MapType(_, value), "value":
                found.append("value")
                here = value
            case _:
                raise ColumnNotFoundError(
                    f"there is no column {shown(path)!r}: {shown(tuple(found))} is of type {here}, "
                    f"which has no {step!r}"
                )
    return tuple(found)


def type_at(schema: StructType, path: tuple[str, ...]) -> DataType:
    """The type of what is at a path, which is there."""
    here: DataType = schema
    for step in path:
        here = _inside(here, step)
    return here


def _inside(data_type: DataType, step: str) -> DataType:
    match data_type:
        case StructType():
            field = data_type.field(step)
            assert field is not None
            return field.type
        case ArrayType(element):
            return element
        case MapType(key, value):
            return key if step == "key" else value
    raise AssertionError(f"{data_type} has no parts")


def change_type(
    data_type: DataType, path: tuple[str, ...], change: Callable[[DataType], DataType]
) -> DataType:
    """`data_type` with the type at `path`, which is there, changed.

    Example: at ``("a", "element")``, ``a array<integer>`` may become ``a array<long>``.
    """
    if not path:
        return change(data_type)
    step, rest = path[0], path[1:]
    match data_type:
        case StructType(fields):
            return StructType(
                tuple(
                    replace(f, type=change_type(f.type, rest, change)) if f.name == step else f
                    for f in fields
                )
            )
        case ArrayType(element):
            return replace(data_type, element_type=change_type(element, rest, change))
        case MapType(key, value):
            if step == "key":
                return replace(data_type, key_type=change_type(key, rest, change))
            return replace(data_type, value_type=change_type(value, rest, change))
    raise AssertionError(f"{data_type} has no parts")


def _change_struct(
    schema: StructType, parent: tuple[str, ...], change: Callable[[StructType], StructType]
) -> StructType:
    def changed(data_type: DataType) -> DataType:
        if not isinstance(data_type, StructType):
            raise SchemaMismatchError(
                f"{shown(parent)!r} is of type {data_type}, which has no fields; name a struct"
            )
        return change(data_type)

    made = change_type(schema, parent, changed)
    assert isinstance(made, StructType)
    return made


def change_field(
    schema: StructType,
    path: tuple[str, ...],
    change: Callable[[StructField], StructField | None],
) -> StructType:
    """The schema with the field at `path`, which is there, changed; None takes it out.

    Raises:
        SchemaMismatchError: what is there is the element of an array or a part of a map.
    """
    name = path[-1]

    def changed(struct: StructType) -> StructType:
        made = (change(f) if f.name == name else f for f in struct)
        return StructType(tuple(f for f in made if f is not None))

    return _change_struct(schema, path[:-1], changed)


def insert_fields(
    schema: StructType,
    parent: tuple[str, ...],
    fields: tuple[StructField, ...],
    after: str | None,
) -> StructType:
    """The schema with new fields in the struct at `parent`, behind `after`; None for in front.

    Raises:
        SchemaMismatchError: there is no struct at `parent`, or no field `after` in it.
    """

    def changed(struct: StructType) -> StructType:
        place = 0 if after is None else _place(struct, after) + 1
        return StructType((*struct.fields[:place], *fields, *struct.fields[place:]))

    return _change_struct(schema, parent, changed)


def move_field(schema: StructType, path: tuple[str, ...], after: str | None) -> StructType:
    """The schema with the field at `path`, which is there, behind its sibling `after`.

    None is for in front of all of them.

    Raises:
        SchemaMismatchError: there is no such sibling, or it is the field itself.
    """

    def changed(struct: StructType) -> StructType:
        moved = next(f for f in struct if f.name == path[-1])
        rest = StructType(tuple(f for f in struct if f is not moved))
        place = 0 if after is None else _place(rest, after) + 1
        return StructType((*rest.fields[:place], moved, *rest.fields[place:]))

    return _change_struct(schema, path[:-1], changed)


def _place(struct: StructType, name: str) -> int:
    field = struct.field(name)
    if field is None:
        raise ColumnNotFoundError(
            f"there is no column {name!r} beside it to come after; there are "
            f"{', '.join(struct.names)}"
        )
    return struct.fields.index(field)
