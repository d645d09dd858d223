"""Commit files ⇄ actions: the only module that knows commit JSON (PROTOCOL.md, "Actions").

Many commits are decoded into one `ActionBatch`: singletons as values, file actions as Arrow tables
with a `version` column, so that ten thousand small commits cost no more than one large one. Files
are decoded line by line; from the first line on that is no value by itself they are taken for a
stream of values, which may be on several lines each.
"""

from __future__ import annotations

from dataclasses import field
from io import BytesIO
from typing import TYPE_CHECKING, Any
from typing import Protocol as Shape

import orjson

from adelta._arrow_values import scalar_of
from adelta._dataclasses import dataclass
from adelta._lazy_arrow import pa
from adelta.errors import InvalidTableError
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import (
    VERSION_COLUMN,
    AddCDCFile,
    AddFile,
    RemoveFile,
)
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.actions.sidecar import CheckpointMetadata, Sidecar
from adelta.kernel.actions.value_stream import json_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_pa: Any = pa  # the stubs do not know repeat() of a type that varies

__all__ = [
    "ADD_JSON_NAMES",
    "REMOVE_JSON_NAMES",
    "VERSION_COLUMN",
    "Action",
    "ActionBatch",
    "decode_actions",
    "decode_commits",
    "encode_commit",
    "tables_of_adds",
    "tables_of_removes",
]

_SLICE = 2048
_FEW = 16  # bodies that stay beside the table that was made of them
_BODY_BYTES = 2000  # of memory of a decoded action, about
_TOGETHER = _SLICE // _FEW  # commits of few file actions
_BLOCK = 1 << 20  # bytes of a large file that are decoded at once
_WORTHWHILE = 64 << 10  # less is as soon decoded line by line
_FEW_LINES = 16  # that commits have before or behind their file actions
_KEPT_AS_ROWS = 500  # file actions; more of them are smaller as a table
ADD_JSON_NAMES: Mapping[str, str] = {
    "path": "path",
    "partition_values": "partitionValues",
    "size": "size",
    "modification_time": "modificationTime",
    "data_change": "dataChange",
    "stats": "stats",
    "tags": "tags",
    "deletion_vector": "deletionVector",
    "base_row_id": "baseRowId",
    "default_row_commit_version": "defaultRowCommitVersion",
    "clustering_provider": "clusteringProvider",
}
"""Column names of `ADD_SCHEMA` → the log's names."""
REMOVE_JSON_NAMES: Mapping[str, str] = {
    "path": "path",
    "deletion_timestamp": "deletionTimestamp",
    "data_change": "dataChange",
    "extended_file_metadata": "extendedFileMetadata",
    "partition_values": "partitionValues",
    "size": "size",
    "stats": "stats",
    "tags": "tags",
    "deletion_vector": "deletionVector",
    "base_row_id": "baseRowId",
    "default_row_commit_version": "defaultRowCommitVersion",
}
"""Column names of `REMOVE_SCHEMA` → the log's names."""

Action = (
    Protocol
    | Metadata
    | CommitInfo
    | SetTransaction
    | DomainMetadata
    | AddFile
    | RemoveFile
    | AddCDCFile
    | CheckpointMetadata
    | Sidecar
)
"""Anything that a file of the log consists of, mostly a line each."""

_KEYS: dict[type, str] = {
    Protocol: "protocol",
    Metadata: "metaData",
    CommitInfo: "commitInfo",
    SetTransaction: "txn",
    DomainMetadata: "domainMetadata",
    AddFile: "add",
    RemoveFile: "remove",
    AddCDCFile: "cdc",
    CheckpointMetadata: "checkpointMetadata",
    Sidecar: "sidecar",
}


class _Body(Shape):
    def to_json(self) -> dict[str, Any]: ...


def encode_commit(actions: Iterable[Action]) -> bytes:
    """The content of a commit file: one action a line, in the order given.

    No line is kept beside it: of very many files these take as much memory once more.
    """
    content = BytesIO()
    for action in actions:
        line = {_KEYS[type(action)]: action.to_json()}
        content.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    return content.getvalue()


