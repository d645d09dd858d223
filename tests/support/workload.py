"""A process that changes a table at random, and says what it did; and what each change means.

    python -m tests.support.workload URI NAME SEED COMMITS [FLAG ...] [KEY=VALUE ...]

Two tasks of the process run operations until they have made that many commits together. Each
operation is written into its commit as user metadata, so that the log says what was meant; what is
begun, each outcome, and what was read now and then, is printed as a JSON object a line. With
``--overwriting`` the store's conditional puts overwrite: writers no longer exclude each other. With
``--upkeep`` they also clean up now and then: what is older than a week, which nothing is. With
``--until-told`` they take their time, and end earlier where the standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import adelta
from adelta._clock import monotonic
from adelta.errors import AdeltaError, CommitConflictError, CommitOutcomeUnknownError
from adelta.operations import (
    add_columns,
    add_feature,
    checkpoint,
    cleanup_log,
    delete,
    merge,
    restore,
    set_properties,
    update,
    vacuum,
    write_table,
)
from adelta.storage.resolve import open_store
from adelta.table import Table
from tests.support.catalogs import open_managed
from tests.support.live_rows import Row, digest_of, weights
from tests.support.stores import WrappedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from adelta.storage.object_store import ObjectMeta
    from adelta.transaction import Transaction

__all__ = [
    "ALL_KINDS",
    "DOMAIN",
    "FEATURES",
    "NOTE",
    "PARTITIONS",
    "SCHEMA",
    "SUPPORTED",
    "TOGETHER",
    "Model",
    "Operation",
    "OverwritingStore",
    "Row",
    "Worker",
    "digest",
    "perform",
    "rows_of",
    "table_of",
]

SCHEMA = pa.schema([("p", pa.string()), ("id", pa.int64()), ("value", pa.int64())])
NOTE = "owner.note"
DOMAIN = "owner.counted"  # a domain that is given the number of times that it was set
TOGETHER = "together"  # what commits of several operations say of themselves
PARTITIONS = ("a", "b", "c")
_KINDS = ("append", "append", "append", "delete", "add_one", "overwrite", "count", "note")
ALL_KINDS = (*_KINDS, "merge", "restore", "column", "feature", "support", "import", "domain")
FEATURES = (
    {"delta.enableChangeDataFeed": "true"},
    {"delta.enableDeletionVectors": "true"},
    {"delta.enableInCommitTimestamps": "true"},
    {"delta.enableDeletionVectors": "false", "delta.enableChangeDataFeed": "false"},
)
SUPPORTED = {  # features that change the protocol alone
    "a": ("checkConstraints", "domainMetadata", "identityColumns", "timestampNtz"),
    "b": ("allowColumnDefaults", "changeDataFeed", "materializePartitionColumns", "rowTracking"),
    "c": ("generatedColumns", "typeWidening", "vacuumProtocolCheck", "variantType"),
}
_REMEMBERED = 40  # versions that a restore may go back to


@dataclass(frozen=True)
class Operation:
    """One change: what is to be done, whatever the rows are that it finds.

    ``append`` adds rows with `ids` to `p`; ``delete`` takes those out of `p` whose id leaves `rest`
    when divided by 4, ``clear`` all of them; ``add_one`` adds one to the values of these;
    ``overwrite`` puts rows with `ids` in the place of all of `p`; ``count`` adds a row to the
    partition ``n`` whose value is the number of rows in `p`; ``note`` sets a property of the table
    to `name`. ``merge`` adds one to the values of rows with `ids` and inserts those that are not
    there; ``restore`` goes back to the version that is the one of `ids`; ``column`` adds a column,
    which stays empty, ``feature`` sets properties that ask for features, and ``support`` has the
    table support another feature; ``import`` appends all of `ids` but the first, which is the
    number of its `txn`: no number is imported twice; ``domain`` counts itself in the metadata of a
    domain, which the table has to support; ``mark`` has no rows, only a `txn` of its own;
    ``together`` appends, and says what it is by its `txn`, so that several of one process may be
    one commit. `by_hand` it is staged in a transaction, file by file; else it is done by adelta's
    own operation, where there is one.
    """

    name: str
    kind: str
    p: str = ""
    rest: int = 0
    ids: list[int] = field(default_factory=list)
    by_hand: bool = True

    @classmethod
    def drawn(
        cls,
        random_: random.Random,
        name: str,
        number: int,
        kinds: Sequence[str] = _KINDS,
        partitions: Sequence[str] = PARTITIONS,
    ) -> Operation:
        """A random one; its ids follow `number`."""
        kind = random_.choice(kinds)
        ids = [number + n for n in range(random_.randint(1, 4))]
        if kind == "merge":
            ids += [each - 10 * random_.randint(1, 3) for each in ids]
        p = "n" if kind == "overwrite" and random_.random() < 0.2 else random_.choice(partitions)
        return cls(name, kind, p, random_.randrange(4), ids, random_.random() < 0.5)

    def text(self) -> str:
        """For the log."""
        return json.dumps(vars(self))


class Model:
    """The table as it ought to be: operations applied one after the other.

    Each operation makes new dictionaries of what it changes, so that versions share the rest.
    """

    def __init__(self) -> None:
        self.rows: Mapping[str, Mapping[int, int]] = {}
        self.total = 0  # the weights of all rows
        self.note: str | None = None
        self.imported = -1
        self.marked: dict[str, int] = {}
        self.columns: tuple[str, ...] = tuple(SCHEMA.names)
        self.asked: Mapping[str, str] = {}  # properties that a feature was asked for by
        self.supported: frozenset[str] = frozenset()  # stays what it is whatever is restored
        self.counted = 0  # and so does this
        self._version = 0
        self._past: dict[int, tuple[Any, ...]] = {}
        self._remember()

    def _remember(self) -> None:
        self._past[self._version] = (self.rows, self.total, self.note, self.columns, self.asked)
        self._past.pop(self._version - _REMEMBERED, None)

    def apply(self, *operations: Operation) -> None:
        """Do what the operations mean; they become the next version."""
        for operation in operations:
            self._apply(operation)
        self._version += 1
        self._remember()

    def _put(self, p: str, rows: Mapping[int, int]) -> None:
        before = self.rows.get(p, {})
        self.total += weights((p, *row) for row in rows.items() - before.items())
        self.total -= weights((p, *row) for row in before.items() - rows.items())
        self.rows = {**self.rows, p: rows}

    def _apply(self, operation: Operation) -> None:
        p, ids, rest = operation.p, operation.ids, operation.rest
        rows = self.rows.get(p, {})
        match operation.kind:
            case "append" | "together":
                self._put(p, {**rows, **dict.fromkeys(ids, 0)})
            case "import" if ids[0] > self.imported:
                self.imported = ids[0]
                self._put(p, {**rows, **dict.fromkeys(ids[1:], 0)})
            case "overwrite":
                self._put(p, dict.fromkeys(ids, 0))
            case "delete":
                self._put(p, {i: v for i, v in rows.items() if i % 4 != rest})
            case "clear":
                self._put(p, {})
            case "add_one":
                self._put(p, {i: v + (i % 4 == rest) for i, v in rows.items()})
            case "count":
                self._put("n", {**self.rows.get("n", {}), ids[0]: len(rows)})
            case "note":
                self.note = operation.name
            case "mark":
                self.marked[operation.name] = ids[0]
            case "domain":
                self.counted += 1
            case "merge":
                self._put(p, {**rows, **{i: rows[i] + 1 if i in rows else 0 for i in ids}})
            case "restore":
                self.rows, self.total, self.note, self.columns, self.asked = self._past[ids[0]]
            case "feature":
                self.asked = {**self.asked, **FEATURES[rest]}
            case "support":
                self.supported |= {SUPPORTED[p][rest]}
            case "column":
                self.columns = (*self.columns, _column(operation))

    def is_idle(self, operation: Operation) -> bool:
        """Whether an operation would find nothing to do."""
        after = copy(self)
        after._apply(operation)
        return all(
            getattr(after, name) == getattr(self, name)
            for name in ("total", "note", "imported", "counted", "columns", "asked")
        )

    def contents(self) -> list[Row]:
        """Every row, in order."""
        return sorted((p, i, v) for p, rows in self.rows.items() for i, v in rows.items())

    def digest(self) -> str:
        """What stands for the rows and the note."""
        return digest_of(self.total, self.note)


def _column(operation: Operation) -> str:
    return "c_" + operation.name.replace("-", "_")


def digest(rows: Iterable[Row], note: str | None) -> str:
    """What stands for rows, in whatever order, and the note."""
    return digest_of(weights(rows), note)


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a scan of the table."""
    return list(zip(*(table[name].to_pylist() for name in SCHEMA.names), strict=True))


