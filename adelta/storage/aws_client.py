"""How aiobotocore's clients reach a service of AWS: the way that adelta's own requests go."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from adelta.storage.http import proxy_for

if TYPE_CHECKING:
    from adelta.storage.http import HttpOptions

__all__ = ["client_arguments"]


def client_arguments(
    session: Any,
    service: str,
    http: HttpOptions,
    *,
    region: str,
    endpoint: str | None,
    attempts: int | None = None,
) -> dict[str, Any]:
    """Arguments of the session's `create_client` for one service.

    The client makes a request up to `attempts` times. It trusts the certificates of `ca_bundle`,
    the session's or the option's, or those that the variable SSL_CERT_FILE names.

    Raises:
        InvalidOptionError: the environment names a proxy by what is no address.
    """
    from aiobotocore.config import AioConfig

    trusted = (
        http.ca_bundle
        or session.get_config_variable("ca_bundle")
        or os.environ.get("SSL_CERT_FILE")
    )
    proxy = proxy_for(endpoint or f"https://{service}.{region}.amazonaws.com", http)
    return {
        "service_name": service,
        "region_name": region,
        "endpoint_url": endpoint,
        "verify": not http.allow_invalid_certificates and (trusted or None),
        "config": AioConfig(
            connect_timeout=http.connect_timeout,
            read_timeout=http.read_timeout,
            retries=None if attempts is None else {"total_max_attempts": attempts},
            proxies={} if proxy is None else {"http": proxy, "https": proxy},
        ),
    }