@dataclass(frozen=True, slots=True)
class ActionBatch:
    """The actions of the commits `versions`, which ascend.

    Singletons stand beside the version that they came with. File actions are tables, made when
    they are first asked for where the batch was decoded `lazily`, and then malformed ones are
    found.
    """

    versions: tuple[int, ...]
    _adds: _Rows = field(repr=False)
    _removes: _Rows = field(repr=False)
    _cdc: _Rows = field(repr=False)
    protocols: tuple[tuple[int, Protocol], ...] = ()
    metadata: tuple[tuple[int, Metadata], ...] = ()
    set_transactions: tuple[tuple[int, SetTransaction], ...] = ()
    domain_metadata: tuple[tuple[int, DomainMetadata], ...] = ()
    commit_infos: Mapping[int, CommitInfo] = field(default_factory=dict, hash=False)
    sidecars: tuple[Sidecar, ...] = ()
    checkpoint_metadata: CheckpointMetadata | None = None

    @property
    def adds(self) -> pa.Table:
        """Live files, with `ADD_SCHEMA` and behind it the column `version` (int64)."""
        return self._adds.table()

    @property
    def removes(self) -> pa.Table:
        """Tombstones, with `REMOVE_SCHEMA` and behind it the column `version` (int64)."""
        return self._removes.table()

    @property
    def cdc(self) -> pa.Table:
        """Files of row changes, with `CDC_SCHEMA` and behind it the column `version` (int64)."""
        return self._cdc.table()

    @property
    def few_adds(self) -> list[dict[str, Any]] | None:
        """The bodies of the `add` actions, where they are few, or no table of them was made yet."""
        return self._adds.few()

    @property
    def few_removes(self) -> list[dict[str, Any]] | None:
        """The same of the `remove` actions."""
        return self._removes.few()

    @property
    def num_files(self) -> int:
        """How many files are added or removed; without making tables."""
        return len(self._adds) + len(self._removes)

    @property
    def nbytes(self) -> int:
        """The memory that its file actions take, about, in bytes."""
        return self._adds.nbytes + self._removes.nbytes + self._cdc.nbytes

    @property
    def changes_files(self) -> bool:
        """Whether there is a live file or a tombstone; without making tables."""
        return self.num_files > 0


@dataclass(slots=True)
class _Rows:
    """File actions of one kind: their bodies and the version of each, or the table made of them."""

    kind: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    made: pa.Table | None = None
    slices: list[pa.Table] = field(default_factory=list)

    def add(self, body: dict[str, Any], version: int) -> None:
        """Take one more. Many are made tables of slice by slice.

        So what is decoded does not pile up, which takes ten times the room, and no step holds the
        interpreter's lock for long.
        """
        self.bodies.append(body)
        self.versions.append(version)
        if len(self.bodies) >= _SLICE:
            self.slices.append(_table(self.kind, self.bodies, self.versions))
            self.bodies, self.versions = [], []

    def extend(self, table: pa.Table, version: int) -> None:
        """Take many more, of one version, that are a table already."""
        if self.bodies:
            self.slices.append(_table(self.kind, self.bodies, self.versions))
            self.bodies, self.versions = [], []
        from adelta.kernel.actions.file_schemas import VERSION_FIELD

        versions = _pa.repeat(scalar_of(version, pa.int64()), table.num_rows)
        self.slices.append(table.append_column(VERSION_FIELD, versions))

    def __len__(self) -> int:
        bodies, made = self.bodies, self.made
        if made is not None:
            return made.num_rows
        return len(bodies) + sum(table.num_rows for table in self.slices)

    @property
    def nbytes(self) -> int:
        made, slices = self.made, list(self.slices)
        tables = slices if made is None else [made]
        return _BODY_BYTES * len(self.bodies) + sum(table.nbytes for table in tables)

    @property
    def is_few(self) -> bool:
        """Whether these are some rows, but few, of which no table has been made."""
        return self.made is None and not self.slices and 0 < len(self.bodies) <= _FEW

    def few(self) -> list[dict[str, Any]] | None:
        bodies = self.bodies
        return bodies if len(bodies) == len(self) else None

    def table(self) -> pa.Table:
        """The table. Threads may ask at the same time: rows are looked at before `made`."""
        bodies, versions, made = self.bodies, self.versions, self.made
        if made is None:
            made = _table(self.kind, bodies, versions)
            if self.slices:  # never in a batch that several threads have: its tables are made
                made = pa.concat_tables([*self.slices, *([made] if bodies else [])])
                self.slices = []
            self.made = made
            if len(bodies) < made.num_rows or len(bodies) > _FEW:
                self.bodies, self.versions = [], []
        return made


def tables_of_adds(batches: Sequence[ActionBatch]) -> list[pa.Table]:
    """The live files of batches, in order, as `ActionBatch.adds` has them: the few of many in one.

    A table costs as much for one row as for a hundred.
    """
    return _tables([batch._adds for batch in batches])


def tables_of_removes(batches: Sequence[ActionBatch]) -> list[pa.Table]:
    """The tombstones of batches, in the same manner."""
    return _tables([batch._removes for batch in batches])


