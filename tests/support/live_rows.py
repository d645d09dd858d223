"""The rows of every version, from the log's own lines: each file is read once, by Arrow alone.

What a version has is kept as a sum over its rows (`weight`), so that the next one costs what its
commit names, however large the table is.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from adelta.kernel.actions.file_actions import DeletionVectorDescriptor, decode_path
from adelta.kernel.deletion_vector.descriptor import vector_path
from adelta.log.deletion_vector_reader import read_deletion_vector
from adelta.storage.roots import StoreRoots

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.storage.object_store import ObjectStore
    from tests.support.row_ids import RowIds

__all__ = ["FileKey", "LiveRows", "Row", "action_text", "digest_of", "weight", "weights"]

Row = tuple[str, int, int]
FileKey = tuple[str, str | None]  # a file's path, as the log has it, and its vector's id

_MODULUS = 1 << 128


@lru_cache(1 << 8)  # few, since the soak has these in the process that it measures
def weight(row: Row) -> int:
    """What a row adds to the sum of its version: 128 bits of a hash of it."""
    return int.from_bytes(hashlib.blake2b(json.dumps(row).encode(), digest_size=16).digest(), "big")


def weights(rows: Iterable[Row]) -> int:
    """The sum over rows, in whatever order; a row that is there twice counts twice."""
    return sum(map(weight, rows))


def digest_of(total: int, note: str | None) -> str:
    """What stands for rows of that sum, and the note."""
    return f"{total % _MODULUS:032x} {json.dumps(note)}"


@dataclass
class LiveRows:
    """What the commits so far leave: the live files, the sum of their rows, and since when.

    `spans` are the files that were live once, with those of their deletion vectors: path, first
    version and the last one. `bare` are the files without the partition column that the last commit
    was the first to add, `unnumbered` those that it added without an id of their first row, and
    `misdated` those of whose rows it says that they came with another version than they did.
    """

    store: ObjectStore
    total: int = 0
    files: dict[FileKey, tuple[int, int]] = field(default_factory=dict)
    actions: dict[FileKey, str] = field(default_factory=dict)  # what the log says of live files
    spans: list[tuple[str, int, int]] = field(default_factory=list)
    ids: RowIds | None = None  # of a table that tracks rows
    ids_in: str = ""  # the column of files that has ids of rows
    bare: list[str] = field(default_factory=list)
    unnumbered: list[str] = field(default_factory=list)
    misdated: list[str] = field(default_factory=list)
    _read: dict[str, list[Row]] = field(default_factory=dict)
    _vectors: dict[FileKey, str] = field(default_factory=dict)
    _since: dict[str, int] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """The paths of the live files, as the log has them, in order."""
        return sorted(path for path, _ in self.files)

    async def apply(self, version: int, data: bytes) -> None:
        """Make the commit of `version`, whose bytes these are, part of it.

        Raises:
            ObjectNotFoundError: a file that it adds is not there.
        """
        lines = [json.loads(line) for line in data.splitlines() if line.strip()]
        self.bare, self.unnumbered, self.misdated = [], [], []
        for line in lines:
            if "remove" in line:
                self._end(_key(line["remove"]), version)
        for line in lines:
            if "add" in line:
                await self._add(line["add"], version)

    async def told(self, data: bytes) -> Counter[tuple[str, Row]] | None:
        """The changes that the change files of a commit tell of; None where it has none."""
        files = [line["cdc"] for line in map(json.loads, data.splitlines()) if "cdc" in line]
        found: Counter[tuple[str, Row]] = Counter()
        for each in files:
            held = io.BytesIO(await self.store.get(decode_path(each["path"])))
            read = pq.ParquetFile(held).read(["_change_type", "id", "value"]).to_pydict()
            p = each["partitionValues"]["p"]
            for kind, *row in zip(read["_change_type"], read["id"], read["value"], strict=True):
                found[kind, (p, *row)] += 1
        return found if files else None

    async def _add(self, action: Mapping[str, Any], version: int) -> None:
        key = _key(action)
        self._end(key, version)
        vector = _vector(action)
        if action.get("baseRowId") is None:
            self.unnumbered.append(action["path"])
        elif action["defaultRowCommitVersion"] != self._since.setdefault(action["path"], version):
            self.misdated.append(action["path"])
        rows = await self._rows(action["path"], action["partitionValues"]["p"])
        ids = [] if self.ids is None else await self._ids(action, len(rows))
        if vector is not None:
            roots = StoreRoots(self.store)
            deleted = await read_deletion_vector(roots, vector, action["path"])
            rows = [row for at, row in enumerate(rows) if at not in deleted]
            ids = [row_id for at, row_id in enumerate(ids) if at not in deleted]
            if vector.storage_type != "i":
                self._vectors[key] = decode_path(vector_path(vector))
        added = weights(rows)
        self.total += added
        self.files[key] = (version, added)
        self.actions[key] = action_text(action)
        if self.ids is not None:
            self.ids.add(key, zip(rows, ids, strict=True))

    def _end(self, key: FileKey, version: int) -> None:
        if key not in self.files:
            return
        since, added = self.files.pop(key)
        del self.actions[key]
        self.total -= added
        self._note(key, since, version - 1)
        if self.ids is not None:
            self.ids.end(key)

    def _note(self, key: FileKey, first: int, last: int) -> None:
        self.spans.append((decode_path(key[0]), first, last))
        if key in self._vectors:
            self.spans.append((self._vectors[key], first, last))

    def end(self, last: int) -> None:
        """Say that this is the last version."""
        for key, (since, _) in self.files.items():
            self._note(key, since, last)

    async def _ids(self, action: Mapping[str, Any], num_rows: int) -> list[int]:
        """The ids of all rows of a file."""
        file = pq.ParquetFile(io.BytesIO(await self.store.get(decode_path(action["path"]))))
        first, own = action["baseRowId"], [None] * num_rows
        if self.ids_in in file.schema_arrow.names:
            own = file.read([self.ids_in])[self.ids_in].to_pylist()
        return [first + at if row_id is None else row_id for at, row_id in enumerate(own)]

    async def _rows(self, path: str, p: str) -> list[Row]:
        if path not in self._read:
            data = await self.store.get(decode_path(path))
            file = pq.ParquetFile(io.BytesIO(data))
            if "p" not in file.schema_arrow.names:
                self.bare.append(path)
            found = file.read(["id", "value"]).to_pydict()
            self._read[path] = [(p, *row) for row in zip(found["id"], found["value"], strict=True)]
        return self._read[path]


def action_text(action: Mapping[str, Any]) -> str:
    """All that an `add` says, in one order; whether it changes data is no news afterwards."""
    said = {name: value for name, value in action.items() if value is not None}
    return json.dumps(said | {"dataChange": False}, sort_keys=True)


def _key(action: Mapping[str, Any]) -> FileKey:
    vector = _vector(action)
    return action["path"], None if vector is None else vector.unique_id


def _vector(action: Mapping[str, Any]) -> DeletionVectorDescriptor | None:
    raw = action.get("deletionVector")
    return None if raw is None else DeletionVectorDescriptor.from_json(raw)
