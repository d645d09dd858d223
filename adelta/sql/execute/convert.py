"""CONVERT TO DELTA, GENERATE and ANALYZE TABLE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.schema.alteration import shown
from adelta.kernel.schema.types import StructType
from adelta.operations.analyze import analyze
from adelta.operations.convert import convert_folder
from adelta.operations.convert_iceberg import convert_iceberg
from adelta.operations.generate_manifest import generate_manifest
from adelta.sql.execute.definition import field_of
from adelta.sql.records import NOTHING, table_of

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.sql.session import Session
    from adelta.sql.statements import Analyze, ConvertToDelta, Generate

__all__ = ["run_analyze", "run_convert", "run_generate"]


async def run_convert(statement: ConvertToDelta, session: Session) -> pa.Table:
    """Make a table of the Parquet files in a folder, or of an Iceberg table."""
    partitions = StructType(tuple(map(field_of, statement.partition_by)))
    async with session.opened(statement.table) as table:
        if statement.source == "iceberg":
            await convert_iceberg(
                table.uri,
                collect_statistics=statement.statistics,
                storage_options=table.storage_options,
            )
            return table_of(NOTHING)
        await convert_folder(
            table,
            partition_schema=partitions if partitions.fields else None,
            collect_statistics=statement.statistics,
        )
    return table_of(NOTHING)


async def run_generate(statement: Generate, session: Session) -> pa.Table:
    """Write the manifests of the table."""
    async with session.opened(statement.table) as table:
        await generate_manifest(table)
    return table_of(NOTHING)


async def run_analyze(statement: Analyze, session: Session) -> pa.Table:
    """Compute statistics for files that lack them."""
    async with session.opened(statement.table) as table:
        columns: tuple[str, ...] | None = tuple(map(shown, statement.columns)) or None
        if statement.all_columns:
            snapshot = await table.snapshot()
            partitions = set(snapshot.partition_columns)
            names = (name for name in snapshot.schema.names if name not in partitions)
            columns = tuple(shown((name,)) for name in names)
        await analyze(table, columns=columns)
    return table_of(NOTHING)
