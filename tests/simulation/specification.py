"""The configurations of the TLA+ specification of Delta Lake's consistency, run on adelta itself.

A table has two columns, of which the first one says which rows an operation is for. Writers start
operations, read data files, write data files, and try to commit; the store has put-if-absent or
not, the writers coordinate (by entries in DynamoDB) or not. In every state, a read of every version
so far, of every value of column 1, has to give what the recorded history says (ConsistentRead), no
commit adds a file that it removes (ValidDeltaLog), and every operation that was started ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from adelta.commit.check_then_put import check_then_put
from adelta.commit.coordinated_store import CoordinatedStore
from adelta.commit.dynamodb import DynamoDbCoordinator
from adelta.errors import AdeltaError, CommitConflictError
from adelta.kernel.actions.file_actions import DeletionVectorDescriptor, decode_path
from adelta.kernel.deletion_vector.descriptor import vector_path
from adelta.kernel.log_path import LAST_CHECKPOINT_PATH, LogFileKind, parse_log_path
from adelta.operations import delete, update, write_table
from adelta.table import Table
from tests.simulation.dynamo import SimulatedDynamoTable
from tests.simulation.search import Figures, Held, Search
from tests.simulation.store import Bucket, Direct, SimulatedStore, Stored
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.storage.dynamodb import DynamoTable, Item
    from adelta.storage.object_store import ObjectStore
    from tests.simulation.search import Step
    from tests.simulation.store import Request

__all__ = ["Action", "Configuration", "Violation", "checked", "shortest"]

Row = tuple[str, int]

COLUMN_1 = ("red", "blue")
SCHEMA = pa.schema([("col1", pa.string()), ("col2", pa.int64())])
_ENTRIES, _FIRST = ".dynamodb/", "|00000000000000000000.json"
_COMPLETE, _UNMARKED = b"('complete', 'true')", b"'complete': 'false'"
_COMMIT = re.compile(r"[0-9]{20}\.json")
_VIOLATED = "Error: Invariant ConsistentRead is violated."
_INVALID = "Error: Invariant ValidDeltaLog is violated."
BASE: tuple[Row, ...] = (("red", 1), ("blue", 1))


@dataclass(frozen=True)
class Action:
    """An operation: append a row, or update or delete those of one value of column 1."""

    kind: str
    col1: str
    col2: int = 2

    def __str__(self) -> str:
        given = "" if self.kind == "delete" else f" {self.col2}"
        return f"{self.kind} {self.col1}{given}"

    async def run(self, table: Table, name: str) -> int | None:
        """Do it; the version that it became."""
        where = f"col1 = '{self.col1}'"
        if self.kind == "append":
            row = pa.Table.from_pylist([{"col1": self.col1, "col2": self.col2}], schema=SCHEMA)
            return (await write_table(table, row, user_metadata=name)).version
        if self.kind == "update":
            values = {"col2": str(self.col2)}
            return (await update(table, values, where, user_metadata=name)).version
        return (await delete(table, where, user_metadata=name)).version

    def apply(self, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        """What it makes of rows."""
        if self.kind == "append":
            return (*rows, (self.col1, self.col2))
        if self.kind == "update":
            return tuple((c, self.col2 if c == self.col1 else v) for c, v in rows)
        return tuple(row for row in rows if row[0] != self.col1)


@dataclass(frozen=True)
class Configuration:
    """The parameters of the specification: the actions of each writer, and what excludes them."""

    writers: tuple[tuple[Action, ...], ...]
    partitioned: bool = False
    vectors: bool = False
    put_if_absent: bool = True
    coordination: bool = False
    failures: bool = False
    checksums: bool = False

    def __str__(self) -> str:
        flags = ("partitioned", "vectors", "put_if_absent", "coordination", "failures", "checksums")
        actions = " || ".join("; ".join(map(str, actions)) for actions in self.writers)
        return f"{actions} [{', '.join(flag for flag in flags if getattr(self, flag))}]"


class Violation(Exception):
    """What is wrong, and the steps that lead to it, as the model checker prints them."""

    def __init__(self, reason: str, trace: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.trace = trace

    def __str__(self) -> str:
        return f"{self.reason}\nError: The behavior up to this point is:\n{self.trace}"


@cache
def base(*, partitioned: bool, vectors: bool, checksums: bool) -> dict[str, Stored]:
    """What is in the store at first: a table with a row of each value of column 1."""
    world = World(1, shuffled=False)
    bucket = Bucket(world)

    async def main() -> None:
        store = SimulatedStore(bucket, Direct())
        await write_table(
            Table(store.uri, store=store),
            pa.Table.from_pylist([{"col1": c, "col2": v} for c, v in BASE], schema=SCHEMA),
            partition_by=["col1"] if partitioned else None,
            properties={
                "delta.enableDeletionVectors": str(vectors).lower(),
                "delta.isolationLevel": "Serializable",
                "adelta.writeChecksum": str(checksums).lower(),
            },
        )

    world.run(main)
    return bucket.objects


@dataclass
class _Checks:
    """What is to be read of the states that have been reached, each once.

    The first violation is raised; or all are kept where they are `found`.
    """

    configuration: Configuration
    found: list[Violation] | None = None
    waiting: list[tuple[dict[str, Stored], dict[int, tuple[Row, ...]], str]] = field(
        default_factory=list
    )
    done: set[object] = field(default_factory=set)
    reads: int = 0
    replaced: tuple[str, str] | None = None

    def add(self, scene: _Scene) -> None:
        """Have the versions read, if what they are made of has not been seen before."""
        objects = scene.bucket.objects
        log = {path: it for path, it in objects.items() if path.startswith("_delta_log/")}
        told = sorted((path, it.meta.etag) for path, it in log.items() if "/.tmp/" not in path)
        commits = [it.data for path, it in log.items() if _version(path) is not None]
        named = sorted(frozenset().union(*map(_files_of, commits)))
        found = tuple(objects[path].meta.etag if path in objects else None for path in named)
        key = (tuple(told), found, tuple(scene.expected.items()))
        if key not in self.done:
            self.done.add(key)
            self.waiting.append((dict(scene.bucket.objects), dict(scene.expected), scene.shown()))

    def report(self, reason: str, trace: str) -> None:
        """Say what is violated. Raises: Violation."""
        violation = Violation(reason, trace)
        if self.found is None:
            raise violation
        self.found.append(violation)

    def close(self) -> None:
        """Read what is left to be read; and no run replaced a commit by one that reads the same.

        Raises: Violation.
        """
        self.make()
        if self.replaced is not None:
            self.report(*self.replaced)

    def make(self) -> None:
        """Read every version, for every value of column 1. Raises: Violation."""
        waiting, self.waiting = self.waiting, []
        for objects, expected, trace in waiting:
            world = World(1, shuffled=False)
            store = SimulatedStore(Bucket(world, objects=objects), Direct())
            try:
                read = world.run(partial(_read, store, expected))
            except AdeltaError as error:
                self.report(f"{_VIOLATED}\na version cannot be read: {error}", trace)
                continue
            for version, value, found, wanted in read:
                self.reads += 1
                if Counter(found) != Counter(wanted):
                    self.report(
                        f"{_VIOLATED}\nversion {version}, col1 = {value}: "
                        f"expected {wanted}, read {found}",
                        trace,
                    )


async def _read(
    store: ObjectStore, expected: dict[int, tuple[Row, ...]]
) -> list[tuple[int, str, list[Row], list[Row]]]:
    table = Table(store.uri, store=store)
    found = []
    for version, rows in expected.items():
        snapshot = await table.snapshot(version=version)
        for value in COLUMN_1:
            read = (await snapshot.scan(where=f"col1 = '{value}'").to_arrow()).to_pylist()
            seen = sorted((row["col1"], row["col2"]) for row in read)
            found.append((version, value, seen, sorted(r for r in rows if r[0] == value)))
    return found


class _Scene:
    """One run of a configuration."""

    def __init__(self, configuration: Configuration, checks: _Checks) -> None:
        self.configuration = configuration
        self.checks = checks
        self.world = World(1, shuffled=False)
        self.world.keeps_trace = False
        flags = ("partitioned", "vectors", "checksums")
        objects = dict(base(**{flag: getattr(configuration, flag) for flag in flags}))
        self.bucket = Bucket(self.world, conditional=configuration.put_if_absent, objects=objects)
        self.bucket.on_change = self._committed
        self.network = Held(self.world, self.bucket, _is_local, _settles, _about)
        self.items: dict[str, Item] = {}
        self.rows = BASE
        self.history: list[tuple[int, str]] = []
        self.entries: list[tuple[int, int, str]] = []  # after how many requests, version, operation
        self.expected: dict[int, tuple[Row, ...]] = {0: BASE}
        self.outcomes: dict[str, tuple[str, int | None]] = {}
        self.named = {
            f"w{number}.{at}": action
            for number, actions in enumerate(configuration.writers, 1)
            for at, action in enumerate(actions, 1)
        }

    def _committed(self, path: str, data: bytes | None) -> None:
        """Record a successful write of a log entry, as the specification's history variable."""
        assert path != LAST_CHECKPOINT_PATH
        assert not (path.startswith(_ENTRIES) and path.endswith(_FIRST))
        version = _version(path)
        if version is None or data is None:
            return
        name = _name_of(data)
        if (version, name) in self.history:
            return  # the same commit, put there by another process
        self.history.append((version, name))
        self.entries.append((len(self.network.taken), version, name))
        self.rows = self.named[name].apply(self.rows)
        self.expected[version] = self.rows
        added, removed = (_keys_of(data, what) for what in ("add", "remove"))
        if both := added & removed:
            self.checks.report(
                f"{_INVALID}\nversion {version} adds and removes {both}", self.shown()
            )

    def _store(self) -> ObjectStore:
        store = SimulatedStore(self.bucket, self.network)
        if not self.configuration.coordination:
            return store
        table = cast("DynamoTable", SimulatedDynamoTable(self.bucket, self.network, self.items))
        conditional = self.configuration.put_if_absent
        create = store.put_if_absent if conditional else partial(check_then_put, store)
        by_entries = DynamoDbCoordinator(
            store, table, create=create, table_path="s3://simulated/table"
        )
        return CoordinatedStore(store, by_entries, conditional_put=conditional)

    async def main(self) -> None:
        """Let the writers go."""
        waits = []
        for number, actions in enumerate(self.configuration.writers, 1):
            process = self.world.process(f"w{number}")
            task = process.start(self._write(f"w{number}", actions))
            task.add_done_callback(lambda _, process=process: self.network.over(process))
            if self.configuration.failures:
                self.network.may_crash(process)
            waits.append(asyncio.wait((task, process.crashed), return_when=asyncio.FIRST_COMPLETED))
        await asyncio.gather(*waits)
        assert self.world.loop.time() == 0.0, "somebody waited for time, not for a request"

    async def _write(self, writer: str, actions: tuple[Action, ...]) -> None:
        store = self._store()
        table = Table(store.uri, store=store)
        for at, action in enumerate(actions, 1):
            name = f"{writer}.{at}"
            self.outcomes[name] = ("started", None)
            try:
                self.outcomes[name] = ("committed", await action.run(table, name))
            except CommitConflictError:
                self.outcomes[name] = ("refused", None)
            except Exception as error:
                self.outcomes[name] = (f"failed: {error!r}", None)

    def seen(self) -> None:
        """Have the state's versions read."""
        self.checks.add(self)

    def ended(self) -> None:
        """Every operation has ended as its writer was told.

        Those that were acknowledged are in the log, each in a version of its own. One that found
        nothing to do changes nothing in some version, and one that was refused has met another's
        commit.
        """
        versions = Counter(version for version, _ in self.history)
        if twice := [version for version, times in versions.items() if times > 1]:
            put = sorted(name for version, name in self.history if version == twice[0])
            names = " and ".join(put)
            reason = f"Error: version {twice[0]} is the commit of {names}: one is replaced."
            self.checks.replaced = self.checks.replaced or (reason, self.shown())
        crashed = {step.process for step in self.network.taken if step.request.kind == "crash"}
        for name, (outcome, version) in self.outcomes.items():
            logged = [v for v, each in self.history if each == name]
            wrong = None
            if outcome == "committed" and logged != ([] if version is None else [version]):
                wrong = f"{name} was acknowledged as version {version}, and is logged as {logged}"
            elif outcome == "committed" and version is None and not self._is_idle(name):
                wrong = f"{name} was to find nothing to do, and there was something at every moment"
            elif outcome == "refused" and logged:
                wrong = f"{name} was refused, and is logged as {logged}"
            elif outcome == "refused" and not self._is_met(name):
                wrong = f"{name} was refused, and nobody else has committed what it could meet"
            elif outcome not in ("committed", "refused") and name.split(".")[0] not in crashed:
                wrong = f"{name} does not terminate: {outcome}"
            if wrong:
                self.checks.report(f"Error: {wrong}", self.shown())

    def _is_met(self, name: str) -> bool:
        """Whether another operation is logged; of the same partition, if there are partitions."""
        met = (self.named[each] for _, each in self.history if each != name)
        everywhere = not self.configuration.partitioned
        return any(everywhere or action.col1 == self.named[name].col1 for action in met)

    def _is_idle(self, name: str) -> bool:
        """Whether there is a version in which an operation would change nothing."""
        action = self.named[name]
        return any(action.apply(rows) == rows for rows in self.expected.values())

    def shown(self) -> str:
        """The steps so far, a state for each action of a writer, with what the log has then."""
        lines = ["State 1: <Initial predicate>", f"/\\ deltaLog = << {_text(BASE)} >>", ""]
        done = 0
        for number, (writer, action, steps) in enumerate(_actions(self.network.taken), 2):
            done += len(steps)
            log = {version: name for at, version, name in self.entries if at <= done}
            lines.append(f"State {number}: <{action}({writer})>")
            lines += [f"/\\ {step.request.kind} {step.request.path}" for step in steps]
            entries = [_text(BASE), *(f'"{self.named[log[v]]} by {log[v]}"' for v in sorted(log))]
            lines += [f"/\\ deltaLog = << {', '.join(entries)} >>", ""]
        lines += [f"/\\ history[{v}] = {_text(rows)}" for v, rows in self.expected.items()]
        return "\n".join(lines)


