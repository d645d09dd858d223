"""What a table feature is (PROTOCOL.md, "Table Features").

A feature is a value: what it is called, which versions of the protocol imply it, and a closed list
of hooks whose defaults change nothing. A table *supports* a feature by its protocol, and the
feature is *active* where the table's metadata switches it on as well.

Three of the hooks do a feature's part of every commit: `complete_metadata` when metadata are
staged, `prepare_commit` in each attempt at a version, `rebase` after a lost race.
"""

from __future__ import annotations

import typing
from dataclasses import field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.kernel.actions.metadata import parsed_schema
from adelta.kernel.schema.types import ArrayType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.commit import Commit
    from adelta.kernel.commit_attempt import CommitAttempt
    from adelta.kernel.schema.types import DataType
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.table_features._removal import Removal
    from adelta.kernel.table_properties import Property

__all__ = [
    "FeatureKind",
    "ProtocolAndMetadata",
    "TableFeature",
    "allows_anything",
    "always",
    "has_field_metadata",
    "has_type",
    "never",
    "no_contradiction",
    "not_between",
    "occurring_types",
]


class ProtocolAndMetadata(typing.Protocol):
    """A table at one version, as `TableConfiguration` is: all that changes of it are judged by."""

    @property
    def protocol(self) -> Protocol:
        """The version's protocol."""

    @property
    def metadata(self) -> Metadata:
        """The version's metadata."""

    @property
    def schema(self) -> StructType:
        """The logical columns."""

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties as they are stored."""


class FeatureKind(Enum):
    """Who has to know a feature."""

    WRITER = "writer"
    READER_WRITER = "reader and writer"


def always(_metadata: Metadata) -> bool:
    """For hooks: yes, whatever the metadata says."""
    return True


def never(_metadata: Metadata) -> bool:
    """For hooks: no, whatever the metadata says."""
    return False


def allows_anything(_before: ProtocolAndMetadata | None, _after: ProtocolAndMetadata) -> None:
    """For `check`: every change is allowed."""


def no_contradiction(_protocol: Protocol, _metadata: Metadata) -> str | None:
    """For `contradiction`: there is none."""
    return None


def as_it_is(
    _before: Metadata | None, after: Metadata, _protocol: Protocol, _unique: Callable[[], str]
) -> Metadata:
    """For `complete_metadata`: nothing is to be filled in."""
    return after


def as_prepared(attempt: CommitAttempt) -> CommitAttempt:
    """For `prepare_commit`: nothing depends on the version or on the moment."""
    return attempt


def as_staged(staged: StagedChanges, _winners: Sequence[Commit], _root: str) -> StagedChanges:
    """For `rebase`: what was staged is as good on top of other commits."""
    return staged


def not_between(_before: Metadata, _after: Metadata) -> bool:
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
        check: refuses a change of a table that the feature does not allow; the table before is None
            where it is new. It is asked about tables that support the feature afterwards.
        contradiction: what of a table's protocol and metadata contradicts the other, as a clause.
            It is asked about every table.
        complete_metadata: fills in what of new metadata is Delta's to say, given the metadata
            before, None for a new table, the protocol afterwards, and what makes up parts of names.
            It is asked about every table, before the features that it requires are.
        prepare_commit: settles what depends on the version that a commit becomes, and on the
            moment. It is asked about tables that support the feature.
        rebase: brings staged changes up to date with commits that came first, and were found
            harmless; the table's address comes last.
        maintained_domains: the domain metadata that `prepare_commit` keeps, so that no user sets
            them, and changes of them are no conflict.
        removal: how it is dropped from a table; None where it cannot be.
        rebasable: whether a commit may follow the one that added the feature to the protocol,
            though it was prepared before.
        tolerates: whether a commit may follow a change of the feature's properties, and of the
            fields' metadata under `field_metadata`, though it was prepared before.
        field_metadata: the keys of fields' metadata that such a change may touch.
        outlasting: the keys of properties that a table keeps when another definition replaces its
            own, where the feature is active before and after.
        gives_way: whether the feature, which only writers know, goes from the protocol of a table
            when a definition with this metadata replaces its own, that cannot be with it.
        followed: whether clients that know the table by other means than its log follow it, so that
            a new definition is to them a change of the one before.
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
    wanted: Callable[[Metadata], bool] = field(default=never, hash=False)
    active: Callable[[Metadata], bool] = field(default=always, hash=False)
    needed_to_read: Callable[[Metadata], bool] = field(default=never, hash=False)
    check: Callable[[ProtocolAndMetadata | None, ProtocolAndMetadata], None] = field(
        default=allows_anything, hash=False
    )
    contradiction: Callable[[Protocol, Metadata], str | None] = field(
        default=no_contradiction, hash=False
    )
    complete_metadata: Callable[
        [Metadata | None, Metadata, Protocol, Callable[[], str]], Metadata
    ] = field(default=as_it_is, hash=False)
    prepare_commit: Callable[[CommitAttempt], CommitAttempt] = field(
        default=as_prepared, hash=False
    )
    rebase: Callable[[StagedChanges, Sequence[Commit], str], StagedChanges] = field(
        default=as_staged, hash=False
    )
    maintained_domains: tuple[str, ...] = ()
    removal: Removal | None = field(default=None, hash=False)
    rebasable: bool = False
    tolerates: Callable[[Metadata, Metadata], bool] = field(default=not_between, hash=False)
    field_metadata: tuple[str, ...] = ()
    outlasting: tuple[str, ...] = ()
    gives_way: Callable[[Metadata], bool] = field(default=never, hash=False)
    followed: bool = False

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


def has_field_metadata(*keys: str) -> Callable[[Metadata], bool]:
    """A hook: whether a column, or a field inside one, bears one of these keys of metadata."""
    wanted = frozenset(keys)

    def hook(metadata: Metadata) -> bool:
        return not wanted.isdisjoint(_occurring(metadata.schema_string).keys)

    return hook


def has_type(data_type: DataType) -> Callable[[Metadata], bool]:
    """A hook: whether a column, or something inside one, is of a type without parts."""

    def hook(metadata: Metadata) -> bool:
        return data_type in occurring_types(metadata)

    return hook


def occurring_types(metadata: Metadata) -> frozenset[DataType]:
    """The types without parts that a table's columns, or something inside them, are of."""
    return _occurring(metadata.schema_string).types


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
