"""Delegation tokens for WebHDFS by Kerberos, as Hadoop's own client gets them.

A namenode that asks for Kerberos is asked once by SPNEGO for a delegation token, which every later
request bears. gssapi speaks Kerberos, as the extra `hdfs` installs it: with the tickets that
``kinit`` has got, or by a keytab. All of it blocks, so it runs in a worker thread.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import ssl
import time
import urllib.error
import urllib.request
from importlib import import_module
from typing import TYPE_CHECKING, Any

from adelta._clock import SYSTEM_CLOCK
from adelta.errors import InvalidOptionError, PermissionDeniedError, StorageError
from adelta.storage.bearer import Token
from adelta.storage.hdfs_answers import failure_of_hdfs, string_of
from adelta.storage.http import trusted_by
from adelta.storage.request_log import logged
from adelta.storage.sigv4 import encode_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.storage.hdfs_options import HdfsOptions

__all__ = ["KerberosTokens", "token_path"]

_SPNEGO = "1.3.6.1.5.5.2"
_KEPT = 12 * 3600.0  # seconds: by default a token is good for a day, and then has to be renewed
_ROUNDS = 3
_BETWEEN = 0.5  # seconds
_LONGEST = 64 << 10
_PATH = "/webhdfs/v1/"
_BUSY = ("StandbyException", "RetriableException")


def token_path(proxied: str | None) -> str:
    """The path and query that ask for a token; of a proxied user it is for that one."""
    wanted = {"op": "GETDELEGATIONTOKEN", **({} if proxied is None else {"doas": proxied})}
    return f"{_PATH}?{encode_query(wanted)}"


class KerberosTokens:
    """Fetches delegation tokens from the first of the namenodes that is the active one."""

    def __init__(self, options: HdfsOptions, origins: Sequence[str]) -> None:
        self._options = options
        self._origins = origins

    def __call__(self) -> Token:
        """A new token.

        Raises:
            PermissionDeniedError: Kerberos, or the namenode, refuses.
            InvalidOptionError: gssapi is not installed.
            StorageError: no namenode is active, or can be reached.
        """
        try:
            gssapi: Any = import_module("gssapi")
        except (ImportError, OSError) as error:
            raise InvalidOptionError(
                "the cluster asks for Kerberos, which needs gssapi: install adelta[hdfs], or give "
                "hdfs_delegation_token"
            ) from error
        why = ""
        for attempt in range(_ROUNDS):
            if attempt:
                time.sleep(_BETWEEN)
            for origin in self._origins:
                found = self._ask(gssapi, origin)
                if isinstance(found, Token):
                    return found
                why = found
        raise StorageError(f"no namenode gives a delegation token: {why}")

    def _ask(self, gssapi: Any, origin: str) -> Token | str:
        """A token, or why another namenode is to be asked."""
        host = origin.partition("://")[2].rpartition(":")[0].strip("[]")
        try:
            context = self._context(gssapi, host)
            words = base64.b64encode(context.step()).decode()
            reason = None
        except gssapi.exceptions.GSSError as error:
            reason = str(error)
        if reason is not None:  # raised here, so that no other error is its context
            raise self._refused(f"Kerberos: {reason}")
        request = urllib.request.Request(
            origin + token_path(self._options.proxied),
            headers={"Authorization": f"Negotiate {words}"},
        )
        try:
            timeout = self._options.http.read_timeout
            with (
                logged("GET", origin + _PATH) as exchange,
                self._opener().open(request, timeout=timeout) as answer,
            ):
                exchange.status = answer.status
                body, said = answer.read(_LONGEST), answer.headers.get_all("www-authenticate")
        except urllib.error.HTTPError as error:
            with error:
                failure = failure_of_hdfs(error.code, dict(error.headers), error.read(_LONGEST))
            if failure.code in _BUSY or error.code >= 500:
                return failure.reason
            raise self._refused(failure.reason) from None
        except (OSError, http.client.HTTPException) as error:
            return f"{origin} gave no answer: {type(error).__name__}"
        self._check_server(gssapi, context, said or [], origin)
        text = string_of(body, f"GETDELEGATIONTOKEN at {origin}")
        return Token(text, SYSTEM_CLOCK.now_ms() / 1000 + _KEPT, "a delegation token by Kerberos")

    def _context(self, gssapi: Any, host: str) -> Any:
        options = self._options
        service = gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service)
        credentials = None
        if options.principal is not None or options.keytab is not None:
            name = None
            if options.principal is not None:
                name = gssapi.Name(options.principal, gssapi.NameType.kerberos_principal)
            store = None
            if options.keytab is not None:
                store = {"client_keytab": options.keytab, "ccache": f"MEMORY:adelta-{id(self)}"}
            credentials = gssapi.Credentials(name=name, usage="initiate", store=store)
        return gssapi.SecurityContext(
            name=service,
            creds=credentials,
            usage="initiate",
            mech=gssapi.OID.from_int_seq(_SPNEGO),
            flags=gssapi.RequirementFlag.mutual_authentication,
        )

    def _check_server(self, gssapi: Any, context: Any, said: Sequence[str], origin: str) -> None:
        """See that the server has proved who it is. Raises: PermissionDeniedError."""
        words = next((each[10:] for each in said if each.lower().startswith("negotiate ")), "")
        with contextlib.suppress(ValueError, gssapi.exceptions.GSSError):
            if not context.complete:
                context.step(base64.b64decode(words, validate=True))
            if context.complete:
                return
        raise self._refused(f"{origin} does not prove to Kerberos that it is the namenode")

    def _refused(self, reason: str) -> PermissionDeniedError:
        return PermissionDeniedError(
            f"no delegation token for {self._options.scheme}://{self._options.authority}: "
            f"{reason}; run kinit, or set the storage options hdfs_kerberos_principal and "
            "hdfs_kerberos_keytab, or hdfs_delegation_token"
        )

    def _opener(self) -> urllib.request.OpenerDirector:
        http = self._options.http
        if http.allow_invalid_certificates:
            trust = ssl._create_unverified_context()
        elif http.ca_bundle is not None:
            trust = trusted_by(http.ca_bundle)
        else:
            trust = ssl.create_default_context()
        proxies = None
        if http.proxy_url is not None:
            proxies = {"http": http.proxy_url, "https": http.proxy_url}
        return urllib.request.build_opener(
            urllib.request.ProxyHandler(proxies),
            urllib.request.HTTPSHandler(context=trust),
            _NoRedirects(),
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: what proves who asks goes to the namenode alone."""

    def redirect_request(self, *_: object) -> None:
        return None
