"""How a table's schema, properties and protocol came to be what they are, commit by commit."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import MissingCommitError, ObjectNotFoundError, VersionNotFoundError
from adelta.kernel.commit import Commit, decode_commit
from adelta.kernel.schema.alteration import shown
from adelta.kernel.schema.names import column_id
from adelta.kernel.schema.types import StructType
from adelta.log.listing import list_commits
from adelta.storage.distrust import distrusting
from adelta.table import latest_state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.log_path import LogPath
    from adelta.kernel.schema.types import StructField
    from adelta.storage.object_store import ObjectStore
    from adelta.table import Table

__all__ = ["SchemaChange", "SchemaHistory", "differences", "schema_history"]

_WHOLE = 8 << 20  # bytes of a commit; a longer one is not looked into
_AT_ONCE = 64 << 20
_SAID = (b'"metaData"', b'"protocol"')


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A commit that says what the table is; `changes` are in words, empty where all stayed."""

    version: int
    timestamp: datetime
    operation: str | None
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """Such commits of the versions `first` to `last`, newest first.

    `num_unread` commits are too long to be looked into.
    """

    first: int
    last: int
    num_unread: int
    entries: tuple[SchemaChange, ...]


async def schema_history(
    table: Table, *, before: int | None = None, limit: int = 500
) -> SchemaHistory:
    """What the last commits before a version, or of all, changed of schema and protocol.

    At most `limit` commits are looked at.

    Raises:
        TableNotFoundError: there is no table.
        InvalidTableError: the log is damaged.
    """
    latest = (await latest_state(table)).version
    last = latest if before is None else min(latest, before - 1)
    first = max(0, last - limit + 1)
    files = await list_commits(table.store, first, last)
    wanted, held = [], 0
    for file in reversed(files):
        if file.size <= _WHOLE and held + file.size <= _AT_ONCE:
            wanted.append(file)
            held += file.size
    found = await _telling(table.store, wanted[::-1])
    entries: list[SchemaChange] = []
    known = await _known_before(table, found[0].version) if found else (None, None)
    for commit in found:
        changes = (*differences(known[0], commit.metadata), *_protocol(known[1], commit.protocol))
        if commit.version and known == (None, None):
            changes = ("what it was before is no longer kept",)
        info = commit.info
        entries.append(SchemaChange(commit.version, commit.timestamp, info.operation, changes))
        known = (commit.metadata or known[0], commit.protocol or known[1])
    return SchemaHistory(first, last, len(files) - len(wanted), tuple(reversed(entries)))


async def _telling(store: ObjectStore, files: Sequence[LogPath]) -> list[Commit]:
    """The commits that say anything of schema or protocol."""
    try:
        bodies = await store.get_many([file.path for file in files])
    except ObjectNotFoundError as error:
        raise MissingCommitError(
            f"{store.uri}: a commit was listed and is gone ({error}); look again"
        ) from error

    def decode() -> list[Commit]:
        with distrusting(store, *(file.path for file in files)):
            commits = [
                decode_commit(file.version, body, file.last_modified_ms or None)
                for file, body in zip(files, bodies, strict=True)
                if any(word in body for word in _SAID)
            ]
        return [each for each in commits if each.metadata or each.protocol]

    return await in_thread(decode)


async def _known_before(table: Table, version: int) -> tuple[Metadata | None, Protocol | None]:
    if version:
        with suppress(VersionNotFoundError):
            snapshot = await table.snapshot(version=version - 1)
            return snapshot.metadata, snapshot.protocol
    return None, None


def differences(before: Metadata | None, after: Metadata | None) -> tuple[str, ...]:
    """What became of schema, partitioning and properties, in words.

    Example: ``column km: integer is now long``.
    """
    if after is None or before is after:
        return ()
    old = replace(after, schema_string='{"type":"struct","fields":[]}', partition_columns=())
    old = replace(old, configuration={}, name=None, description=None) if before is None else before
    found = list(_columns(old.schema, after.schema))
    if old.partition_columns != after.partition_columns:
        found.append(f"partitioned by {', '.join(after.partition_columns) or 'nothing'}")
    texts = ("name", "description")
    found += [f"{n}: {getattr(after, n)}" for n in texts if getattr(old, n) != getattr(after, n)]
    if old.id != after.id:
        found.append(f"another table: {after.id}")
    return (*found, *_settings(old.configuration, after.configuration))


def _settings(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if name not in new:
            yield f"property {name} removed"
        elif old.get(name) != new[name]:
            yield f"property {name} = {new[name]}"


def _columns(before: StructType, after: StructType) -> Iterator[str]:
    old, new = dict(_fields(before)), dict(_fields(after))
    ids = {column_id(field): path for path, field in old.items() if column_id(field) is not None}
    kept: set[tuple[str, ...]] = set()
    for path, field in new.items():
        earlier = path if path in old else ids.get(column_id(field))
        if column_id(field) is not None and ids.get(column_id(field)) != earlier:
            earlier = ids.get(column_id(field))  # another column of the same name
        if earlier is None:
            yield f"column {shown(path)} added: {field.type}"
            continue
        kept.add(earlier)
        if earlier[-1] != path[-1]:
            yield f"column {shown(earlier)} is now called {shown(path)}"
        yield from _field(path, old[earlier], field)
    for path in old:
        if path not in kept and (path[:-1] in kept or len(path) == 1):
            yield f"column {shown(path)} dropped"


def _field(path: tuple[str, ...], old: StructField, new: StructField) -> Iterator[str]:
    nested = isinstance(old.type, StructType) and isinstance(new.type, StructType)
    if old.type != new.type and not nested:
        yield f"column {shown(path)}: {old.type} is now {new.type}"
    if old.nullable != new.nullable:
        yield f"column {shown(path)} {'may be null' if new.nullable else 'is never null'}"


def _fields(
    schema: StructType, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], StructField]]:
    for field in schema:
        yield (*above, field.name), field
        if isinstance(field.type, StructType):
            yield from _fields(field.type, (*above, field.name))


def _protocol(before: Protocol | None, after: Protocol | None) -> Iterator[str]:
    if after is None:
        return
    versions = (after.min_reader_version, after.min_writer_version)
    if before is None or versions != (before.min_reader_version, before.min_writer_version):
        yield f"protocol: reader {versions[0]}, writer {versions[1]}"
    old, new = _features(before), _features(after)
    yield from (f"feature {name} added" for name in sorted(new - old))
    yield from (f"feature {name} removed" for name in sorted(old - new))


def _features(protocol: Protocol | None) -> set[str]:
    listed: tuple[Collection[str] | None, ...] = (
        () if protocol is None else (protocol.reader_features, protocol.writer_features)
    )
    return {name for names in listed for name in names or ()}
