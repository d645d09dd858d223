"""Tables of real data files under a log written by hand, for tests of reading."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from adelta.kernel.deletion_vector import z85
from adelta.kernel.deletion_vector.blob import encode_bitmap
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import StructType
from adelta.table import Table
from tests.support.logs import Line, add, metadata, protocol, put_commit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adelta.storage.object_store import ObjectStore

__all__ = ["FEATURES", "described", "inline_vector", "opened", "put_data"]

FEATURES = ("columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "variantType")


async def put_data(
    store: ObjectStore,
    path: str,
    rows: pa.Table,
    *,
    stats: Mapping[str, Any] | None = None,
    action: Mapping[str, Any] | None = None,
    footer: Mapping[str, str] | None = None,
    **options: Any,
) -> Line:
    """Write a data file with `footer` in its metadata; the `add` with `action`'s fields."""
    sink = io.BytesIO()
    size = options.pop("row_group_size", None)
    with pq.ParquetWriter(sink, rows.schema, **options) as writer:
        writer.write_table(rows, row_group_size=size)
        writer.add_key_value_metadata(dict(footer or {}))
    await store.put(path, sink.getvalue())
    more = dict(action or {})
    if stats is not None:
        more["stats"] = orjson.dumps(stats).decode()
    return add(path, size=len(sink.getvalue()), **more)


def described(
    schema: pa.Schema | StructType,
    *,
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    features: Iterable[str] = FEATURES,
    writer_features: Iterable[str] = (),
) -> list[Line]:
    """The lines of a first commit: a protocol with `features`, and the metadata."""
    delta = schema if isinstance(schema, StructType) else from_arrow_schema(schema)
    return [
        protocol(
            3,
            7,
            readerFeatures=list(features),
            writerFeatures=[*features, *writer_features],
        ),
        metadata(
            schemaString=schema_to_string(delta),
            partitionColumns=list(partition_by),
            configuration=dict(configuration or {}),
        ),
    ]


async def opened(store: ObjectStore, *commits: Sequence[Line], start: int = 0) -> Table:
    """A table with these commits."""
    for version, lines in enumerate(commits, start):
        await put_commit(store, version, *lines)
    return Table("memory://data", store=store)


def inline_vector(rows: Iterable[int]) -> dict[str, Any]:
    """The descriptor of an inline deletion vector of these rows."""
    rows = list(rows)
    data = encode_bitmap(rows)
    return {
        "storageType": "i",
        "pathOrInlineDv": z85.encode(data),
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }
