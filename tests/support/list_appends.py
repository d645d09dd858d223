"""Transactions on a real table that add elements to keys and read them, and their history.

    python -m tests.support.list_appends URI NAME SEED TRANSACTIONS LEVEL [KEY=VALUE ...]

A row of the table is an element that was inserted under a key, with those that updates have added
to it since; so a row is a list in order, and a key is what its rows say together. Beside the row of
an element there is another one, its chaff: that is what is deleted, a lot of a key at once and each
lot once, and who reads the key sees by the chaff that is gone which deletions came before. What was
read by those that do not tell, UPDATE, MERGE and DELETE, is in what they have left.

Each thing that is done is said as a JSON object; `history_of` makes transactions of them.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from adelta._clock import monotonic
from adelta.errors import AdeltaError, CommitConflictError, CommitOutcomeUnknownError
from adelta.operations import delete, merge, optimize, update, write_table
from adelta.table import open_table
from tests.support.anomalies import Edge, Read, Txn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adelta.operations.delete import IsolationName
    from adelta.snapshot import Snapshot
    from adelta.table import Table

__all__ = [
    "BLIND",
    "SCHEMA",
    "Client",
    "history_of",
    "overlooks_a_blind_append",
    "read_all",
]

SCHEMA = pa.schema(
    [("key", pa.string()), ("value", pa.string()), ("added", pa.string()), ("lot", pa.int64())]
)
KEYS = ("x", "y", "z")
_KINDS = ("blind", "apart", "read", "copy", "rewrite", "update", "merge", "delete", "look", "tidy")
BLIND = ("blind", "apart")
_FRESH = 3  # keys to which nobody but a merge adds
_SESSIONS = 8  # of which each deletes lots of its own
_LOTS = 2 * _SESSIONS

Row = tuple[str, str, str, int | None]
Say: TypeAlias = "Callable[[dict[str, Any]], None]"


@dataclass
class Client:
    """One session: does one transaction after the other with a handle of its own.

    `level` is the isolation that is asked for. `torn` reads each key of its reads apart.
    """

    table: Table
    name: str
    seed: int
    level: str
    say: Say
    torn: bool = False
    kinds: Sequence[str] = _KINDS
    pending: dict[str, Any] | None = None  # what has been begun, and not been said
    _number: int = 0
    _deleted: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    async def work(self, transactions: int) -> None:
        """Do so many of them, of kinds drawn by chance."""
        for _ in range(transactions):
            await self.do(self._random.choice(self.kinds))
            await asyncio.sleep(self._random.random() * 0.01)

    async def do(self, kind: str, *keys: str) -> dict[str, Any]:
        """Do one, and say what became of it; without keys, some are drawn by chance."""
        self._number += 1
        chosen = list(keys) or self._drawn(kind)
        said: dict[str, Any] = {
            "name": f"{self.name}.{self._number}",
            "kind": kind,
            "process": self.name,
            "reads": {},
            "writes": {},
            "version": None,
            "begun": monotonic(),
        }
        self.pending = said
        try:
            said["version"] = await self._do(kind, chosen, said)
            said["outcome"] = "committed"
        except CommitConflictError:
            said["outcome"] = "failed"
        except CommitOutcomeUnknownError:
            said["outcome"] = "unknown"
        except AdeltaError as error:
            said["outcome"], said["why"] = "failed", repr(error)
        said["ended"] = monotonic()
        self.pending = None
        self.say(said)
        return said

    def begun_anew(self, table: Table, name: str) -> Client:
        """The session after its process has died: what it deletes, it has not deleted before."""
        made = replace(self, table=table, name=name, pending=None, seed=self.seed + _SESSIONS)
        made._number = 0
        return made

    def _drawn(self, kind: str) -> list[str]:
        chance = self._random
        if kind == "merge" and chance.random() < 0.5:
            return [f"m{chance.randrange(_FRESH)}"]
        return chance.sample(KEYS, chance.randint(1, 2) if kind == "blind" else 2)

    async def _do(self, kind: str, keys: list[str], said: dict[str, Any]) -> int | None:
        name, level = said["name"], cast("IsolationName", self.level)
        match kind:
            case "blind":
                for key in keys:
                    said["writes"][key] = [name + key]
                return (
                    await write_table(self.table, _table(self._new(said)), user_metadata=name)
                ).version
            case "apart":  # the chaff in files of its own, which a deletion removes whole
                said["writes"][keys[0]] = [name]
                async with self.table.transaction("APART", user_metadata=name) as tx:
                    for row in self._new(said):
                        await tx.append(_table([row]))
                return tx.version
            case "update":
                said["writes"][keys[0]] = [name]
                values = {"added": f"added || '{name},'"}
                where = f"key = '{keys[0]}'"
                asked = {"isolation": level, "user_metadata": name}
                return (await update(self.table, values, where, **asked)).version
            case "merge":
                said["writes"][keys[0]] = [name]
                return await self._merge(keys[0], name, level)
            case "delete":
                lot = said["lot"] = self.seed % _SESSIONS + self._deleted[keys[0]] * _SESSIONS
                said["writes"][keys[0]] = [name]
                self._deleted[keys[0]] += 1
                where = f"key = '{keys[0]}' AND lot = {lot}"
                asked = {"isolation": level, "user_metadata": name}
                return (await delete(self.table, where, **asked)).version
            case "tidy":
                await optimize(self.table)
                return None
            case "look":
                snapshot = await self.table.snapshot()
                said["reads"] = await self._read(snapshot, keys)
                return None
            case _:
                return await self._by_hand(kind, keys, said)

    async def _by_hand(self, kind: str, keys: Sequence[str], said: dict[str, Any]) -> int | None:
        """Read one key or two, and add to one of these, or write the other one anew, or a third."""
        name = said["name"]
        transaction = self.table.transaction(kind.upper(), isolation=self.level, user_metadata=name)
        async with transaction as tx:
            read = keys[:1] if kind == "rewrite" else keys
            files = await tx.read(_where(read))
            snapshot = await self.table.snapshot(version=tx.read_version)
            if kind == "rewrite":  # of whole files, in which there may be rows of other keys
                found = rows_of(await snapshot.scan(files=files).to_arrow())
                said["reads"] = _by_key([row for row in found if row[0] in read], read)
                tx.remove_files(files)
            else:
                found = []
                said["reads"] = await self._read(snapshot, keys)
            target = next(k for k in KEYS if k not in keys) if kind == "copy" else keys[0]
            said["writes"][target] = [name]
            await tx.append(_table([*found, *self._new(said)]))
        return tx.version

    async def _merge(self, key: str, name: str, level: IsolationName) -> int | None:
        source = pa.table({"key": [key], "element": [name]})
        done = await (
            merge(
                self.table,
                source,
                "target.key = source.key",
                isolation=level,
                user_metadata=name,
            )
            .when_matched_update({"added": "target.added || source.element || ','"})
            .when_not_matched_insert(
                {"key": "source.key", "value": "source.element", "added": "''", "lot": "NULL"}
            )
            .execute()
        )
        return done.version

    def _new(self, said: dict[str, Any]) -> list[Row]:
        """The rows of elements that are inserted: each one's own, and its chaff."""
        lot = said["lot"] = self._random.randrange(_LOTS)
        return [
            (key, element, "", each)
            for key, elements in said["writes"].items()
            for element in elements
            for each in (None, lot)
        ]

    async def _read(self, snapshot: Snapshot, keys: Sequence[str]) -> dict[str, Any]:
        if not self.torn:
            return _by_key(rows_of(await snapshot.scan(where=_where(keys)).to_arrow()), keys)
        found: dict[str, Any] = {}
        for key in keys:
            await asyncio.sleep(0.02)
            scan = (await self.table.snapshot()).scan(where=_where([key]))
            found |= _by_key(rows_of(await scan.to_arrow()), [key])
        return found


