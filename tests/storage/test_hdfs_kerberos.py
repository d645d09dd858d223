"""HDFS with Kerberos: a real KDC, tickets by a keytab, and a token that all requests bear."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from adelta.errors import PermissionDeniedError
from adelta.storage.hdfs import HdfsStore
from tests.support.local_servers import free_port, wait_for_port

gssapi = pytest.importorskip("gssapi")  # which no machine has that did not compile it

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.hdfs_server import FakeHdfs, HdfsLocation

if shutil.which("krb5kdc") is None and not os.path.exists("/usr/sbin/krb5kdc"):
    pytest.skip("a KDC is krb5kdc, which is not installed", allow_module_level=True)


def run(*command: str, **environment: str) -> None:
    path = f"{os.environ['PATH']}:/usr/sbin"
    subprocess.run(
        command,
        env={**os.environ, **environment, "PATH": path},
        check=True,
        capture_output=True,
        timeout=60,
    )


@pytest.fixture
def realm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the keytabs of a user and of a namenode on this machine, whose KDC runs."""
    port = free_port()
    (tmp_path / "krb5.conf").write_text(
        "[libdefaults]\n default_realm = TEST\n dns_canonicalize_hostname = false\n rdns = false\n"
        f"[realms]\n TEST = {{\n kdc = 127.0.0.1:{port}\n }}\n"
    )
    (tmp_path / "kdc.conf").write_text(
        f"[realms]\n TEST = {{\n database_name = {tmp_path}/principal\n"
        f" key_stash_file = {tmp_path}/stash\n kdc_tcp_listen = 127.0.0.1:{port}\n"
        f" kdc_listen = 127.0.0.1:{port}\n }}\n"
    )
    variables = {
        "KRB5_CONFIG": f"{tmp_path}/krb5.conf",
        "KRB5_KDC_PROFILE": f"{tmp_path}/kdc.conf",
        "KRB5CCNAME": f"FILE:{tmp_path}/cache",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    run("kdb5_util", "create", "-s", "-P", "a password")
    for name, keytab in (("HTTP/127.0.0.1", "namenode"), ("ada", "ada")):
        run("kadmin.local", "addprinc", "-randkey", name)
        run("kadmin.local", "ktadd", "-k", f"{tmp_path}/{keytab}.keytab", name)
    process = subprocess.Popen(["/usr/sbin/krb5kdc", "-n"], stdout=subprocess.DEVNULL)
    try:
        wait_for_port(port, process)
        yield tmp_path
    finally:
        process.terminate()
        process.wait(60)


async def test_kerberos_is_asked_once_for_a_token_that_requests_bear(
    realm: Path, fake_hdfs: FakeHdfs, hdfs_location: HdfsLocation
) -> None:
    asked: list[str] = []

    def authenticate(words: str) -> tuple[bool, str]:
        credentials = gssapi.Credentials(
            usage="accept", store={"keytab": f"{realm}/namenode.keytab"}
        )
        context = gssapi.SecurityContext(creds=credentials, usage="accept")
        answer = context.step(base64.b64decode(words))
        asked.append(str(context.initiator_name))
        return True, base64.b64encode(answer or b"").decode()

    fake_hdfs.tokens, fake_hdfs.authenticate = set(), authenticate
    options = {
        **hdfs_location.storage_options,
        "hadoop.security.authentication": "kerberos",
        "hdfs_kerberos_principal": "ada@TEST",
        "hdfs_kerberos_keytab": f"{realm}/ada.keytab",
        "hadoop_proxy_user": "bob",
        "max_retries": "0",
    }
    store = HdfsStore.from_options("nameservice1", hdfs_location.prefix, options)
    fake_hdfs.active = 1  # the first namenode stands by
    fake_hdfs.users.clear()
    await store.put("x", b"1")
    assert await store.get("x") == b"1"
    assert set(asked) == {"ada@TEST"}
    assert fake_hdfs.seen.count("GETDELEGATIONTOKEN") == len(asked) == 2  # one of each namenode
    assert all("Authorization" not in headers for headers in fake_hdfs.headers_at_datanodes)
    fake_hdfs.tokens.clear()  # it has ended
    assert await store.get("x") == b"1"
    assert len(asked) == 4
    assert fake_hdfs.users == {"bob"}
    await store.aclose()


async def test_a_server_that_cannot_prove_to_be_the_namenode_gets_no_requests(
    realm: Path, fake_hdfs: FakeHdfs, hdfs_location: HdfsLocation
) -> None:
    fake_hdfs.tokens, fake_hdfs.authenticate = set(), lambda _: (True, "bm8gdG9rZW4=")
    options = {
        **hdfs_location.storage_options,
        "hdfs_kerberos_principal": "ada@TEST",
        "hdfs_kerberos_keytab": f"{realm}/ada.keytab",
    }
    store = HdfsStore.from_options("nameservice1", hdfs_location.prefix, options)
    with pytest.raises(PermissionDeniedError, match="does not prove"):
        await store.get("x")
    assert "OPEN" not in fake_hdfs.seen
    await store.aclose()


async def test_without_a_ticket_it_says_what_to_do(
    realm: Path, fake_hdfs: FakeHdfs, hdfs_location: HdfsLocation
) -> None:
    fake_hdfs.tokens = set()
    options = {**hdfs_location.storage_options, "hadoop.security.authentication": "kerberos"}
    store = HdfsStore.from_options("nameservice1", hdfs_location.prefix, options)
    with pytest.raises(PermissionDeniedError, match="run kinit, or set"):
        await store.get("x")
    await store.aclose()
