"""What every test of hostile input does: all that a reader can do with a table."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import adelta
from adelta.errors import AdeltaError, InvalidOptionError, InvalidUseError
from adelta.kernel.deletion_vector import z85
from adelta.kernel.deletion_vector.blob import encode_bitmap
from adelta.storage.memory import MemoryStore
from adelta.table import Table, latest_state
from tests.support import logs

if TYPE_CHECKING:
    from adelta.storage.object_store import ObjectStore

__all__ = ["DATA_FILE", "DV", "everything", "failure_of", "parquet", "table_with"]

DATA_FILE = "a.parquet"
_BITMAP = encode_bitmap([0, 3, 4, 7, 11, 39])
DV: dict[str, Any] = {
    "storageType": "i",
    "pathOrInlineDv": z85.encode(_BITMAP),
    "sizeInBytes": len(_BITMAP),
    "cardinality": 6,
}


def parquet(rows: int = 40) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(rows)}), sink)
    return sink.getvalue()


async def table_with(*commits: bytes, rows: int = 40) -> MemoryStore:
    """A table of one data file that the commits after the first are about."""
    store = MemoryStore()
    features = {"readerFeatures": ["deletionVectors"]}
    features["writerFeatures"] = ["deletionVectors", "changeDataFeed"]
    await logs.put_commit(
        store,
        0,
        logs.protocol(3, 7, **features),
        logs.metadata(configuration={"delta.enableChangeDataFeed": "true"}),
    )
    await store.put(DATA_FILE, parquet(rows))
    for version, content in enumerate(commits, 1):
        await store.put(f"_delta_log/{version:020d}.json", content)
    return store


async def everything(store: ObjectStore, allowed_roots: str = "") -> pa.Table:
    """All that can be asked of a table; the rows of it."""
    options = {"allowed_roots": allowed_roots}
    async with Table("memory://of/tests", options, store=store) as table:
        snapshot = await table.snapshot()
        assert snapshot.timestamp.tzinfo is not None
        assert snapshot.schema is not None
        await adelta.detail(table)
        await adelta.history(table)
        await snapshot.files()
        await snapshot.files(where="id > 5")
        state = await latest_state(table)
        await state.set_transactions()
        await state.domain_metadata()
        await state.tombstones()
        count = await snapshot.scan().count()
        rows = await snapshot.scan().to_arrow()
        assert rows.num_rows == count or "stats" in str(snapshot.properties)
        some = await snapshot.scan(where="id > 5").to_arrow()
        assert some.num_rows <= rows.num_rows
        return rows


async def failure_of(store: ObjectStore) -> AdeltaError | None:
    """The one adelta error that reading the table ends in; None where it is read.

    Anything else that is raised fails the test, and so does an error that blames the caller.
    """
    failure: AdeltaError | None = None
    try:
        await everything(store)
    except AdeltaError as error:
        failure = error
    assert not isinstance(failure, InvalidOptionError | InvalidUseError), failure
    assert len(str(failure)) < 2000, "a message is for people"
    return failure
