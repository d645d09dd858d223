"""What the service counts, in the words of Prometheus. Tables and tokens are named nowhere."""

from __future__ import annotations

from adelta.errors import InvalidOptionError

try:
    from prometheus_client import (
        CollectorRegistry,
        Counter,
        Gauge,
        Histogram,
        ProcessCollector,
        generate_latest,
    )
except ImportError as error:
    raise InvalidOptionError(
        "a commit owner needs prometheus-client: pip install 'adelta[owner]'"
    ) from error

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """The counters of one service, and what the system says of its process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "adelta_owner_requests", "Requests", ("route", "status"), registry=registry
        )
        self.seconds = Histogram(
            "adelta_owner_request_seconds",
            "Seconds per request",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.commits = Counter(
            "adelta_owner_commits", "Proposed commits", ("outcome",), registry=registry
        )
        self.backfilled = Counter(
            "adelta_owner_backfilled_commits", "Commits put into logs", registry=registry
        )
        self.backfill_failures = Counter(
            "adelta_owner_backfill_failures", "Backfills that failed", registry=registry
        )
        self.waiting = Gauge(
            "adelta_owner_waiting_commits",
            "Commits that wait to be backfilled, when it was last looked",
            registry=registry,
        )
        self.refused = Counter(
            "adelta_owner_refused_requests",
            "Requests refused for who sent them or how",
            ("reason",),
            registry=registry,
        )
        self.connections = Gauge(
            "adelta_owner_connections", "Connections that are open", registry=registry
        )

    def connections_open(self, number: int) -> None:
        """Take note of how many connections are open."""
        self.connections.set(number)

    def connection_refused(self, reason: str) -> None:
        """Count a connection that is closed for a reason."""
        self.refused.labels(reason).inc()

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self._registry)
