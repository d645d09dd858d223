"""Files as the log has them, with statistics as it spells them."""

from __future__ import annotations

import json

import pyarrow as pa

from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.schema import types as t

SCHEMA = t.StructType(
    (
        t.StructField("id", t.LONG),
        t.StructField("x", t.DOUBLE),
        t.StructField("s", t.STRING),
        t.StructField("d", t.DATE),
        t.StructField("at", t.TIMESTAMP),
        t.StructField("n", t.DecimalType(20, 0)),
        t.StructField("p", t.INTEGER),
    )
)


def stats(low: object, high: object, *, column: str = "id", nulls: int = 0, rows: int = 10) -> str:
    body = {
        "numRecords": rows,
        "minValues": {column: low},
        "maxValues": {column: high},
        "nullCount": {column: nulls},
    }
    return json.dumps(body, ensure_ascii=False)


def files(
    *rows: str | None, partitions: list[str | None] | None = None, deleted: int = 0
) -> pa.Table:
    vector = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": deleted}
    adds = [
        {
            "path": str(i),
            "partition_values": [("p", partitions[i] if partitions else "1")],
            "size": 1,
            "modification_time": 0,
            "data_change": True,
            "stats": text,
            "deletion_vector": vector if deleted else None,
        }
        for i, text in enumerate(rows)
    ]
    return pa.Table.from_pylist(adds, schema=ADD_SCHEMA)
