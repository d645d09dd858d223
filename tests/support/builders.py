"""TableBuilder: histories that are true to the protocol, in any store, action by action.

What a test says is what is in the log: nothing is filled in but what makes a commit legal.

>>> builder = await TableBuilder.create(store, schema, partition_by=["p"])
>>> await builder.commit(builder.add("p=1/a.parquet", p="1", rows=3))
>>> await builder.commit(builder.remove("p=1/a.parquet"), operation="DELETE")
>>> await builder.append(pa.table({...}))           # real rows in a real file
"""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.file_actions import AddFile, RemoveFile, encode_path
from adelta.kernel.actions.json import Action, encode_commit
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.log_path import commit_path
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.json import schema_to_string
from adelta.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.storage.object_store import ObjectStore

__all__ = ["TableBuilder"]


class TableBuilder:
    """Writes a table's log into `store`, one commit after the other."""

    def __init__(self, store: ObjectStore | None = None) -> None:
        self.store: ObjectStore = store or MemoryStore()
        self.version = -1
        self.partition_by: tuple[str, ...] = ()

    @classmethod
    async def create(
        cls,
        schema: pa.Schema,
        *,
        store: ObjectStore | None = None,
        partition_by: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        protocol: Protocol | None = None,
    ) -> TableBuilder:
        """A table of one commit, without rows."""
        builder = cls(store)
        builder.partition_by = tuple(partition_by)
        metadata = Metadata(
            id=str(uuid.uuid4()),
            schema_string=schema_to_string(from_arrow_schema(schema)),
            partition_columns=builder.partition_by,
            configuration=dict(properties or {}),
        )
        await builder.commit(protocol or Protocol(1, 2), metadata, operation="CREATE TABLE")
        return builder

    async def commit(self, *actions: Action, operation: str | None = "WRITE", **info: Any) -> int:
        """Write the next version; without an operation it has no `commitInfo`."""
        self.version += 1
        stamp = (
            ()
            if operation is None
            else (CommitInfo(timestamp=1, operation=operation, txn_id=str(uuid.uuid4()), **info),)
        )
        data = encode_commit((*stamp, *actions))
        await self.store.put_if_absent(commit_path(self.version), data)
        return self.version

    async def append(self, rows: pa.Table, **values: str | None) -> AddFile:
        """A commit that adds one file with `rows`, in the partition of `values`."""
        sink = io.BytesIO()
        pq.write_table(rows, sink)
        directory = "".join(f"{name}={text}/" for name, text in values.items())
        path = f"{directory}{uuid.uuid4()}.parquet"
        await self.store.put(path, sink.getvalue())
        added = self.add(path, rows=rows.num_rows, size=len(sink.getvalue()), **values)
        await self.commit(added)
        return added

    def add(
        self,
        path: str,
        *,
        rows: int | None = None,
        size: int = 1,
        data_change: bool = True,
        stats: Mapping[str, Any] | None = None,
        **values: str | None,
    ) -> AddFile:
        """An `add` of the object at `path`, in the partition of `values`."""
        if stats is None and rows is not None:
            stats = {"numRecords": rows}
        return AddFile(
            path=encode_path(path),
            partition_values={name: values.get(name) for name in self.partition_by},
            size=size,
            modification_time=1,
            data_change=data_change,
            stats=None if stats is None else orjson.dumps(stats).decode(),
        )

    def remove(self, path: str, *, at: int = 1, data_change: bool = True) -> RemoveFile:
        """A `remove` of the object at `path`, deleted `at` ms."""
        return RemoveFile(encode_path(path), at, data_change)