def _where(keys: Sequence[str]) -> str:
    return " OR ".join(f"key = '{key}'" for key in keys)


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
    )


def rows_of(table: pa.Table) -> list[Row]:
    return [(row["key"], row["value"], row["added"], row["lot"]) for row in table.to_pylist()]


def _by_key(rows: Sequence[Row], keys: Sequence[str]) -> dict[str, Any]:
    """Of each key the lists, as they stand in its rows, and the elements whose chaff is there."""
    found: dict[str, Any] = {key: {"lists": [], "chaff": []} for key in keys}
    for key, value, added, lot in rows:
        if lot is None:
            found[key]["lists"].append([value, *added.split(",")[:-1]])
        else:
            found[key]["chaff"].append(value)
    return found


async def read_all(table: Table) -> dict[str, Any]:
    """What is there in the end, as the last transaction of a history."""
    begun = monotonic()
    rows = rows_of(await (await table.snapshot()).scan().to_arrow())
    keys = sorted({*KEYS, *(f"m{n}" for n in range(_FRESH)), *(row[0] for row in rows)})
    said = {"name": "end", "kind": "look", "process": "end", "outcome": "committed", "writes": {}}
    said |= {"version": None, "begun": begun, "ended": monotonic()}
    return {**said, "reads": _by_key(rows, keys)}


