"""Logs written by hand: commits, and checkpoints by an independent writer."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from adelta.kernel.last_checkpoint import LastCheckpoint, encode
from adelta.kernel.log_path import (
    LAST_CHECKPOINT_PATH,
    checkpoint_part_path,
    checkpoint_path,
    commit_path,
    v2_checkpoint_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adelta.storage.object_store import ObjectStore

__all__ = [
    "Line",
    "add",
    "checkpoint_bytes",
    "metadata",
    "protocol",
    "put_checkpoint",
    "put_commit",
    "put_hint",
    "put_v2_checkpoint",
    "remove",
    "txn",
]

Line = dict[str, Any]

SCHEMA_STRING = orjson.dumps(
    {
        "type": "struct",
        "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
    }
).decode()

_STRINGS = pa.map_(pa.string(), pa.string())
_ACTIONS = pa.schema(
    [
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _STRINGS),
                ]
            ),
        ),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _STRINGS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                ]
            ),
        ),
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        (
            "domainMetadata",
            pa.struct(
                [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
            ),
        ),
    ]
)
_SIDECAR = pa.struct(
    [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]
)
_CHECKPOINT_METADATA = pa.struct([("version", pa.int64())])


def protocol(reader: int = 1, writer: int = 2, **features: Any) -> Line:
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **features}}


def metadata(**more: Any) -> Line:
    body = {
        "id": "8e2f2a1c-5a0e-4f0a-9c55-3f1f8f4d7a11",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA_STRING,
        "partitionColumns": [],
        "configuration": {},
    }
    return {"metaData": body | more}


def add(path: str, size: int = 1, **more: Any) -> Line:
    body = {
        "path": path,
        "partitionValues": {},
        "size": size,
        "modificationTime": 1,
        "dataChange": True,
    }
    return {"add": body | more}


def remove(path: str, at: int = 1) -> Line:
    return {"remove": {"path": path, "deletionTimestamp": at, "dataChange": True}}


def txn(app: str, version: int) -> Line:
    return {"txn": {"appId": app, "version": version}}


async def put_commit(store: ObjectStore, version: int, *lines: Line) -> None:
    content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    await store.put_if_absent(commit_path(version), content)


def checkpoint_bytes(
    lines: Iterable[Line],
    *,
    v2: bool = False,
    add_fields: Sequence[tuple[str, pa.DataType]] = (),
    without: Sequence[str] = (),
    **options: Any,
) -> bytes:
    """A file of a checkpoint; its `add` has `add_fields` too, and lacks the fields `without`."""
    schema = _ACTIONS
    if add_fields or without:
        at = schema.get_field_index("add")
        kept = [field for field in schema.field(at).type if field.name not in without]
        schema = schema.set(at, pa.field("add", pa.struct([*kept, *add_fields])))
    if v2:
        schema = schema.append(pa.field("sidecar", _SIDECAR)).append(
            pa.field("checkpointMetadata", _CHECKPOINT_METADATA)
        )
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(lines), schema=schema), sink, **options)
    return sink.getvalue().to_pybytes()


async def put_checkpoint(
    store: ObjectStore, version: int, *parts: Sequence[Line], hint: bool = True, **options: Any
) -> None:
    """A classic checkpoint of one part, a multi-part one of several."""
    for number, lines in enumerate(parts, 1):
        path = (
            checkpoint_path(version)
            if len(parts) == 1
            else checkpoint_part_path(version, number, len(parts))
        )
        await store.put(path, checkpoint_bytes(lines, **options))
    if hint:
        await put_hint(store, version, parts=len(parts) if len(parts) > 1 else None)


async def put_v2_checkpoint(
    store: ObjectStore,
    version: int,
    manifest: Sequence[Line],
    *sidecars: Sequence[Line],
    json: bool = False,
    classic_name: bool = False,
) -> None:
    """A V2 checkpoint with its sidecars, in Parquet or JSON."""
    lines: list[Line] = [{"checkpointMetadata": {"version": version}}, *manifest]
    for number, actions in enumerate(sidecars):
        data = checkpoint_bytes(actions)
        name = f"{version:020d}-{number}.parquet"
        await store.put(f"_delta_log/_sidecars/{name}", data)
        lines.append({"sidecar": {"path": name, "sizeInBytes": len(data), "modificationTime": 1}})
    path = v2_checkpoint_path(version, str(uuid.uuid4()))
    if json:
        content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        await store.put(path.removesuffix("parquet") + "json", content)
        return
    path = checkpoint_path(version) if classic_name else path
    await store.put(path, checkpoint_bytes(lines, v2=True))


async def put_hint(store: ObjectStore, version: int, *, parts: int | None = None) -> None:
    await store.put(LAST_CHECKPOINT_PATH, encode(LastCheckpoint(version, 1, parts)))
