"""A second reader of Delta tables, plain and slow, that shares no code with adelta.

It reads what PROTOCOL.md says in the most direct way: the log by `MinimalLog`, every data file
whole. What it does not know it refuses.
"""

from __future__ import annotations

import json
import re
import struct
import urllib.parse
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from tests.support.minimal_reader import MinimalLog

__all__ = ["CannotRead", "read_rows"]

_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "geospatial",
        "timestampNtz",
        "typeWidening",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
    }
)
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "variant": pa.struct([("metadata", pa.binary()), ("value", pa.binary())]),
}


class CannotRead(Exception):
    """The table uses something that this reader does not know."""


def read_rows(root: Path) -> pa.Table:
    """All rows of the latest version, under the logical names and in the table's types."""
    log = root / "_delta_log"
    files = (file for file in log.rglob("*") if file.is_file())
    state = MinimalLog({file.relative_to(root).as_posix(): file.read_bytes() for file in files})
    found = state.read()
    if found is None:
        raise CannotRead("a log with gaps")
    protocol, metadata, adds = found["protocol"], found["metaData"], found["add"].values()
    unknown = set(protocol.get("readerFeatures") or ()) - _FEATURES
    if unknown:
        raise CannotRead(f"features {sorted(unknown)}")
    mode = (metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
    fields = json.loads(metadata["schemaString"])["fields"]
    schema = pa.schema([(f["name"], _arrow(f["type"])) for f in fields])
    tables = [
        _file_rows(root, add, fields, set(metadata["partitionColumns"]), mode) for add in adds
    ]
    return pa.concat_tables([schema.empty_table(), *tables])


# ----------------------------------------------------------------------------------------- files


def _file_rows(
    root: Path, add: dict[str, Any], fields: list[dict[str, Any]], partitions: set[str], mode: str
) -> pa.Table:
    path = urllib.parse.unquote(add["path"])
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path):
        raise CannotRead(f"the absolute path {path}")
    file = pq.ParquetFile(Path(path) if path.startswith("/") else root / path)
    stored = file.read()
    stats = json.loads(add.get("stats") or "{}")
    if "numRecords" in stats:
        assert stats["numRecords"] == stored.num_rows, f"{path}: {stats} is not what it holds"
    columns = []
    for field in fields:
        target = _arrow(field["type"])
        name = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
        name = field["name"] if mode == "none" else name
        if field["name"] in partitions:
            text = add["partitionValues"].get(name)
            values = pa.array([_partition_value(text, field["type"])], target)
            columns.append(pa.chunked_array([values.take(pa.array([0] * stored.num_rows))]))
        elif name in stored.column_names:
            columns.append(_column(stored.column(name), field["type"], mode))
        else:
            columns.append(pa.chunked_array([pa.nulls(stored.num_rows, target)]))
    rows = pa.table(dict(zip((f["name"] for f in fields), columns, strict=True)))
    if not add.get("deletionVector"):
        return rows
    deleted = _deleted(root, add["deletionVector"])
    return rows.filter(pa.array([index not in deleted for index in range(rows.num_rows)]))


def _arrow(data_type: Any) -> pa.DataType:
    if isinstance(data_type, str):
        if data_type.startswith("decimal("):
            precision, scale = data_type[8:-1].split(",")
            return pa.decimal128(int(precision), int(scale))
        if data_type.startswith(("geometry(", "geography(")):
            return pa.binary()
        if data_type not in _TYPES:
            raise CannotRead(f"the type {data_type}")
        return _TYPES[data_type]
    match data_type["type"]:
        case "struct":
            return pa.struct([(f["name"], _arrow(f["type"])) for f in data_type["fields"]])
        case "array":
            return pa.list_(_arrow(data_type["elementType"]))
        case "map":
            return pa.map_(_arrow(data_type["keyType"]), _arrow(data_type["valueType"]))
    raise CannotRead(f"the type {data_type}")


def _column(values: pa.ChunkedArray, data_type: Any, mode: str) -> pa.ChunkedArray:
    """The values in the table's type, fields of structs under their logical names."""
    target = _arrow(data_type)
    named = [_named(value, data_type, mode) for value in values.to_pylist()]
    return pa.chunked_array([pa.array(named, target)])


def _named(value: Any, data_type: Any, mode: str) -> Any:
    if value is None or isinstance(data_type, str):
        if isinstance(value, int) and str(data_type) in ("float", "double"):
            return float(value)
        if isinstance(value, int) and str(data_type).startswith("decimal"):
            return Decimal(value)
        return value
    if data_type["type"] == "struct":
        found = {}
        for field in data_type["fields"]:
            mapped = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
            name = field["name"] if mode == "none" else mapped
            found[field["name"]] = _named(value.get(name), field["type"], mode)
        return found
    if data_type["type"] == "array":
        return [_named(each, data_type["elementType"], mode) for each in value]
    return [
        (_named(key, data_type["keyType"], mode), _named(each, data_type["valueType"], mode))
        for key, each in value
    ]


def _partition_value(text: str | None, data_type: str) -> Any:
    if not text:  # an empty text is null, of every type
        return None
    match data_type:
        case "string":
            return text
        case "boolean":
            return text == "true"
        case "byte" | "short" | "integer" | "long":
            return int(text)
        case "float" | "double":
            return float(text)
        case "date":
            return date.fromisoformat(text)
        case "timestamp" | "timestamp_ntz":
            when = datetime.fromisoformat(text)
            if data_type == "timestamp":
                return when if when.tzinfo else when.replace(tzinfo=UTC)
            return when
        case "binary":
            return text.encode()
    if data_type.startswith("decimal("):
        return Decimal(text)
    raise CannotRead(f"partition columns of type {data_type}")


# ------------------------------------------------------------------------------ deletion vectors


def _deleted(root: Path, vector: dict[str, Any]) -> BitMap64:
    kind, text = vector["storageType"], vector["pathOrInlineDv"]
    if kind == "i":
        data = _z85(text)[: vector["sizeInBytes"]]
    else:
        if kind == "u":
            identifier = _z85(text[-20:]).hex()
            parts = (identifier[:8], identifier[8:12], identifier[12:16], identifier[16:20])
            name = f"deletion_vector_{'-'.join((*parts, identifier[20:]))}.bin"
            file = root / text[:-20] / name
        else:
            file = Path(urllib.parse.unquote(urllib.parse.urlsplit(text).path))
        blob = file.read_bytes()
        offset = vector.get("offset", 1)
        (size,) = struct.unpack_from(">i", blob, offset)
        assert size == vector["sizeInBytes"]
        data = blob[offset + 4 : offset + 4 + size]
    (magic,) = struct.unpack_from("<i", data)
    assert magic == 1681511377
    found = BitMap64.deserialize(data[4:])
    assert len(found) == vector["cardinality"]
    return found


def _z85(text: str) -> bytes:
    found = b""
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            number = number * 85 + _Z85.index(character)
        found += number.to_bytes(4, "big")
    return found