class OverwritingStore(WrappedStore):
    """A store that does not exclude writers."""

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        return await self.put(path, data)


async def perform(table: Table, operation: Operation) -> int | None:
    """Do it as a user would; the version that it became, None where there was nothing to do."""
    if operation.kind == "note":
        metrics = await set_properties(
            table, {NOTE: operation.name}, user_metadata=operation.text()
        )
        return metrics.version
    if operation.kind in ("merge", "restore", "column", "feature", "support", "import", "together"):
        return await _perform_more(table, operation)
    if not operation.by_hand and operation.kind not in ("count", "mark", "domain"):
        return await _perform(table, operation)
    async with table.transaction(operation.kind, user_metadata=operation.text()) as tx:
        await _stage(table, tx, operation)
    return tx.version


async def _perform(table: Table, operation: Operation) -> int | None:
    text, partition = operation.text(), f"p = '{operation.p}'"
    some = f"{partition} AND id % 4 = {operation.rest}"
    rows = table_of([(operation.p, i, 0) for i in operation.ids])
    match operation.kind:
        case "append":
            return (await write_table(table, rows, user_metadata=text)).version
        case "overwrite":
            written = await write_table(
                table, rows, mode="overwrite", replace_where=partition, user_metadata=text
            )
            return written.version
        case "delete":
            return (await delete(table, some, user_metadata=text)).version
        case "clear":
            return (await delete(table, partition, user_metadata=text)).version
        case _:
            values = {"value": "value + 1"}
            return (await update(table, values, some, user_metadata=text)).version


