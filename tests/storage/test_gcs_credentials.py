"""Whose tokens requests to Google Cloud Storage bear, and how they are kept fresh."""

from __future__ import annotations

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from adelta.errors import PermissionDeniedError, StorageError
from adelta.storage.gcs import GcsStore
from adelta.storage.gcs_auth import _Fetch
from adelta.storage.gcs_options import parse_gcs_options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.gcs_server import FakeGcs

_metadata = pytest.importorskip(
    "google.auth.compute_engine._metadata", reason="adelta[gcs] is not installed"
)


class TokenServer:
    """Gives tokens as Google's servers do, each of them once, and notes what was asked."""

    def __init__(self, store: FakeGcs, lifetime: int = 3600) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.clients: list[int] = []
        self.lifetime = lifetime
        self.refused: set[str] = set()
        self.hangs = Event()
        self.hangs.set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.answer({})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                told = json.loads(body) if body.startswith("{") else parse_qs(body)
                self.answer({k: v[0] if isinstance(v, list) else v for k, v in told.items()})

            def answer(self, told: dict[str, Any]) -> None:
                server.asked.append((self.path.partition("?")[0], told))
                server.clients.append(self.client_address[1])
                server.hangs.wait(60)
                if self.path in server.refused:
                    self.reply(400, {"error": "invalid_grant"})
                    return
                token = f"token-{len(server.asked)}"
                store.tokens = {token}
                made: dict[str, object] = {
                    "access_token": token,
                    "expires_in": server.lifetime,
                    "token_type": "Bearer",
                    "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
                }
                if self.path.startswith("/computeMetadata/v1/instance/service-accounts/default/?"):
                    made = {"email": "machine@example.com", "aliases": [], "scopes": []}
                self.reply(200, made)

            def reply(self, status: int, made: dict[str, object]) -> None:
                data = json.dumps(made).encode()
                self.send_response(status)
                self.send_header("metadata-flavor", "Google")
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.http.server_port}"
        Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def tokens(fake_gcs: FakeGcs, monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenServer]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nothing")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setattr(_metadata, "_NO_GCE_CHECK", True, raising=False)
    server = TokenServer(fake_gcs)
    yield server
    server.http.shutdown()
    server.http.server_close()
    fake_gcs.tokens = None


@pytest.fixture(scope="module")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


@pytest.fixture
async def stores(fake_gcs: FakeGcs) -> AsyncIterator[Any]:
    made: list[GcsStore] = []
    place = fake_gcs.location()

    def open_store(**options: str) -> GcsStore:
        given = {"google_base_url": place.endpoint, "allow_http": "true", **options}
        made.append(GcsStore.from_options(place.bucket, place.prefix, given))
        return made[-1]

    yield open_store
    for each in made:
        await each.aclose()


async def works(store: GcsStore) -> None:
    await store.put("x", b"1")
    assert await store.get("x") == b"1"


def account(tokens: TokenServer, private_key: str) -> dict[str, str]:
    return {
        "type": "service_account",
        "client_email": "lake@project.iam.gserviceaccount.com",
        "private_key": private_key,
        "private_key_id": "1",
        "token_uri": f"http://{tokens.address}/token",
    }


async def test_a_service_account_by_file_by_text_and_by_the_environment(
    tokens: TokenServer, private_key: str, stores: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    key = account(tokens, private_key)
    file = tmp_path / "key.json"
    file.write_text(json.dumps(key))
    await works(stores(google_service_account=str(file)))
    await works(stores(google_service_account_key=json.dumps(key)))
    await works(stores(google_application_credentials=str(file)))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(file))
    await works(stores())
    monkeypatch.delenv("GOOGLE_SERVICE_ACCOUNT")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    await works(stores())
    assert [path for path, _ in tokens.asked] == ["/token"] * 5  # one for all requests of a store
    assert all("jwt-bearer" in told["grant_type"] for _, told in tokens.asked)


async def test_a_user_and_a_workload_by_their_files(
    tokens: TokenServer, stores: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "adc.json"
    user = {"client_id": "i", "client_secret": "s", "refresh_token": "r"}
    where = f"http://{tokens.address}/token"
    monkeypatch.setattr("google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", where)
    file.write_text(json.dumps({"type": "authorized_user", **user}))
    await works(stores(google_application_credentials=str(file)))
    assert tokens.asked[-1][1]["refresh_token"] == "r"
    (tmp_path / "subject").write_text("of the workload")
    workload = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"http://{tokens.address}/sts",
        "credential_source": {"file": str(tmp_path / "subject")},
    }
    file.write_text(json.dumps(workload))
    await works(stores(google_application_credentials=str(file)))
    assert tokens.asked[-1][1]["subject_token"] == "of the workload"


