"""What the service refuses, and from whom: by tokens, prefixes, sizes, rates and time."""

from __future__ import annotations

import asyncio
import datetime
import logging
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
import anyio
import orjson
import pytest

from adelta._concurrency import map_concurrent
from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidOptionError,
    PermissionDeniedError,
    StorageError,
    TableNotFoundError,
    ThrottledError,
)
from adelta.owner.access import Right, Tokens
from adelta.owner.ledger import LedgerLimits
from adelta.owner.limits import ServiceLimits
from adelta.owner.parts import Settings
from adelta.owner.server import running_owner
from adelta.owner.table_logs import TableLog
from adelta.serving import listening
from tests.support.certificates import write_certificate
from tests.support.owners import proposal, running
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.support.owners import Owner

ONE_GB = 1 << 30


LIMITS = ServiceLimits(body_bytes=1 << 20, failures_per_minute=20)


@pytest.fixture
def limits() -> ServiceLimits:
    return LIMITS


@pytest.fixture
async def owner(tmp_path: Path, limits: ServiceLimits) -> AsyncIterator[Owner]:
    async with running(tmp_path, service=limits) as owner:
        yield owner


@pytest.fixture
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For those who count how often somebody asks in some time."""
    monkeypatch.setattr("adelta.serving.rates.monotonic", lambda: 0.0)


async def asked(
    owner: Owner, path: str, body: Any = None, token: str | None = None, method: str | None = None
) -> tuple[int, str, str]:
    """The status, kind and message of an answer."""
    headers = {} if token is None else {"Authorization": token}
    method = method or ("GET" if body is None else "POST")
    data = body if isinstance(body, bytes | type(None)) else orjson.dumps(body)
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, owner.endpoint + path, data=data, headers=headers) as response,
    ):
        told = orjson.loads(await response.read()).get("error", {})
        return response.status, told.get("type", ""), told.get("message", "")


# ---------------------------------------------------------------------------------------- tokens


async def test_a_request_without_a_token_that_counts_is_refused(owner: Owner) -> None:
    token = await owner.token()
    half = token[:-1] + ("0" if token[-1] != "0" else "1")
    odd = f"Bearer {half[:-1]}\udcff"  # is sent as a byte that is no UTF-8
    for header in (None, "", "Bearer ", "Bearer x", f"Basic {token}", f"Bearer {half}", token, odd):
        status, kind, _ = await asked(owner, "/api/v1/tables", token=header)
        assert (status, kind) == (401, "NotAuthenticated")
    assert (await asked(owner, "/metrics"))[0] == 401
    assert (await asked(owner, "/api/v1/tables", token=f"Bearer {token}"))[0] == 200
    head = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: "
    answer = await raw(owner, head + b"Bearer adelta_\xff_x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 401 ")
    client = await owner.client(token="adelta_00_00")
    with pytest.raises(PermissionDeniedError, match="no token that counts"):
        await client.get_commits()
    with pytest.raises(PermissionDeniedError, match="no token that counts"):
        await client.commit(proposal(1, "x"))


@pytest.mark.usefixtures("no_time_passes")
async def test_who_tries_tokens_is_slowed_down_and_nobody_else_at_the_address(
    owner: Owner,
) -> None:
    token = f"Bearer {await owner.token()}"
    assert (await asked(owner, "/api/v1/tables", token=token))[0] == 200
    statuses = [(await asked(owner, "/api/v1/tables", token="Bearer a_b_c"))[0] for _ in range(25)]
    assert statuses == [401] * 20 + [429] * 5
    assert (await asked(owner, "/api/v1/tables", token=token))[0] == 200


@pytest.mark.parametrize("right", [Right.READ, Right.WRITE])
async def test_a_token_allows_what_its_right_says_and_no_more(owner: Owner, right: Right) -> None:
    await owner.adopted()
    client = await owner.client(token=await owner.token(right))
    assert (await client.get_commits()).latest_version == 0
    refused = [
        partial(client.propose, proposal(1, "x")),
        partial(client.release, proposal(1, "x")),
    ]
    if right is Right.READ:
        refused.append(partial(client.commit, proposal(1, "x")))
        refused.append(partial(client.owner.commit_together, [(client, proposal(1, "x"))]))
    for request in refused:
        with pytest.raises(PermissionDeniedError, match=f"allows to {right.name.lower()}"):
            await request()
    assert (await client.get_commits()).latest_version == 0


async def test_a_table_outside_the_prefix_is_refused_whether_it_is_there_or_not(
    owner: Owner,
) -> None:
    await owner.adopted("orders")
    await owner.adopted("orders2")
    token = await owner.token(prefix=str(owner.folder / "orders"))
    inside = await owner.client("orders", token)
    assert (await inside.commit(proposal(1, "x"))).ratified
    for name in ("orders2", "nothing"):
        outside = await owner.client(name, token)
        for request in (
            outside.get_commits,
            partial(outside.commit, proposal(1, "x")),
            partial(outside.propose, proposal(0, "x")),
            partial(outside.accept, 0),
            partial(outside.backfill_to_version, 0),
            partial(outside.wait_for_commit, 0, 0),
            partial(inside.owner.get_commits_together, [(inside, 0), (outside, 0)]),
            partial(
                inside.owner.commit_together,
                [(inside, proposal(2, "y")), (outside, proposal(1, "y"))],
            ),
        ):
            with pytest.raises(PermissionDeniedError, match="is for other tables"):
                await request()
    assert (await inside.get_commits()).latest_version == 1
    listed = await _listed(owner, token)
    assert [table.rpartition("/")[2] for table in listed] == ["orders"]


async def _listed(owner: Owner, token: str) -> list[str]:
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{owner.endpoint}/api/v1/tables"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return [table["uri"] for table in (await response.json())["tables"]]


async def test_tokens_are_rotated_and_revoked_without_a_restart(owner: Owner) -> None:
    tokens = Tokens(owner.service.parts.database)
    old, grant = await tokens.create(Right.OWN, str(owner.folder), label="job")
    await owner.adopted(token=old)
    new, made = await tokens.rotate(grant.token_id, after_ms=3_600_000)
    assert (made.right, made.prefix, made.label) == (grant.right, grant.prefix, "job")
    for token in (old, new):
        assert (await (await owner.client(token=token)).get_commits()).latest_version == 0
    newest, _ = await tokens.rotate(made.token_id, after_ms=1)
    client = await owner.client(token=new)
    with anyio.fail_after(60):
        while True:
            try:
                await client.get_commits()
            except PermissionDeniedError:
                break
            await anyio.sleep(0.05)
    assert (await (await owner.client(token=newest)).get_commits()).latest_version == 0
    with pytest.raises(InvalidOptionError, match="that counts"):
        await tokens.rotate(grant.token_id, after_ms=0)
    with pytest.raises(InvalidOptionError, match="there is no token"):
        await tokens.revoke("nobody")
    expired, ended = await tokens.create(Right.OWN, "*", expires_ms=int(time.time() * 1000) - 1)
    with pytest.raises(PermissionDeniedError):
        await (await owner.client(token=expired)).get_commits()
    with pytest.raises(InvalidOptionError, match="that counts"):  # the new one would not either
        await tokens.rotate(ended.token_id, after_ms=0)


async def test_no_token_stands_in_the_database(owner: Owner, tmp_path: Path) -> None:
    token = await owner.token()
    with closing(sqlite3.connect(tmp_path / "owner.db")) as base:
        kept = "\n".join(base.iterdump())
    assert token.split("_")[1] in kept
    assert token.split("_")[2] not in kept
    assert (tmp_path / "owner.db").stat().st_mode & 0o077 == 0


async def test_no_token_stands_in_a_log(owner: Owner, caplog: pytest.LogCaptureFixture) -> None:
    """What is no HTTP may hold one, and is told of by aiohttp's errors as it came."""
    caplog.set_level(logging.DEBUG)
    token = (await owner.token()).encode()
    for head in (b"Authorization: Bearer %b\x01", b"Authorization Bearer %b", b"%b\xff: x"):
        request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + head % token + b"\r\n\r\n"
        assert b" 400 " in await raw(owner, request)
    assert b" 400 " in await raw(owner, b"GET /?%b\xff HTTP/1.1\r\n\r\n" % token)
    assert caplog.text.count("a request was no HTTP") == 4
    assert token.decode().split("_")[2] not in caplog.text
    first_token = owner.service.first_token
    assert first_token is not None
    assert first_token not in repr(owner.service)
    assert owner.service.parts.settings.database not in repr(owner.service.parts.settings)


