"""The storage options of Azure: the keys and environment variables of delta-rs.

A key is written in lower case with or without ``azure_`` or ``azure_storage_``; its environment
variable is the same in upper case. An option wins over the environment: where the options say in
whose name to ask, the environment is not asked for that. `option_names` lists those that are
refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.storage.bucket_names import is_azures_host
from adelta.storage.client_options import (
    check_endpoint,
    concurrency_of,
    http_options,
    retry_policy,
)
from adelta.storage.given_options import GivenOptions
from adelta.storage.http import HttpOptions
from adelta.storage.option_names import AZURE, refuse_without_meaning
from adelta.storage.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["AzureIdentity", "AzureOptions", "parse_azure_options"]

_ACCOUNT = re.compile(r"[a-z0-9-]{3,63}")
_EMULATED = "devstoreaccount1"
_EMULATORS_KEY = (  # which Microsoft publishes, and every emulator has
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_EMULATORS_ENDPOINT = "http://127.0.0.1:10000"
_KEY = ("account_key", "access_key", "master_key")
_SAS = ("sas_key", "sas_token")
_TOKEN = ("bearer_token", "token")
_CLIENT = ("client_id",)
_OF_IDENTITY = (
    ("skip_signature",),
    _TOKEN,
    _SAS,
    _KEY,
    ("client_secret",),
    ("federated_token_file",),
    ("use_azure_cli",),
    ("object_id",),
    ("msi_resource_id",),
    _CLIENT,
)


@dataclass(frozen=True, slots=True)
class AzureIdentity:
    """What names an identity of Microsoft Entra; by default the one that the machine has."""

    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    tenant_id: str | None = None
    authority_host: str | None = None
    federated_token_file: str | None = None
    use_azure_cli: bool = False
    object_id: str | None = None
    msi_resource_id: str | None = None

    @property
    def has_proof(self) -> bool:
        """Whether a client of a tenant is named, with a secret or a token that proves it."""
        named = self.client_id is not None and self.tenant_id is not None
        return named and (self.client_secret is not None or self.federated_token_file is not None)


@dataclass(frozen=True, slots=True)
class AzureOptions:
    """What the options and the environment say, checked.

    Requests bear the `bearer_token`, are signed by the `key`, or bear the `sas`: one of these at
    most is there. Without any they bear tokens of the `identity`.
    """

    account: str
    endpoint: str
    key: bytes | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    skip_signature: bool = False
    identity: AzureIdentity = field(default_factory=AzureIdentity)
    concurrency: int = 128
    http: HttpOptions = field(default_factory=HttpOptions)
    retry: RetryPolicy = field(default_factory=RetryPolicy)


def parse_azure_options(
    host: str | None, options: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> AzureOptions:
    """What `options` and the environment (this process's, if none is given) say.

    `host` is the account's, of an address that names it, such as ``lake.dfs.core.windows.net``.

    Raises:
        InvalidOptionError: a value is not allowed, or a key asks for what there is not.
    """
    refuse_without_meaning(options, AZURE)
    given = GivenOptions(options, environment, AZURE)
    own = given.without_environment()
    said = own if any(own.text(*names) for names in _OF_IDENTITY) else given
    emulated = bool(given.flag("use_emulator"))
    account, endpoint = _place(host, given, emulated=emulated)
    skip = bool(said.flag("skip_signature"))
    identity = _identity(given, said)
    token = key = sas = None
    if not skip:  # of several, the one that deltalake takes
        token = said.text(*_TOKEN)
        key = said.text(*_KEY) if token is None else None
        if token is None and key is None and not identity.has_proof:
            sas = said.text(*_SAS)
        if emulated and said is given and token is None and sas is None:
            key = key or _EMULATORS_KEY
    return AzureOptions(
        account=account,
        endpoint=endpoint,
        key=None if key is None else _decoded(key),
        sas=None if sas is None else _query(sas),
        bearer_token=token,
        skip_signature=skip,
        identity=identity,
        concurrency=concurrency_of(given),
        http=http_options(given),
        retry=retry_policy(given),
    )


def _identity(given: GivenOptions, said: GivenOptions) -> AzureIdentity:
    """The identity that the options name, or else the environment."""
    alone = not any(said.text(*names) for names in _OF_IDENTITY if names != _CLIENT)
    return AzureIdentity(
        client_id=said.text(*_CLIENT),
        client_secret=said.text("client_secret"),
        tenant_id=given.text("tenant_id", "authority_id"),
        authority_host=given.text("authority_host"),
        # Where a client is chosen and nothing proves it, the file is the machine's, as of AKS.
        federated_token_file=(given if alone else said).text("federated_token_file"),
        use_azure_cli=bool(said.flag("use_azure_cli")),
        object_id=said.text("object_id"),
        msi_resource_id=said.text("msi_resource_id"),
    )


def _place(host: str | None, given: GivenOptions, *, emulated: bool) -> tuple[str, str]:
    """The account's name, and where its blobs are."""
    account = given.text("account_name")
    if host is not None:
        named = host.partition(".")[0]
        if account is not None and account != named and given.text("endpoint") is None:
            raise InvalidOptionError(
                f"the address is of the account {named!r}, and azure_storage_account_name of "
                f"{account!r}: leave that option out"
            )
        account = account or named
    elif emulated:
        account = account or _EMULATED
    if account is None or not _ACCOUNT.fullmatch(account):
        raise InvalidOptionError(
            "the storage account is not known: set azure_storage_account_name, of 3 to 24 "
            "lower-case letters and digits, or give an address that names it, such as "
            "abfss://container@account.dfs.core.windows.net/path"
        )
    endpoint = given.text("endpoint")
    if endpoint is None:
        if emulated:
            return account, f"{_EMULATORS_ENDPOINT}/{account}"
        cloud = "fabric.microsoft.com" if given.flag("use_fabric_endpoint") else "core.windows.net"
        where = host or f"{account}.blob.{cloud}"
        if not is_azures_host(where):  # keys and tokens go there
            raise InvalidOptionError(
                f"{where!r:.300} is no host of Azure: give its address as azure_storage_endpoint"
            )
        return account, "https://" + where.replace(".dfs.", ".blob.", 1)
    allowed = emulated or bool(given.flag("allow_http"))
    return account, check_endpoint(
        endpoint, allow_http=allowed, name="azure_storage_endpoint", permission="allow_http"
    )


def _decoded(key: str) -> bytes:
    try:
        return base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise InvalidOptionError("storage option azure_storage_account_key is no base64")


def _query(sas: str) -> str:
    """A shared access signature as it stands in a query.

    Some tools encode all of it, and some nothing, though a signature has signs that need it.
    """
    plain = (sas if "=" in sas else unquote(sas)).lstrip("?&")
    pairs = [each.strip().partition("=")[::2] for each in plain.split("&") if each.strip()]
    plain = "&".join(f"{name}={quote(unquote(value), safe='')}" for name, value in pairs)
    if not any(name == "sig" and value for name, value in pairs):
        raise InvalidOptionError(
            "storage option azure_storage_sas_token is the query of a shared access signature, "
            "which has a sig= in it"
        )
    return plain
