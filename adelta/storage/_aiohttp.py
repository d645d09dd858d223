"""What adelta uses of aiohttp without its being documented, and how to do without it.

Long bodies are received where they are wanted by a connection of adelta's own (`long_body`), which
aiohttp has no option for. Whether the parts that it is made of are as adelta knows them is found at
import: where they are not, bodies come aiohttp's way, by more copies.

A session that repeats requests by itself cannot be done without: such an aiohttp is refused.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from adelta.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Connection", "connect_by", "has_known_connections", "repeat_nothing"]

_log = logging.getLogger("adelta.storage")

Connection = ResponseHandler
"""aiohttp's own connection, from which adelta's is derived."""

_METHODS = (
    "_drop_timeout",
    "_reschedule_timeout",
    "close",
    "connection_lost",
    "connection_made",
    "data_received",
    "eof_received",
    "feed_data",
    "force_close",
    "pause_writing",
    "resume_writing",
    "set_exception",
    "set_response_params",
)
_ATTRIBUTES = {"_parser", "_payload", "transport"}


def has_known_connections(connection: type[Any] = Connection) -> bool:
    """Whether aiohttp's connections have what adelta's are made of."""
    made = {name for each in connection.__mro__ for name in getattr(each, "__slots__", ())}
    for each in connection.__mro__:
        code = getattr(vars(each).get("__init__"), "__code__", None)
        made |= set(code.co_names) if code is not None else set()
    return made >= _ATTRIBUTES and all(hasattr(connection, name) for name in _METHODS)


_KNOWN = has_known_connections()
if not _KNOWN:
    _log.warning(
        "aiohttp %s is not as adelta knows it: long bodies are received by its own means",
        aiohttp.__version__,
    )


def connect_by(connector: aiohttp.TCPConnector, make: Callable[[], Connection]) -> None:
    """Let `connector` make its connections by `make`, where they are as adelta knows them."""
    if _KNOWN:
        connector._factory = make  # type: ignore[assignment]


def repeat_nothing(session: aiohttp.ClientSession) -> None:
    """Let `session` send no request again by itself.

    aiohttp would do so with a PUT when a pooled connection breaks. A conditional put must know of
    every request that may have taken effect, so only adelta's own retries repeat.

    Raises:
        StorageError: this aiohttp cannot be told so.
    """
    if not hasattr(session, "_retry_connection"):
        raise StorageError(
            f"aiohttp {aiohttp.__version__} cannot be kept from sending a request again, by "
            "which a commit could lose to itself; install an earlier one (aiohttp<4)"
        )
    session._retry_connection = False
