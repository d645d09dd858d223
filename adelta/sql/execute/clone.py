"""CREATE TABLE … SHALLOW | DEEP CLONE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._concurrency import in_thread
from adelta.errors import TableNotFoundError
from adelta.kernel.schema.types import StructType
from adelta.operations.clone import clone
from adelta.operations.create import exists
from adelta.sql.execute.definition import field_of, place_of
from adelta.sql.records import NOTHING, table_of

if TYPE_CHECKING:
    from adelta.sql.session import Session
    from adelta.sql.statements import CreateClone

__all__ = ["run_clone"]

_CLONED = (
    "source_table_size", "source_num_of_files", "num_removed_files", "num_copied_files",
    "removed_files_size", "copied_files_size",
)  # fmt: skip
CLONED = pa.schema([(name, pa.int64()) for name in _CLONED])
"""The columns of CLONE."""


async def run_clone(statement: CreateClone, session: Session) -> pa.Table:
    """Make another table with the rows of a version.

    Raises:
        TableNotFoundError: there is no table that the clone is to replace.
        AdeltaError: as `adelta.clone` does.
    """
    uri, options = place_of(statement, session)
    partitions = StructType(tuple(map(field_of, statement.partition_by)))
    as_of, mode = statement.source_as_of, statement.mode
    version = timestamp = None
    if as_of is not None and as_of.timestamp is not None:
        timestamp = await in_thread(session.moment, as_of.timestamp)
    elif as_of is not None:
        version = as_of.version
    async with (
        session.opened(statement.source) as source,
        session.handle(uri, options) as target,
    ):
        if mode in ("create if not exists", "replace"):
            there = await exists(target)
            if there and mode == "create if not exists":
                return table_of(NOTHING)
            if not there and mode == "replace":
                raise TableNotFoundError(
                    f"there is no Delta table at {target.uri} to replace; write CREATE OR REPLACE "
                    "TABLE, or look at the address"
                )
        done = await clone(
            source,
            target,
            shallow=statement.shallow,
            version=version,
            timestamp=timestamp,
            source_format=statement.source_format,
            partition_schema=partitions if partitions.fields else None,
            replace=mode.endswith("replace"),
            properties=statement.properties,
            user_metadata=session.user_metadata,
        )
    return table_of(CLONED, [tuple(getattr(done, name) for name in _CLONED)])
