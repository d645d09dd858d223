"""Tables on a local disk that Spark writes to as well.

Each entry of `LIVES` changes a table by operations of adelta that replace or delete files. Between
them it calls `keep`, which writes Hadoop's checksum file for every file of the table.
"""

from __future__ import annotations

import io
import json
import os
import random
import time
import uuid
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

import adelta
import adelta.sync
from adelta.errors import InvalidUseError
from adelta.table import Table
from tests.support.hadoop_checksums import reencode_checkpoints

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    Keep = Callable[[Path], None]

__all__ = ["LIVES", "Files", "Turns", "at_once"]

_YEAR_NS = 366 * 24 * 3600 * 1_000_000_000
_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
_ROWS = pa.table({"id": list(range(12)), "p": ["a", "b", "c"] * 4})
at_once: Any = {"retention": timedelta(0), "enforce_retention": False}
"""Arguments with which VACUUM deletes everything that the latest version does not need."""


async def _table(root: Path, **properties: str) -> None:
    await adelta.write_table(
        root, _ROWS, partition_by=["p"], properties={"delta.checkpointInterval": "1000"}
    )
    if properties:
        await adelta.set_properties(root, properties)
    for _ in range(2):
        await adelta.write_table(root, _ROWS)


def _files(root: Path, pattern: str) -> list[Path]:
    return sorted(path for path in root.glob(pattern) if path.is_file())


def _age(root: Path) -> None:
    """Make every file a year older."""
    for path in _files(root, "**/*"):
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns - _YEAR_NS, status.st_mtime_ns - _YEAR_NS))


async def _checkpoints_twice(root: Path, keep: Keep, **properties: str) -> None:
    await _table(root, **properties)
    await adelta.checkpoint(root)
    reencode_checkpoints(root)  # as another writer would have written them
    keep(root)
    await adelta.checkpoint(root)
    keep(root)
    await adelta.delete(root, "id = 7")
    await adelta.checkpoint(root)


async def _classic(root: Path, keep: Keep) -> None:
    await _checkpoints_twice(root, keep)


async def _in_parts(root: Path, keep: Keep) -> None:
    await _checkpoints_twice(root, keep, **{"adelta.checkpoint.partSize": "3"})


async def _v2(root: Path, keep: Keep) -> None:
    properties = {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "3"}
    await _checkpoints_twice(root, keep, **properties)


async def _compactions(root: Path, keep: Keep) -> None:
    await _table(root)
    await adelta.compact_log(root, start_version=0, end_version=1)
    keep(root)
    await adelta.compact_log(root, start_version=0, end_version=1)
    await adelta.compact_log(root)


async def _manifests(root: Path, keep: Keep) -> None:
    await _table(root)
    await adelta.generate_manifest(root)
    keep(root)
    await adelta.delete(root, "id < 4 OR p = 'c'")
    await adelta.generate_manifest(root)  # two are other ones, and one has to go
    keep(root)
    kept = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
    await adelta.set_properties(root, kept)
    await adelta.delete(root, "p = 'b'")


async def _cleaned_up(root: Path, keep: Keep) -> None:
    properties = {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "3"}
    await _table(root, **properties)
    await adelta.checkpoint(root)
    await adelta.compact_log(root, start_version=0, end_version=1)
    keep(root)
    await adelta.delete(root, "id = 7")
    await adelta.write_table(root, _ROWS)
    await adelta.checkpoint(root)
    keep(root)
    _age(root)
    await adelta.cleanup_log(root)


async def _vacuumed(root: Path, keep: Keep, **options: Any) -> None:
    vectors = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    await _table(root, **vectors)
    await adelta.delete(root, "id = 7")
    await adelta.update(root, {"id": "id + 100"}, "id = 3")
    keep(root)
    await adelta.optimize(root)
    await adelta.delete(root, "p = 'c'")
    keep(root)
    await adelta.vacuum(root, **at_once, **options)


async def _in_full(root: Path, keep: Keep) -> None:
    await _vacuumed(root, keep)


async def _lite(root: Path, keep: Keep) -> None:
    await _vacuumed(root, keep, mode="lite")


