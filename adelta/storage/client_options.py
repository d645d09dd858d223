"""The storage options that every store behind HTTP has: its client's, and its retries'."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from adelta.errors import InvalidOptionError
from adelta.storage.http import HttpOptions, check_proxy
from adelta.storage.retry import RetryPolicy

if TYPE_CHECKING:
    from adelta.storage.given_options import GivenOptions

__all__ = ["check_endpoint", "concurrency_of", "http_options", "retry_policy"]


def concurrency_of(given: GivenOptions) -> int:
    """How many requests may be under way at once. Raises: InvalidOptionError."""
    return given.number(
        128,
        "concurrency_limit",
        "max_concurrency",
        "object_store_concurrency_limit",
        least=1,
    )


def http_options(given: GivenOptions) -> HttpOptions:
    """How to connect, and how long to wait. Raises: InvalidOptionError."""
    http = HttpOptions()
    proxy = given.text("proxy_url")
    return HttpOptions(
        connect_timeout=given.seconds(http.connect_timeout, "connect_timeout"),
        read_timeout=given.seconds(http.read_timeout, "read_timeout"),
        timeout=given.seconds(http.timeout, "timeout"),
        pool_idle_timeout=given.seconds(
            http.pool_idle_timeout, "pool_idle_timeout", "s3_pool_idle_timeout_seconds"
        ),
        ca_bundle=given.text("ca_bundle"),
        allow_invalid_certificates=bool(given.flag("allow_invalid_certificates")),
        proxy_url=None if proxy is None else check_proxy(proxy, "storage option proxy_url"),
        user_agent=given.text("user_agent"),
    )


def retry_policy(given: GivenOptions) -> RetryPolicy:
    """How often and for how long requests are tried. Raises: InvalidOptionError."""
    retry = RetryPolicy()
    return RetryPolicy(
        max_retries=given.number(retry.max_retries, "max_retries", least=0),
        retry_timeout=given.seconds(retry.retry_timeout, "retry_timeout"),
        init_backoff=given.seconds(retry.init_backoff, "init_backoff"),
        max_backoff=given.seconds(retry.max_backoff, "max_backoff"),
        base=given.factor("base", retry.base),
    )


def check_endpoint(
    endpoint: str,
    *,
    allow_http: bool,
    name: str = "aws_endpoint_url",
    permission: str = "aws_allow_http",
) -> str:
    """The endpoint, which the option `name` gives, in its plain form.

    Raises:
        InvalidOptionError: it is no URL, or not encrypted where that is not allowed.
    """
    scheme, separator, host = endpoint.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in ("http", "https") or not _is_place(host):
        shown = "one with a user or a password" if "@" in endpoint else repr(endpoint)
        raise InvalidOptionError(
            f"storage option {name} is a URL such as https://host:9000, not {shown}"
        )
    if scheme == "http" and not allow_http:
        raise InvalidOptionError(
            f"the endpoint {endpoint!r} is not encrypted: set {permission}=true to use it"
        )
    return f"{scheme}://{host.rstrip('/')}"


def _is_place(rest: str) -> bool:
    """Whether that is a host, with a port and a path where there are some, and nothing else."""
    try:
        parts = urlsplit(f"//{rest}")
        _ = parts.port
    except ValueError:
        return False
    has_more = any(sign in rest for sign in "@?#") or not rest.isprintable() or " " in rest
    return bool(parts.hostname) and not has_more
