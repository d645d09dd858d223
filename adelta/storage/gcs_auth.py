"""Tokens of Google: of a service account, of a workload's identity, of a machine or of a user.

google-auth reads the credentials and asks for tokens, as the extra `gcs` installs it. It blocks, so
it runs in a worker thread.
"""

from __future__ import annotations

import json
import os
import warnings
from datetime import UTC
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidOptionError
from adelta.storage.bearer import BearerTokens, Token, unresolved

if TYPE_CHECKING:
    from adelta.storage.gcs_options import GcsOptions

__all__ = ["google_tokens"]

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_NEVER = float("inf")
_TEXTS = (
    "type",
    "client_email",
    "client_id",
    "client_secret",
    "private_key",
    "refresh_token",
    "audience",
    "token_uri",
    "token_url",
    "subject_token_type",
)
_OF_AWS = "urn:ietf:params:aws:token-type:aws4_request"


def google_tokens(options: GcsOptions) -> BearerTokens | None:
    """The tokens of whom the options name; None where requests are not signed."""
    if options.skip_signature:
        return None
    if options.bearer_token is not None:
        token = Token(options.bearer_token, _NEVER, "the storage option google_bearer_token")
        return BearerTokens(fixed=token)
    return BearerTokens(_Fetch(options))


class _Fetch:
    """Fetches tokens, by credentials that it reads the first time, and a forked child again.

    Where they are refused it reads them once more: their file may have others by now.
    """

    def __init__(self, options: GcsOptions) -> None:
        self._options = options
        self._credentials: Any = None
        self._request: Any = None
        self._source = ""
        self._process = 0  # whose connections the credentials have

    def __call__(self) -> Token:
        try:
            failures: Any = import_module("google.auth.exceptions").GoogleAuthError
            import_module("requests")
        except ImportError as error:
            raise InvalidOptionError(
                "tokens for Google Cloud Storage need google-auth: install adelta[gcs], or give "
                "google_bearer_token, or google_skip_signature=true for a public bucket"
            ) from error
        kept = self._process == os.getpid()
        try:
            if not kept:
                self._request = _transport(self._options)
                self._credentials, self._source = _credentials(self._options, self._request)
                self._process = os.getpid()
            self._credentials.refresh(self._request)
        except (failures, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            reason, passes = str(error), _passes(error)
        else:
            expiry = self._credentials.expiry  # in UTC, and does not say so
            ends = _NEVER if expiry is None else expiry.replace(tzinfo=UTC).timestamp()
            return Token(self._credentials.token, ends, self._source)
        if kept and not passes:
            self._process = 0
            return self()
        # raised here, so that no other error is its context: one may quote a key
        text = f"the credentials for Google Cloud Storage cannot be resolved: {reason}"
        if not passes:
            text += (
                "; set the storage option google_service_account or "
                "google_application_credentials, or the variable GOOGLE_APPLICATION_CREDENTIALS; "
                "google_skip_signature=true is for a public bucket"
            )
        raise unresolved(text, passes=passes)


def _passes(error: Exception) -> bool:
    """Whether the server of tokens has given no answer, or one that may be another one later."""
    lost: Any = import_module("google.auth.exceptions").TransportError
    return any(
        isinstance(each, lost) or bool(getattr(each, "retryable", False))
        for each in (error, error.__cause__)
    )


def _credentials(options: GcsOptions, request: Any) -> tuple[Any, str]:
    """The credentials, and in words where they are from."""
    google_auth: Any = import_module("google.auth")
    accounts: Any = import_module("google.oauth2.service_account").Credentials
    if options.service_account_key is not None:
        source = "the storage option google_service_account_key"
        info = _of_account(options.service_account_key, source, options)
        return accounts.from_service_account_info(info, scopes=[_SCOPE]), source
    file = options.service_account_file
    if file is not None:
        info = _of_account(Path(file).read_text(encoding="utf-8"), file, options)
        made = accounts.from_service_account_info(info, scopes=[_SCOPE])
        return made, f"the service account in {file}"
    if options.credentials_file is not None:
        found = _from_file(google_auth, options.credentials_file, request)
        return found, f"the credentials in {options.credentials_file}"
    found, _ = google_auth.default(scopes=[_SCOPE], request=request)
    return found, "Google's application default credentials"


def _from_file(google_auth: Any, file: str, request: Any) -> Any:
    """Credentials of any kind, by their file."""
    info = _parsed(Path(file).read_text(encoding="utf-8"), file)
    if info.get("type") == "external_account":  # of which google-auth would ask Google the project
        if info.get("subject_token_type") == _OF_AWS:
            kind = "aws"
        else:
            kind = "pluggable" if "executable" in info["credential_source"] else "identity_pool"
        made = import_module(f"google.auth.{kind}").Credentials.from_info(info)
        return made.with_scopes([_SCOPE])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # whoever gives a file trusts it
        return google_auth.load_credentials_from_file(file, scopes=[_SCOPE], request=request)[0]


def _parsed(text: str, source: str) -> dict[str, Any]:
    """The credentials in a text. Raises: ValueError, which quotes nothing of it."""
    try:
        info = json.loads(text)
    except ValueError:
        info = None
    if not isinstance(info, dict):
        raise ValueError(f"{source} is no JSON with credentials")
    for name in _TEXTS:
        if not isinstance(info.get(name, ""), str):
            raise ValueError(f"{name} is no text in {source}")
    return info


def _of_account(text: str, source: str, options: GcsOptions) -> dict[str, Any]:
    """The credentials of a service account. Raises: ValueError.

    For deltalake they may say where to ask, and that nothing is signed, as for an emulator.
    """
    info = _parsed(text, source)
    if info.get("disable_oauth"):
        raise ValueError(f"{source} says disable_oauth: give google_skip_signature=true instead")
    base = info.get("gcs_base_url")
    if base and str(base).rstrip("/") != options.endpoint:
        raise ValueError(f"{source} names a gcs_base_url: give it as google_base_url, too")
    return info


def _transport(options: GcsOptions) -> Any:
    """How google-auth asks for tokens: on the way that the options say, or the environment.

    It waits for an answer as long as they say, where it does not know better. A machine asks its
    own metadata server, whose address is not encrypted, past the proxy.
    """
    http = options.http
    session = import_module("requests").Session()
    if http.proxy_url is not None:
        session.proxies = {"https": http.proxy_url}
    if http.ca_bundle is not None or http.allow_invalid_certificates:
        session.verify = not http.allow_invalid_certificates and http.ca_bundle
    request = import_module("google.auth.transport.requests").Request(session)
    return partial(request, timeout=(http.connect_timeout, http.read_timeout))
