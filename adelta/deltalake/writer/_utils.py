"""The table that a write is for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from adelta.deltalake.exceptions import TableNotFoundError

if TYPE_CHECKING:
    from adelta.deltalake.table import DeltaTable

__all__ = ["try_get_deltatable", "try_get_table_and_table_uri"]


def try_get_table_and_table_uri(
    table_or_uri: Any, storage_options: dict[str, str] | None = None
) -> tuple[DeltaTable | None, str]:
    """The table, None where there is none, and its address.

    Raises:
        ValueError: it is no address and no table.
    """
    from adelta.deltalake.table import DeltaTable

    if isinstance(table_or_uri, DeltaTable):
        return table_or_uri, table_or_uri.table_uri
    if not isinstance(table_or_uri, str | Path):
        raise ValueError("table_or_uri must be a str, Path or DeltaTable")
    return try_get_deltatable(table_or_uri, storage_options), str(table_or_uri)


def try_get_deltatable(
    table_uri: str | Path, storage_options: dict[str, str] | None
) -> DeltaTable | None:
    """The table at an address; None where there is none."""
    from adelta.deltalake.table import DeltaTable

    try:
        return DeltaTable(table_uri, storage_options=storage_options)
    except TableNotFoundError:
        return None