# ------------------------------------------------------------------------------------- requests


async def raw(owner: Owner, *pieces: bytes, pause: float = 0.0, only_status: bool = False) -> bytes:
    """What the server says to pieces of a request, up to the end of the connection."""
    host, port = owner.endpoint.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    answer = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        answer = await (reader.readline() if only_status else reader.read())
    except ConnectionError:
        pass
    finally:
        writer.close()
    return answer


async def test_a_body_of_a_gigabyte_is_refused_before_it_is_read(owner: Owner) -> None:
    token = await owner.token()
    head = f"POST /api/v1/commit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    with anyio.fail_after(60):
        status = partial(raw, owner, only_status=True)
        answer = await status(f"{head}Content-Length: {ONE_GB}\r\n\r\n".encode(), b"x" * 65536)
        assert answer.startswith(b"HTTP/1.1 413 ")
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        answer = await status(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(), chunk * 20)
        assert answer.startswith(b"HTTP/1.1 413 ")
        zipped = f"{head}Content-Encoding: gzip\r\nContent-Length: 10\r\n\r\n".encode()
        assert (await status(zipped, b"x" * 10)).startswith(b"HTTP/1.1 415 ")
    client = await owner.adopted()
    with pytest.raises(InvalidOptionError, match="1,048,576 bytes at most"):
        await client.commit(proposal(1, "x", padding=1 << 20))


