"""Tables to be altered, and looks into what became of their files."""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from adelta.kernel.actions.file_actions import decode_path
from adelta.operations import write_table
from adelta.table import Table, open_table

if TYPE_CHECKING:
    from adelta.kernel.schema.types import StructType

__all__ = ["MODE", "ROWS", "files_of", "new_table", "read_by_deltalake", "rows", "schema_of"]

MODE = "delta.columnMapping.mode"
ROWS = pa.table(
    {
        "id": [1, 2],
        "p": ["x", "y"],
        "s": [{"a": 1, "b": "one"}, None],
        "l": [[{"k": 1}], []],
    }
)


async def new_table(
    rows: pa.Table = ROWS, mode: str = "name", uri: str | None = None, **options: Any
) -> Table:
    table = open_table(uri or f"memory://{uuid.uuid4()}/table")
    properties = {MODE: mode, **options.pop("properties", {})}
    await write_table(table, rows, properties=properties, **options)
    return table


async def rows(table: Table) -> list[dict[str, Any]]:
    found = await (await table.snapshot()).scan().to_arrow()
    return sorted(found.to_pylist(), key=lambda row: str(row.get("id")))


async def schema_of(table: Table) -> StructType:
    return (await table.snapshot()).delta_schema


def read_by_deltalake(uri: str, query: str) -> list[dict[str, Any]]:
    engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(uri))
    return pa.table(engine.execute(query).read_all()).to_pylist()


async def files_of(table: Table) -> list[tuple[dict[str, Any], pa.Schema]]:
    """Each live file's action, and its Parquet schema."""
    found = []
    for action in (await (await table.snapshot()).files()).to_pylist():
        data = await table.store.get(decode_path(action["path"]))
        found.append((action, pq.read_schema(io.BytesIO(data))))
    return found
