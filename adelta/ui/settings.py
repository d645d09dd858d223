"""What the page is served with, and what one client may take of it."""

from __future__ import annotations

from dataclasses import field

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.serving.listening import Address, is_loopback

__all__ = ["UiLimits", "UiSettings"]


@dataclass(frozen=True, slots=True)
class UiLimits:
    """The limits, in seconds where nothing else is said.

    Attributes:
        head_seconds: from the first byte of a request, or the connection, to the end of its head.
        body_seconds: for which a client may leave an answer unread.
        idle_seconds: that a connection may be without a request.
        answer_seconds: that an answer may take; what it has cost is given up then.
        stop_seconds: that requests have to end when the service stops.
        connections: at once.
        at_once: answers that are being made.
        followers: clients that follow a table.
        failures_per_minute: requests without the token, of one address.
    """

    head_seconds: float = 10.0
    body_seconds: float = 60.0
    idle_seconds: float = 75.0
    answer_seconds: float = 60.0
    stop_seconds: float = 2.0
    connections: int = 256
    at_once: int = 8
    followers: int = 32
    failures_per_minute: float = 60.0


@dataclass(frozen=True, slots=True)
class UiSettings:
    """How the page is served.

    Attributes:
        uris: the tables' addresses.
        storage_options: what they are opened with.
        address: where it listens.
        token: what a client has to know; without one, nothing: for this machine alone.
        names: by which a browser may reach it, beside addresses and ``localhost``.
        limits: what one client may take.

    Raises:
        InvalidOptionError: there is no table; or other machines could reach it without a token.
    """

    uris: tuple[str, ...]
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)
    address: Address = field(default_factory=lambda: Address("127.0.0.1", 8788))
    token: str | None = field(default=None, repr=False)
    names: tuple[str, ...] = ()
    limits: UiLimits = field(default_factory=UiLimits)

    def __post_init__(self) -> None:
        if not self.uris:
            raise InvalidOptionError("there is no table to show; name one or more")
        if self.token is None and not is_loopback(self.address.host):
            raise InvalidOptionError(
                f"{self.address.host} can be reached by other machines, which could read the "
                "tables: set a token"
            )
        if self.token is not None and len(self.token) < 16:
            raise InvalidOptionError(
                "the token can be guessed: take one of 16 characters or more, or none, and a new "
                "one is made"
            )
