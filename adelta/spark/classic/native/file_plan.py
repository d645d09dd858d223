"""What `TableFileIndex.java` is told: the files of a scan, by partition, as bytes.

Numbers are big-endian. How many partitions; of each its values, then how many files, and of each
file its path, size and time, and its deletion vector as a text where these are given: empty where
it has none, else how many rows it names, and then its offset, size and path, or ``inline``, the
size and the bytes in hexadecimal digits; then, where these are given, the id of its first row and
the version that its rows are of. A value is a byte, which is 0 where it is null, and then
eight bytes of a number, or a text or binary after its length in four bytes.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.errors import ChecksumMismatchError, InvalidTableError
from adelta.kernel.actions.file_actions import DeletionVectorDescriptor
from adelta.kernel.deletion_vector.blob import framed_range
from adelta.kernel.deletion_vector.descriptor import inline_bytes, vector_path
from adelta.kernel.expressions.text_values import FIRST_DAY, LAST_DAY
from adelta.kernel.partition import lookup_partition_values, parse_partition_values
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from adelta.kernel.data_skipping.planner_statistics import ColumnStatistics
    from adelta.kernel.schema.types import StructField

__all__ = [
    "FILE_COLUMNS",
    "ROW_ID_COLUMNS",
    "encode_files",
    "encode_statistics",
    "encode_values",
]

FILE_COLUMNS = ("path", "partition_values", "size", "modification_time", "deletion_vector")
"""What `encode_files` needs of a snapshot's files."""

ROW_ID_COLUMNS = ("base_row_id", "default_row_commit_version")
"""What it needs besides for ids of rows."""

_NUMBER, _REAL, _LENGTH = struct.Struct(">q"), struct.Struct(">d"), struct.Struct(">i")
_SIZES = struct.Struct(">qq")
_NULL, _VALUE = b"\x00", b"\x01"


def encode_files(
    files: pa.Table,
    partitions: Sequence[tuple[str, StructField]],
    address: Callable[[str], str],
    *,
    vectors: bool = False,
    row_ids: bool = False,
) -> bytes:
    """The files, which have `FILE_COLUMNS`, and with `row_ids` `ROW_ID_COLUMNS`, for the JVM.

    `partitions` are the physical names and the fields of the partition columns, in order; `address`
    makes of a path in the log what Hadoop opens. Deletion vectors are given with `vectors`;
    without, no file may have one.

    Raises:
        InvalidTableError: a partition value cannot be parsed, a path names no object, or a deletion
            vector is none that the protocol knows; or a file has no ids of its rows.
        ChecksumMismatchError: a file has a deletion vector, and `vectors` says that none has.
    """
    values = [_values(files, name, field) for name, field in partitions]
    groups: defaultdict[tuple[bytes, ...], list[bytes]] = defaultdict(list)
    paths: list[Any] = files.column("path").to_pylist()
    sizes: list[Any] = files.column("size").to_pylist()
    times: list[Any] = files.column("modification_time").to_pylist()
    keys: Iterable[tuple[bytes, ...]] = zip(*values, strict=True) if values else [()] * len(paths)
    deleted = _vectors(files.column("deletion_vector"), address)
    if not vectors and any(deleted):
        raise ChecksumMismatchError(
            "files have deletion vectors, and the checksum of the version says that none has. The "
            "log counts: delete the checksum, and look for what wrote it"
        )
    tracked = _row_ids(files) if row_ids else [b""] * len(paths)
    for key, path, size, time, gone, ids in zip(
        keys, paths, sizes, times, deleted, tracked, strict=True
    ):
        said = _text(address(path)) + _SIZES.pack(size or 0, time or 0)
        groups[key].append(said + (_text(gone) if vectors else b"") + ids)
    parts = [_LENGTH.pack(len(groups))]
    for key, members in groups.items():
        parts += key
        parts.append(_LENGTH.pack(len(members)))
        parts += members
    return b"".join(parts)


