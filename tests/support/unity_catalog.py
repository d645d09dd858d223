"""A server that answers Delta clients as Unity Catalog does, with its state in SQLite.

    python -m tests.support.unity_catalog DATABASE FOLDER

It prints the port that it listens on. It is written to the UC Delta API 1.0 (``api/delta.yaml`` of
unitycatalog/unitycatalog) and to what its server does with commits: at most ten of them are
unpublished, the same one again is no conflict, and whose a published version is, is told by the
contents of files. Staged tables get a folder below FOLDER. A real one is a Java server that is in
no registry of Python's or Node's.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["TOKEN", "UnityServer", "unity_server"]

TOKEN = "the-token"
MOST_COMMITS = 10
_ROOT = Path(__file__).resolve().parents[2]
_API = "/api/2.1/unity-catalog/delta/v1"
_SCHEMA_PATH = f"{_API}/catalogs/{{catalog}}/schemas/{{schema}}"
_TABLES = """
create table if not exists tables (name text primary key, id text, location text, staged integer,
    created text);
create table if not exists commits (id text, version integer, body text, published integer,
    primary key (id, version));
create table if not exists requests (at integer primary key, method text, path text, body text);
create table if not exists faults (at integer primary key, kind text);
"""
READER_WRITER = ["catalogManaged", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"]
FIXED = {
    "delta.checkpointPolicy": "v2",
    "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "true",
}


@dataclass(frozen=True, slots=True)
class UnityServer:
    """Where the server answers, and its database."""

    endpoint: str
    database: str

    @contextlib.contextmanager
    def state(self) -> Iterator[sqlite3.Connection]:
        """The database, within one transaction."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=30)) as base, base:
            yield base

    def description(self, name: str) -> dict[str, Any]:
        """What the catalog says of a table."""
        with self.state() as base:
            row = base.execute("select created from tables where name = ?", (name,)).fetchone()
        described: dict[str, Any] = json.loads(row[0])
        return described

    def latest_version(self, name: str) -> int:
        """The last version of a table that was committed through the catalog."""
        query = (
            "select max(version) from commits join tables on tables.id = commits.id where name = ?"
        )
        with self.state() as base:
            version: int = base.execute(query, (name,)).fetchone()[0]
        return version

    def requests(self) -> list[tuple[str, str]]:
        """The requests since the last time, each as its method and the end of its path."""
        with self.state() as base:
            rows = base.execute("select method, path from requests order by at").fetchall()
            base.execute("delete from requests")
        return [(method, path.rpartition("/")[2]) for method, path in rows]

    def fail(self, *kinds: str) -> None:
        """Let something happen to the next commits: ``unheard``, ``lost``, ``broken`` or ``busy``.

        The connection breaks before or after the commit took effect, the answer is a 500 after it
        did, or another commit holds the table.
        """
        with self.state() as base:
            base.executemany("insert into faults (kind) values (?)", [(kind,) for kind in kinds])


