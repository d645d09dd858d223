"""Tables of one commit owner, which runs in this process."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

import adelta
from tests.support.owners import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.owners import Owner

__all__ = ["SCHEMA", "Lake", "lake_of", "owned_by", "rows"]

SCHEMA = pa.schema([("id", pa.int64())])
OWNER = "delta.managedCommit.commitOwner"
CONF = "delta.managedCommit.commitOwnerConf"


def rows(*ids: int) -> pa.Table:
    """Rows of `SCHEMA`."""
    return pa.table({"id": pa.array(ids, pa.int64())})


def owned_by(endpoint: str) -> dict[str, str]:
    """The properties of a table whose owner is at an endpoint."""
    return {OWNER: "adelta", CONF: orjson.dumps({"endpoint": endpoint}).decode()}


class Lake:
    """Tables of one owner, by their names."""

    def __init__(self, owner: Owner, folder: Path, options: dict[str, str]) -> None:
        self.owner = owner
        self.folder = folder
        self.options = options
        self.open: list[adelta.Table] = []

    def table(self, name: str) -> adelta.Table:
        """A new handle."""
        handle = adelta.open_table(self.folder / name, self.options)
        self.open.append(handle)
        return handle

    async def make(self, *names: str) -> tuple[adelta.Table, ...]:
        """New tables of the owner's."""
        for name in names:
            made = await adelta.create_table(
                self.folder / name,
                SCHEMA,
                properties=owned_by(self.owner.endpoint),
                storage_options=self.options,
            )
            await made.aclose()
        return tuple(map(self.table, names))


@asynccontextmanager
async def lake_of(folder: Path, **settings: Any) -> AsyncIterator[Lake]:
    """Tables in a folder, with an owner of their own that has some settings."""
    async with running(folder, **settings) as owner:
        options = {
            "adelta_owner_endpoint": owner.endpoint,
            "adelta_owner_token": await owner.token(),
        }
        lake = Lake(owner, folder, options)
        try:
            yield lake
        finally:
            for table in lake.open:
                await table.aclose()
