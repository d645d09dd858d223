"""C3-03: every operation against every commit that came first, and what has to become of it.

The table has 8 rows: partition a with two files, of the ids 1 and 2, partition b with two, of the
ids 3 and 4, two rows a file. Every loser is prepared for that table; then the winner commits; then
the loser tries. A cell says how many rows there are afterwards, or which conflict it is:

    CA   ConcurrentAppend          what was read has had files added to it
    CDR  ConcurrentDeleteRead      a file that was read has lost rows
    CDD  ConcurrentDeleteDelete    a file is to be removed that has been removed
    MC   MetadataChanged           PC  ProtocolChanged           skip  done before

``_pa`` and ``_pb`` are about one partition, ``_id1`` and ``_id3`` about one file by its statistics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    MetadataChangedError,
    ProtocolChangedError,
)
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import LONG, StructField, StructType
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from adelta.storage.s3 import S3Store
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.stores import WrappedStore

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.storage.object_store import ObjectStore
    from adelta.transaction import Transaction
    from tests.support.s3_server import S3Location

MATRIX = """
              append_a delete_pa delete_pb delete_id3 delete_all update_pa overwrite_all overwrite_pa overwrite_pb merge_nopart merge_pa merge_pb compact setprop addcol txn1 restore vacuum
append_a      10       CA        5         7          CA         CA        CA            CA           6            CA           CA       10       9       9       9      10   CA      9
delete_pa     5        CDR       0         2          CDR        CDR       CDR           CDR          1            CDR          CDR      5        CDR     4       4      5    CDR     4
delete_id1    7        CDR       2         4          CDR        CDR       CDR           CDR          3            CDR          CDR      7        CDR     6       6      7    CDR     6
overwrite_all 2        CA        CDR       CDR        CA         CA        CA            CA           CDR          CA           CA       CDR      CDR     1       1      2    CA      1
overwrite_pa  6        CA        1         3          CA         CA        CA            CA           2            CA           CA       6        CDR     5       5      6    CA      5
merge_nopart  10       CA        5         7          CA         CA        CA            CA           6            CA           CA       10       9       9       9      10   CA      9
compact       9        CDD       CDD       CDD        CDD        CDD       CDD           CDD          CDD          9            9        9        CDD     8       8      9    CDD     8
setprop       9        4         4         6          0          8         1             5            5            9            9        9        8       MC      MC     9    MC      8
addcol        MC       MC        MC        MC         MC         MC        MC            MC           MC           MC           MC       MC       MC      MC      MC     MC   MC      8
addfeat       9        4         4         6          0          8         1             5            5            9            9        9        8       MC      MC     9    MC      8
txn1          10       CA        5         7          CA         CA        CA            CA           6            CA           CA       10       9       9       9      skip CA      9
vacuum        9        4         4         6          0          8         1             5            5            9            9        9        8       8       8      9    4       8
"""  # noqa: E501
BLIND = """
              append_a delete_pa delete_pb delete_id3 delete_all update_pa overwrite_all overwrite_pa overwrite_pb merge_nopart merge_pa merge_pb compact setprop addcol txn1 restore vacuum
append_a      10       5         5         7          1          9         2             6            6            10           10       10       9       9       9      10   CA      9
txn1          10       5         5         7          1          9         2             6            6            10           10       10       9       9       9      skip CA      9
merge_nopart  10       CA        5         7          CA         CA        CA            CA           6            CA           CA       10       9       9       9      10   CA      9
"""  # noqa: E501
RULE = """
              append_a delete_pa delete_pb delete_id3 delete_all update_pa overwrite_all overwrite_pa overwrite_pb merge_nopart merge_pa merge_pb compact setprop addcol txn1 restore vacuum
