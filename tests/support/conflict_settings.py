"""The matrix of conflicts, and the kinds of tables and commits that it is tried on.

What the operations are is said in `tests.support.races`. A cell says what becomes of one of them,
the loser, whose version another one, the winner, has taken:

    CA   ConcurrentAppend          what was read has had files added to it
    CDR  ConcurrentDeleteRead      a file that was read has lost rows
    CDD  ConcurrentDeleteDelete    a file is to be removed that has been removed
    CT   ConcurrentTransaction     MC  MetadataChanged           PC  ProtocolChanged

Where Delta Spark raises more, it is since it looks at partition values where statistics say more
(`delete_id1` after `delete_id3`), and at files that are only moved. Where it raises less, two
commits add the same files again (`again_a`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from adelta.errors import (
    AdeltaError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from adelta.kernel.actions.file_actions import decode_path
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.races import (
    OPERATIONS,
    base_objects,
    is_commit,
    is_data,
    new_objects,
    objects_of,
    outcome_of,
    store_with,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from adelta.storage.object_store import ObjectStore
    from tests.support.races import Objects, Outcome

__all__ = [
    "CONFLICTS",
    "LOSERS",
    "SERIALIZABLE",
    "SETTINGS",
    "VECTORS_TWICE",
    "VERSION",
    "WINNERS",
    "WRITE",
    "Histories",
    "Place",
    "Setting",
    "cells",
    "histories_of",
]

# A row is a winner, a column a loser.
PARTITIONED = """
            append_a overwrite replace_pa dynamic_pb delete_id1 delete_pb delete_all update_pa sum_all sum_pa sum_id1 txn domain setprop addcol addfeat compact again_a note
append_a    ok       CA        CA         ok         ok         ok        CA         CA        CA      CA     ok      ok  ok     ok      ok     ok      ok      ok      ok
overwrite   ok       CA        CA         CA         CDR        CA        CA         CA        CA      CA     CDR     ok  ok     ok      ok     ok      CDR     CDR     ok
replace_pa  ok       CA        CA         ok         CDR        ok        CA         CA        CA      CA     CDR     ok  ok     ok      ok     ok      CDR     CDR     ok
dynamic_pb  ok       CA        ok         CA         ok         CA        CA         ok        CA      ok     ok      ok  ok     ok      ok     ok      ok      ok      ok
delete_id1  ok       CA        CA         ok         CDR        ok        CA         CA        CA      CA     CDR     ok  ok     ok      ok     ok      CDR     CDR     ok
delete_id3  ok       CA        CA         ok         ok         ok        CA         CA        CA      CA     ok      ok  ok     ok      ok     ok      CDR     CDR     ok
delete_pa   ok       CDR       CDR        ok         CDR        ok        CDR        CDR       CDR     CDR    CDR     ok  ok     ok      ok     ok      CDR     CDR     ok
delete_pb   ok       CDR       ok         CDR        ok         CDR       CDR        ok        CDR     ok     ok      ok  ok     ok      ok     ok      ok      ok      ok
delete_all  ok       CDR       CDR        CDR        CDR        CDR       CDR        CDR       CDR     CDR    CDR     ok  ok     ok      ok     ok      CDR     CDR     ok
update_pa   ok       CA        CA         ok         CA         ok        CA         CA        CA      CA     CA      ok  ok     ok      ok     ok      CDR     CDR     ok
sum_pa      ok       CA        ok         CA         ok         CA        CA         ok        CA      ok     ok      ok  ok     ok      ok     ok      ok      ok      ok
txn         ok       CA        CA         ok         ok         ok        CA         CA        CA      CA     ok      ok  ok     ok      ok     ok      ok      ok      ok
domain      ok       ok        ok         ok         ok         ok        ok         ok        ok      ok     ok      ok  CT     ok      ok     ok      ok      ok      ok
setprop     ok       ok        ok         ok         ok         ok        ok         ok        ok      ok     ok      ok  ok     MC      MC     MC      ok      ok      ok
addcol      MC       MC        MC         MC         MC         MC        MC         MC        MC      MC     MC      MC  MC     MC      MC     MC      MC      MC      ok
addfeat     ok       ok        ok         ok         ok         ok        ok         ok        ok      ok     ok      ok  ok     MC      MC     PC      ok      ok      ok
addrule     PC       PC        PC         PC         PC         PC        PC         PC        PC      PC     PC      PC  PC     PC      PC     PC      PC      PC      ok
compact     ok       CDD       CDD        ok         CDD        ok        CDD        CDD       ok      ok     ok      ok  ok     ok      ok     ok      CDD     CDR     ok
again_a     ok       ok        ok         ok         ok         ok        ok         ok        ok      ok     ok      ok  ok     ok      ok     ok      ok      CA      ok
track       ok       ok        ok         ok         ok         ok        ok         ok        ok      ok     ok      ok  ok     MC      MC     PC      ok      CA      ok
note        ok       ok        ok         ok         ok         ok        ok         ok        ok      ok     ok      ok  ok     ok      ok     ok      ok      ok      ok
"""  # noqa: E501
# Blind appends that came first may go behind a transaction that is only WriteSerializable.
BLIND = """
            overwrite replace_pa delete_all update_pa sum_all sum_pa
