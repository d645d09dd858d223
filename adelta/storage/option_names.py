"""The names of storage options: those that adelta reads, and those that it knows from other tools.

A name is taken in any case, with or without what the names of its store begin with: ``aws_``,
``google_``, ``azure_`` or ``azure_storage_``. Those of HDFS are written in full. A name that nobody
knows is refused, whatever store it is for: misspelt, it would be left out in silence. Names that
are known and not read are

* those that tune another program's client, or describe a store that adelta does not have: they are
  ignored, so that one set of options serves several programs and several stores;
* those whose meaning would be lost, such as whom to trust and whose keys to take: the stores that
  they are for refuse them, and say what to give instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "AWS",
    "AZURE",
    "CACHE_FOLDER",
    "CACHE_SIZE",
    "GOOGLE",
    "HDFS",
    "MEMORY_LIMIT",
    "OWNER_ENDPOINT",
    "OWNER_TOKEN",
    "READ",
    "READ_OF_AZURE",
    "READ_OF_GOOGLE",
    "READ_OF_HDFS",
    "check_names_known",
    "is_known",
    "plain_name",
    "refuse_without_meaning",
]

AWS = ("aws_",)
GOOGLE = ("google_",)
AZURE = ("azure_storage_", "azure_")
HDFS = ("hdfs_", "hadoop_")
"""How the names of the options of one kind of stores begin, where they do not begin at once."""

MEMORY_LIMIT = ("memory_limit", "adelta_memory_limit")
"""The names of the option that bounds what is decoded."""

CACHE_FOLDER = "adelta_cache_dir"
CACHE_SIZE = "adelta_cache_size"
"""The options that have objects of far stores kept on a disk of this machine."""

OWNER_ENDPOINT = "adelta_owner_endpoint"
OWNER_TOKEN = "adelta_owner_token"
"""The options that say which commit owner gets which token."""

_READ_OF_CLIENTS = frozenset(
    {
        "aws_allow_http",
        "aws_ca_bundle",
        "allow_invalid_certificates",
        "connect_timeout",
        "read_timeout",
        "timeout",
        "pool_idle_timeout",
        "proxy_url",
        "user_agent",
        "concurrency_limit",
        "object_store_concurrency_limit",
        "max_concurrency",
        "max_retries",
        "retry_timeout",
        "init_backoff",
        "max_backoff",
        "base",
    }
)
"""Those of the client, which every store behind HTTP has under its own beginnings, too."""

READ = frozenset(
    {
        # keys
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_token",
        "aws_profile",
        "aws_role_arn",
        "aws_iam_role_arn",
        "aws_s3_assume_role_arn",
        "aws_role_session_name",
        "aws_iam_role_session_name",
        "aws_s3_role_session_name",
        "aws_web_identity_token_file",
        "aws_sts_endpoint",
        "aws_endpoint_url_sts",
        "aws_skip_signature",
        # where
        "aws_region",
        "aws_default_region",
        "aws_endpoint",
        "aws_endpoint_url",
        "aws_endpoint_url_s3",
        "aws_virtual_hosted_style_request",
        "aws_s3_addressing_style",
        "aws_s3_express",
        "allowed_roots",
        "fsspec_options",
        # objects
        "aws_unsigned_payload",
        "aws_request_checksum_calculation",
        "aws_response_checksum_validation",
        "aws_request_payer",
        "aws_server_side_encryption",
        "aws_sse_kms_key_id",
        "aws_sse_bucket_key_enabled",
        "aws_sse_customer_key_base64",
        # the client
        "aws_s3_pool_idle_timeout_seconds",
        *_READ_OF_CLIENTS,
        # memory and disk
        *MEMORY_LIMIT,
        CACHE_FOLDER,
        CACHE_SIZE,
        # who keeps writers apart
        "aws_conditional_put",
        "aws_s3_locking_provider",
        "aws_s3_allow_unsafe_rename",
        "unsafe_single_writer",
        "adelta_unsafe_single_writer",
        "adelta_commit_lock",
        OWNER_ENDPOINT,
        OWNER_TOKEN,
        "delta_dynamo_table_name",
        "delta_dynamo_table_path",
        "delta_dynamo_billing_mode",
        "delta_dynamo_max_elapsed_request_time",
        "aws_endpoint_url_dynamodb",
        "aws_region_dynamodb",
        "aws_access_key_id_dynamodb",
        "aws_secret_access_key_dynamodb",
        "aws_session_token_dynamodb",
    }
)
"""The names that adelta reads of S3 and of every store, as they are documented."""

READ_OF_GOOGLE = frozenset(
    {
        "google_service_account",
        "google_service_account_path",
        "google_service_account_key",
        "google_application_credentials",
        "google_bearer_token",
        "google_skip_signature",
        "google_base_url",
        "google_user_project",
    }
)
"""Those of Google Cloud Storage."""

READ_OF_AZURE = frozenset(
    {
        "azure_storage_account_name",
        "azure_storage_account_key",
        "azure_storage_access_key",
        "azure_storage_master_key",
        "azure_storage_sas_key",
        "azure_storage_sas_token",
        "azure_storage_token",
        "azure_storage_bearer_token",
        "azure_client_id",
        "azure_client_secret",
        "azure_tenant_id",
        "azure_authority_id",
        "azure_authority_host",
        "azure_federated_token_file",
        "azure_object_id",
        "azure_msi_resource_id",
        "azure_use_azure_cli",
        "azure_skip_signature",
        "azure_storage_use_emulator",
        "azure_storage_endpoint",
        "azure_use_fabric_endpoint",
    }
)
"""Those of Azure."""

READ_OF_HDFS = frozenset(
    {
        "hadoop_user_name",
        "hadoop_proxy_user",
        "hadoop_conf_dir",
        "hadoop_home",
        "hdfs_delegation_token",
        "hdfs_kerberos_principal",
        "hdfs_kerberos_keytab",
        "hdfs_datanode_hosts",
    }
)
"""Those of HDFS, beside the properties of Hadoop."""

_CLIENTS_OF_OTHERS = """
default_content_type http1_only http2_only http2_keep_alive_interval http2_keep_alive_timeout
http2_keep_alive_while_idle http2_max_frame_size pool_max_idle_per_host randomize_addresses
"""
_OF_OTHERS = """
aws_bucket aws_bucket_name aws_checksum_algorithm aws_copy_if_not_exists aws_disable_tagging
aws_disable_bulk_delete aws_imdsv1_fallback aws_ec2_metadata_disabled aws_ec2_metadata_timeout
aws_force_credential_load aws_sts_pool_idle_timeout_seconds
aws_s3_get_internal_server_error_retries