def _tables(several: Sequence[_Rows]) -> list[pa.Table]:
    found: list[pa.Table] = []
    few: list[_Rows] = []
    for rows in several:
        if len(few) == _TOGETHER or not rows.is_few:
            found += _as_one(few)
            few = []
        if rows.is_few:
            few.append(rows)
        elif len(rows):
            found.append(rows.table())
    return [*found, *_as_one(few)]


def _as_one(few: Sequence[_Rows]) -> list[pa.Table]:
    """One table of all; none where there is nothing in it."""
    if len(few) < 2:
        return [rows.table() for rows in few]
    bodies = [body for rows in few for body in rows.bodies]
    versions = [version for rows in few for version in rows.versions]
    return [_table(few[0].kind, bodies, versions)]


def _table(kind: str, bodies: list[dict[str, Any]], versions: list[int]) -> pa.Table:
    from adelta.kernel.actions.body_tables import table_of_bodies
    from adelta.kernel.actions.file_schemas import FILE_SCHEMAS

    return table_of_bodies(bodies, versions, FILE_SCHEMAS[kind], _FILE_NAMES[kind])


def decode_commits(commits: Sequence[tuple[int, bytes]], *, lazily: bool = False) -> ActionBatch:
    """The actions of commit files, given as (version, content) in ascending order.

    Actions and fields that the protocol does not name are ignored. With `lazily`, a few file
    actions are made tables of when they are asked for: the first table of a process can cost it
    the import of pandas.

    Raises:
        InvalidTableError: a file is not JSON, or an action is malformed; the version is named.
    """
    collector = _Collector()
    for version, data in commits:
        collector.add_commit(version, data)
    return collector.batch(tuple(version for version, _ in commits), lazily=lazily)


def decode_actions(data: bytes, version: int, source: str, *, lazily: bool = False) -> ActionBatch:
    """The actions of a JSON file that is no commit, such as a V2 checkpoint or a compaction.

    `lazily` is as with `decode_commits`.

    Raises:
        InvalidTableError: as `decode_commits`; `source` names the file in the message.
    """
    collector = _Collector()
    collector.add_commit(version, data, source)
    return collector.batch((version,), lazily=lazily)


_FILE_NAMES = {"add": ADD_JSON_NAMES, "remove": REMOVE_JSON_NAMES, "cdc": ADD_JSON_NAMES}
"""Names in the log of each kind of file actions."""


