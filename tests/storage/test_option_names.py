"""Names of storage options: a misspelt one is refused, whatever store it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.commit.choose import open_log_store
from adelta.commit.owner import ManagedTable
from adelta.commit.owner_client import client_of
from adelta.errors import InvalidOptionError
from adelta.storage.dynamodb_options import parse_dynamo_options
from adelta.storage.given_options import GivenOptions
from adelta.storage.option_names import (
    AWS,
    AZURE,
    GOOGLE,
    HDFS,
    READ,
    READ_OF_AZURE,
    READ_OF_GOOGLE,
    READ_OF_HDFS,
    check_names_known,
    is_known,
    plain_name,
)
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from pathlib import Path

ADDRESSES = ["s3://bucket/t", "memory://names", "lake/t", "file:///lake/t"]


@pytest.mark.parametrize("uri", ADDRESSES)
@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("aws_regoin", "aws_region"),
        ("AWS_ACESS_KEY_ID", "aws_access_key_id"),
        ("aws_secret_key", "aws_secret_access_key"),
        ("time_out", "timeout"),
        ("unsafe_singel_writer", "unsafe_single_writer"),
        ("adelta_comit_lock", "adelta_commit_lock"),
        ("delta_dynamo_table", "delta_dynamo_table_path or delta_dynamo_table_name"),
        ("aws_s3_lock_provider", "aws_s3_locking_provider"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest(uri: str, name: str, near: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        adelta.open_table(uri, {name: "secret"})
    assert f"no storage option {name!r}; did you mean {near}" in str(refused.value)
    assert "'secret'" not in str(refused.value)


@pytest.mark.parametrize("name", ["whatever", "", "aws_", "a" * 5000])
def test_a_name_that_is_like_no_other_is_refused_too(name: str) -> None:
    with pytest.raises(InvalidOptionError, match="such as aws_region") as refused:
        check_names_known([name])
    assert "did you mean" not in str(refused.value)


async def test_nothing_is_written_under_a_misspelt_option(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="aws_regoin"):
        await adelta.create_table(
            tmp_path / "t",
            pa.schema({"id": pa.int64()}),
            storage_options={"aws_regoin": "eu-north-1"},
        )
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("uri", ADDRESSES)
def test_options_of_other_stores_and_clients_are_ignored(uri: str) -> None:
    open_store(
        uri,
        {
            "aws_region": "eu-north-1",
            "AWS_COPY_IF_NOT_EXISTS": "multipart",
            "OBJECT_STORE_CONCURRENCY_LIMIT": "10",
            "DYNAMO_LOCK_TABLE_NAME": "locks",
            "aws_shared_credentials_file": "/credentials",
            "aws_checksum_algorithm": "sha256",
            "aws_imdsv1_fallback": "true",
            "aws_disable_bulk_delete": "true",
            "http2_keep_alive_interval": "5s",
            "pool_max_idle_per_host": "4",
            "worker_threads": "4",
            "AZURE_STORAGE_ACCOUNT_NAME": "x",
            "account_key": "x",
            "google_service_account": "x",
            "fs.s3a.connection.timeout": "1000",
        },
    )


@pytest.mark.parametrize("uri", ADDRESSES[1:])
def test_what_s3_would_refuse_means_nothing_to_other_stores(uri: str) -> None:
    open_store(uri, {"certificate_path": "/ca.pem", "fs.s3a.access.key": "x", "timeout": "?"})


class _Seen(dict[str, str]):
    """Values, with a note of every key that was asked for."""

    asked: set[str]

    def __init__(self, values: dict[str, str], asked: set[str]) -> None:
        super().__init__(values)
        self.asked = asked

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.asked.add(key)
        return super().get(key, default)


def test_the_names_listed_as_read_are_those_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[object, set[str]] = {AWS: set(), GOOGLE: set(), AZURE: set(), HDFS: set()}
    original = GivenOptions.__init__

    def watched(given: GivenOptions, *args: object) -> None:
        original(given, *args)  # type: ignore[arg-type]
        given._options = _Seen(given._options, asked[args[2] if len(args) > 2 else AWS])

    monkeypatch.setattr(GivenOptions, "__init__", watched)
    keys = {
        f"aws_{key}{suffix}": "x"
        for key in ("access_key_id", "secret_access_key")
        for suffix in ("", "_dynamodb")
    }
    monkeypatch.setenv("ADELTA_UNSAFE_SINGLE_WRITER", "")
    # The provider is what has the options of DynamoDB read; without puts the single writer counts.
    open_log_store("s3://bucket/t", {**keys, "aws_s3_locking_provider": "dynamodb"})
    open_log_store("s3://bucket/t", {**keys, "aws_conditional_put": "disabled"})
    parse_dynamo_options(keys, {})
    open_store("fsspec+memory://bucket/t")
    with pytest.raises(InvalidOptionError):  # it asks for them before it refuses
        client_of(ManagedTable("s3://bucket/t", "t", {"endpoint": "https://owner"}), {})
    asked[AWS].add("profile")  # a key that only has to be there
    assert asked[AWS] == {plain_name(name) for name in READ}
    open_store("gs://bucket/t")
    read = {plain_name(name, GOOGLE) for name in READ_OF_GOOGLE}
    assert read <= asked[GOOGLE] <= read | asked[AWS]
    open_store("az://container/t", {"azure_storage_account_name": "account"})
    read = {plain_name(name, AZURE) for name in READ_OF_AZURE}
    assert read <= asked[AZURE] <= read | asked[AWS]
    open_store("hdfs://namenode/t")
    read = {plain_name(name, HDFS) for name in READ_OF_HDFS}
    assert read <= asked[HDFS] <= read | asked[AWS]


ALIASES = {
    "azure_": """account_name account_key access_key master_key client_id client_secret tenant_id
        authority_id authority_host sas_key sas_token token bearer_token use_emulator endpoint
        use_fabric_endpoint msi_endpoint identity_endpoint object_id msi_resource_id
        federated_token_file use_azure_cli skip_signature container_name disable_tagging
        fabric_token_service_url fabric_workload_host fabric_session_token credential_type
        fabric_cluster_identifier encryption_key""",
    "azure_storage_": """account_name account_key access_key master_key client_id client_secret
        tenant_id authority_id authority_host sas_key sas_token token use_emulator endpoint
        encryption_key""",
    "google_": """service_account service_account_path service_account_key bucket bucket_name
        base_url application_credentials bearer_token skip_signature""",
}
OF_EVERY_CLIENT = """allow_http allow_invalid_certificates connect_timeout default_content_type
    disable_system_certificates http1_only http2_only http2_keep_alive_interval timeout
    http2_keep_alive_timeout http2_keep_alive_while_idle http2_max_frame_size pool_idle_timeout
    pool_max_idle_per_host proxy_url proxy_ca_certificate proxy_excludes randomize_addresses
    read_timeout user_agent"""


def test_every_spelling_that_deltalake_has_of_a_name_is_known() -> None:
    for beginning, names in ALIASES.items():
        for name in f"{names} {OF_EVERY_CLIENT}".split():
            assert is_known(f"{beginning}{name}"), f"{beginning}{name}"
            assert is_known(name)
    assert all(is_known(f"aws_{name}") for name in OF_EVERY_CLIENT.split())
    assert not is_known("azure_region")
    assert not is_known("google_tenant_id")


def test_names_are_known_in_any_case_with_and_without_aws() -> None:
    for name in ("region", "aws_region", "AWS_REGION", "Aws_Timeout", "backoff_config.max_backoff"):
        assert is_known(name)