async def _perform_more(table: Table, operation: Operation) -> int | None:
    text = operation.text()
    match operation.kind:
        case "merge":
            rows = table_of([(operation.p, i, 0) for i in operation.ids])
            on = f"target.p = '{operation.p}' AND target.id = source.id"
            merged = (
                merge(table, rows, on=on, user_metadata=text)
                .when_matched_update({"value": "target.value + 1"})
                .when_not_matched_insert({name: f"source.{name}" for name in SCHEMA.names})
            )
            return (await merged.execute()).version
        case "restore":
            latest = (await table.snapshot()).version
            back = replace(operation, ids=[max(0, latest - 1 - operation.rest)])
            restored = await restore(table, version=back.ids[0], user_metadata=back.text())
            return restored.version
        case "import":
            number = (await table.snapshot()).version
            numbered = replace(operation, ids=[number, *operation.ids])
            rows = table_of([(operation.p, i, 0) for i in operation.ids])
            txn, text = ("job", number), numbered.text()
            return (await write_table(table, rows, txn=txn, user_metadata=text)).version
        case "together":
            rows = table_of([(operation.p, i, 0) for i in operation.ids])
            told = {"txn": (text, 1), "user_metadata": TOGETHER}
            return (await write_table(table, rows, group_commit=True, **told)).version
        case "column":
            column = pa.schema([(_column(operation), pa.int64())])
            return (await add_columns(table, column, user_metadata=text)).version
        case "support":
            name = SUPPORTED[operation.p][operation.rest]
            return (await add_feature(table, name, user_metadata=text)).version
        case _:
            asked = FEATURES[operation.rest]
            return (await set_properties(table, asked, user_metadata=text)).version


async def _stage(table: Table, tx: Transaction, operation: Operation) -> None:
    new = [(operation.p, i, 0) for i in operation.ids]
    if operation.kind == "append":
        await tx.append(table_of(new))
        return
    if operation.kind == "mark":
        tx.set_transaction(operation.name, operation.ids[0])
        return
    if operation.kind == "domain":
        before = (await table.snapshot(version=tx.read_version)).domain_metadata()
        tx.set_domain_metadata(DOMAIN, str(int((await before).get(DOMAIN, "0")) + 1))
        return
    where = f"p = '{operation.p}'"
    files = await tx.read(where)
    if operation.kind == "overwrite":
        tx.remove_files(files)
        await tx.append(table_of(new))
        return
    snapshot = await table.snapshot(version=tx.read_version)
    rows = rows_of(await snapshot.scan(where=where).to_arrow())
    if operation.kind == "count":
        await tx.append(table_of([("n", operation.ids[0], len(rows))]))
        return
    if operation.kind == "delete":
        kept = [row for row in rows if row[1] % 4 != operation.rest]
    elif operation.kind == "clear":
        kept = []
    else:
        kept = [(p, i, v + (i % 4 == operation.rest)) for p, i, v in rows]
    if kept != rows:
        tx.remove_files(files)
        if kept:
            await tx.append(table_of(kept))