async def _after_others(root: Path, keep: Keep) -> None:
    """Another program deletes files, but not their checksums."""
    await _table(root)
    await adelta.checkpoint(root)
    await adelta.generate_manifest(root)
    await adelta.write_table(root, _ROWS, mode="overwrite")
    keep(root)
    live = (await (await Table(str(root)).snapshot()).files()).column("path").to_pylist()
    for path in [*_files(root, "p=*/*.parquet"), *_files(root, "**/manifest")]:
        if str(path.relative_to(root)) not in live:
            path.unlink()
    for name in ("00000000000000000000.json", "00000000000000000001.json"):
        (root / "_delta_log" / name).unlink()
    _age(root)
    await adelta.vacuum(root)
    await adelta.checkpoint(root)
    await adelta.cleanup_log(root)


async def _written_anew(root: Path, keep: Keep) -> None:
    """A log is deleted without its checksums, and a new table is created in its place."""
    await _table(root)
    await adelta.checkpoint(root)
    keep(root)
    for path in _files(root, "_delta_log/[!.]*"):
        path.unlink()
    await adelta.write_table(root, _ROWS.slice(0, 5), partition_by=["p"])
    await adelta.write_table(root, _ROWS)
    await adelta.write_table(root, _ROWS)
    await adelta.checkpoint(root)
    _age(root)
    await adelta.cleanup_log(root)
    await adelta.vacuum(root)


async def _dropped(root: Path, keep: Keep) -> None:
    await _table(root)
    await adelta.checkpoint(root)
    await adelta.generate_manifest(root)
    keep(root)
    gone = _files(root, "p=a/*.parquet")[0]
    await adelta.delete(root, "p = 'a'")
    gone.unlink()  # and its checksum stays
    await adelta.drop_table(root)


LIVES: Mapping[str, Callable[[Path, Keep], Awaitable[None]]] = {
    "classic checkpoints": _classic,
    "checkpoints in parts": _in_parts,
    "v2 checkpoints": _v2,
    "log compactions": _compactions,
    "manifests": _manifests,
    "log clean-up": _cleaned_up,
    "full vacuum": _in_full,
    "lite vacuum": _lite,
    "files deleted by others": _after_others,
    "a log deleted by others": _written_anew,
    "drop": _dropped,
}
"""Sequences of operations on a table, by name."""


class Files(Protocol):
    """A local file system that keeps a checksum of each file it writes, as Hadoop's does."""

    def write(self, path: Path, data: bytes) -> None:
        """Create or replace a file in place, as Spark writes Parquet."""

    def replace(self, path: Path, data: bytes) -> None:
        """Create or replace a file by renaming another one, as Delta Spark writes its log."""

    def delete(self, path: Path) -> None:
        """Delete a file and its checksum."""

    def keep_checksums(self, root: Path) -> None:
        """Write every file below a folder once more."""