class _Collector:
    """Sorts decoded lines by the kind of their action."""

    def __init__(self) -> None:
        self.adds, self.removes, self.cdc = _Rows("add"), _Rows("remove"), _Rows("cdc")
        self.protocols: list[tuple[int, Protocol]] = []
        self.metadata: list[tuple[int, Metadata]] = []
        self.txns: list[tuple[int, SetTransaction]] = []
        self.domains: list[tuple[int, DomainMetadata]] = []
        self.infos: dict[int, CommitInfo] = {}
        self.sidecars: list[Sidecar] = []
        self.checkpoint: CheckpointMetadata | None = None
        self._files = {"add": self.adds, "remove": self.removes, "cdc": self.cdc}

    def add_commit(self, version: int, data: bytes, source: str | None = None) -> None:
        """Take the actions of a file; of a large one block by block."""
        if len(data) < _BLOCK:
            several = self._add_lines(version, data, source, 0)
            if several is not None:
                self._add_values(version, data, source, several)
            return
        number = start = 0
        while start < len(data):
            end = data.find(b"\n", start + _BLOCK)
            block = data[start:end] if end >= 0 else data[start:]
            several = self._add_block(version, block, source, number)
            if several is not None:
                self._add_values(version, data, source, start + several)
                return
            start += len(block) + 1
            number += block.count(b"\n") + 1

    def _add_block(self, version: int, block: bytes, source: str | None, number: int) -> int | None:
        """Take the lines of a block, which follow so many others: many file actions at once.

        The result is that of `_add_lines`.
        """
        first, last = _file_actions(block, tuple(self._files))
        middle = block[first:last]
        tables = _decode_together(middle) if len(middle) >= _WORTHWHILE else None
        if tables is None:
            return self._add_lines(version, block, source, number)
        if first:
            several = self._add_lines(version, block[: first - 1], source, number)
            if several is not None:
                return several
        for kind, table in tables.items():
            self._files[kind].extend(table, version)
        if last < len(block):
            number += block.count(b"\n", 0, last + 1)
            several = self._add_lines(version, block[last + 1 :], source, number)
            if several is not None:
                return last + 1 + several
        return None

    def _add_lines(self, version: int, data: bytes, source: str | None, before: int) -> int | None:
        """Take a value a line; where a line is none, the place at which it begins, else None."""
        failed = self._add_texts(version, enumerate(_lines(data), before + 1), source)
        return None if failed is None else _line_start(data, failed[0] - before)

    def _add_values(self, version: int, data: bytes, source: str | None, start: int) -> None:
        """Take the values from `start` on, over as many lines as they have."""
        failed = self._add_texts(version, _numbered_values(data, start), source)
        if failed is not None:
            number, error = failed
            raise _unreadable(version, number, source, error) from error

    def _add_texts(
        self, version: int, texts: Iterable[tuple[int, bytes]], source: str | None
    ) -> tuple[int, Exception] | None:
        """Take texts with the numbers of their lines, up to the first one that is no value."""
        for number, text in texts:
            if not text or text.isspace():
                continue
            try:
                action = orjson.loads(text)
            except orjson.JSONDecodeError as error:
                return number, error
            try:
                for kind, body in action.items():
                    if body is not None:
                        self._take(kind, body, version)
            except InvalidTableError as error:
                raise InvalidTableError(f"{_where(version, number, source)}: {error}") from error
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise _unreadable(version, number, source, error) from error
        return None

    def _take(self, kind: str, body: dict[str, Any], version: int) -> None:
        rows = self._files.get(kind)
        if rows is not None:
            if not isinstance(body["path"], str):
                raise TypeError("path is not text")
            rows.add(body, version)
        elif kind == "commitInfo":
            self.infos.setdefault(version, CommitInfo.from_json(body))
        elif kind == "protocol":
            self.protocols.append((version, Protocol.from_json(body)))
        elif kind == "metaData":
            self.metadata.append((version, Metadata.from_json(body)))
        elif kind == "txn":
            self.txns.append((version, SetTransaction.from_json(body)))
        elif kind == "domainMetadata":
            self.domains.append((version, DomainMetadata.from_json(body)))
        elif kind == "sidecar":
            self.sidecars.append(Sidecar.from_json(body))
        elif kind == "checkpointMetadata":
            self.checkpoint = CheckpointMetadata.from_json(body)

    def batch(self, versions: tuple[int, ...], *, lazily: bool = False) -> ActionBatch:
        kinds = self._files.values()
        sliced = any(rows.slices for rows in kinds)
        if not lazily or sliced or sum(len(rows.bodies) for rows in kinds) > _KEPT_AS_ROWS:
            for rows in kinds:
                rows.table()
        return ActionBatch(
            versions=versions,
            _adds=self.adds,
            _removes=self.removes,
            _cdc=self.cdc,
            protocols=tuple(self.protocols),
            metadata=tuple(self.metadata),
            set_transactions=tuple(self.txns),
            domain_metadata=tuple(self.domains),
            commit_infos=self.infos,
            sidecars=tuple(self.sidecars),
            checkpoint_metadata=self.checkpoint,
        )


def _lines(data: bytes) -> Iterator[bytes]:
    """The lines one by one: splitting a large file at once holds the interpreter's lock long."""
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        yield data[start:end]
        start = end + 1
    yield data[start:]


def _line_start(data: bytes, number: int) -> int:
    """Where a line, counted from 1, begins."""
    start = 0
    for _ in range(number - 1):
        start = data.index(b"\n", start) + 1
    return start


def _numbered_values(data: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """The values from `start` on, each with the number of the line that it begins on."""
    number, counted = 1, 0
    for place, text in json_values(data, start):
        number += data.count(b"\n", counted, place)
        counted = place
        yield number, text


def _decode_together(lines: bytes) -> dict[str, pa.Table] | None:
    from adelta.kernel.actions.columnar import decode_lines
    from adelta.kernel.actions.file_schemas import FILE_SCHEMAS

    return decode_lines(lines, {k: (FILE_SCHEMAS[k], _FILE_NAMES[k]) for k in FILE_SCHEMAS})


def _file_actions(block: bytes, kinds: Sequence[str]) -> tuple[int, int]:
    """Where the file actions of a block begin and end, without the few lines around them."""
    prefixes = tuple(f'{{"{kind}":{{'.encode() for kind in kinds)
    first, last = 0, len(block)
    for _ in range(_FEW_LINES):
        if block.startswith(prefixes, first):
            break
        first = block.find(b"\n", first) + 1
        if not first:
            return 0, 0
    for _ in range(_FEW_LINES):
        line = block.rfind(b"\n", first, last) + 1
        if block.startswith(prefixes, line) or line <= first:
            break
        last = line - 1
    return first, last


def _where(version: int, number: int, source: str | None) -> str:
    return f"line {number} of {source or f'the commit of version {version}'}"


def _unreadable(
    version: int, number: int, source: str | None, error: Exception
) -> InvalidTableError:
    return InvalidTableError(
        f"{_where(version, number, source)} cannot be read "
        f"({type(error).__name__}: {str(error)[:200]}); "
        "restore the file from a backup, or the table to an earlier version"
    )
