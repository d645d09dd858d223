"""What is said of requests at debug level, under the name `adelta.storage`: never a secret.

A line is made of what adelta itself sends and counts: method, host and path, status, seconds, and
the reasons that adelta has a word for. Headers, queries, bodies and the texts of errors are in
none, for keys, tokens and signatures may be in any of these.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from adelta._clock import monotonic
from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarl import URL

__all__ = ["Exchange", "log_retry", "logged", "place"]

_log = logging.getLogger("adelta.storage")


@dataclass(slots=True)
class Exchange:
    """One request on its way. `status` is that of its answer, once it is known."""

    status: int | None = None


def place(url: URL) -> str:
    """Where a request goes, without user, password and query."""
    port = "" if url.is_default_port() or url.port is None else f":{url.port}"
    return f"{url.scheme}://{url.host}{port}{url.raw_path}"


@contextmanager
def logged(method: str, where: URL | str) -> Iterator[Exchange]:
    """One request and its answer: says at the end of the block how they went."""
    exchange = Exchange()
    if not _log.isEnabledFor(logging.DEBUG):
        yield exchange
        return
    target = _printable(where if isinstance(where, str) else place(where))
    began = monotonic()
    failure = ""
    try:
        yield exchange
    except BaseException as error:
        failure = f", {type(error).__name__}"
        raise
    finally:
        seconds = monotonic() - began
        status = "no answer" if exchange.status is None else exchange.status
        _log.debug("%s %s: %s%s in %.3f s", method, target, status, failure, seconds)


def log_retry(request: str, why: str, delay: float = 0.0) -> None:
    """Say that `request` is made again after `delay` seconds, and why, in words of adelta's own."""
    _log.debug("%s: again in %.3f s, because %s", _printable(request), delay, why)


def _printable(text: str) -> str:
    """The text on one line, whatever names a table's log has brought into it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
