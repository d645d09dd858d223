"""How aiobotocore's clients reach a service of AWS: the way that adelta's own requests go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.storage.http import proxy_for

if TYPE_CHECKING:
    from adelta.storage.http import HttpOptions

__all__ = ["client_arguments"]


def client_arguments(
    service: str,
    http: HttpOptions,
    *,
    region: str,
    endpoint: str | None,
    attempts: int | None = None,
) -> dict[str, Any]:
    """Arguments of `create_client` for one service, which makes a request up to `attempts` times.

    Raises:
        InvalidOptionError: the environment names a proxy by what is no address.
    """
    from aiobotocore.config import AioConfig

    proxy = proxy_for(endpoint or f"https://{service}.{region}.amazonaws.com", http)
    return {
        "service_name": service,
        "region_name": region,
        "endpoint_url": endpoint,
        "verify": False if http.allow_invalid_certificates else None,
        "config": AioConfig(
            connect_timeout=http.connect_timeout,
            read_timeout=http.read_timeout,
            retries=None if attempts is None else {"total_max_attempts": attempts},
            proxies={} if proxy is None else {"http": proxy, "https": proxy},
        ),
    }
