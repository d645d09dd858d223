"""What deltalake switches for the whole process: nanoseconds, and tracing."""

from __future__ import annotations

from adelta.errors import InvalidUseError

__all__ = ["enable_nanosecond_timestamps", "init_tracing"]


def enable_nanosecond_timestamps() -> None:
    """Refused: adelta keeps times in microseconds, as Delta's released features do.

    Raises:
        RuntimeError: always, as deltalake does that was built without it.
    """
    raise InvalidUseError(
        "adelta keeps timestamps in microseconds, and has no feature for nanoseconds; cast them "
        "with pyarrow before writing, or keep them as a long"
    )


def _disable_nanosecond_timestamps() -> None:
    """Do nothing: they are never enabled."""


def _nanosecond_timestamps_enabled() -> bool:
    """False."""
    return False


def init_tracing(endpoint: str | None = None) -> None:
    """Refused: adelta sends no traces by itself, to nobody.

    Raises:
        RuntimeError: always; the message says what to do.
    """
    raise InvalidUseError(
        "adelta has no exporter of traces; log by the standard module logging, whose logger is "
        "'adelta'"
    )
