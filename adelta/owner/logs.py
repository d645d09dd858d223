"""Structured logs: a line of JSON for each event, on standard error, without secrets."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson

from adelta._secrets import without_secrets

__all__ = ["write_logs"]

_LONGEST = 2000


class _Lines(logging.Formatter):
    """An event as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line. Line breaks and control characters of what clients sent are escaped in it."""
        event: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": without_secrets(record.getMessage())[:_LONGEST],
        }
        event |= getattr(record, "fields", {})
        if "error" in event:
            event["error"] = without_secrets(str(event["error"]))
        if record.exc_info:
            event["trace"] = without_secrets(self.formatException(record.exc_info))
        return orjson.dumps(event, default=str).decode()


def write_logs(level: str) -> None:
    """Write the service's events of a level and above, and warnings of the libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("adelta").setLevel(level.upper())