@pytest.mark.parametrize("limits", [replace(LIMITS, all_bodies_bytes=1 << 19)])
async def test_bodies_count_as_they_come_and_not_as_they_are_said_to(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    token, client = await owner.token(Right.READ), await owner.adopted()
    head = f"POST /api/v1/commit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    host, port = owner.endpoint.removeprefix("http://").split(":")
    held = []
    with anyio.fail_after(60):
        for _ in range(3):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"{head}Content-Length: {1 << 20}\r\n\r\n{{".encode())
            await writer.drain()
            held.append(writer)
        assert (await client.commit(proposal(1, "x"))).ratified
        unsaid = f"{head}Transfer-Encoding: chunked\r\n\r\nc0000\r\n".encode()
        answer = await raw(owner, unsaid, b"x" * 0xC0000, only_status=True)
        assert answer.startswith(b"HTTP/1.1 503 ")
        for writer in held:
            writer.close()
        gone = owner.service.parts.metrics.refused.labels("400")
        await until(lambda: gone._value.get() == len(held))
    assert "a request failed" not in caplog.text, "who goes away is no failure of the service"


@pytest.mark.parametrize("limits", [replace(LIMITS, all_answers_bytes=8 << 20)])
async def test_long_answers_that_nobody_reads_are_few(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await owner.adopted()
    monkeypatch.setattr(owner.service.parts.backfiller, "wake", lambda _: None)
    for version in range(1, 25):  # each kept in the ledger, and 6 MB of them altogether
        await client.commit(proposal(version, f"{version}", padding=250_000))
    query = f"uri={client.named['uri']}&table_id={client.named['table_id']}&start=0"
    token = await owner.token(Right.READ)
    host, port = owner.endpoint.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1)
    head = (
        f"GET /api/v1/commits?{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    writer.write(head.encode())
    with anyio.fail_after(60):
        assert await reader.read(12) == b"HTTP/1.1 200"
        answer = await raw(owner, head.encode(), only_status=True)
        assert answer.startswith(b"HTTP/1.1 503 ")
        writer.transport.abort()
        assert len((await client.get_commits(0)).commits) == 24


@pytest.mark.parametrize("limits", [replace(LIMITS, head_seconds=0.5, body_seconds=0.5)])
async def test_a_slow_client_is_cut_off_and_holds_up_nobody(owner: Owner) -> None:
    """One that sends a head byte by byte, one that says nothing, and one with a slow body."""
    token = await owner.token()
    head = f"POST /api/v1/commit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    slow = [f"{letter}".encode() for letter in head[:30]]
    work: list[Callable[[], Any]] = [
        partial(raw, owner, *slow, pause=0.1),
        partial(raw, owner),
        partial(raw, owner, f"{head}Content-Length: 1000\r\n\r\n".encode(), b"{"),
        *[partial(raw, owner, b"GET / HTTP/1.1\r\nX: ") for _ in range(50)],
    ]
    client = await owner.adopted()

    async def commit() -> bytes:
        with suppress(StorageError, CommitOutcomeUnknownError):
            assert (await client.commit(proposal(1, "x"))).ratified
            return b"committed"
        return await commit()  # the machine was as slow as the others are

    with anyio.fail_after(60):
        answers = await map_concurrent(lambda one: one(), [*work, commit], limit=100)
    assert answers[0] == answers[1] == answers[3] == b""
    assert answers[2].startswith(b"HTTP/1.1 408 ")
    assert answers[-1] == b"committed"
    assert len(owner.service.parts.guards.open) <= 1  # that of the client


async def test_the_database_is_not_asked_for_each_look_at_the_services_health(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, looks = owner.service.parts.ledger, []
    tables = ledger.tables
    monkeypatch.setattr(ledger, "tables", lambda **asked: looks.append(1) or tables(**asked))
    answers = await map_concurrent(lambda _: asked(owner, "/health"), range(30), limit=10)
    assert {status for status, _, _ in answers} == {200}
    assert len(looks) <= 2


@pytest.mark.usefixtures("no_time_passes")
async def test_a_token_that_sends_too_many_requests_is_slowed_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ServiceLimits(requests_per_second=5, connections=3)
    async with running(tmp_path, service=limits) as owner:
        token = await owner.token()
        client, other = await owner.client(token=token), await owner.client()
        kinds = []
        for version in range(12):
            with pytest.raises((ThrottledError, TableNotFoundError)) as refused:
                await client.commit(proposal(version, "x"))
            kinds.append(refused.type)
        assert kinds == [TableNotFoundError] * 10 + [ThrottledError] * 2
        now = "adelta.serving.rates.monotonic"  # it goes on while the client waits to ask again
        asyncio.get_running_loop().call_later(0.05, monkeypatch.setattr, now, lambda: 1.0)
        with pytest.raises(TableNotFoundError):
            await client.backfill_to_version()
        with pytest.raises(TableNotFoundError):
            await other.commit(proposal(1, "x"))


async def test_too_many_commits_that_wait_are_said_to_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> bool:
        raise StorageError("the store is full")

    backfill = TableLog.backfill
    async with running(tmp_path, ledger=LedgerLimits(waiting_commits=2)) as owner:
        client = await owner.adopted()
        monkeypatch.setattr(TableLog, "backfill", refuse)
        for version in (1, 2):
            assert (await client.commit(proposal(version, "x"))).ratified
        with pytest.raises(ThrottledError, match="wait to be backfilled"):
            await client.commit(proposal(3, "x"))
        monkeypatch.setattr(TableLog, "backfill", backfill)
        await client.backfill_to_version()
        assert (await client.commit(proposal(3, "x"))).ratified


TABLE = {"uri": "file:///lake/orders", "table_id": "a"}
COMMIT = {"version": 1, "transaction_id": "x", "in_commit_timestamp": 1001}
CONTENT = proposal(1, "x").content.decode()


@pytest.mark.parametrize(
    ("table", "commit"),
    [
        ({**TABLE, "uri": "file:///lake/../etc"}, {}),
        ({**TABLE, "uri": "file:///lake/%2e%2e/etc"}, {}),
        ({**TABLE, "uri": "../orders"}, {}),
        ({**TABLE, "uri": "s3://lake/a\r\nX-Evil: 1"}, {}),
        ({**TABLE, "uri": "file:///lake/'; DROP TABLE owner_tables; --\0"}, {}),
        ({**TABLE, "uri": "http://169.254.169.254/latest"}, {}),
        ({**TABLE, "uri": 7}, {}),
        ({**TABLE, "table_id": "'; DROP TABLE owner_tables; --"}, {}),
        ({**TABLE, "table_id": "../b"}, {}),
        ("orders", {}),
        (TABLE, {"version": -1}),
        (TABLE, {"version": "1"}),
        (TABLE, {"version": True}),
        (TABLE, {"version": 2**63}),
        (TABLE, {"version": 1.5}),
        (TABLE, {"transaction_id": "x\n"}),
        (TABLE, {"transaction_id": ""}),
        (TABLE, {"in_commit_timestamp": None}),
        (TABLE, {"content": ""}),
        (TABLE, {"content": ["x"]}),
        (TABLE, {"content": "{}\nno action"}),
        (TABLE, {"content": "[1]\n"}),
        (TABLE, {"content": '{"commitInfo":{"txnId":"y","inCommitTimestamp":1001}}\n'}),
        (TABLE, {"content": '{"commitInfo":{"txnId":"x","inCommitTimestamp":5}}\n'}),
        (TABLE, {"content": '{"commitInfo":7}\n'}),
        (TABLE, {"content": None}),
        *[
            (TABLE, {"content": None, "size": 1, "modified_ms": 1, "staged_file": name})
            for name in (
                "../00000000000000000001.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json",
                "00000000000000000002.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json",
                "00000000000000000001.../x.json",
                "00000000000000000001.json",
                "",
                7,
            )
        ],
        (TABLE, {"staged_file": "00000000000000000001.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json"}),
    ],
)
async def test_what_no_honest_client_says_is_refused(owner: Owner, table: Any, commit: Any) -> None:
    token = f"Bearer {await owner.token(prefix='*')}"
    body = {"table": table, "commit": {**COMMIT, "content": CONTENT, **commit}}
    status, kind, message = await asked(owner, "/api/v1/commit", body, token)
    assert (status, kind) == (400, "InvalidRequest"), message
    assert "\n" not in message
    together = await asked(owner, "/api/v1/commit-together", {"commits": [body]}, token)
    assert together[:2] == (400, "InvalidRequest")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/v1/commit", b"no json", 400),
        ("/api/v1/commit", b"[]", 400),
        ("/api/v1/commit", b'{"table":' * 5000, 400),
        ("/api/v1/commit", b"\xff\xfe", 400),
        ("/api/v1/commit-together", b'{"commits":[]}', 400),
        ("/api/v1/commits-together", b'{"tables":7}', 400),
        ("/api/v1/commits?uri=file:///lake/t&table_id=a&start=-1", None, 400),
        ("/api/v1/commits?uri=file:///lake/t&table_id=a&start=1e3", None, 400),
        ("/api/v1/commits?uri=file:///lake/t", None, 400),
        ("/api/v1/wait?uri=file:///lake/t&table_id=a&after=x", None, 400),
        ("/api/v1/commit", None, 404),
        ("/etc/passwd", None, 404),
        ("/api/v1/../../etc/passwd", None, 404),
    ],
)
async def test_odd_requests_are_refused_in_json(
    owner: Owner, path: str, body: bytes | None, status: int
) -> None:
    token = f"Bearer {await owner.token(prefix='*')}"
    found = await asked(owner, path, body, token)
    assert found[:2] == (status, "InvalidRequest")


