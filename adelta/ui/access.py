"""Who is answered: by what name the service was reached, from where a request comes, its token.

A page of somebody else's, in the browser of whoever runs the service, is kept out in three ways: a
name that leads here, but is not among those known (DNS rebinding), is refused; so is a request that
another site's page makes; and answers bear no header that would let such a page read them.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from typing import TYPE_CHECKING

from adelta.serving.listening import is_loopback
from adelta.serving.rates import Rates

if TYPE_CHECKING:
    from aiohttp import web

    from adelta.ui.settings import UiSettings

__all__ = ["Access", "DeniedError", "knows_host"]

_COOKIE = "adelta_ui"
_FOREIGN = ("cross-site", "same-site")


class DeniedError(Exception):
    """A request that is not answered: the status of HTTP, and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Access:
    """Decides who is answered, for as long as a service runs."""

    def __init__(self, settings: UiSettings) -> None:
        self._settings = settings
        self._session = secrets.token_urlsafe(32)
        failures = settings.limits.failures_per_minute
        self._failures = Rates(failures / 60, failures)

    def check_origin(self, request: web.Request) -> None:
        """Refuse what was reached by a foreign name, or was sent by a foreign page.

        Raises:
            DeniedError: it was.
        """
        local = is_loopback(self._settings.address.host)
        names = {*self._settings.names, self._settings.address.host}
        if not knows_host(request.headers.get("Host", ""), names, local=local):
            raise DeniedError(
                421,
                "the page was asked for by a name that it does not know; ask by its address, or "
                "tell it its name (--name)",
            )
        is_page = request.path == "/" and request.method == "GET"  # a link may lead to it
        if not is_page and request.headers.get("Sec-Fetch-Site") in _FOREIGN:
            raise DeniedError(403, "another site's page has sent the request")

    def check_token(self, request: web.Request) -> None:
        """Refuse who does not know the token, where there is one.

        Raises:
            DeniedError: it does not.
        """
        if self._settings.token is None or self._is_same(
            request.cookies.get(self._cookie), self._session
        ):
            return
        self.check_bearer(request)

    def check_bearer(self, request: web.Request) -> None:
        """Refuse who does not send the token itself.

        Raises:
            DeniedError: it does not, or has tried too many.
        """
        who = request.remote or ""
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else ""
        if given and self._failures.left(who) < 1:
            raise DeniedError(429, "too many tokens were tried; wait a minute")
        if not self._is_same(given, self._settings.token or ""):
            if given:
                self._failures.take(who)
            raise DeniedError(401, "the token is missing or wrong")

    def give_session(self, request: web.Request, response: web.StreamResponse) -> None:
        """Let the browser that has sent the token send a cookie in its place."""
        response.set_cookie(
            self._cookie,
            self._session,
            path="/",
            httponly=True,
            samesite="Strict",
            secure=request.secure or self._settings.address.without_tls,
        )

    @property
    def _cookie(self) -> str:
        """Its name; of several services on one machine each has its own."""
        key = "\n".join([*self._settings.uris, str(self._settings.address.port)])
        return f"{_COOKIE}_{hashlib.sha256(key.encode()).hexdigest()[:12]}"

    @staticmethod
    def _is_same(given: str | None, known: str) -> bool:
        return bool(given) and hmac.compare_digest((given or "").encode(), known.encode())


def knows_host(header: str, names: set[str], *, local: bool) -> bool:
    """Whether a header ``Host`` names this service: by an address, ``localhost`` or one of `names`.

    Where it is `local`, only addresses of the loopback interface are its own. To an address a
    browser goes without asking anybody's name server.

    Example: ``127.0.0.1:8788`` does, and ``evil.example:8788`` does not.
    """
    host = header.strip().lower()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") <= 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bool(host) and (host == "localhost" or host in {name.lower() for name in names})
    return address.is_loopback or not local
