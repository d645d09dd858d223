"""Operations that race each other for a version, and what they make of a table one after another.

The table has the rows 1 to 8, two a file: partition a has the files of 1 and 2, and of 3 and 4,
partition b those of 5 and 6, and of 7 and 8. What an operation does depends on nothing but the
table that it finds, so that an outcome can be held to those of the serial orders.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import LONG, StructField, StructType
from adelta.kernel.table_features import named_feature, protocol_with
from adelta.operations import (
    add_columns,
    add_constraint,
    add_feature,
    delete,
    set_properties,
    update,
    write_table,
)
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.stores import Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from adelta.storage.object_store import ObjectStore
    from adelta.transaction import Transaction

    Act = Callable[[Table, str], Awaitable[object]]
    Stage = Callable[[Table, Transaction], Awaitable[None]]

__all__ = [
    "OPERATIONS",
    "NeighbourStore",
    "Objects",
    "Operation",
    "Outcome",
    "OvertakenStore",
    "base_objects",
    "by_hand",
    "is_commit",
    "is_data",
    "new_objects",
    "objects_of",
    "outcome_of",
    "rows",
    "store_with",
]

R = TypeVar("R")
Objects = dict[str, bytes]

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
WRITER_FEATURES = ("appendOnly", "domainMetadata", "invariants")
VECTORS = "deletionVectors"


def rows(*ids: int, p: str = "a", more: int = 0) -> pa.Table:
    return pa.table(
        {"id": list(ids), "p": [p] * len(ids), "v": [number + more for number in ids]},
        schema=SCHEMA,
    )


# ------------------------------------------------------------------------------ the operations


@dataclass(frozen=True, slots=True)
class Operation:
    """One way to change the table.

    `real` is the operation of adelta, and `stage` says the same in a transaction of one's own;
    that holds for the table as it is at first, or for any where there is no other way. `levels`
    is whether the operation takes an isolation level.
    """

    real: Act | None
    stage: Stage | None
    levels: bool = False

    async def __call__(self, table: Table) -> None:
        """Do it, whatever the table is like."""
        act = self.real or by_hand(self.stage)
        await act(table, "Serializable")


def by_hand(stage: Stage | None, meanwhile: Callable[[], Awaitable[object]] | None = None) -> Act:
    """The operation as a transaction of one's own, with something else before it commits."""
    assert stage is not None

    async def act(table: Table, isolation: str) -> None:
        async with table.transaction("BY HAND", isolation=isolation) as tx:
            await stage(table, tx)
            if meanwhile is not None:
                await meanwhile()

    return act


def _writes(data: pa.Table, **options: Any) -> Act:
    async def act(table: Table, _: str) -> None:
        await write_table(table, data, **options)

    return act


async def _seen(table: Table, tx: Transaction, where: str | None) -> pa.Table:
    snapshot = await table.snapshot(version=tx.read_version)
    return await snapshot.scan(where=where).to_arrow()


def _appends(data: pa.Table, application: str | None = None) -> Stage:
    async def stage(_: Table, tx: Transaction) -> None:
        if application is not None:
            tx.set_transaction(application, 1)
        await tx.append(data)

    return stage


async def _overwrite(_: Table, tx: Transaction) -> None:
    await tx.overwrite(_ANEW)


def _replaces(where: str | None, data: pa.Table | None = None) -> Stage:
    async def stage(_: Table, tx: Transaction) -> None:
        tx.remove_files(await tx.read(where))
        if data is not None:
            await tx.append(data)

    return stage


def _sums(where: str | None, number: int, p: str) -> Stage:
    """Append a row with the sum of the rows that were read."""

    async def stage(table: Table, tx: Transaction) -> None:
        await tx.read(where)
        values = (await _seen(table, tx, where)).column("v").to_pylist()
        await tx.append(rows(number, p=p, more=sum(values)))

    return stage


async def _compact(table: Table, tx: Transaction) -> None:
    """Partition a, or all of it where there are no partitions."""
    where = "p = 'a'" if tx.metadata.partition_columns else None
    files = await tx.read(where)
    tx.remove_files(files, data_change=False)
    await tx.append(await _seen(table, tx, where), data_change=False)