multi_threaded worker_threads thread_name enable_io enable_time

aws_shared_credentials_file aws_config_file checksum provider root_certificate

access_token workspace_url allow_unsafe_rename
"""
"""Other tools' names, by kind: S3, runtimes, mounts and catalogs."""
_IGNORED_OF_CLIENTS = frozenset(_CLIENTS_OF_OTHERS.split())
_IGNORED = _IGNORED_OF_CLIENTS | frozenset(_OF_OTHERS.split())
_IGNORED_OF_GOOGLE = frozenset({"google_bucket", "google_bucket_name"})
_IGNORED_OF_AZURE = frozenset(
    {"azure_container_name", "azure_disable_tagging", "azure_storage_kind"}
)

_IGNORED_PREFIXES = (
    "databricks_",
    "dynamo_lock_",
    "unity_",
    "mount_",
    "fs.",
    "dfs.",
    "hadoop.",
    "spark.hadoop.",
)
"""Namespaces of other stores and of Hadoop, of which adelta reads where HDFS's namenodes are."""

_KEYS_OF_THE_ENVIRONMENT = "it is read from the environment alone: set the variable {0} instead"
_REFUSED_OF_S3 = {
    "metadata_endpoint": _KEYS_OF_THE_ENVIRONMENT.format("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
    **{
        name: _KEYS_OF_THE_ENVIRONMENT.format(f"AWS_{name.upper()}")
        for name in (
            "container_credentials_relative_uri",
            "container_credentials_full_uri",
            "container_authorization_token_file",
        )
    },
}
_TOKENS_OF_FABRIC = (
    "adelta asks no token service of Fabric: give the token as azure_storage_token instead"
)
_ENDPOINT_OF_IDENTITY = (
    "it is read from the environment alone: set the variables IDENTITY_ENDPOINT and "
    "IDENTITY_HEADER instead"
)
_REFUSED_OF_AZURE = {
    "msi_endpoint": _ENDPOINT_OF_IDENTITY,
    "identity_endpoint": _ENDPOINT_OF_IDENTITY,
    "fabric_token_service_url": _TOKENS_OF_FABRIC,
    "fabric_workload_host": _TOKENS_OF_FABRIC,
    "fabric_session_token": _TOKENS_OF_FABRIC,
    "fabric_cluster_identifier": _TOKENS_OF_FABRIC,
    "credential_type": "give the options of the one identity that is to ask, and no others",
    "encryption_key": (
        "adelta sends no key of yours with blobs, and would write them without it: have the "
        "account or an encryption scope of the container encrypt them by your key"
    ),
}
_REFUSED = {
    "certificate_path": (
        "give that file as ca_bundle, or by the environment variable SSL_CERT_FILE, instead"
    ),
    "disable_system_certificates": (
        "the system's certificates are trusted; to trust others, set the environment variable "
        "SSL_CERT_FILE to a file of them"
    ),
    "proxy_ca_certificate": (
        "set the environment variable SSL_CERT_FILE to a file that has the certificate, too"
    ),
    "proxy_excludes": (
        "leave proxy_url out as well, and set the environment variables HTTPS_PROXY and NO_PROXY"
    ),
}
"""Names whose meaning would be lost, in S3, in Azure and in every store, and what to do."""

_OF_HADOOP = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint": "aws_endpoint_url",
    "endpoint.region": "aws_region",
    "path.style.access": "aws_virtual_hosted_style_request, of the opposite value",
    "aws.credentials.provider": "aws_profile, aws_skip_signature=true or keys",
    "assumed.role.arn": "aws_iam_role_arn",
    "assumed.role.session.name": "aws_iam_role_session_name",
    "server-side-encryption-algorithm": "aws_server_side_encryption",
    "server-side-encryption.key": "aws_sse_kms_key_id or aws_sse_customer_key_base64",
    "encryption.algorithm": "aws_server_side_encryption",
    "encryption.key": "aws_sse_kms_key_id or aws_sse_customer_key_base64",
    "requester.pays.enabled": "aws_request_payer",
    "proxy.host": "proxy_url",
}
"""Hadoop's names below ``fs.s3a.`` that say where objects are and who may read them, and ours."""

