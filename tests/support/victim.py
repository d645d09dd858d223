"""A process that is killed in the middle of an operation: at a request, or at a call to the system.

    python -m tests.support.victim

It reads cases, a JSON object a line, and runs each in a process forked from itself, so that what
was imported need not be imported again. For each it prints the exit status: 0 where the operation
ended before its death, -9 where it did not.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from adelta._clock import SYSTEM_CLOCK
from adelta.kernel.actions.protocol import Protocol
from adelta.operations import (
    checkpoint,
    cleanup_log,
    clone,
    create_table,
    delete,
    generate_manifest,
    merge,
    optimize,
    replace_table,
    restore,
    update,
    vacuum,
    write_table,
)
from adelta.storage.memory import MemoryStore
from adelta.storage.resolve import open_store
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.catalogs import CATALOG_OPTION, SqliteCatalog
from tests.support.clock import ManualClock
from tests.support.stores import LaterStore, Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from adelta.commit.owner import CommitResponse, ProposedCommit, RatifiedCommits
    from adelta.storage.object_store import ObjectStore

__all__ = [
    "AFTER",
    "INTERVAL",
    "OPERATIONS",
    "SCHEMA",
    "Death",
    "Victims",
    "base_of",
    "before",
    "ids",
    "import_ahead",
    "put_objects",
    "rows",
    "victims",
]

R = TypeVar("R")
ROOT = Path(__file__).resolve().parents[2]
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
INTERVAL = {"delta.checkpointInterval": "3"}
WRITES = {"create": 0, "clean-up": 5, "checkpoint again": 3}
"""How many writes, each of two rows, there are before an operation; of others there are two."""

AFTER = {
    "create": [],
    "append": [1, 2, 3, 4, 5, 6],
    "overwrite": [7],
    "delete": [2, 3, 4],
    "update": [1, 3, 4, 12],
    "checkpoint": [1, 2, 3, 4],
    "checkpoint again": [1, 2, 3, 4, 5, 6],
    "manifests": [1, 2, 3, 4],
    "clean-up": [*range(1, 11)],
    "delete by vectors": [2, 3, 4],
    "merge": [1, 3, 5, 14],
    "optimize": [1, 2, 3, 4],
    "restore": [1, 2],
    "clone": [21, 22],
    "replace": [],
    "vacuum": [1, 2, 3, 4],
}
"""The ids that there are after an operation, by its name."""

_YEAR_MS = 366 * 24 * 3600 * 1000
_CALLS = ("open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.listdir", "os.scandir")


@dataclass(frozen=True)
class Death:
    """An operation, and the moment of its process's death.

    `moment` is ``before`` or ``after`` the request number `number`, or the ``call`` of that number
    that touches the table's folder.
    """

    uri: str
    operation: str
    number: int
    moment: str
    options: dict[str, str] = field(default_factory=dict)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": ["x" if i % 2 else "y" for i in ids]}, schema=SCHEMA)


async def _create(table: Table) -> None:
    await (await create_table(table.uri, SCHEMA, partition_by=["p"], properties=INTERVAL)).aclose()


async def _append(table: Table) -> None:
    await write_table(table, rows(5, 6))


async def _overwrite(table: Table) -> None:
    await write_table(table, rows(7), mode="overwrite")


async def _delete(table: Table) -> None:
    await delete(table, "id = 1")


async def _update(table: Table) -> None:
    await update(table, {"id": "id + 10"}, "id = 2")


async def _merge(table: Table) -> None:
    await (
        merge(table, rows(2, 4, 5), "target.id = source.id")
        .when_matched_delete("source.id = 2")
        .when_matched_update({"id": "target.id + 10"})
        .when_not_matched_insert_all()
        .execute()
    )


async def _optimize(table: Table) -> None:
    await optimize(table)


async def _checkpoint(table: Table) -> None:
    await checkpoint(table)


async def _generate_manifests(table: Table) -> None:
    await generate_manifest(table)


async def _clean_up(table: Table) -> None:
    later = ManualClock(SYSTEM_CLOCK.now_ms() + _YEAR_MS)  # when all of the history has expired
    store = LaterStore(table.store, _YEAR_MS)
    async with Table(table.uri, store=store, clock=later) as in_a_year:
        await cleanup_log(in_a_year)


async def _restore(table: Table) -> None:
    await restore(table, version=1)


async def _clone(table: Table) -> None:
    async with Table("memory://victim/source") as source:
        await write_table(source, rows(21, 22), mode="overwrite", partition_by=["p"])
        await clone(source, table, replace=True)


async def _replace(table: Table) -> None:
    await replace_table(table, SCHEMA, cluster_by=["id"])


async def _vacuum(table: Table) -> None:
    await table.store.put("p=x/orphan.parquet", b"x")
    later = ManualClock(SYSTEM_CLOCK.now_ms() + _YEAR_MS)
    async with Table(table.uri, store=LaterStore(table.store, _YEAR_MS), clock=later) as in_a_year:
        await vacuum(in_a_year)


OPERATIONS: Mapping[str, Callable[[Table], Awaitable[None]]] = {
    "create": _create,
    "append": _append,
    "append inline": _append,
    "overwrite": _overwrite,
    "delete": _delete,
    "delete by vectors": _delete,
    "update": _update,
    "merge": _merge,
    "optimize": _optimize,
    "checkpoint": _checkpoint,
    "checkpoint again": _checkpoint,
    "manifests": _generate_manifests,
    "clean-up": _clean_up,
    "restore": _restore,
    "clone": _clone,
    "replace": _replace,
    "vacuum": _vacuum,
}


def before(operation: str) -> list[int]:
    """The ids that there are before an operation."""
    return [*range(1, 2 * WRITES.get(operation, 2) + 1)]


async def base_of(operation: str) -> Mapping[str, bytes]:
    """The objects of a table of which each third commit gets a checkpoint; none to create one."""
    store = MemoryStore()
    properties, protocol = INTERVAL, None
    if operation == "delete by vectors":
        properties = {**INTERVAL, "delta.enableDeletionVectors": "true"}
        protocol = Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))
    if operation != "create":
        await TableBuilder.create(
            SCHEMA, store=store, partition_by=["p"], properties=properties, protocol=protocol
        )
    table = Table(store.uri, store=store)
    for number in before(operation)[::2]:
        await write_table(table, rows(number, number + 1))
    if operation == "manifests":  # of an earlier version, and of a partition that is gone
        for value in ("x", "y", "z"):
            await store.put(f"_symlink_format_manifest/p={value}/manifest", b"file:///earlier\n")
    paths = [meta.path async for page in store.list("") for meta in page]
    return {path: await store.get(path) for path in paths}


async def put_objects(objects: Mapping[str, bytes], uri: str, options: Mapping[str, str]) -> None:
    """Put the objects of a table under another address."""
    async with Table(uri, options) as table:
        for path, data in objects.items():
            await table.store.put(path, data)


async def ids(table: Table) -> list[int]:
    """The ids that there are, in order."""
    scan = (await table.snapshot()).scan(columns=["id"])
    return sorted((await scan.to_arrow()).column("id").to_pylist())


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DeadlyStore(WrappedStore):
    """A store at one of whose requests the process dies."""

    def __init__(self, inner: ObjectStore, death: Death) -> None:
        super().__init__(inner)
        self.death = death
        self.left = death.number

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        self.left -= 1
        fatal = self.left == -1
        if fatal and self.death.moment == "before":
            _die()
        try:
            return await run()
        finally:
            if fatal:
                _die()


def watch_calls(folder: str, number: int) -> None:
    """Kill this process at one of its calls to the system about what is in a folder."""
    left = number

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in _CALLS and isinstance(path := arguments[0], str) and path.startswith(folder):
            left -= 1
            if left == -1:
                _die()

    sys.addaudithook(hook)


class DeadlyCatalog(SqliteCatalog):
    """A catalog at one of whose requests the process dies, counted among those of the store."""

    store: DeadlyStore

    async def get_ratified_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        ask = partial(super().get_ratified_commits, start_version, end_version)
        return await self.store.request(Request("get", "catalog"), ask)

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        ask = partial(super().commit, proposed)
        return await self.store.request(Request("put", "catalog"), ask)


async def _meet(death: Death) -> None:
    options = dict(death.options)
    database = options.pop(CATALOG_OPTION, None)
    store = open_store(death.uri, options)
    if death.moment != "call":
        store = DeadlyStore(store, death)
    catalog = None
    if database is not None:
        catalog = DeadlyCatalog(database, inline=death.operation == "append inline")
        assert isinstance(store, DeadlyStore)
        catalog.store = store
    async with Table(death.uri, options, store=store, catalog=catalog) as table:
        if death.moment == "call":
            watch_calls(death.uri, death.number)
        await OPERATIONS[death.operation](table)


class Victims:
    """Runs operations that are killed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def meet(self, death: Death) -> bool:
        """Whether the operation was killed; else it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(death)) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        assert status in (0, -signal.SIGKILL), f"{death} ended with {status}"
        return status != 0


@contextmanager
def victims() -> Iterator[Victims]:
    """A process that forks victims until the block is left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.victim"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        try:
            yield Victims(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def import_ahead(rehearse: Callable[[str], Awaitable[None]] | None = None) -> None:
    """Import what operations import when they need it, which a forked process would do each time.

    `rehearse` is what else is to be run, in a folder of its own.

    They are run in a process of their own, for the sake of the threads that they begin.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        asyncio.run(_perform_all() if rehearse is None else _in_folder(rehearse))
        with os.fdopen(writer, "w") as out:
            out.write("\n".join(sys.modules))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as names:
        for name in names.read().split():
            with suppress(ImportError):
                importlib.import_module(name)
    os.waitpid(child, 0)
    gc.freeze()  # what is there from now on is shared with the processes to come


async def _perform_all() -> None:
    with TemporaryDirectory() as folder:
        async with Table(f"{folder}/table") as table:
            for operation in OPERATIONS.values():
                await operation(table)


async def _in_folder(rehearse: Callable[[str], Awaitable[None]]) -> None:
    with TemporaryDirectory() as folder:
        await rehearse(folder)


def main() -> None:
    import_ahead()
    for line in sys.stdin:
        death = Death(**json.loads(line))
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(_meet(death))
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