append_a    ok        ok         ok         ok        ok      ok
txn         ok        ok         ok         ok        ok      ok
"""
# A compaction takes in all files, so that it meets others in partition b, too.
UNPARTITIONED = """
            dynamic_pb delete_pb compact
dynamic_pb  CA         CA        CDR
delete_pb   CDR        CDR       CDR
compact     CDD        CDD       CDD
"""
# With a vector a file is added again, and may hold all that it held by its statistics; so what
# comes to add it again, too, is in the way of a real delete, and not where the rest is copied.
VECTORS = """
            delete_id1 sum_id1
delete_id1  CA         CA
"""
VECTORS_TWICE = frozenset({("again_a", "delete_id1"), ("track", "delete_id1")})
# Partition a is compacted first: whoever removes its files is in conflict with that, but what was
# read of them stays read, so that a delete from the new files is a conflict for the readers.
# By its statistics the new file could hold all that was in the old ones.
BEHIND_COMPACTION = """
            sum_id1
delete_id3  CA
"""
# Where all files are compacted into one, the rest of it is written anew whoever takes out rows.
BEHIND_ONE_FILE = """
            sum_all sum_pa sum_id1
dynamic_pb  CA      CA     CA
delete_pa   CA      CDR    CDR
delete_pb   CA      CA     CA
"""
CONFLICTS = {
    ConcurrentAppendError: "CA",
    ConcurrentDeleteReadError: "CDR",
    ConcurrentDeleteDeleteError: "CDD",
    ConcurrentTransactionError: "CT",
    MetadataChangedError: "MC",
    ProtocolChangedError: "PC",
}
BLIND_APPENDS = frozenset({"append_a", "append_c", "txn"})
VERSION = 4  # of the table, before anyone has won

Cells = dict[tuple[str, str], str]


def cells(text: str) -> Cells:
    """What has to become of a loser, by the winner and the loser."""
    head, *lines = text.strip("\n").splitlines()
    losers = head.split()
    table = ((winner, found) for winner, *found in (line.split() for line in lines))
    return {
        (winner, loser): cell
        for winner, found in table
        for loser, cell in zip(losers, found, strict=True)
    }


SERIALIZABLE = cells(PARTITIONED)
LOSERS = PARTITIONED.split("\n", 2)[1].split()
WINNERS = list(dict.fromkeys(winner for winner, _ in SERIALIZABLE))


# ---------------------------------------------------------------------------------- the settings


@dataclass(frozen=True)
class Setting:
    """A kind of table, and of commits that come first.

    `around` is what else comes first, before and after the winner; `differs` are its own cells.
    """

    partitioned: bool = True
    vectors: bool = False
    level: str = "Serializable"
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    foreign: Callable[[Objects], Objects] | None = None
    cloned: bool = False
    local: bool = False
    blind: bool = True  # whether blind appends of others say that they are
    shared: bool = False
    all_ways: bool = False
    losers: tuple[str, ...] = tuple(LOSERS)
    winners: tuple[str, ...] = tuple(WINNERS)
    differs: tuple[str, ...] = ()

    def expected(self, winner: str, loser: str) -> str:
        """What has to become of the loser: the conflict with the first commit that is one."""
        table = dict(SERIALIZABLE)
        if self.level == "WriteSerializable" and self.blind:
            table |= cells(BLIND)
        for text in self.differs:
            table |= cells(text)
        table |= {("append_c", name): self._meets_append_to_c(name) for name in LOSERS}
        for first in (*self.before, winner, *self.after):
            if table[first, loser] != "ok":
                return table[first, loser]
        return "ok"

    def _meets_append_to_c(self, loser: str) -> str:
        everything = loser in ("overwrite", "delete_all", "sum_all")
        return "CA" if everything and self.level == "Serializable" else "ok"

    def operation(self, name: str) -> str:
        """The operation of that name, where there is one: partitions have to be there."""
        return name if self.partitioned or name != "dynamic_pb" else "replace_pb"


def as_of_spark(winners: Objects) -> Objects:
    """Their commits as Delta Spark might have written them: no `txnId`, and fields of its own."""

    def rewritten(action: dict[str, Any]) -> dict[str, Any]:
        if info := action.get("commitInfo"):
            kept = ("timestamp", "operation", "operationParameters", "isBlindAppend", "tags")
            return {
                "commitInfo": {
                    **{key: info[key] for key in kept if key in info},
                    "engineInfo": "Apache-Spark/4.0.0 Delta-Lake/4.0.0",
                    "isolationLevel": "Serializable",
                }
            }
        if add := action.get("add"):
            return {"add": {**add, "clusteringProvider": None, "unheardOf": {"a": [1]}}}
        return action

    return _commits(winners, lambda actions: [rewritten(action) for action in reversed(actions)])


def without_provenance(winners: Objects) -> Objects:
    """Their commits without any `commitInfo`, which PROTOCOL.md leaves to the writers."""
    return _commits(winners, lambda actions: [each for each in actions if "commitInfo" not in each])


ROOT = "memory://ROOT"  # stands for the table's own address
ORIGIN = "memory://ORIGIN"  # stands for that of the table that it was cloned from


def spelled_absolutely(objects: Objects, root: str = ROOT) -> Objects:
    """Their commits with absolute paths, where they had relative ones."""

    def rewritten(action: dict[str, Any]) -> dict[str, Any]:
        for kind in ("add", "remove"):
            if kind in action and "://" not in action[kind]["path"]:
                return {kind: {**action[kind], "path": f"{root}/{action[kind]['path']}"}}
        return action

    return _commits(objects, lambda actions: [rewritten(action) for action in actions])


def as_of_a_clone(base: Objects) -> Objects:
    """The log of a shallow clone, and the files of its origin."""
    cloned = spelled_absolutely(base, ORIGIN)
    return {path: data for path, data in cloned.items() if is_commit(path) or is_data(path)}


def _commits(objects: Objects, change: Callable[[list[Any]], list[Any]]) -> Objects:
    return {
        path: b"\n".join(
            orjson.dumps(action)
            for action in change([orjson.loads(line) for line in data.splitlines()])
        )
        if is_commit(path)
        else data
        for path, data in objects.items()
    }


WRITE = "WriteSerializable"
READERS = ("append_a", "dynamic_pb", "delete_pb", "sum_all", "sum_pa", "sum_id1", "note")
LEVELLED = ("append_a", "txn", "sum_pa", "replace_pa", "delete_id1", "delete_pa", "setprop")
FILES = tuple(name for name in LOSERS if name not in ("domain", "setprop", "addfeat", "note"))
UNTRACKED = tuple(name for name in WINNERS if name != "track")
SETTINGS = {
    "unpartitioned": Setting(partitioned=False, differs=(UNPARTITIONED,)),
    "unpartitioned-write": Setting(
        losers=FILES, partitioned=False, level=WRITE, differs=(UNPARTITIONED,)
    ),
    "partitioned": Setting(all_ways=True),
    "partitioned-write": Setting(losers=FILES, level=WRITE),
    "vectors": Setting(losers=FILES, vectors=True, differs=(VECTORS,)),
    "vectors-write": Setting(vectors=True, level=WRITE, winners=LEVELLED, differs=(VECTORS,)),
    "foreign": Setting(losers=FILES, foreign=as_of_spark),
    "foreign-write": Setting(foreign=as_of_spark, level=WRITE, winners=LEVELLED),
    "nameless-write": Setting(
        foreign=without_provenance, blind=False, level=WRITE, winners=UNTRACKED, losers=READERS
    ),
    "several": Setting(losers=FILES, before=("append_c",), after=("note",)),
    "several-write": Setting(before=("note",), after=("append_c",), level=WRITE, winners=LEVELLED),
    "compacted": Setting(before=("compact",), differs=(BEHIND_COMPACTION,)),
    "compacted-write": Setting(
        before=("compact",), level=WRITE, losers=READERS, differs=(BEHIND_COMPACTION,)
    ),
    "compacted-twice": Setting(
        before=("compact", "note", "compact"), losers=READERS, differs=(BEHIND_COMPACTION,)
    ),
    "compacted-as-one": Setting(
        partitioned=False,
        before=("compact",),
        losers=READERS,
        differs=(UNPARTITIONED, BEHIND_COMPACTION, BEHIND_ONE_FILE),
    ),
    "shared": Setting(losers=FILES, shared=True),
    "shared-write": Setting(shared=True, level=WRITE, winners=LEVELLED),
    "absolute": Setting(losers=FILES, cloned=True),
    "absolute-write": Setting(cloned=True, level=WRITE, winners=LEVELLED),
    "absolute-local": Setting(
        cloned=True,
        local=True,
        winners=("append_a", "delete_id1", "delete_pa", "delete_all", "compact", "again_a"),
        losers=("delete_id1", "delete_pb", "sum_all", "sum_pa", "sum_id1", "compact", "again_a"),
    ),
    "absolute-winners": Setting(losers=FILES, foreign=spelled_absolutely),
    "absolute-winners-local": Setting(
        foreign=spelled_absolutely,
        local=True,
        winners=("append_a", "delete_id1", "delete_pa", "delete_all", "compact", "again_a"),
        losers=("delete_id1", "delete_pb", "sum_all", "sum_pa", "sum_id1", "compact", "again_a"),
    ),
}


@dataclass(frozen=True)
class Place:
    """Where the tables of a setting are."""

    setting: Setting
    folder: Path

    @property
    def options(self) -> dict[str, str]:
        """What the table is opened with: a clone leads to its origin."""
        origin = str(self.folder / "origin") if self.setting.local else _ORIGIN
        return {"allowed_roots": origin} if self.setting.cloned else {}

    async def put(self, base: Objects) -> ObjectStore:
        """A store with the table, which is like no other one."""
        kind = self.setting
        store: ObjectStore
        if kind.local:
            store = LocalStore(str(self.folder / str(next(_numbers)) / "table"))
        else:
            named = kind.foreign is spelled_absolutely  # so that its address leads there
            store = MemoryStore(f"race-{next(_numbers)}", "table") if named else MemoryStore()
        if kind.cloned:
            origin: ObjectStore = MemoryStore("race-origin", "lake")
            if kind.local:
                origin = LocalStore(str(self.folder / "origin"))
            for path in filter(is_data, base):
                await origin.put(path, base[path])
            base = as_of_a_clone(base)
            base = {path: data for path, data in base.items() if is_commit(path)}
        for path, data in self.named(base, store).items():
            await store.put(path, data)
        return store

    def named(self, objects: Objects, store: ObjectStore) -> Objects:
        """Objects with the addresses that they are to have."""
        origin = (self.folder / "origin").as_uri() if self.setting.local else _ORIGIN
        return {
            path: data.replace(ROOT.encode(), store.uri.encode()).replace(
                ORIGIN.encode(), origin.encode()
            )
            for path, data in objects.items()
        }

    def commits(self, base: Objects, after: Objects) -> Objects:
        """What won, as those who won have written it."""
        kind = self.setting
        won = new_objects(base, after)
        if kind.cloned:  # the files of the origin have absolute paths, new ones have not
            won = _commits(won, lambda actions: [_as_cloned(each, base) for each in actions])
        return kind.foreign(won) if kind.foreign is not None else won


_numbers = itertools.count()
_ORIGIN = "memory://race-origin/lake"


def _as_cloned(action: dict[str, Any], base: Objects) -> dict[str, Any]:
    for kind in ("add", "remove"):
        if kind in action and decode_path(action[kind]["path"]) in base:
            return {kind: {**action[kind], "path": f"{ORIGIN}/{action[kind]['path']}"}}
    return action


# ------------------------------------------------------------------------------- serial orders


@dataclass
class Histories:
    """The table after operations one after the other, each history made once."""

    setting: Setting
    objects: dict[tuple[str, ...], Objects] = field(default_factory=dict)
    outcomes: dict[tuple[str, ...], Outcome | None] = field(default_factory=dict)

    async def after(self, *names: str) -> Objects:
        """The objects of the table after these operations."""
        if names not in self.objects:
            if not names:
                kind = self.setting
                self.objects[names] = await base_objects(
                    partitioned=kind.partitioned, vectors=kind.vectors
                )
            else:
                store = await store_with(await self.after(*names[:-1]))
                operation = OPERATIONS[self.setting.operation(names[-1])]
                await operation(Table(store.uri, store=store))
                self.objects[names] = await objects_of(store)
        return self.objects[names]

    async def outcome(self, *names: str) -> Outcome | None:
        """What is seen of the table then; None where one of them is impossible."""
        if names not in self.outcomes:
            try:
                self.outcomes[names] = await outcome_of(await store_with(await self.after(*names)))
            except AdeltaError:
                self.outcomes[names] = None
        return self.outcomes[names]

    async def allowed(self, winners: Sequence[str], loser: str, level: str) -> list[Outcome | None]:
        """What may be seen after `loser` has committed behind `winners`."""
        orders = [(*winners, loser)]
        if level == WRITE:
            for late in _subsets([name for name in winners if name in BLIND_APPENDS]):
                early = [name for name in winners if name not in late]
                if await self.outcome(*early, *late) == await self.outcome(*winners):
                    orders.append((*early, loser, *late))
        return [await self.outcome(*order) for order in orders]


def _subsets(names: list[str]) -> Iterator[tuple[str, ...]]:
    for count in range(1, len(names) + 1):
        yield from itertools.combinations(names, count)


_histories: dict[tuple[bool, bool], Histories] = {}


def histories_of(setting: Setting) -> Histories:
    """Those of a kind of table."""
    kind = setting.partitioned, setting.vectors
    return _histories.setdefault(kind, Histories(setting))