_OF_HADOOPS_GCS = {
    "auth.service.account.json.keyfile": "google_service_account",
    "auth.service.account.private.key": "google_service_account_key",
    "auth.access.token": "google_bearer_token",
    "requester.pays.project.id": "google_user_project",
    "storage.root.url": "google_base_url",
}
"""The same below ``fs.gs.``."""

_OF_HADOOPS_AZURE = {
    "account.key": "azure_storage_account_key",
    "account.auth.type": "azure_storage_account_key, azure_storage_sas_token or azure_client_id",
    "account.oauth2.client.id": "azure_client_id",
    "account.oauth2.client.secret": "azure_client_secret",
    "account.oauth2.client.endpoint": "azure_tenant_id",
    "account.oauth2.msi.tenant": "azure_tenant_id",
    "sas.fixed.token": "azure_storage_sas_token",
}
"""The same below ``fs.azure.``, where an account's name may follow."""

_REFUSED_OF: Mapping[tuple[str, ...], Mapping[str, str]] = {
    AWS: _REFUSED_OF_S3,
    AZURE: _REFUSED_OF_AZURE,
}
_MEANS_NOTHING = frozenset({"", "false", "0", "auto"})
_MOST_NAMED = 3


def plain_name(name: str, namespace: tuple[str, ...] = AWS) -> str:
    """The name that spellings of one option share, of stores whose options begin as `namespace`.

    >>> plain_name("AWS_REGION") == plain_name("region")
    True
    """
    name = name.lower()
    for beginning in namespace:
        if name.startswith(beginning):
            name = name.removeprefix(beginning)
            break
    return name.removeprefix("backoff_config.").removeprefix("backoff.")