async def test_tables_outside_the_roots_of_the_service_are_not_taken(tmp_path: Path) -> None:
    async with running(tmp_path, roots=(str(tmp_path / "lake"),)) as owner:
        client = await owner.client(token=await owner.token(prefix="*"))
        with pytest.raises(PermissionDeniedError, match="takes no tables at"):
            await client.propose(proposal(0, "x"))
        for name in ("elsewhere", "lake"):
            (tmp_path / name).mkdir()
        (tmp_path / "lake" / "orders").symlink_to(tmp_path / "elsewhere")
        linked = await owner.client("lake/orders")
        await linked.propose(proposal(0, "x"))
        log = tmp_path / "elsewhere" / "_delta_log"
        log.mkdir()
        (log / f"{0:020d}.json").write_bytes(proposal(0, "x").content)
        with pytest.raises((StorageError, TableNotFoundError)):
            await linked.accept(0)
        plain = await owner.adopted("lake/stock")
        assert (await plain.commit(proposal(1, "x"))).ratified
        await plain.backfill_to_version()
        assert [*owner.log("lake/stock")] == [0, 1]


# ------------------------------------------------------------------------------------------ TLS


async def test_a_client_trusts_no_certificate_that_is_another_or_has_expired(
    tmp_path: Path,
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    good = write_certificate(tmp_path / "good.pem", now - day, now + day)
    old = write_certificate(tmp_path / "old.pem", now - 2 * day, now - day)
    async with running(tmp_path, certificate=str(good)) as owner:
        assert owner.endpoint.startswith("https://")
        client = await owner.client(ca_bundle=str(good))
        with pytest.raises(TableNotFoundError, match="does not know it"):
            await client.get_commits()
        for trusted in (None, str(old)):
            with pytest.raises(StorageError, match="certificate verify failed"):
                await (await owner.client(ca_bundle=trusted)).get_commits()
    async with running(tmp_path, certificate=str(old)) as owner:
        client = await owner.client(ca_bundle=str(old))
        for request in (client.get_commits, partial(client.commit, proposal(1, "x"))):
            with pytest.raises(StorageError, match="certificate has expired"):
                await request()


async def test_a_renewed_certificate_is_taken_up_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "_LOOK", 0.05)
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    file = write_certificate(tmp_path / "owner.pem", now - day, now + day)
    first = tmp_path / "first.pem"
    first.write_bytes(file.read_bytes())
    async with running(tmp_path, certificate=str(file)) as owner:
        await (await owner.adopted(token=await owner.token(), ca_bundle=str(first))).get_commits()
        file.write_text("half of it")
        await anyio.sleep(0.2)
        await (await owner.client(ca_bundle=str(first))).get_commits()
        write_certificate(file, now - day, now + day)
        with anyio.fail_after(60):
            while True:
                with suppress(StorageError):
                    await (await owner.client(ca_bundle=str(file))).get_commits()
                    break
                await anyio.sleep(0.05)
        with pytest.raises(StorageError, match="certificate verify failed"):
            await (await owner.client(ca_bundle=str(first))).get_commits()


@pytest.mark.parametrize(
    "settings",
    [
        {"host": "0.0.0.0"},
        {"host": "::"},
        {"host": "owner.example"},
        {"certificate": "/nowhere.pem"},
        {"host": "192.0.2.1", "without_tls": True},
    ],
)
async def test_settings_that_would_be_unsafe_or_cannot_be_are_refused(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOptionError):
        async with running_owner(Settings(str(tmp_path / "owner.db"), port=0, **settings)):
            pass