def _actions(steps: list[Step]) -> Iterator[tuple[str, str, list[Step]]]:
    """The requests of each action of the specification, one after the other."""
    named = ((step.process, _action_of(step.request), step) for step in steps)
    for (writer, action), found in groupby(named, key=lambda each: each[:2]):
        yield writer, action, [step for *_, step in found]


def _action_of(request: Request) -> str:
    if request.kind == "crash":
        return "WriterFailure"
    if request.path.startswith(".dynamodb/") or ".tmp/" in request.path:
        return "CoordinatePrepareWrite"
    if not request.path.startswith("_delta_log/"):
        return "ReadDataFiles" if request.reads else "WriteDataFiles"
    if request.reads:
        return "StartOperation" if request.kind == "list" else "LoadLog"
    return "TryCommitTxn" if _version(request.path) is not None else "AfterCommit"


def _is_local(step: Step, network: Held) -> bool:
    """Whether no other process can tell when it is carried out.

    Names of data files are drawn, and those of temporary files, which nobody knows before there is
    an entry, nor ever after it who has not seen it before it was complete; commits that are there
    stay as they are, up to the first overwritten one, which is found; so do entries that are
    complete; nobody writes checkpoints here, nor an entry for version 0, which is asserted.
    """
    request, bucket = step.request, network.bucket
    path = request.path
    if request.kind == "crash":
        return False
    if path.startswith(_ENTRIES):
        there = bucket.objects.get(path)
        is_fixed = path.endswith(_FIRST) if there is None else _COMPLETE in there.data
        return request.kind == "get" and is_fixed
    if not path.startswith("_delta_log/"):
        return True
    if "/.tmp/" in path:
        is_last = request.kind == "delete" and not _is_known(path, step.process, network)
        return request.kind == "put" or is_last
    if request.kind not in ("get", "head"):
        return False
    is_there = _version(path) is not None and path in bucket.objects
    return is_there or path == LAST_CHECKPOINT_PATH


