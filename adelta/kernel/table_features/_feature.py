"""What a table feature is (PROTOCOL.md, "Table Features").

A feature is a value: what it is called, which versions of the protocol imply it, and a closed list
of hooks whose defaults change nothing. A table *supports* a feature by its protocol, and the
feature is *active* where the table's metadata switches it on as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from adelta.kernel.actions.metadata import parsed_schema
from adelta.kernel.schema.types import ArrayType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.kernel.schema.types import DataType
    from adelta.kernel.table_features._removal import Removal
    from adelta.kernel.table_properties import Property
    from adelta.kernel.table_state import TableState

__all__ = [
    "FeatureKind",
    "TableFeature",
    "allows_anything",
    "always",
    "has_field_metadata",
    "has_type",
    "never",
    "not_between",
    "occurring_types",
]


class FeatureKind(Enum):
    """Who has to know a feature."""

    WRITER = "writer"
    READER_WRITER = "reader and writer"


def always(_state: TableState) -> bool:
    """For hooks: yes, whatever the metadata says."""
    return True


def never(_state: TableState) -> bool:
    """For hooks: no, whatever the metadata says."""
    return False


def allows_anything(_before: TableState | None, _after: TableState) -> None:
    """For `check`: every change is allowed."""


def not_between(_before: TableState, _after: TableState) -> bool:
    """For hooks: no, whatever changed from one state to the next."""
    return False


@dataclass(frozen=True, slots=True)
class TableFeature:
    """One table feature.

    Attributes:
        name: as the protocol lists it.
        kind: who has to know it.
        aliases: names under which previews of the feature are listed.
        legacy_writer: the writer version that implies it, for features older than feature lists.
        legacy_reader: the reader version that goes with `legacy_writer`.
        requires: the features that have to be supported with it.
        properties: the table properties that belong to it.
        can_read: whether adelta reads tables whose reading needs it.
        can_write: whether adelta writes tables where it is active.
        wanted: whether the metadata of a new table asks for it.
        active: whether the metadata of a table that supports it switches it on.
        needed_to_read: whether the rows of a table that supports it are read wrongly without it.
        check: refuses a change of a table that the feature does not allow; the state before is None
            where the table is new. It is asked about tables that support the feature afterwards.
        removal: how it is dropped from a table; None where it cannot be.
        rebasable: whether a commit may follow the one that added the feature to the protocol,
            though it was prepared before.
        tolerates: whether a commit may follow a change of the feature's properties, and of the
            fields' metadata under `field_metadata`, though it was prepared before.
        field_metadata: the keys of fields' metadata that such a change may touch.
    """

    name: str
    kind: FeatureKind
    aliases: tuple[str, ...] = ()
    legacy_writer: int | None = None
    legacy_reader: int = 1
    requires: tuple[TableFeature, ...] = ()
    properties: tuple[Property[object], ...] = field(default=(), hash=False)
    can_read: bool = True
    can_write: bool = False
    wanted: Callable[[TableState], bool] = field(default=never, hash=False)
    active: Callable[[TableState], bool] = field(default=always, hash=False)
    needed_to_read: Callable[[TableState], bool] = field(default=never, hash=False)
    check: Callable[[TableState | None, TableState], None] = field(
        default=allows_anything, hash=False
    )
    removal: Removal | None = field(default=None, hash=False)
    rebasable: bool = False
    tolerates: Callable[[TableState, TableState], bool] = field(default=not_between, hash=False)
    field_metadata: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that a protocol may list it under."""
        return (self.name, *self.aliases)

    @property
    def min_reader(self) -> int:
        """The least reader version of a protocol that supports it."""
        if self.legacy_writer is not None:
            return self.legacy_reader
        return 3 if self.kind is FeatureKind.READER_WRITER else 1


def has_field_metadata(*keys: str) -> Callable[[TableState], bool]:
    """A hook: whether a column, or a field inside one, bears one of these keys of metadata."""
    wanted = frozenset(keys)

    def hook(state: TableState) -> bool:
        return not wanted.isdisjoint(_occurring(state.metadata.schema_string).keys)

    return hook


def has_type(data_type: DataType) -> Callable[[TableState], bool]:
    """A hook: whether a column, or something inside one, is of a type without parts."""

    def hook(state: TableState) -> bool:
        return data_type in occurring_types(state)

    return hook


def occurring_types(state: TableState) -> frozenset[DataType]:
    """The types without parts that a table's columns, or something inside them, are of."""
    return _occurring(state.metadata.schema_string).types


@dataclass(frozen=True, slots=True)
class _Occurring:
    """What hooks ask of a schema again and again, which may have thousands of columns."""

    keys: frozenset[str]
    types: frozenset[DataType]


@lru_cache(maxsize=64)
def _occurring(schema_string: str) -> _Occurring:
    """The keys of field metadata, and the types without parts, that occur in a schema.

    Raises:
        InvalidTableError: the text is not a schema.
    """
    keys: set[str] = set()
    types: set[DataType] = set()
    waiting: list[DataType] = [parsed_schema(schema_string)]
    while waiting:
        match waiting.pop():
            case StructType(fields):
                keys.update(*(f.metadata for f in fields))
                waiting.extend(f.type for f in fields)
            case ArrayType(element):
                waiting.append(element)
            case MapType(key, value):
                waiting += (key, value)
            case data_type:
                types.add(data_type)
    return _Occurring(frozenset(keys), frozenset(types))