class Turns:
    """A table that adelta and Hadoop write in turns.

    Attributes:
        ids: the ids of the rows that the table has.
        last: the names of the last steps that were taken.
    """

    def __init__(self, files: Files, root: Path, seed: int) -> None:
        self.files = files
        self.root = root
        self.log = root / "_delta_log"
        self.random = random.Random(seed)
        self.ids: list[int] = []
        self.next_id = 0
        self.last: list[str] = []
        self.num_steps = 0
        self.append()

    def take(self) -> None:
        """Take a step: by adelta, and then by Hadoop."""
        by_adelta = [
            self.append, self.delete, self.checkpoint, self.checkpoint, self.generate,
            self.optimize, self.vacuum, self.compact, self.clean_up,
        ]  # fmt: skip
        by_hadoop = [
            self.hadoop_appends, self.hadoop_writes_checkpoints, self.hadoop_writes_small_files,
            self.hadoop_deletes, self.hadoop_copies,
        ]  # fmt: skip
        step = self.random.choice(by_hadoop if self.num_steps % 2 else by_adelta)
        self.num_steps += 1
        self.last = [*self.last[-4:], step.__name__]
        step()

    def rows(self) -> pa.Table:
        count = self.random.randint(1, 6)
        fresh = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        self.ids += fresh
        return pa.table({"id": fresh, "p": [self.random.choice("abc")] * count}, schema=_SCHEMA)

    # -------------------------------------------------------------------------------- by adelta

    def append(self) -> None:
        adelta.sync.write_table(self.root, self.rows(), partition_by=["p"])

    def delete(self) -> None:
        bound = self.random.choice([self.next_id // 4, self.next_id - 3])
        adelta.sync.delete(self.root, f"id >= {bound} AND id < {bound + 4}")
        self.ids = [each for each in self.ids if not bound <= each < bound + 4]

    def checkpoint(self) -> None:
        adelta.sync.checkpoint(self.root)

    def generate(self) -> None:
        adelta.sync.generate_manifest(self.root)

    def optimize(self) -> None:
        adelta.sync.optimize(self.root)

    def vacuum(self) -> None:
        if self.random.random() < 0.5:
            with suppress(InvalidUseError):  # after a clean-up that has gone further
                adelta.sync.vacuum(self.root, mode="lite", **at_once)
                return
        adelta.sync.vacuum(self.root, **at_once)

    def compact(self) -> None:
        adelta.sync.compact_log(self.root)

    def clean_up(self) -> None:
        _age(self.log)
        adelta.sync.checkpoint(self.root)
        adelta.sync.cleanup_log(self.root)

    # -------------------------------------------------------------------------------- by Hadoop

    def hadoop_appends(self) -> None:
        rows = self.rows()
        value = rows.column("p")[0].as_py()
        sink = io.BytesIO()
        pq.write_table(rows.select(["id"]), sink)
        path = f"p={value}/part-00000-{uuid.uuid4()}.c000.snappy.parquet"
        (self.root / f"p={value}").mkdir(exist_ok=True)
        self.files.write(self.root / path, sink.getvalue())
        now_ms = time.time_ns() // 1_000_000
        add = {
            "path": path,
            "partitionValues": {"p": value},
            "size": len(sink.getvalue()),
            "modificationTime": now_ms,
            "dataChange": True,
        }
        info = {"timestamp": now_ms, "operation": "WRITE", "operationParameters": {}}
        lines = "\n".join(json.dumps(each) for each in ({"commitInfo": info}, {"add": add}))
        with adelta.sync.open_table(self.root) as table:
            version = table.snapshot().version + 1
        self.files.replace(self.log / f"{version:020}.json", lines.encode())

    def hadoop_writes_checkpoints(self) -> None:
        """Rewrite the checkpoints of adelta with equal content in other bytes."""
        for path in self.log.glob("*.checkpoint*.parquet"):
            sink = io.BytesIO()
            kind = self.random.choice(["none", "gzip"])
            pq.write_table(pq.read_table(path), sink, compression=kind)
            self.random.choice([self.files.write, self.files.replace])(path, sink.getvalue())

    def hadoop_writes_small_files(self) -> None:
        """Rewrite `_last_checkpoint`, version checksums and manifests with equal content."""
        for path in [*self.log.glob("_last_checkpoint"), *self.log.glob("[0-9]*.crc")]:
            said = json.loads(path.read_bytes())
            said.pop("checksum", None)
            self.files.replace(path, json.dumps(said, indent=self.random.randint(0, 3)).encode())
        for path in self.root.rglob("manifest"):
            lines = path.read_text().splitlines()
            self.random.shuffle(lines)
            self.files.write(path, "\n".join(lines).encode())

    def hadoop_deletes(self) -> None:
        """Delete some optional files: `_last_checkpoint`, version checksums and manifests."""
        files = [*self.log.glob("_last_checkpoint"), *self.log.glob("[0-9]*.crc")]
        for path in [*files, *self.root.rglob("manifest")]:
            if self.random.random() < 0.3:
                self.files.delete(path)

    def hadoop_copies(self) -> None:
        self.files.keep_checksums(self.root)

    def found(self) -> list[int]:
        """The ids of all rows that a scan returns, sorted."""
        with adelta.sync.open_table(self.root) as table:
            scan = table.snapshot().scan(columns=["id"])
            return sorted(scan.to_arrow().column("id").to_pylist())