async def _add_again(_: Table, tx: Transaction) -> None:
    files = await tx.read("p = 'a'")
    tx.add_files([replace(file, data_change=False, tags={"seen": "yes"}) for file in files])


async def _note(_: Table, tx: Transaction) -> None:
    tx.add_files([])


async def _domain(_: Table, tx: Transaction) -> None:
    tx.set_domain_metadata("app.notes", "hello")


async def _property(_: Table, tx: Transaction) -> None:
    properties = {**tx.metadata.configuration, **_UPKEEP}
    tx.update_metadata(tx.metadata.with_configuration(properties))


async def _column(_: Table, tx: Transaction) -> None:
    wider = StructType((*tx.metadata.schema.fields, StructField("x", LONG)))
    tx.update_metadata(replace(tx.metadata, schema_string=schema_to_string(wider)))


def _supports(*names: str) -> Stage:
    async def stage(_: Table, tx: Transaction) -> None:
        wanted = protocol_with(tx.protocol, *(named_feature(name) for name in names))
        tx.update_metadata(tx.metadata, wanted)

    return stage


async def _delete(table: Table, isolation: str, where: str | None) -> None:
    await delete(table, where, isolation=isolation)  # type: ignore[arg-type]


async def _update(table: Table, isolation: str) -> None:
    await update(table, {"v": "v + 100"}, "p = 'a'", isolation=isolation)  # type: ignore[arg-type]


def _deletes(where: str | None) -> Act:
    return partial(_delete, where=where)


async def _set_property(table: Table, _: str) -> None:
    await set_properties(table, _UPKEEP)


async def _track(table: Table, _: str) -> None:
    await set_properties(table, {"delta.enableRowTracking": "true"})


async def _add_column(table: Table, _: str) -> None:
    await add_columns(table, StructType((StructField("x", LONG),)))


async def _add_feature(table: Table, _: str) -> None:
    await add_feature(table, "changeDataFeed")


async def _add_rule(table: Table, _: str) -> None:
    await add_constraint(table, "small", "v < 10000")


_UPKEEP = {"delta.logRetentionDuration": "interval 9 days"}
_ANEW = pa.concat_tables([rows(11), rows(12, p="b")])
OPERATIONS: dict[str, Operation] = {
    "append_a": Operation(_writes(rows(9)), _appends(rows(9))),
    "append_c": Operation(_writes(rows(10, p="c")), _appends(rows(10, p="c"))),
    "overwrite": Operation(_writes(_ANEW, mode="overwrite"), _overwrite),
    "replace_pa": Operation(
        _writes(rows(13), mode="overwrite", replace_where="p = 'a'"),
        _replaces("p = 'a'", rows(13)),
    ),
    "dynamic_pb": Operation(
        _writes(rows(14, p="b"), mode="overwrite", partition_overwrite="dynamic"),
        _replaces("p = 'b'", rows(14, p="b")),
    ),
    "replace_pb": Operation(
        _writes(rows(14, p="b"), mode="overwrite", replace_where="p = 'b'"),
        _replaces("p = 'b'", rows(14, p="b")),
    ),
    "delete_id1": Operation(_deletes("id = 1"), _replaces("id = 1", rows(2)), levels=True),
    "delete_id3": Operation(_deletes("id = 3"), _replaces("id = 3", rows(4)), levels=True),
    "delete_pa": Operation(_deletes("p = 'a'"), _replaces("p = 'a'"), levels=True),
    "delete_pb": Operation(_deletes("p = 'b'"), _replaces("p = 'b'"), levels=True),
    "delete_all": Operation(_deletes(None), _replaces(None), levels=True),
    "update_pa": Operation(_update, _replaces("p = 'a'", rows(1, 2, 3, 4, more=100)), levels=True),
    "sum_all": Operation(None, _sums(None, 15, "b")),
    "sum_pa": Operation(None, _sums("p = 'a'", 16, "b")),
    "sum_id1": Operation(None, _sums("id = 1", 17, "b")),
    "txn": Operation(_writes(rows(18), txn=("app", 1)), _appends(rows(18), "app")),
    "domain": Operation(None, _domain),
    "setprop": Operation(_set_property, _property),
    "addcol": Operation(_add_column, _column),
    "addfeat": Operation(_add_feature, _supports("changeDataFeed")),
    "addrule": Operation(_add_rule, _supports("checkConstraints")),
    "compact": Operation(None, _compact),
    "again_a": Operation(None, _add_again),
    "track": Operation(_track, None),
    "note": Operation(None, _note),
}