def table_of(rows: list[Row]) -> pa.Table:
    """Rows as they are written."""
    columns = zip(*rows, strict=True)
    made = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(made, schema=SCHEMA)


class Worker:
    """Makes so many commits in operations drawn by chance, and says what becomes of each.

    `reads` is how likely it reads the table after one of them.
    """

    def __init__(
        self,
        table: Table,
        name: str,
        seed: int,
        commits: int,
        say: Callable[[dict[str, Any]], None],
        kinds: Sequence[str] = _KINDS,
        *,
        partitions: Sequence[str] = PARTITIONS,
        upkeep: bool = False,
        pause: float = 0.0,
        reads: float = 0.2,
    ) -> None:
        self.table = table
        self.name = name
        self.random = random.Random(seed)
        self.number = seed * 1_000_000
        self.left = commits
        self.kinds = kinds
        self.partitions = partitions
        self.upkeep = upkeep
        self.pause = pause
        self.reads = reads
        self._say = say

    async def work(self, tell: Callable[[AdeltaError], None] | None = None) -> None:
        """Run operations until the commits are made; also by several tasks.

        `tell` is told of failures, which are printed otherwise.
        """
        tell = tell or _print_error
        while self.left > 0:
            self.number += 10
            name = f"{self.name}-{self.number}"
            operation = Operation.drawn(self.random, name, self.number, self.kinds, self.partitions)
            self._say({"begins": operation.name})
            begun, version, why = monotonic(), None, {}
            try:
                version = await perform(self.table, operation)
                outcome = "nothing" if version is None else "committed"
            except CommitConflictError:
                outcome = "refused"
            except CommitOutcomeUnknownError:
                outcome = "unknown"
            except AdeltaError as error:
                outcome, why = "failed", {"why": repr(error)}
                tell(error)
                await asyncio.sleep(0.01)
            self.left -= outcome == "committed"
            if outcome == "nothing":
                why = {"meant": operation.text()}
            self.say(operation=operation.name, outcome=outcome, version=version, begun=begun, **why)
            await asyncio.sleep(self.pause * self.random.random())
            if self.random.random() < self.reads:
                await self.read(tell)
            if self.upkeep and self.random.random() < 0.4:
                await self.keep_up()

    async def read(self, tell: Callable[[AdeltaError], None]) -> None:
        """Say what is there."""
        begun = monotonic()
        try:
            snapshot = await self.table.snapshot()
            rows = rows_of(await snapshot.scan().to_arrow())
        except AdeltaError as error:
            tell(error)
            return
        found = digest(rows, snapshot.properties.get(NOTE))
        self.say(read=found, version=snapshot.version, begun=begun)

    def end(self) -> None:
        """Begin no other operation."""
        self.left = 0

    async def keep_up(self) -> None:
        """Delete what has been of no use for a week."""
        try:
            upkeep = self.random.choice([vacuum, cleanup_log, checkpoint])
            await upkeep(self.table)
            self._say({"keeps": upkeep.__name__})
        except AdeltaError as error:
            print(repr(error), file=sys.stderr)

    def say(self, **what: object) -> None:
        self._say({**what, "ended": monotonic()})


def _print_error(error: AdeltaError) -> None:
    print(repr(error), file=sys.stderr)


def _print(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


async def main(uri: str, name: str, seed: int, commits: int, given: list[str]) -> None:
    adelta.preload()  # while there are descriptors
    options = dict(pair.split("=", 1) for pair in given if "=" in pair)
    store = OverwritingStore(open_store(uri, options)) if "--overwriting" in given else None
    async with open_managed(uri, options) if store is None else Table(uri, store=store) as table:
        worker = Worker(table, name, seed, commits, _print, upkeep="--upkeep" in given)
        if "--until-told" in given:
            worker.pause = 0.2
            loop = asyncio.get_running_loop()
            threading.Thread(target=_end, args=(loop, worker), daemon=True).start()
        await asyncio.gather(worker.work(), worker.work())


def _end(loop: asyncio.AbstractEventLoop, worker: Worker) -> None:
    """End a worker with the standard input."""
    sys.stdin.read()
    loop.call_soon_threadsafe(worker.end)


if __name__ == "__main__":
    address, own_name, number, count, *rest = sys.argv[1:]
    asyncio.run(main(address, own_name, int(number), int(count), rest))