addrule       PC       PC        PC        PC         PC         PC        PC            PC           PC           PC           PC       PC       PC      PC      PC     PC   PC      8
"""  # noqa: E501
CONFLICTS = {
    ConcurrentAppendError: "CA",
    ConcurrentDeleteReadError: "CDR",
    ConcurrentDeleteDeleteError: "CDD",
    MetadataChangedError: "MC",
    ProtocolChangedError: "PC",
}
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int, p: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "p": [p] * len(ids)}, schema=SCHEMA)


# --------------------------------------------------- operations, staged by hand in a transaction


async def append_a(tx: Transaction) -> None:
    await tx.append(rows(9))


def delete(where: str | None) -> Operation:
    async def stage(tx: Transaction) -> None:
        tx.remove_files(await tx.read(where))

    return stage


async def update_pa(tx: Transaction) -> None:
    tx.remove_files(await tx.read("p = 'a'"))
    await tx.append(rows(11, 11, 12, 12))


async def overwrite_all(tx: Transaction) -> None:
    await tx.overwrite(rows(9))


def overwrite(p: str) -> Operation:
    async def stage(tx: Transaction) -> None:
        tx.remove_files(await tx.read(f"p = '{p}'"))
        await tx.append(rows(9, p=p))

    return stage


def merge(where: str | None, p: str) -> Operation:
    async def stage(tx: Transaction) -> None:
        await tx.read(where)  # where nothing matches
        await tx.append(rows(9, p=p))

    return stage


async def compact(tx: Transaction) -> None:
    tx.remove_files(await tx.read(), data_change=False)
    await tx.append(rows(1, 1, 2, 2), data_change=False)
    await tx.append(rows(3, 3, 4, 4, p="b"), data_change=False)


async def setprop(tx: Transaction) -> None:
    properties = {**tx.metadata.configuration, "delta.logRetentionDuration": "interval 9 days"}
    tx.update_metadata(tx.metadata.with_configuration(properties))


async def addcol(tx: Transaction) -> None:
    wider = StructType((*tx.metadata.schema.fields, StructField("x", LONG)))
    tx.update_metadata(replace(tx.metadata, schema_string=schema_to_string(wider)))


def addfeat(*names: str) -> Operation:
    async def stage(tx: Transaction) -> None:
        supported = ("appendOnly", "invariants", *names)
        tx.update_metadata(tx.metadata, Protocol(1, 7, None, tuple(sorted(supported))))

    return stage


async def txn1(tx: Transaction) -> None:
    tx.set_transaction("app", 1)
    await tx.append(rows(9))


async def restore(tx: Transaction) -> None:
    """To version 1, when there was partition a alone; the metadata of then come back too."""
    files = await tx.read()
    tx.update_metadata(tx.metadata)
    tx.remove_files([file for file in files if file.partition_values["p"] == "b"])


async def vacuum(tx: Transaction) -> None:
    """Its commit only says that it was done."""
    tx.add_files([])


Operation = Callable[["Transaction"], Awaitable[None]]
OPERATIONS: dict[str, Operation] = {
    "append_a": append_a,
    "delete_pa": delete("p = 'a'"),
    "delete_pb": delete("p = 'b'"),
    "delete_id1": delete("id = 1"),
    "delete_id3": delete("id = 3"),
    "delete_all": delete(None),
    "update_pa": update_pa,
    "overwrite_all": overwrite_all,
    "overwrite_pa": overwrite("a"),
    "overwrite_pb": overwrite("b"),
    "merge_nopart": merge(None, "a"),
    "merge_pa": merge("p = 'a'", "a"),
    "merge_pb": merge("p = 'b'", "b"),
    "compact": compact,
    "setprop": setprop,
    "addcol": addcol,
    "addfeat": addfeat("domainMetadata"),
    "addrule": addfeat("checkConstraints"),
    "txn1": txn1,
    "restore": restore,
    "vacuum": vacuum,
}


# ------------------------------------------------------------------------------- the experiment


def cells(text: str) -> dict[str, dict[str, str]]:
    """Expected outcomes by winner and loser."""
    head, *lines = text.strip("\n").splitlines()
    losers = head.split()
    table = {winner: found for winner, *found in (line.split() for line in lines)}
    return {winner: dict(zip(losers, found, strict=True)) for winner, found in table.items()}


async def base_table(store: ObjectStore) -> Table:
    await TableBuilder.create(SCHEMA, store=store, partition_by=["p"])
    table = Table(store.uri, store=store)
    for p, ids in (("a", (1, 2)), ("b", (3, 4))):
        async with table.transaction() as tx:
            for number in ids:
                await tx.append(rows(number, number, p=p))
    return table


async def prepared(store: ObjectStore, name: str, isolation: str) -> tuple[Table, Transaction]:
    """The transaction of an operation, staged, by a process that knows of no other."""
    table = Table(store.uri, store=WrappedStore(store))
    tx = table.transaction(name, isolation=isolation)
    await tx.__aenter__()
    await OPERATIONS[name](tx)
    return table, tx


async def outcome(table: Table, tx: Transaction) -> str:
    try:
        await tx.__aexit__(None, None, None)
    except CommitConflictError as conflict:
        return CONFLICTS[type(conflict)] if conflict.winning_version == 3 else "another winner"
    if tx.skipped:
        return "skip"
    assert tx.version == 4
    scan = (await table.snapshot()).scan()
    count = await scan.count()
    if not table.uri.startswith("s3:"):
        assert (await scan.to_arrow()).num_rows == count
    return str(count)


async def run(store: ObjectStore, winner: str, losers: list[str], isolation: str) -> dict[str, str]:
    """What becomes of each loser, had it been alone with the winner."""
    table = await base_table(store)
    ready = {name: await prepared(store, name, isolation) for name in losers}
    async with table.transaction(winner) as tx:
        await OPERATIONS[winner](tx)
    assert tx.version == 3
    found = {}
    for name, (other, loser) in ready.items():
        found[name] = await outcome(other, loser)
        log = [m.path async for page in store.list("_delta_log/") for m in page]
        await store.delete([path for path in log if f"{4:020}" in path])
    return found


def cases(text: str) -> list[tuple[str, dict[str, str]]]:
    return list(cells(text).items())


@pytest.mark.parametrize(("winner", "expected"), cases(MATRIX + RULE.split("\n", 2)[2]))
async def test_each_loser_has_the_right_outcome_in_memory(
    winner: str, expected: dict[str, str]
) -> None:
    assert await run(MemoryStore(), winner, list(expected), "Serializable") == expected


@pytest.mark.parametrize(("winner", "expected"), cases(BLIND))
async def test_each_loser_has_the_right_outcome_where_blind_appends_are_overlooked(
    winner: str, expected: dict[str, str]
) -> None:
    """C3-02: at WriteSerializable; what changes metadata sees blind appends all the same."""
    assert await run(MemoryStore(), winner, list(expected), "WriteSerializable") == expected


@pytest.mark.parametrize(("winner", "expected"), cases(MATRIX))
async def test_each_loser_has_the_right_outcome_on_local_disk(
    winner: str, expected: dict[str, str], tmp_path: Path
) -> None:
    store = LocalStore(str(tmp_path))
    assert await run(store, winner, list(expected), "Serializable") == expected


@pytest.mark.parametrize(("winner", "expected"), cases(MATRIX))
async def test_each_loser_has_the_right_outcome_on_s3(
    winner: str, expected: dict[str, str], s3_location: S3Location
) -> None:
    store = S3Store.from_options(
        s3_location.bucket, s3_location.prefix, s3_location.storage_options
    )
    try:
        assert await run(store, winner, list(expected), "Serializable") == expected
    finally:
        await store.aclose()


def test_the_matrix_is_complete() -> None:
    table = cells(MATRIX)
    assert len(table) == 12
    assert {len(losers) for losers in table.values()} == {18}
