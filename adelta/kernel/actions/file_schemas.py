"""The file actions `add`, `remove` and `cdc` as Arrow tables: their schemas.

Column names are adelta's; the log's names stand beside them in `kernel/actions/json.py`.
"""

from __future__ import annotations

import pyarrow as pa

from adelta.kernel.actions.file_actions import VERSION_COLUMN

__all__ = [
    "ADD_SCHEMA",
    "CDC_SCHEMA",
    "DELETION_VECTOR",
    "FILE_SCHEMAS",
    "REMOVE_SCHEMA",
    "STRING_MAP",
    "VERSION_FIELD",
]

STRING_MAP: pa.DataType = pa.map_(pa.string(), pa.string())
DELETION_VECTOR: pa.StructType = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_Columns = list[tuple[str, pa.DataType]]
_ADD: _Columns = [
    ("path", pa.string()),
    ("partition_values", STRING_MAP),
    ("size", pa.int64()),
    ("modification_time", pa.int64()),
    ("data_change", pa.bool_()),
    ("stats", pa.string()),
    ("tags", STRING_MAP),
    ("deletion_vector", DELETION_VECTOR),
    ("base_row_id", pa.int64()),
    ("default_row_commit_version", pa.int64()),
    ("clustering_provider", pa.string()),
]
ADD_SCHEMA = pa.schema(_ADD)
_REMOVE: _Columns = [
    ("path", pa.string()),
    ("deletion_timestamp", pa.int64()),
    ("data_change", pa.bool_()),
    ("extended_file_metadata", pa.bool_()),
    ("partition_values", STRING_MAP),
    ("size", pa.int64()),
    ("stats", pa.string()),
    ("tags", STRING_MAP),
    ("deletion_vector", DELETION_VECTOR),
    ("base_row_id", pa.int64()),
    ("default_row_commit_version", pa.int64()),
]
REMOVE_SCHEMA = pa.schema(_REMOVE)
CDC_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partition_values", STRING_MAP),
        ("size", pa.int64()),
        ("tags", STRING_MAP),
    ]
)
FILE_SCHEMAS = {"add": ADD_SCHEMA, "remove": REMOVE_SCHEMA, "cdc": CDC_SCHEMA}
"""The schemas by the log's names of the actions."""

VERSION_FIELD = pa.field(VERSION_COLUMN, pa.int64())
"""The field of the versions, which stands behind those of a schema."""