def _is_known(temporary: str, process: str, network: Held) -> bool:
    """Whether others than the process know of a temporary file, or can be told yet."""
    name = temporary.removeprefix("_delta_log/").encode()
    objects = network.bucket.objects
    entries = (it.data for path, it in objects.items() if path.startswith(_ENTRIES))
    if any(name in entry and _COMPLETE not in entry for entry in entries):
        return True
    return any(
        name in said and _UNMARKED in said for other, said in network.told if other != process
    )


def _settles(request: Request) -> bool:
    """Whether others' requests may be local by it that were not."""
    is_entry = request.path.startswith(_ENTRIES)
    return not request.reads and (is_entry or _version(request.path) is not None)


def _about(request: Request) -> str:
    """The commit that a request is about: by itself, its entry or its temporary file."""
    found = _COMMIT.search(request.path)
    return request.path if found is None else found[0]


def _version(path: str) -> int | None:
    found = parse_log_path(path)
    return found.version if found is not None and found.kind is LogFileKind.COMMIT else None


@lru_cache(256)
def _files_of(data: bytes) -> frozenset[str]:
    """The files, and those of deletion vectors, that a commit adds."""
    adds = [line["add"] for line in map(json.loads, data.splitlines()) if "add" in line]
    vectors = [
        DeletionVectorDescriptor.from_json(add["deletionVector"])
        for add in adds
        if add.get("deletionVector") is not None
    ]
    paths = [add["path"] for add in adds]
    paths += [vector_path(vector) for vector in vectors if vector.storage_type != "i"]
    return frozenset(map(decode_path, paths))