# ----------------------------------------------------------------------------------- the table


async def base_objects(*, partitioned: bool = True, vectors: bool = False) -> Objects:
    """The objects of the table as it is at first, at version 4."""
    store = MemoryStore()
    protocol = Protocol(1, 7, None, WRITER_FEATURES)
    properties = {}
    if vectors:
        protocol = Protocol(3, 7, (VECTORS,), (*WRITER_FEATURES, VECTORS))
        properties = {"delta.enableDeletionVectors": "true"}
    await TableBuilder.create(
        SCHEMA,
        store=store,
        partition_by=["p"] if partitioned else [],
        protocol=protocol,
        properties=properties,
    )
    table = Table(store.uri, store=store)
    for p, ids in (("a", (1, 2)), ("a", (3, 4)), ("b", (5, 6)), ("b", (7, 8))):
        async with table.transaction() as tx:
            await tx.append(rows(*ids, p=p))
    return await objects_of(store)


async def objects_of(store: ObjectStore) -> Objects:
    """Everything in a store."""
    paths = [meta.path async for page in store.list() for meta in page]
    return {path: await store.get(path) for path in paths}


async def store_with(objects: Mapping[str, bytes]) -> MemoryStore:
    """A store that has `objects`."""
    store = MemoryStore()
    for path, data in objects.items():
        await store.put(path, data)
    return store


def is_commit(path: str) -> bool:
    """Whether `path` is that of a commit."""
    return path.startswith("_delta_log/") and path.endswith(".json")


def is_data(path: str) -> bool:
    return not path.startswith("_delta_log/")


def new_objects(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Objects:
    """What `after` has beyond `before`: data files first, then the commits in their order."""
    added = {path: data for path, data in after.items() if path not in before}
    logged = {path: added[path] for path in sorted(added) if is_commit(path)}
    data = {path: it for path, it in added.items() if not path.startswith("_delta_log/")}
    return {**data, **logged}


class OvertakenStore(WrappedStore):
    """A store in which others come first: right before its user's n-th commit, from 1 on."""

    def __init__(
        self, inner: ObjectStore, others: Callable[[], Awaitable[object]], *, before: int = 1
    ) -> None:
        super().__init__(inner)
        self.others = others
        self.before = before

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if request.kind == "put" and is_commit(request.path):
            self.before -= 1
            if self.before == 0:
                await self.others()
        return await run()


class NeighbourStore(WrappedStore):
    """A store that lets another task of the process go first, when a data file is asked for."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.neighbour: Callable[[], Awaitable[object]] | None = None

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if self.neighbour is not None and request.path.endswith(".parquet"):
            act, self.neighbour = self.neighbour, None
            await asyncio.ensure_future(act())  # type: ignore[arg-type]
        return await run()


# --------------------------------------------------------------------------------- the outcome


@dataclass(frozen=True)
class Outcome:
    """All that can be seen of a table: rows, columns, properties, features and domains."""

    rows: tuple[tuple[object, ...], ...]
    columns: tuple[str, ...]
    properties: tuple[tuple[str, str], ...]
    features: tuple[str, ...]
    domains: tuple[str, ...]


async def outcome_of(store: ObjectStore, options: Mapping[str, str] | None = None) -> Outcome:
    """What a reader without any knowledge of the table sees; its checksum has to be right."""
    snapshot = await Table(store.uri, options, store=store).snapshot()
    await snapshot.verify()
    found = await snapshot.scan().to_arrow()
    columns = tuple(sorted(found.column_names))
    protocol = snapshot.protocol
    return Outcome(
        tuple(sorted(tuple(row[name] for name in columns) for row in found.to_pylist())),
        columns,
        tuple(
            sorted(
                (key, value)
                for key, value in snapshot.properties.items()
                if "materialized" not in key  # names that are drawn by lot
            )
        ),
        tuple(sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})),
        tuple(sorted(name for name in await snapshot.domain_metadata())),
    )
