"""Tables of one column that a catalog manages, in any store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.errors import StorageError
from adelta.kernel.log_path import LOG_DIR
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.catalogs import MANAGED
from tests.support.created import create_in
from tests.support.stores import FailingStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.commit.catalog import CatalogClient
    from adelta.storage.object_store import ObjectStore
    from tests.support.catalogs import SqliteCatalog

__all__ = ["SCHEMA", "NeverPublishing", "created", "handle", "ids", "log_of", "rows"]

SCHEMA = pa.schema([("id", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def handle(store: ObjectStore, catalog: CatalogClient) -> Table:
    """A handle on the table in `store`, as `open_table` makes one."""
    return Table(store.uri, store=store, catalog=catalog)


async def created(
    catalog: SqliteCatalog, store: ObjectStore | None = None, **properties: str
) -> ObjectStore:
    """The store of a new table, which is registered."""
    store = store or MemoryStore()
    asked = {**MANAGED, **{f"delta.{key}": value for key, value in properties.items()}}
    await create_in(handle(store, catalog), SCHEMA, asked)
    catalog.register()
    return store


async def ids(table: Table, **at: Any) -> list[int]:
    scan = (await table.snapshot(**at)).scan()
    return sorted((await scan.to_arrow()).column("id").to_pylist())


async def log_of(store: ObjectStore) -> list[str]:
    """The files of the log, without checksums; staged ones without their unique part."""
    paths = [meta.path async for page in store.list(LOG_DIR) for meta in page]
    names = [path.removeprefix(LOG_DIR) for path in paths if not path.endswith(".crc")]
    return [n.split(".")[0] + ".json" if n.startswith("_staged") else n for n in names]


class NeverPublishing(FailingStore):
    """A store in which nothing but the first commit can be published."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner, {})

    async def request(self, request: Any, run: Callable[[], Any]) -> Any:
        if request.kind == "put" and request.path.endswith(".json") and "/_" not in request.path:
            raise StorageError("it cannot be published")
        return await run()
