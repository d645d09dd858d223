"""What the page's service answers, and whom: names, tokens, other sites, limits."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import anyio
import orjson
import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidOptionError
from adelta.serving.listening import Address
from adelta.storage.local import LocalStore
from adelta.ui.access import knows_host
from adelta.ui.server import running_ui
from adelta.ui.settings import UiLimits, UiSettings
from tests.support.logs import add, metadata, protocol, put_commit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TOKEN = "a-token-of-some-length"
LOOPBACK = Address("127.0.0.1", 0)


@pytest.fixture
async def trips(tmp_path: Path) -> str:
    uri = str(tmp_path / "trips")
    await adelta.write_table(uri, pa.table({"km": [1, 2, 3]}))
    return uri


@asynccontextmanager
async def served(*uris: str, **settings: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the page's service."""
    given = UiSettings(uris, **{"address": LOOPBACK, **settings})
    async with (
        running_ui(given) as ui,
        aiohttp.ClientSession(ui.endpoint, cookie_jar=aiohttp.CookieJar(unsafe=True)) as client,
    ):
        yield client


async def status(client: aiohttp.ClientSession, path: str, method: str = "GET", **more: str) -> int:
    headers = {name.replace("_", "-"): text for name, text in more.items()}
    async with client.request(method, path, headers=headers) as response:
        return response.status


@pytest.mark.parametrize(
    ("header", "local", "is_known"),
    [
        ("127.0.0.1:8788", True, True),
        ("localhost", True, True),
        ("LOCALHOST:1", True, True),
        ("[::1]:8788", True, True),
        ("desk.example:8788", True, True),
        ("evil.example:8788", True, False),
        ("127.0.0.1.evil.example", True, False),
        ("localhost.evil.example", True, False),
        ("192.0.2.1:8788", True, False),
        ("192.0.2.1:8788", False, True),
        ("[2001:db8::1]", False, True),
        ("evil.example", False, False),
        ("", True, False),
    ],
)
def test_only_addresses_and_names_that_it_is_told_are_its_own(
    header: str, local: bool, is_known: bool
) -> None:
    assert knows_host(header, {"desk.example"}, local=local) is is_known


async def test_a_foreign_name_or_another_sites_page_is_not_answered(trips: str) -> None:
    async with served(trips) as client:
        assert await status(client, "/api/tables/0/overview") == 200
        for path in ("/", "/api/tables", "/page/app.js", "/api/tables/0/tail"):
            assert await status(client, path, Host="evil.example:8788") == 421
        for site in ("cross-site", "same-site"):
            assert await status(client, "/api/tables/0/overview", Sec_Fetch_Site=site) == 403
            assert await status(client, "/", Sec_Fetch_Site=site) == 200
        assert await status(client, "/api/tables", Sec_Fetch_Site="same-origin") == 200


async def test_every_answer_bears_the_policy_and_says_nothing_to_other_origins(trips: str) -> None:
    async with served(trips) as client:
        for path in ("/", "/page/app.js", "/api/tables", "/api/tables/0/tail", "/nowhere"):
            async with client.get(path, headers={"Origin": "https://evil.example"}) as response:
                policy = response.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert response.headers["Cache-Control"] == "no-store"
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                assert "Access-Control-Allow-Origin" not in response.headers


async def test_nothing_can_be_changed_through_it(trips: str) -> None:
    async with served(trips) as client:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            for path in ("/", "/api/tables", "/api/tables/0/overview", "/api/tables/0/history"):
                assert await status(client, path, method) == 405


async def test_who_has_no_token_gets_the_empty_page_alone(trips: str) -> None:
    async with served(trips, token=TOKEN) as client:
        assert await status(client, "/") == 200
        for path in ("/api/tables", "/api/tables/0/overview", "/api/tables/0/tail"):
            assert await status(client, path) == 401
            assert await status(client, path, Authorization=f"Bearer {TOKEN}x") == 401
            assert await status(client, f"{path}?token={TOKEN}") == 401
        assert await status(client, "/api/tables", Authorization=f"Bearer {TOKEN}") == 200
        assert await status(client, "/api/session", "POST") == 401
        assert await status(client, "/api/tables") == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with client.post("/api/session", headers=headers) as response:
            (cookie,) = response.headers.getall("Set-Cookie")
            assert TOKEN not in cookie
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
        assert await status(client, "/api/tables/0/overview") == 200


async def test_who_tries_tokens_is_slowed_down(trips: str) -> None:
    limits = UiLimits(failures_per_minute=3)
    async with served(trips, token=TOKEN, limits=limits) as client:
        tried = [await status(client, "/api/tables", Authorization="Bearer x") for _ in range(5)]
        assert tried == [401] * 3 + [429] * 2
        assert await status(client, "/api/tables") == 401


