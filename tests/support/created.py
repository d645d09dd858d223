"""Tables created through a handle that is open already, in whatever store it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.operations.create import delta_schema, new_table
from adelta.table import Table, begin
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

__all__ = ["create_in"]


async def create_in(
    table: Table,
    schema: pa.Schema,
    properties: Mapping[str, str] | None = None,
    partition_by: tuple[str, ...] = (),
) -> None:
    """Create the table that `table` is a handle on."""
    new = new_table(delta_schema(schema), partition_by=partition_by, properties=properties or {})
    async with begin(table, TransactionRequest(operation="CREATE TABLE"), creates=new):
        pass