async def test_the_machines_own_account_is_asked_of_its_metadata_server(
    tokens: TokenServer, stores: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_GCE_CHECK")
    monkeypatch.setattr(_metadata, "_NO_GCE_CHECK", False)
    if not hasattr(_metadata, "_get_metadata_root"):
        pytest.skip("this google-auth asks one address only, which only Google's machines have")
    monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", tokens.address)
    monkeypatch.setenv("GCE_METADATA_IP", tokens.address)
    await works(stores())
    assert any(path.endswith("/token") for path, _ in tokens.asked)


async def test_a_token_is_renewed_before_its_end_and_when_it_is_refused(
    tokens: TokenServer, private_key: str, stores: Any, fake_gcs: FakeGcs
) -> None:
    key = json.dumps(account(tokens, private_key))
    tokens.lifetime = 200  # less than what they are renewed ahead of
    ends_soon = stores(google_service_account_key=key)
    await works(ends_soon)
    assert len(tokens.asked) > 1
    tokens.lifetime = 3600
    store = stores(google_service_account_key=key)
    await works(store)
    asked, sent = len(tokens.asked), store.request_count
    fake_gcs.tokens = {"none of those given out"}
    assert await store.get("x") == b"1"
    assert len(tokens.asked) == asked + 1
    assert store.request_count == sent + 2


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_asks_by_a_connection_of_its_own(
    tokens: TokenServer, private_key: str
) -> None:
    key = json.dumps(account(tokens, private_key))
    fetch = _Fetch(parse_gcs_options({"google_service_account_key": key}))
    fetch()
    child = os.fork()
    if not child:
        fetch()
        os._exit(0)
    os.waitpid(child, 0)
    fetch()
    ours, of_the_child, again = tokens.clients
    assert ours == again != of_the_child


async def test_no_credentials_anywhere_is_said_with_what_to_do(
    tokens: TokenServer, stores: Any, tmp_path: Path
) -> None:
    with pytest.raises(PermissionDeniedError, match="set the storage option google_service_acc"):
        await stores().get("x")
    with pytest.raises(PermissionDeniedError, match="none-such"):
        await stores(google_service_account=str(tmp_path / "none-such")).get("x")
    with pytest.raises(PermissionDeniedError, match="is no JSON") as refused:
        await stores(google_service_account_key="SECRET").get("x")
    assert "SECRET" not in str(refused.value)
    odd = {**account(tokens, ""), "private_key": ["-----BEGIN PRIVATE KEY-----", "SECRET"]}
    for text in ("[]", "null", json.dumps(odd), '{"type": "impersonated_service_account"}'):
        (tmp_path / "odd").write_text(text)
        for name in ("service_account", "application_credentials"):
            with pytest.raises(PermissionDeniedError, match="cannot be resolved") as refused:
                await stores(**{f"google_{name}": str(tmp_path / "odd")}).get("x")
            assert "SECRET" not in str(refused.value)
    assert tokens.asked == []


async def test_a_server_of_tokens_that_is_away_denies_nothing(
    tokens: TokenServer, private_key: str, stores: Any
) -> None:
    key = {**account(tokens, private_key), "token_uri": "http://127.0.0.1:9/token"}
    with pytest.raises(StorageError, match="try again later") as raised:
        await stores(google_service_account_key=json.dumps(key)).get("x")
    assert not isinstance(raised.value, PermissionDeniedError)


async def test_a_server_of_tokens_that_does_not_answer_is_given_up(
    tokens: TokenServer, private_key: str, stores: Any
) -> None:
    key = json.dumps(account(tokens, private_key))
    tokens.hangs.clear()
    with pytest.raises(StorageError, match=r"timed out.*try again later"):
        await stores(google_service_account_key=key, read_timeout="100ms").get("x")
    tokens.hangs.set()


async def test_a_file_of_credentials_that_is_changed_is_read_anew(
    tokens: TokenServer, private_key: str, stores: Any, fake_gcs: FakeGcs, tmp_path: Path
) -> None:
    file, key = tmp_path / "key.json", account(tokens, private_key)
    file.write_text(json.dumps(key))
    store = stores(google_service_account=str(file))
    await works(store)
    fake_gcs.tokens, tokens.refused = {"another"}, {"/token"}  # as of a key that is revoked
    with pytest.raises(PermissionDeniedError, match="invalid_grant"):
        await store.get("x")
    file.write_text(json.dumps({**key, "token_uri": f"http://{tokens.address}/new"}))
    await works(store)
    assert [path for path, _ in tokens.asked] == ["/token", "/token", "/token", "/token", "/new"]


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ({"disable_oauth": True, "private_key": ""}, "give google_skip_signature=true"),
        ({"gcs_base_url": "http://elsewhere"}, "give it as google_base_url"),
    ],
)
async def test_what_a_key_says_for_deltalake_of_where_to_ask_is_not_left_out_in_silence(
    tokens: TokenServer, private_key: str, stores: Any, said: dict[str, Any], advice: str
) -> None:
    key = {**account(tokens, private_key), **said}
    with pytest.raises(PermissionDeniedError, match=advice):
        await stores(google_service_account_key=json.dumps(key)).get("x")
    assert tokens.asked == []
    if "gcs_base_url" in key:
        key["gcs_base_url"] = stores()._options.endpoint
        await works(stores(google_service_account_key=json.dumps(key)))