async def test_what_is_asked_wrongly_is_said(trips: str) -> None:
    async with served(trips) as client:
        for path, code in (
            ("0/overview?version=-1", 400),
            ("0/overview?version=99999999999999999999", 400),
            ("0/overview?version=7", 404),
            ("0/rows?columns=nope", 400),
            ("0/rows?limit=501", 400),
            ("0/rows?where=km+%3D", 400),
            ("0/layout?column=nope", 400),
            ("0/changes?columns=nope", 400),
            ("0/nothing", 404),
            ("1/overview", 404),
            ("x/overview", 404),
            ("%2e%2e/overview", 404),
        ):
            assert await status(client, f"/api/tables/{path}") == code, path


async def test_rows_are_cut_where_there_are_many_or_where_they_are_long(tmp_path: Path) -> None:
    uri = str(tmp_path / "long")
    await adelta.write_table(uri, pa.table({"id": range(600), "text": ["x" * 100_000] * 600}))
    async with served(uri) as client:
        async with client.get("/api/tables/0/rows?limit=500&columns=id") as response:
            told = await response.json()
        assert [len(told["rows"]), told["stopped"]] == [500, "These are the first 500 rows."]
        async with client.get("/api/tables/0/rows?limit=500") as response:
            told = await response.json()
        assert told["rows"][0][1] == "x" * 1000 + "… (100,000 characters)"
        assert "first" in told["stopped"]


@pytest.mark.parametrize(
    "settings",
    [
        {"address": Address("0.0.0.0", 0)},
        {"address": Address("0.0.0.0", 0), "token": TOKEN},
        {"token": "short"},
        {"uris": ()},
        {"storage_options": {"no_such_option": "1"}},
    ],
)
async def test_what_would_be_unsafe_or_cannot_be_is_refused(
    trips: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOptionError):
        async with running_ui(UiSettings(**{"uris": (trips,), "address": LOOPBACK, **settings})):
            pass


async def test_who_follows_too_many_is_refused_and_all_are_let_go_at_the_end(trips: str) -> None:
    with anyio.fail_after(60):
        async with served(trips, limits=UiLimits(followers=2)) as client:
            streams = [await client.get("/api/tables/0/tail") for _ in range(2)]
            assert [each.status for each in streams] == [200, 200]
            assert (await streams[0].content.readline()) == b"event: ready\n"
            assert await status(client, "/api/tables/0/tail") == 503
        for each in streams:
            each.close()


async def test_a_stream_goes_on_after_the_last_commit_that_was_had(trips: str) -> None:
    for km in (4, 5):
        await adelta.write_table(trips, pa.table({"km": [km]}))
    async with (
        served(trips) as client,
        client.get("/api/tables/0/tail", headers={"Last-Event-ID": "0"}) as response,
    ):
        with anyio.fail_after(60):
            said = [await response.content.readuntil(b"\n\n") for _ in range(2)]
    assert [each.split(b"\n")[:2] for each in said] == [
        [b"event: commit", b"id: 1"],
        [b"event: commit", b"id: 2"],
    ]


async def test_answers_are_short_however_much_there_is(tmp_path: Path) -> None:
    """Of 3,000 files, 3,000 partitions, 400 commits and names of 100,000 characters."""
    uri, long = tmp_path / "large", "x" * 100_000
    uri.mkdir()
    store = LocalStore(uri)
    fields = [{"name": n, "type": "string", "nullable": True, "metadata": {}} for n in ("p", long)]
    about = metadata(
        schemaString=orjson.dumps({"type": "struct", "fields": fields}).decode(),
        partitionColumns=["p"],
        configuration={f"p{n}": long for n in range(50)},
    )
    files = [add(f"{n}.parquet", partitionValues={"p": f"{n}"}) for n in range(3000)]
    await put_commit(store, 0, protocol(), about, *files)
    info = {"operation": long, "operationParameters": {f"{n}": long for n in range(3)}}
    for version in range(1, 400):
        await put_commit(store, version, {"commitInfo": info if version > 395 else {}})
    async with served(str(uri)) as client:
        paths = ("overview", "history", "log", "sizes", "count", "partitions", "layout", "schema")
        for path in (*paths, "layout?column=p", "skipped?where=p%3D'7'"):
            async with client.get(f"/api/tables/0/{path}") as response:
                assert response.status == 200, await response.text()
                assert len(await response.read()) < 200_000


async def test_the_command_serves_until_it_is_told_to_stop(trips: str) -> None:
    command = [sys.executable, "-m", "adelta", "ui", trips, "--port", "0", "--json", "--with-token"]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "ADELTA_UI_TOKEN": TOKEN},
    )
    assert process.stdout is not None
    try:
        with anyio.fail_after(60):
            said = orjson.loads(await process.stdout.readline())
            assert said["address"] == f"{said['endpoint']}/#token={TOKEN}"
            async with aiohttp.ClientSession(said["endpoint"]) as client:
                assert await status(client, "/api/tables") == 401
                assert await status(client, "/api/tables", Authorization=f"Bearer {TOKEN}") == 200
    finally:
        process.send_signal(signal.SIGTERM)
    with anyio.fail_after(60):
        assert await process.wait() == 0
