"""What statements answer, as Arrow tables with the columns that Delta Spark gives."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_args, get_type_hints
from urllib.parse import unquote

import pyarrow as pa

from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.table_features import supported_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from _typeshed import DataclassInstance

    from adelta.operations.detail import TableDetail
    from adelta.operations.history import HistoryEntry

__all__ = [
    "AFFECTED",
    "COLUMNS",
    "DEFINITION",
    "DESCRIBED_COLUMN",
    "DESCRIPTION",
    "DETAIL",
    "HISTORY",
    "INSERTED",
    "MERGED",
    "NOTHING",
    "PARTITIONS",
    "PROPERTIES",
    "PROPERTY",
    "detail_row",
    "hadoop_location",
    "history_row",
    "metrics_record",
    "metrics_type",
    "table_of",
]

_TEXTS: pa.DataType = pa.map_(pa.string(), pa.string())
_MOMENT: pa.DataType = pa.timestamp("us", "UTC")
_JOB = ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")
_NOTEBOOK = ("notebookId",)


def _texts_of(names: Iterable[str]) -> pa.DataType:
    return pa.struct([pa.field(name, pa.string()) for name in names])


NOTHING = pa.schema([])
"""The columns of what changes a table and has nothing to say of it."""

AFFECTED = pa.schema([("num_affected_rows", pa.int64())])
"""The column of DELETE and UPDATE; -1 where whole files went that do not tell their rows."""

INSERTED = pa.schema([("num_affected_rows", pa.int64()), ("num_inserted_rows", pa.int64())])
"""The columns of INSERT."""

MERGED = pa.schema(
    [
        ("num_affected_rows", pa.int64()),
        ("num_updated_rows", pa.int64()),
        ("num_deleted_rows", pa.int64()),
        ("num_inserted_rows", pa.int64()),
    ]
)
"""The columns of MERGE."""

HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", _MOMENT),
        ("userId", pa.string()),
        ("userName", pa.string()),
        ("operation", pa.string()),
        ("operationParameters", _TEXTS),
        ("job", _texts_of(_JOB)),
        ("notebook", _texts_of(_NOTEBOOK)),
        ("clusterId", pa.string()),
        ("readVersion", pa.int64()),
        ("isolationLevel", pa.string()),
        ("isBlindAppend", pa.bool_()),
        ("operationMetrics", _TEXTS),
        ("userMetadata", pa.string()),
        ("engineInfo", pa.string()),
    ]
)
"""The columns of DESCRIBE HISTORY."""

DETAIL = pa.schema(
    [
        ("format", pa.string()),
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("location", pa.string()),
        ("createdAt", _MOMENT),
        ("lastModified", _MOMENT),
        ("partitionColumns", pa.list_(pa.string())),
        ("clusteringColumns", pa.list_(pa.string())),
        ("numFiles", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("properties", _TEXTS),
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("tableFeatures", pa.list_(pa.string())),
    ]
)
"""The columns of DESCRIBE DETAIL."""

DESCRIPTION = pa.schema(
    [("col_name", pa.string()), ("data_type", pa.string()), ("comment", pa.string())]
)
"""The columns of DESCRIBE TABLE."""

COLUMNS = pa.schema([("col_name", pa.string())])
"""The column of SHOW COLUMNS."""

DEFINITION = pa.schema([("createtab_stmt", pa.string())])
"""The column of SHOW CREATE TABLE."""

PARTITIONS = pa.schema([("partition", pa.string())])
"""The column of SHOW PARTITIONS."""

DESCRIBED_COLUMN = pa.schema([("info_name", pa.string()), ("info_value", pa.string())])
"""The columns of DESCRIBE TABLE with a column."""

PROPERTIES = pa.schema([("key", pa.string()), ("value", pa.string())])
"""The columns of SHOW TBLPROPERTIES."""

PROPERTY = pa.schema([("value", pa.string())])
"""The column of SHOW TBLPROPERTIES of one key, in Spark beside the key."""


_ARROW_TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    float: pa.float64(),
    int: pa.int64(),
    str: pa.string(),
}


def table_of(schema: pa.Schema, rows: Iterable[tuple[object, ...]] = ()) -> pa.Table:
    """Rows as a table with the columns of a schema, in one batch."""
    names = schema.names
    dicts: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(dicts, schema=schema)


def history_row(entry: HistoryEntry) -> tuple[object, ...]:
    """A row of `HISTORY`."""
    return (
        entry.version,
        entry.timestamp,
        entry.user_id,
        entry.user_name,
        entry.operation,
        _texts(entry.operation_parameters),
        _fields(entry.job, _JOB),
        _fields(entry.notebook, _NOTEBOOK),
        entry.cluster_id,
        entry.read_version,
        entry.isolation_level,
        entry.is_blind_append,
        _texts(entry.operation_metrics),
        entry.user_metadata,
        entry.engine_info,
    )


def detail_row(found: TableDetail, name: str | None) -> tuple[object, ...]:
    """A row of `DETAIL`; whoever asks knows the table by `name`.

    Features that the protocol's versions stand for are listed, too, as delta-spark does.
    """
    versions = Protocol(found.min_reader_version, found.min_writer_version)
    return (
        found.format,
        found.id,
        name or found.name,
        found.description,
        hadoop_location(found.location),
        found.created_at,
        found.last_modified,
        list(found.partition_columns),
        list(found.clustering_columns),
        found.num_files,
        found.size_in_bytes,
        dict(found.properties),
        found.min_reader_version,
        found.min_writer_version,
        sorted({*found.table_features, *supported_names(versions)}),
    )


def metrics_type(kind: type[DataclassInstance], *, without: Collection[str] = ()) -> pa.DataType:
    """The type of `metrics_record`."""
    hints = get_type_hints(kind)
    return pa.struct(
        [
            pa.field(_camel(each.name), _arrow_type(hints[each.name]))
            for each in fields(kind)
            if each.name not in without
        ]
    )


def metrics_record(value: DataclassInstance, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Metrics as Delta Spark spells them, at any depth: ``num_files`` is ``numFiles``."""
    found: dict[str, Any] = {}
    for each in fields(value):
        if each.name not in without:
            inside = getattr(value, each.name)
            if is_dataclass(inside) and not isinstance(inside, type):
                inside = metrics_record(inside)
            found[_camel(each.name)] = inside
    return found


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _arrow_type(hint: Any) -> pa.DataType:
    members: list[Any] = [each for each in get_args(hint) or (hint,) if each is not type(None)]
    kind = members[0]
    is_record = is_dataclass(kind) and isinstance(kind, type)
    return metrics_type(kind) if is_record else _ARROW_TYPES[kind]


def hadoop_location(uri: str) -> str:
    """The address as Hadoop spells it: local ones with one slash behind the scheme."""
    path = uri.removeprefix("file://")
    return f"file:{unquote(path)}" if path.startswith("/") else uri


def _fields(found: Mapping[str, Any] | None, names: tuple[str, ...]) -> dict[str, object] | None:
    if found is None:
        return None
    texts = _texts(found)
    return {name: texts.get(name) for name in names}


def _texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    return {
        key: value if value is None or isinstance(value, str) else json.dumps(value)
        for key, value in values.items()
    }
