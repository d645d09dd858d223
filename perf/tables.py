"""Makes the logs that the benchmarks read: no data files, just what the log says of them."""

from __future__ import annotations

import argparse
import random
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 2000
_STRINGS = pa.map_(pa.string(), pa.string())
_FIELDS = [("p", "string"), ("id", "long"), ("ts", "timestamp"), ("name", "string")]
_FIELDS += [("amount", "double"), ("code", "integer")]
_BOUNDS = pa.struct(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
        ("amount", pa.float64()),
        ("code", pa.int32()),
    ]
)
_COUNTS = pa.struct([(field.name, pa.int64()) for field in _BOUNDS])
_STATS = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", _BOUNDS),
        ("maxValues", _BOUNDS),
        ("nullCount", _COUNTS),
    ]
)
_DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("createdTime", pa.int64()),
        ("configuration", _STRINGS),
    ]
)
_REMOVE = pa.struct(
    [("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())]
)
_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])


@dataclass(frozen=True)
class Shape:
    """What a table's log looks like."""

    adds: int = 1_000_000
    parts: int = 1
    stats: str = "json"  # json | parsed
    vectors: bool = False
    commits: int = 0  # JSON commits after the checkpoint
    files: int = 1  # in each of these commits


def _add_type(shape: Shape) -> pa.StructType:
    fields = [
        ("path", pa.string()),
        ("partitionValues", _STRINGS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
    ]
    fields.append(("stats", pa.string()) if shape.stats == "json" else ("stats_parsed", _STATS))
    if shape.vectors:
        fields.append(("deletionVector", _DELETION_VECTOR))
    return pa.struct(fields)


def protocol(shape: Shape) -> dict[str, object]:
    if not shape.vectors:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    names = ["deletionVectors"]
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": names,
        "writerFeatures": names,
    }


def metadata() -> dict[str, object]:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in _FIELDS]
    return {
        "id": "2f0a3c52-33a8-4a9e-8f5c-0a6a4f3c1d10",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": orjson.dumps({"type": "struct", "fields": fields}).decode(),
        "partitionColumns": ["p"],
        "configuration": {},
        "createdTime": 1_700_000_000_000,
    }


def _stats(n: int) -> dict[str, Any]:
    low = n * 1000
    return {
        "numRecords": 1000,
        "minValues": {
            "id": low,
            "ts": f"2024-01-01T{n % 24:02d}:00:00.000Z",
            "name": f"customer-{n:09d}",
            "amount": n / 7,
            "code": n % 100,
        },
        "maxValues": {
            "id": low + 999,
            "ts": f"2024-01-01T{n % 24:02d}:59:59.999Z",
            "name": f"customer-{n:09d}-zz",
            "amount": n / 7 + 100,
            "code": n % 100 + 50,
        },
        "nullCount": {"id": 0, "ts": 0, "name": n % 3, "amount": 0, "code": 0},
    }


def add(n: int, shape: Shape, seed: random.Random) -> dict[str, object]:
    """The `add` of the n-th file; ids ascend with n, so one id is in one file."""
    partition = f"{n % PARTITIONS:05d}"
    name = uuid.UUID(int=seed.getrandbits(128))
    body: dict[str, object] = {
        "path": f"p={partition}/part-{n % 1000:05d}-{name}.c000.zstd.parquet",
        "partitionValues": {"p": partition},
        "size": 10_000_000 + n % 5000,
        "modificationTime": 1_700_000_000_000 + n,
        "dataChange": True,
    }
    stats = _stats(n)
    if shape.stats == "json":
        body["stats"] = orjson.dumps(stats).decode()
    else:
        for bounds in ("minValues", "maxValues"):
            stats[bounds]["ts"] = 1_704_067_200_000_000 + n % 24 * 3_600_000_000
        body["stats_parsed"] = stats
    if shape.vectors and n % 2:
        body["deletionVector"] = {
            "storageType": "u",
            "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA",
            "offset": n,
            "sizeInBytes": 40,
            "cardinality": 6,
        }
    return body


def _rows(shape: Shape, part: int) -> Iterator[pa.RecordBatch]:
    kind = _add_type(shape)
    schema = pa.schema(
        [
            ("txn", _TXN),
            ("add", kind),
            ("remove", _REMOVE),
            ("metaData", _METADATA),
            ("protocol", _PROTOCOL),
        ]
    )
    seed = random.Random(part)
    mine = range(part, shape.adds, shape.parts)
    for start in range(0, len(mine), 50_000):
        adds = [add(n, shape, seed) for n in mine[start : start + 50_000]]
        columns = [
            pa.array(adds, kind) if field.name == "add" else pa.nulls(len(adds), field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
    if part == 0:
        two = [{"protocol": protocol(shape)}, {"metaData": metadata()}]
        yield pa.RecordBatch.from_pylist(two, schema=schema)


def make(folder: Path, shape: Shape) -> Path:
    """A table of this shape in `folder`, made unless it is there already."""
    done = folder / "_delta_log" / ".complete"
    if done.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    seed = random.Random(7)
    first = 0
    if shape.adds:
        for part in range(shape.parts):
            name = f"{0:020d}.checkpoint"
            if shape.parts > 1:
                name += f".{part + 1:010d}.{shape.parts:010d}"
            batches = _rows(shape, part)
            head = next(batches)
            with pq.ParquetWriter(
                log / f"{name}.parquet", head.schema, compression="snappy"
            ) as writer:
                writer.write_batch(head, row_group_size=100_000)
                for batch in batches:
                    writer.write_batch(batch, row_group_size=100_000)
        hint: dict[str, object] = {"version": 0, "size": shape.adds + 2}
        if shape.parts > 1:
            hint["parts"] = shape.parts
        (log / "_last_checkpoint").write_bytes(orjson.dumps(hint))
        (log / f"{0:020d}.json").write_bytes(
            orjson.dumps({"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE"}})
        )
        first = 1
    for version in range(first, first + shape.commits):
        append_commit(folder, version, shape, seed)
    done.touch()
    return folder


def append_commit(folder: Path, version: int, shape: Shape, seed: random.Random) -> None:
    """One more commit, with its files."""
    json_stats = Shape(stats="json", vectors=shape.vectors)
    lines = [{"commitInfo": {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE"}}]
    if version == 0:
        lines += [{"protocol": protocol(shape)}, {"metaData": metadata()}]
    first = shape.adds + version * shape.files
    lines += [{"add": add(n, json_stats, seed)} for n in range(first, first + shape.files)]
    content = b"\n".join(orjson.dumps(line) for line in lines)
    (folder / "_delta_log" / f"{version:020d}.json").write_bytes(content)


SHAPES = {
    "1m-json": Shape(),
    "1m-json-8": Shape(parts=8),
    "1m-parsed": Shape(stats="parsed"),
    "1m-parsed-8": Shape(parts=8, stats="parsed"),
    "1m-vectors": Shape(vectors=True),
    "10k-commits": Shape(adds=0, commits=10_000),
    "3-commits": Shape(adds=0, commits=3, files=100_000),
    "100k-json": Shape(adds=100_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("shapes", nargs="+", choices=SHAPES)
    arguments = parser.parse_args()
    for name in arguments.shapes:
        print(make(arguments.folder / name, SHAPES[name]))


if __name__ == "__main__":
    main()