def _keys_of(data: bytes, what: str) -> set[str]:
    """The files that a commit adds or removes, each with its deletion vector."""
    found = (line[what] for line in map(json.loads, data.splitlines()) if what in line)
    return {f"{file['path']} {file.get('deletionVector')}" for file in found}


def _name_of(data: bytes) -> str:
    for line in data.splitlines():
        info: dict[str, Any] | None = json.loads(line).get("commitInfo")
        if info is not None:
            return str(info["userMetadata"])
    raise AssertionError(data)


def _text(rows: tuple[Row, ...]) -> str:
    return "{" + ", ".join(f"<<{c}, {v}>>" for c, v in sorted(rows)) + "}"


def checked(
    configuration: Configuration, *, switches: int | None = None, in_order: bool = False
) -> Figures:
    """Go through every interleaving. Raises: Violation."""
    return _searched(_Checks(configuration), switches=switches, in_order=in_order)


def _searched(checks: _Checks, *, switches: int | None, in_order: bool) -> Figures:
    logging.getLogger("adelta").setLevel(logging.CRITICAL)

    def scene() -> _Scene:
        checks.make()
        return _Scene(checks.configuration, checks)

    figures = Search(scene, switches=switches, in_order=in_order).run()
    checks.close()
    return figures


def shortest(configuration: Configuration, most: int = 5) -> Violation | None:
    """The violation that needs the fewest switches between writers, and the fewest actions.

    There are at `most` so many switches. Operations are left out that it does not need.
    """
    for switches in range(most + 1):
        try:
            checked(configuration, switches=switches, in_order=True)
        except Violation:
            for fewer in _fewer(configuration):
                if (violation := shortest(fewer, switches)) is not None:
                    return violation
            found: list[Violation] = []
            _searched(_Checks(configuration, found), switches=switches, in_order=True)
            return min(found, key=lambda each: (each.trace.count("\nState "), len(each.trace)))
    return None


def _fewer(configuration: Configuration) -> Iterator[Configuration]:
    """Configurations that lack one of the operations."""
    writers = configuration.writers
    for number, actions in enumerate(writers):
        for at in range(len(actions)):
            left = (actions[:at] + actions[at + 1 :],) if len(actions) > 1 else ()
            if others := (*writers[:number], *left, *writers[number + 1 :]):
                yield replace(configuration, writers=others)
