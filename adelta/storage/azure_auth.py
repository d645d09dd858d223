"""How requests to Azure are authorized: signed by a key, or by tokens of Microsoft Entra.

azure-identity asks for tokens, as the extra `azure` installs it. It blocks, so it runs in a worker
thread.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from adelta.errors import InvalidOptionError
from adelta.storage.bearer import BearerTokens, Token, unresolved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.azure_options import AzureIdentity, AzureOptions
    from adelta.storage.http import HttpOptions

__all__ = ["azure_tokens", "shared_key"]

_SCOPE = "https://storage.azure.com/.default"
_NEVER = float("inf")
_SIGNED = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)


def shared_key(
    account: str,
    key: bytes,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    length: int,
) -> str:
    """The header that authorizes a request by the account's key (pure).

    The rules are those of "Authorize with Shared Key" for the Blob service, from version
    2015-02-21 on. The names of `headers` are lower; `path` and `query` are encoded.
    """
    lines = [method]
    for name in _SIGNED:
        if name == "content-length":
            lines.append(str(length) if length else "")
        else:
            lines.append(headers.get(name, ""))
    lines += [f"{name}:{headers[name]}" for name in sorted(headers) if name.startswith("x-ms-")]
    resource = f"/{account}{path}"
    pairs = [each.partition("=")[::2] for each in query.split("&")] if query else []
    lowered = sorted((name.lower(), unquote(value)) for name, value in pairs)
    resource += "".join(f"\n{name}:{value}" for name, value in lowered)
    text = "\n".join([*lines, resource])
    signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
    return f"SharedKey {account}:{signature}"


def azure_tokens(options: AzureOptions) -> BearerTokens | None:
    """The tokens that requests bear; None where they bear none."""
    if options.skip_signature or options.key is not None or options.sas is not None:
        return None
    if options.bearer_token is not None:
        token = Token(options.bearer_token, _NEVER, "the storage option azure_storage_token")
        return BearerTokens(fixed=token)
    return BearerTokens(_Fetch(options.identity, options.http))


class _Fetch:
    """Fetches tokens, by a credential that it makes the first time, and a forked child again.

    Where that is refused it makes another: what it was made of may be changed by now.
    """

    def __init__(self, identity: AzureIdentity, http: HttpOptions) -> None:
        self._identity = identity
        self._http = http
        self._credential: Any = None
        self._process = 0  # whose connections the credential has

    def __call__(self) -> Token:
        try:
            library: Any = import_module("azure.identity")
            failures: Any = import_module("azure.core.exceptions").AzureError
        except ImportError as error:
            raise InvalidOptionError(
                "tokens of Microsoft Entra need azure-identity: install adelta[azure], or give "
                "azure_storage_account_key, azure_storage_sas_token or azure_storage_token; "
                "azure_skip_signature=true is for public containers"
            ) from error
        kept = self._process == os.getpid()
        try:
            if not kept:
                self._credential = _credential(library, self._identity, self._http)
                self._process = os.getpid()
            made = self._credential.get_token(_SCOPE)
        except (failures, OSError, ValueError) as error:
            reason, passes = str(error), _passes(error)
        else:
            return Token(made.token, float(made.expires_on), type(self._credential).__name__)
        if kept and not passes:
            self._process = 0
            return self()
        # raised here, so that no other error is its context: one may quote a secret
        text = f"the credentials for Azure cannot be resolved: {reason}"
        if not passes:
            text += (
                "; set the storage option azure_storage_account_key, azure_storage_sas_token or "
                "azure_client_id with its companions; azure_skip_signature=true is for public "
                "containers"
            )
        raise unresolved(text, passes=passes)


def _passes(error: Exception) -> bool:
    """Whether the server of tokens has given no answer, or one that may be another one later."""
    errors: Any = import_module("azure.core.exceptions")
    return any(
        isinstance(each, (errors.ServiceRequestError, errors.ServiceResponseError))
        or (getattr(each, "status_code", None) or 0) >= 500
        for each in (error, error.__cause__)
    )


def _credential(library: Any, identity: AzureIdentity, http: HttpOptions) -> Any:
    patience = {"connection_timeout": http.connect_timeout, "read_timeout": http.read_timeout}
    way: dict[str, Any] = {**patience}  # to what gives out tokens, unless the machine itself does
    if http.proxy_url is not None:
        way["proxies"] = {"http": http.proxy_url, "https": http.proxy_url}
    if http.ca_bundle is not None or http.allow_invalid_certificates:
        way["connection_verify"] = not http.allow_invalid_certificates and http.ca_bundle
    authority = {} if identity.authority_host is None else {"authority": identity.authority_host}
    tenant, client = identity.tenant_id, identity.client_id
    if identity.federated_token_file is not None:
        return library.WorkloadIdentityCredential(
            tenant_id=tenant,
            client_id=client,
            token_file_path=identity.federated_token_file,
            **authority,
            **way,
        )
    if identity.client_secret is not None:
        if tenant is None or client is None:
            raise ValueError("azure_client_secret goes with azure_client_id and azure_tenant_id")
        secret = identity.client_secret
        return library.ClientSecretCredential(tenant, client, secret, **authority, **way)
    if identity.use_azure_cli:
        return library.AzureCliCredential(**({} if tenant is None else {"tenant_id": tenant}))
    if identity.object_id is not None:
        config = {"object_id": identity.object_id}
        return library.ManagedIdentityCredential(identity_config=config, **patience)
    if identity.msi_resource_id is not None:
        config = {"resource_id": identity.msi_resource_id}
        return library.ManagedIdentityCredential(identity_config=config, **patience)
    if client is not None:
        return library.ManagedIdentityCredential(client_id=client, **patience)
    return library.DefaultAzureCredential(**authority, **patience)
