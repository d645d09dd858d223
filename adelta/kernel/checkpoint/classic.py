"""The rows of a checkpoint (PROTOCOL.md, "V1 Spec").

Singletons are rows made one by one; live files and tombstones stay columns, which only change their
names. `commitInfo` and `cdc` are never part of a checkpoint.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import scalar_of, table_of
from adelta.kernel.checkpoint.schema import REMOVE_COLUMNS, add_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction

__all__ = [
    "add_rows",
    "kept_tombstones",
    "kept_transactions",
    "remove_rows",
    "singleton_bodies",
    "singleton_rows",
]

_pa: Any = pa  # the stubs know nulls() of few types
_BLOCK = 64 * 1024


def singleton_rows(
    schema: pa.Schema,
    protocol: Protocol,
    metadata: Metadata,
    transactions: Iterable[SetTransaction],
    domains: Iterable[DomainMetadata],
) -> pa.Table:
    """Everything but the files, in rows of `schema`."""
    rows = singleton_bodies(protocol, metadata, transactions, domains)
    return table_of(rows, schema)


def singleton_bodies(
    protocol: Protocol,
    metadata: Metadata,
    transactions: Iterable[SetTransaction],
    domains: Iterable[DomainMetadata],
) -> list[dict[str, Any]]:
    """Everything but the files: one dictionary an action, as Arrow takes them."""
    return [
        {"protocol": protocol.to_json()},
        {"metaData": _pairs(metadata.to_json())},
        *({"txn": txn.to_json()} for txn in transactions),
        *({"domainMetadata": domain.to_json()} for domain in domains if not domain.removed),
    ]


def _pairs(metadata: dict[str, Any]) -> dict[str, Any]:
    """Maps as the lists of pairs that Arrow takes."""
    storage = metadata["format"]
    return metadata | {
        "configuration": list(metadata["configuration"].items()),
        "format": storage | {"options": list(storage["options"].items())},
    }


def add_rows(
    schema: pa.Schema, files: pa.Table, parsed: Mapping[str, pa.Array[Any]] | None = None
) -> pa.Table:
    """Live files of `ADD_SCHEMA` as rows of `schema`.

    `parsed` holds the columns `partitionValues_parsed` and `stats_parsed`, where the schema has
    them. `dataChange` is false: what a checkpoint adds is no news.
    """
    kind = schema.field("add").type
    extra = parsed or {}
    names = {field.name for field in kind} - set(extra)
    columns = list(add_columns(stats="stats" in names))
    quiet = pa.repeat(scalar_of(False, pa.bool_()), files.num_rows)
    arrays = [quiet if c == "data_change" else _flat(files.column(c)) for c in columns]
    return _rows(schema, "add", [*arrays, *(extra[f.name] for f in kind if f.name in extra)])


def remove_rows(schema: pa.Schema, tombstones: pa.Table) -> pa.Table:
    """Tombstones of `REMOVE_SCHEMA` as rows of `schema`."""
    quiet = pa.repeat(scalar_of(False, pa.bool_()), tombstones.num_rows)
    arrays = [quiet if c == "data_change" else _flat(tombstones.column(c)) for c in REMOVE_COLUMNS]
    return _rows(schema, "remove", arrays)


def _rows(schema: pa.Schema, action: str, arrays: list[pa.Array[Any]]) -> pa.Table:
    count = len(arrays[0])
    kind = schema.field(action).type
    struct = pa.StructArray.from_arrays(arrays, fields=list(kind))
    columns = [struct if f.name == action else _nulls(f.type, count) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _nulls(kind: pa.DataType, count: int) -> Any:
    """Nulls that share their memory with those of other tables."""
    return _null_block(kind).slice(0, count) if count <= _BLOCK else _pa.nulls(count, kind)


@lru_cache(maxsize=32)
def _null_block(kind: pa.DataType) -> Any:
    return _pa.nulls(_BLOCK, kind)


def _flat(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    if column.num_chunks == 1:
        only: Any = column.chunk(0)  # the stubs: still chunked
        return cast("pa.Array[Any]", only)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def kept_tombstones(tombstones: pa.Table, now_ms: int, retention_ms: int) -> pa.Table:
    """The tombstones that have not expired; one without a time has."""
    deleted: pa.ChunkedArray[Any] = tombstones.column("deletion_timestamp")
    oldest = scalar_of(now_ms - retention_ms, pa.int64())
    return tombstones.filter(pc.greater_equal(pc.fill_null(deleted, 0), oldest))


def kept_transactions(
    transactions: Iterable[SetTransaction], now_ms: int, retention_ms: int | None
) -> list[SetTransaction]:
    """The application transactions to remember; without a retention, all of them.

    One that does not say when it was updated is kept: to forget it could write a batch twice.
    """
    if retention_ms is None:
        return list(transactions)
    cutoff = now_ms - retention_ms
    return [txn for txn in transactions if txn.last_updated is None or txn.last_updated > cutoff]