_ALL_READ = READ | READ_OF_GOOGLE | READ_OF_AZURE | READ_OF_HDFS
_OF_EVERY_CLIENT = {
    plain_name(name) for name in (*_READ_OF_CLIENTS, *_IGNORED_OF_CLIENTS, *_REFUSED)
}
_OF_NAMESPACES: Mapping[tuple[str, ...], Iterable[str]] = {
    AWS: (*READ, *_IGNORED, *_REFUSED, *_REFUSED_OF_S3),
    GOOGLE: (*READ_OF_GOOGLE, *_IGNORED_OF_GOOGLE, *_OF_EVERY_CLIENT),
    AZURE: (*READ_OF_AZURE, *_IGNORED_OF_AZURE, *_REFUSED_OF_AZURE, *_OF_EVERY_CLIENT),
}
_KNOWN_IN = {
    namespace: {plain_name(name, namespace) for name in names}
    for namespace, names in _OF_NAMESPACES.items()
}
_LIKELY = {plain_name(name): name for name in _ALL_READ} | {name: name for name in _ALL_READ}


def is_known(name: str) -> bool:
    """Whether adelta reads an option of this name, or knows it from other tools."""
    return (
        any(plain_name(name, namespace) in known for namespace, known in _KNOWN_IN.items())
        or name.lower() in READ_OF_HDFS
        or name.lower().startswith(_IGNORED_PREFIXES)
    )


def check_names_known(options: Iterable[str]) -> None:
    """Refuse names of options that nobody knows.

    Raises:
        InvalidOptionError: there is one.
    """
    for name in options:
        if not is_known(name):
            raise InvalidOptionError(
                f"there is no storage option {name!r:.100}{_nearest(name)} Names are those that "
                "deltalake has, such as aws_region and timeout, and adelta's own; correct it, or "
                "leave it out"
            )


def _nearest(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(plain_name(name), _LIKELY, n=_MOST_NAMED, cutoff=0.7)
    names = list(dict.fromkeys(_LIKELY[each] for each in near))
    return f"; did you mean {' or '.join(names)}?" if names else "."


def refuse_without_meaning(options: Mapping[str, str], namespace: tuple[str, ...] = AWS) -> None:
    """Refuse options whose meaning would be lost if a store were opened without them.

    Raises:
        InvalidOptionError: there is one.
    """
    refused = {**_REFUSED, **_REFUSED_OF.get(namespace, {})}
    for name, value in options.items():
        if str(value).strip().lower() in _MEANS_NOTHING:
            continue
        plain = plain_name(name, namespace)
        if plain in refused:
            raise InvalidOptionError(f"storage option {name} is not supported: {refused[plain]}")
        if ours := _of_hadoop(plain, namespace):
            raise InvalidOptionError(
                f"storage option {name} is Hadoop's, which adelta does not read: give {ours} "
                "instead"
            )


_HADOOPS: Mapping[tuple[str, ...], tuple[tuple[str, ...], Mapping[str, str]]] = {
    AWS: (("fs.s3a.", "fs.s3."), _OF_HADOOP),
    GOOGLE: (("fs.gs.", "google.cloud."), _OF_HADOOPS_GCS),
    AZURE: (("fs.azure.",), _OF_HADOOPS_AZURE),
}


def _of_hadoop(plain: str, namespace: tuple[str, ...]) -> str | None:
    rest = plain.removeprefix("spark.hadoop.")
    beginnings, theirs = _HADOOPS.get(namespace, ((), {}))
    for beginning in beginnings:
        if rest.startswith(beginning):
            rest = rest.removeprefix(beginning)
            if rest.startswith("bucket."):  # of one bucket, which its name follows
                return next((o for h, o in theirs.items() if rest.endswith(f".{h}")), None)
            return theirs.get(rest) or next(
                (ours for their, ours in theirs.items() if rest.startswith(f"{their}.")), None
            )
    return None