# ------------------------------------------------------------------------------------ the history


def history_of(said: Sequence[Mapping[str, Any]]) -> list[Txn]:
    """The transactions of a history, of which the last one has read everything."""
    return _Reader(said).transactions()


class _Reader:
    """Understands reads by what all transactions have said."""

    def __init__(self, said: Sequence[Mapping[str, Any]]) -> None:
        self.said = said
        self.end = said[-1]["reads"]
        self.deletions: dict[tuple[str, int], str] = {}  # by key and lot
        self.lots: dict[str, int] = {}  # of elements
        for each in said:
            for key, elements in each["writes"].items():
                if each["kind"] == "delete" and not _did_nothing(each):
                    self.deletions[key, each["lot"]] = elements[0]
                elif "lot" in each:
                    self.lots |= dict.fromkeys(elements, each["lot"])

    def transactions(self) -> list[Txn]:
        return [self._txn(each) for each in self.said]

    def _txn(self, each: Mapping[str, Any]) -> Txn:
        reads = [self._read(key, found) for key, found in each["reads"].items()]
        writes = each["writes"]
        for key, elements in writes.items():
            if each["kind"] == "delete":
                reads.append(self._deleted_by(key, elements[0], each["lot"]))
            elif each["kind"] in ("update", "merge"):
                reads += self._changed_by(key, elements[0], nothing=_did_nothing(each))
        return Txn(
            each["name"],
            reads,
            {} if _did_nothing(each) else writes,
            each["outcome"],
            each["process"],
            each["begun"],
            each["ended"],
            each["version"],
            each["kind"] in BLIND,
        )

    def _read(self, key: str, found: Mapping[str, Any]) -> Read:
        """What somebody has seen of a key: its lists, and which deletions had been."""
        chains, met = list(found["lists"]), dict[str, bool]()
        for value in [chain[0] for chain in chains]:
            deletion = self._deletion_of(key, value)
            if deletion is not None:
                met[deletion] = met.get(deletion, False) or value not in found["chaff"]
        chains += [[deletion] for deletion, been in met.items() if been]
        return Read(key, chains, self._deletions(key) - set(met))

    def _deletion_of(self, key: str, value: str) -> str | None:
        """The deletion that has taken the chaff of an element, in the end."""
        if value in self.end[key]["chaff"] or value not in self.lots:
            return None
        return self.deletions.get((key, self.lots[value]))

    def _deletions(self, key: str) -> frozenset[str]:
        return frozenset(d for (of, _), d in self.deletions.items() if of == key)

    def _deleted_by(self, key: str, deletion: str, lot: int) -> Read:
        """What a deletion has seen: of its lot, those that have lost their chaff."""
        there = {element for each in self.end[key]["lists"] for element in each}
        mine = {element for element in there if self.lots.get(element) == lot}
        seen = sorted(element for element in mine if self._deletion_of(key, element) == deletion)
        return Read(key, [[each] for each in seen], self._deletions(key) | (there - mine))

    def _changed_by(self, key: str, element: str, *, nothing: bool) -> list[Read]:
        """What an update or merge has seen, by the rows that it has changed or inserted."""
        lists = self.end[key]["lists"]
        before = [each[: each.index(element)] for each in lists if element in each]
        if not before and not nothing:
            return []  # which is found by others
        return [Read(key, [each for each in before if each], self._deletions(key))]


def _did_nothing(each: Mapping[str, Any]) -> bool:
    """Whether an operation found nothing to do."""
    changes = each["kind"] in ("update", "merge", "delete")
    return changes and each["outcome"] == "committed" and each["version"] is None


def overlooks_a_blind_append(edge: Edge) -> bool:
    """Whether somebody overlooked a blind append that came first: what WriteSerializable allows.

    Not one that had been acknowledged when the other began: that has to be read.
    """
    first, then = edge.first, edge.then
    return (
        edge.why == "rw"
        and then.blind
        and not first.blind
        and first.version is not None
        and then.version is not None
        and then.version < first.version
        and first.begun < then.ended
    )


# ----------------------------------------------------------------------------------- as a process


async def _main(uri: str, name: str, seed: int, transactions: int, level: str) -> None:
    options = dict(pair.split("=", 1) for pair in sys.argv[6:])

    def say(what: dict[str, Any]) -> None:
        print(json.dumps(what), flush=True)

    async with open_table(uri, options) as table:
        await Client(table, name, seed, level, say).work(transactions)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))