def _row_ids(files: pa.Table) -> list[bytes]:
    firsts, versions = (files.column(name) for name in ROW_ID_COLUMNS)
    if firsts.null_count or versions.null_count:
        raise InvalidTableError(
            "files have no ids of their rows in the log, which all have in a table that tracks "
            "rows; set delta.enableRowTracking to false, and to true again"
        )
    pairs = zip(firsts.to_pylist(), versions.to_pylist(), strict=True)
    return [_SIZES.pack(first, version) for first, version in pairs]


def _vectors(vectors: pa.ChunkedArray[Any], address: Callable[[str], str]) -> Iterable[str]:
    if vectors.null_count == len(vectors):
        return [""] * len(vectors)
    rows = (row["vector"] for row in pa.table({"vector": vectors}).to_pylist())
    return ["" if raw is None else _vector(raw, address) for raw in rows]


def _vector(raw: dict[str, Any], address: Callable[[str], str]) -> str:
    """Where the bytes of a vector are, or they; the rows that it names before."""
    vector = DeletionVectorDescriptor.from_json(raw)
    if vector.storage_type == "i":
        data = inline_bytes(vector)
        return f"{vector.cardinality} inline {len(data)} {data.hex()}"
    start, _ = framed_range(vector.offset, vector.size_in_bytes)
    place = address(vector_path(vector))
    return f"{vector.cardinality} {start} {vector.size_in_bytes} {place}"


def _values(files: pa.Table, name: str, field: StructField) -> list[bytes]:
    """The encoded value of a partition column for each file."""
    texts = lookup_partition_values(files.column("partition_values"), name)
    distinct = texts.combine_chunks().dictionary_encode()
    if isinstance(distinct, pa.ChunkedArray):
        distinct = distinct.combine_chunks()
    parsed = parse_partition_values(distinct.dictionary, field.type, column=field.name)
    encoded = encode_values(parsed, field.type)
    return [_NULL if at is None else encoded[at] for at in distinct.indices.to_pylist()]


def encode_values(values: pa.Array[Any], data_type: t.DataType) -> list[bytes]:
    """Each of some values of a type, for the JVM."""
    encode = _encoder(data_type)
    numbers = values.cast(_CARRIERS[data_type]) if data_type in _CARRIERS else values
    return [_NULL if one is None else _VALUE + encode(one) for one in numbers.to_pylist()]


_CARRIERS: dict[t.DataType, Any] = {
    t.DATE: pa.int32(),
    t.TIMESTAMP: pa.int64(),
    t.TIMESTAMP_NTZ: pa.int64(),
}
_WHOLE = (t.BYTE, t.SHORT, t.INTEGER, t.LONG, t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ, t.BOOLEAN)


def _encoder(data_type: t.DataType) -> Callable[[Any], bytes]:
    if data_type in _WHOLE:
        return _NUMBER.pack
    if data_type in (t.FLOAT, t.DOUBLE):
        return _REAL.pack
    if data_type == t.BINARY:
        return lambda value: _LENGTH.pack(len(value)) + value
    return lambda value: _text(str(value))


def encode_statistics(columns: Mapping[str, ColumnStatistics]) -> bytes:
    """What columns have, by the names that files have for them, as `TableFileIndex` reads it.

    Least and greatest values are texts: those of Spark's catalog, in which a number is its digits,
    and a day has a year of four. Columns with other days are left out.
    """
    found = bytearray()
    for name, each in columns.items():
        if (ends := _ends(each)) is not None:
            found += _text(name) + _SIZES.pack(each.most_distinct, each.null_count) + ends
    return bytes(found)


def _ends(column: ColumnStatistics) -> bytes | None:
    if column.ends is None:
        return _NULL + _NULL
    if pa.types.is_date(column.ends[0].type):
        days = [each.cast(pa.int32()).as_py() for each in column.ends]
        if not FIRST_DAY <= days[0] <= days[1] <= LAST_DAY:
            return None
    return b"".join(_VALUE + _text(str(each.as_py())) for each in column.ends)


def _text(text: str) -> bytes:
    data = text.encode()
    return _LENGTH.pack(len(data)) + data
