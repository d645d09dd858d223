"""The Arrow schema of the checkpoints that adelta writes (PROTOCOL.md, "Checkpoint Schema").

One struct column an action; a row is null in all of them but one. A classic checkpoint has all
actions in one file or several; a V2 one has file actions in sidecars, and the rest in a manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.kernel.actions.file_schemas import ADD_SCHEMA, REMOVE_SCHEMA, STRING_MAP
from adelta.kernel.actions.json import ADD_JSON_NAMES, REMOVE_JSON_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "REMOVE_COLUMNS",
    "add_columns",
    "checkpoint_schema",
    "manifest_schema",
    "sidecar_schema",
]

REMOVE_COLUMNS = tuple(name for name in REMOVE_SCHEMA.names if name not in ("stats", "tags"))
"""The columns of `REMOVE_SCHEMA` that checkpoints keep."""

_TEXTS = pa.list_(pa.field("element", pa.string()))
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", _TEXTS),
        ("writerFeatures", _TEXTS),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", _TEXTS),
        ("configuration", STRING_MAP),
        ("createdTime", pa.int64()),
    ]
)
_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
_DOMAIN = pa.struct(
    [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
)
_CHECKPOINT_METADATA = pa.struct([("version", pa.int64()), ("tags", STRING_MAP)])
_SIDECAR = pa.struct(
    [
        ("path", pa.string()),
        ("sizeInBytes", pa.int64()),
        ("modificationTime", pa.int64()),
        ("tags", STRING_MAP),
    ]
)


def add_columns(*, stats: bool) -> tuple[str, ...]:
    """The columns of `ADD_SCHEMA` that a checkpoint keeps, `stats` among them or not."""
    return tuple(name for name in ADD_SCHEMA.names if stats or name != "stats")


def checkpoint_schema(*, stats: bool, parsed: Sequence[pa.Field[Any]] = ()) -> pa.Schema:
    """The schema of a checkpoint file.

    `stats` says whether statistics are kept as JSON text, `parsed` are further fields of `add`:
    `partitionValues_parsed` and `stats_parsed`.
    """
    add, remove = sidecar_schema(stats=stats, parsed=parsed)
    singletons: list[pa.Field[Any]] = [
        pa.field("metaData", _METADATA),
        pa.field("protocol", _PROTOCOL),
        pa.field("domainMetadata", _DOMAIN),
    ]
    return pa.schema([pa.field("txn", _TXN), add, remove, *singletons])


def sidecar_schema(*, stats: bool, parsed: Sequence[pa.Field[Any]] = ()) -> pa.Schema:
    """The schema of a sidecar: file actions alone; see `checkpoint_schema`."""
    add = [*_renamed(ADD_SCHEMA, add_columns(stats=stats), ADD_JSON_NAMES), *parsed]
    remove = _renamed(REMOVE_SCHEMA, REMOVE_COLUMNS, REMOVE_JSON_NAMES)
    return pa.schema([("add", pa.struct(add)), ("remove", pa.struct(remove))])


def manifest_schema() -> pa.Schema:
    """The schema of a V2 checkpoint's manifest in Parquet: everything but file actions."""
    return pa.schema(
        [
            ("checkpointMetadata", _CHECKPOINT_METADATA),
            ("sidecar", _SIDECAR),
            ("txn", _TXN),
            ("metaData", _METADATA),
            ("protocol", _PROTOCOL),
            ("domainMetadata", _DOMAIN),
        ]
    )


def _renamed(
    schema: pa.Schema, columns: Sequence[str], names: Mapping[str, str]
) -> list[pa.Field[Any]]:
    return [pa.field(names[column], schema.field(column).type) for column in columns]