class _Refusal(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        error = {"message": message, "type": kind, "code": status}
        self.response = web.json_response({"error": error}, status=status)


class _Server:
    def __init__(self, database: str, folder: str) -> None:
        self.base = sqlite3.connect(database, timeout=60, isolation_level=None)
        self.base.executescript(_TABLES)
        self.folder = Path(folder)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Every request, in a transaction of its own."""
        body = await request.json() if request.can_read_body else {}
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _Refusal(401, "NotAuthorizedException", "who are you?").response
        self.base.execute("begin immediate")
        self.base.execute(
            "insert into requests (method, path, body) values (?, ?, ?)",
            (request.method, request.path, json.dumps(body)),
        )
        row = None
        if "updates" in body:
            row = self.base.execute("select at, kind from faults order by at").fetchone()
        fault = row and row[1]
        if row:
            self.base.execute("delete from faults where at = ?", (row[0],))
        try:
            if fault == "unheard":
                return self._broken(request)
            if fault == "busy":
                raise _Refusal(409, "UpdateRequirementConflictException", "commit in progress")
            answer = web.json_response(self._do(request, body))
            if fault == "lost":
                return self._broken(request)
            if fault == "broken":
                raise _Refusal(500, "InternalServerErrorException", "something broke")
            return answer
        except _Refusal as refusal:
            return refusal.response
        finally:
            self.base.execute("commit")

    @staticmethod
    def _broken(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    def _do(self, request: web.Request, body: dict[str, Any]) -> dict[str, Any]:
        names = request.match_info
        what = request.path.rpartition("/")[2]
        name = f"{names['catalog']}.{names['schema']}.{names.get('table') or body.get('name')}"
        if request.method == "POST" and what == "staging-tables":
            return self._stage(name)
        if request.method == "POST" and "table" not in names:
            return self._create(name, body)
        table = self._table(name)
        if what == "credentials":
            prefix = f"{table['location']}/"
            operation = request.query["operation"]
            config = {"s3.access-key-id": "key", "s3.secret-access-key": operation}
            config |= {"s3.session-token": None, "gcs.oauth-token": None}
            return {"storage-credentials": [_credential(prefix, operation, config)]}
        if request.method == "POST":
            self._update(table, body)
        return self._loaded(table)

    def _table(self, name: str, *, staged: bool = False) -> dict[str, Any]:
        found = self.base.execute(
            "select id, location, created from tables where name = ? and staged = ?", (name, staged)
        ).fetchone()
        if found is None:
            raise _Refusal(404, "NoSuchTableException", f"Table not found: {name}")
        return {"id": found[0], "location": found[1], "created": json.loads(found[2] or "{}")}

    def _stage(self, name: str) -> dict[str, Any]:
        table_id = str(uuid.uuid4())
        location = (self.folder / table_id).as_uri()
        self.base.execute(
            "insert into tables values (?, ?, ?, true, null)", (name, table_id, location)
        )
        return {
            "table-id": table_id,
            "table-type": "MANAGED",
            "location": location,
            "storage-credentials": [_credential(location, "READ_WRITE", {})],
            "required-protocol": {
                "min-reader-version": 3,
                "min-writer-version": 7,
                "reader-features": READER_WRITER,
                "writer-features": [*READER_WRITER, "inCommitTimestamp"],
            },
            "required-properties": {**FIXED, "io.unitycatalog.tableId": table_id},
            "suggested-properties": {"delta.rowTracking.materializedRowIdColumnName": None},
        }

    def _create(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        table = self._table(name, staged=True)
        protocol, properties = body["protocol"], body["properties"]
        missing = {*READER_WRITER, "inCommitTimestamp"} - set(protocol["writer-features"])
        missing |= set(READER_WRITER) - set(protocol["reader-features"])
        wanted = {**FIXED, "io.unitycatalog.tableId": table["id"]}
        wrong = [key for key, value in wanted.items() if properties.get(key) != value]
        if missing or wrong or body["location"] != table["location"]:
            raise _Refusal(400, "InvalidParameterValueException", f"lacks {missing} {wrong}")
        self.base.execute(
            "update tables set staged = false, created = ? where name = ?", (json.dumps(body), name)
        )
        return self._loaded(self._table(name))

    def _loaded(self, table: Mapping[str, Any]) -> dict[str, Any]:
        rows = self._commits(table)
        waiting = [json.loads(body) for _, body, published in rows if not published]
        created = table["created"]
        return {
            "metadata": {
                "etag": "e",
                "table-type": "MANAGED",
                "table-uuid": table["id"],
                "location": table["location"],
                "created-time": 0,
                "updated-time": 0,
                "columns": created.get("columns"),
                "partition-columns": created.get("partition-columns"),
                "properties": {**created["properties"], **_derived(created)},
            },
            "commits": waiting[::-1],
            "latest-table-version": rows[-1][0] if rows else 0,
        }

    def _commits(self, table: Mapping[str, Any]) -> list[tuple[int, str, int]]:
        return self.base.execute(
            "select version, body, published from commits where id = ? order by version",
            (table["id"],),
        ).fetchall()

    def _update(self, table: Mapping[str, Any], body: dict[str, Any]) -> None:
        if body["requirements"] != [{"type": "assert-table-uuid", "uuid": table["id"]}]:
            raise _Refusal(409, "UpdateRequirementConflictException", "it is another table")
        updates = {update["action"]: update for update in body["updates"]}
        commit = updates["add-commit"]["commit"]
        assert all(type(commit[key]) is int for key in commit if key != "file-name")
        published = updates.get("set-latest-backfilled-version", {}).get("latest-published-version")
        rows, version = self._commits(table), commit["version"]
        if rows:
            first, last = rows[0][0], rows[-1][0]
            if version <= last:
                self._taken(table, commit, {at: json.loads(text) for at, text, _ in rows})
                return
            if version > last + 1 or (published is not None and published > last):
                raise _Refusal(400, "InvalidParameterValueException", f"{last} is the latest")
            done = first - 1 + rows[0][2]
            if version - max(done, published or 0) > MOST_COMMITS:
                raise _Refusal(429, "ResourceExhaustedException", "Max number of commits reached")
        self.base.execute(
            "insert into commits values (?, ?, ?, false)",
            (table["id"], version, json.dumps(commit)),
        )
        self._describe(table, updates)
        if published is not None:
            self.base.execute(
                "delete from commits where id = ? and version <= ?", (table["id"], published)
            )

    def _describe(self, table: Mapping[str, Any], updates: dict[str, dict[str, Any]]) -> None:
        """Apply the other actions to the description of the table."""
        told = table["created"]
        properties, domains = told["properties"], told.setdefault("domain-metadata", {})
        for action, update in updates.items():
            match action:
                case "set-columns":
                    told["columns"] = update["columns"]
                case "set-partition-columns":
                    told["partition-columns"] = update["partition-columns"]
                case "set-table-comment":
                    told["comment"] = update["comment"]
                case "set-properties":
                    properties |= update["updates"]
                case "remove-properties":
                    for key in update["removals"]:
                        del properties[key]
                case "set-protocol":
                    told["protocol"] = update["protocol"]
                case "set-domain-metadata":
                    assert update["updates"].keys() <= {"delta.clustering", "delta.rowTracking"}
                    domains |= update["updates"]
                case "remove-domain-metadata":
                    for domain in update["domains"]:
                        del domains[domain]
                case _:
                    assert action in ("add-commit", "set-latest-backfilled-version")
        text = json.dumps(told)
        self.base.execute("update tables set created = ? where id = ?", (text, table["id"]))

    def _taken(
        self, table: Mapping[str, Any], commit: dict[str, Any], kept: dict[int, dict[str, Any]]
    ) -> None:
        version = commit["version"]
        if version in kept:
            same = kept[version]["file-name"] == commit["file-name"]
        else:
            log = Path(table["location"].removeprefix("file://")) / "_delta_log"
            staged = log / "_staged_commits" / commit["file-name"]
            same = staged.read_bytes() == (log / f"{version:020d}.json").read_bytes()
        if not same:
            raise _Refusal(409, "CommitVersionConflictException", f"{version} is taken")


def _derived(told: dict[str, Any]) -> dict[str, str]:
    """The properties that the server makes up."""
    features = told["protocol"]["writer-features"]
    return {
        "delta.minReaderVersion": str(told["protocol"]["min-reader-version"]),
        "delta.minWriterVersion": str(told["protocol"]["min-writer-version"]),
        "delta.lastUpdateVersion": "0",
        "delta.lastCommitTimestamp": str(told["last-commit-timestamp-ms"]),
        **{f"delta.feature.{name}": "supported" for name in features},
    }


def _credential(prefix: str, operation: str, config: dict[str, Any]) -> dict[str, Any]:
    expires = int(time.time() * 1000) + 3_600_000
    return {
        "prefix": prefix,
        "operation": operation,
        "expiration-time-ms": expires,
        "config": config,
    }


@pytest.fixture
def unity_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnityServer]:
    """A server with nothing in it."""
    folder = tmp_path_factory.mktemp("unity")
    database = str(folder / "unity.db")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.unity_catalog", database, str(folder)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield UnityServer(f"http://127.0.0.1:{port}", database)
        finally:
            process.terminate()


def _main(database: str, folder: str) -> None:
    server = _Server(database, folder)
    app = web.Application()
    for path in (
        f"{_SCHEMA_PATH}/staging-tables",
        f"{_SCHEMA_PATH}/tables",
        f"{_SCHEMA_PATH}/tables/{{table}}",
        f"{_SCHEMA_PATH}/tables/{{table}}/credentials",
    ):
        app.router.add_route("*", path, server.answer)
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    web.run_app(app, sock=listening, print=None)


if __name__ == "__main__":
    _main(*sys.argv[1:])
