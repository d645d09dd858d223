"""What an answer of an object store means to us: an `Answer`, or a `Failure` of a `Kind`.

Each store has a table of its own error codes (`s3_errors`, `gcs_errors`, `azure_errors`); that of
the statuses of HTTP is here. `outcome_of` says what may help after a failure.
"""

from __future__ import annotations

import enum
from dataclasses import field
from typing import TYPE_CHECKING

import aiohttp

from adelta._dataclasses import dataclass
from adelta.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
    ThrottledError,
)
from adelta.storage.http_time import retry_after
from adelta.storage.retry import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.object_store import ObjectMeta

__all__ = [
    "Answer",
    "Failure",
    "Kind",
    "Page",
    "connection_failure",
    "exchange_fault",
    "kind_of",
    "outcome_of",
]


class Kind(enum.Enum):
    """What a caller can do about a failure."""

    NOT_FOUND = enum.auto()
    EXISTS = enum.auto()
    DENIED = enum.auto()
    EXPIRED = enum.auto()
    WRONG_REGION = enum.auto()
    THROTTLED = enum.auto()
    BUSY = enum.auto()
    BROKEN = enum.auto()
    UNSENT = enum.auto()
    LOST = enum.auto()
    UNSUPPORTED = enum.auto()
    OUT_OF_RANGE = enum.auto()
    DAMAGED = enum.auto()
    REFUSED = enum.auto()


_STATUSES: Mapping[int, Kind] = {
    301: Kind.WRONG_REGION,
    307: Kind.WRONG_REGION,
    401: Kind.DENIED,
    403: Kind.DENIED,
    404: Kind.NOT_FOUND,
    405: Kind.UNSUPPORTED,
    408: Kind.BUSY,
    412: Kind.EXISTS,
    416: Kind.OUT_OF_RANGE,
    429: Kind.THROTTLED,
    500: Kind.BROKEN,
    501: Kind.UNSUPPORTED,
    502: Kind.BROKEN,
    503: Kind.THROTTLED,
    504: Kind.BROKEN,
}

_TRANSIENT = frozenset(
    {Kind.THROTTLED, Kind.BUSY, Kind.BROKEN, Kind.UNSENT, Kind.LOST, Kind.DAMAGED}
)
_MAYBE_APPLIED = frozenset({Kind.THROTTLED, Kind.BROKEN, Kind.LOST})
_ERRORS: Mapping[Kind, type[StorageError]] = {
    Kind.NOT_FOUND: ObjectNotFoundError,
    Kind.EXISTS: ObjectExistsError,
    Kind.DENIED: PermissionDeniedError,
    Kind.EXPIRED: PermissionDeniedError,
    Kind.THROTTLED: ThrottledError,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer; `repeated` says that an earlier attempt may have taken effect too.

    `placed` is how many bytes of the body were put where the request wanted them, and then there
    is no `body`; None where they were not.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    repeated: bool = False
    placed: int | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request: what it means, and in words why.

    `repeated` says that an earlier attempt than the one described may have taken effect; there were
    so many `attempts`. `region` is the bucket's where the store named it, `advice` what to do next
    where that is known.
    """

    kind: Kind
    code: str
    reason: str
    headers: Mapping[str, str] = field(repr=False)
    repeated: bool = False
    region: str | None = None
    attempts: int = 1
    advice: str | None = None

    @property
    def maybe_applied(self) -> bool:
        """Whether this attempt or an earlier one may have taken effect."""
        return self.repeated or self.kind in _MAYBE_APPLIED

    def error(self, what: str, *, credentials: str) -> StorageError:
        """The error to raise; `what` names the request, `credentials` their source."""
        text = f"{what} failed: {self.reason}"
        if self.kind in (Kind.DENIED, Kind.EXPIRED):
            text += f" (credentials: {credentials})"
        if self.attempts > 1:
            text += f", after {self.attempts} attempts"
        if self.advice is not None:
            text += f"; {self.advice}"
        return _ERRORS.get(self.kind, StorageError)(text)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, its paths cut by the root; `token` asks for the next one.

    `folders`, whose paths end in ``/``, are told of where the listing is not recursive.
    """

    objects: list[ObjectMeta]
    token: str | None
    folders: list[str] = field(default_factory=list)


def kind_of(status: int) -> Kind:
    """What a status of HTTP means that is none of success."""
    return _STATUSES.get(status) or (Kind.BROKEN if status >= 500 else Kind.REFUSED)


def outcome_of(
    failure: Failure, *, expired: bool | None = None, region: str | None = None
) -> Outcome:
    """What may help after `failure`: newer credentials if these have `expired`, or a `region`."""
    return Outcome(
        f"it was {failure.kind.name.lower().replace('_', ' ')}",
        transient=failure.kind in _TRANSIENT,
        maybe_applied=failure.kind in _MAYBE_APPLIED,
        expired=failure.kind is Kind.EXPIRED if expired is None else expired,
        region=region,
        wait=retry_after(failure.headers),
    )


def connection_failure(error: Exception, *, sent: bool) -> Failure:
    """What a broken connection means, before (`sent` false) or after the request left."""
    kind = Kind.LOST if sent else Kind.UNSENT
    return Failure(kind, "", exchange_fault(error), {})


def exchange_fault(error: Exception) -> str:
    """One line that says why an exchange failed, without secrets.

    The arguments of aiohttp's errors may hold a signed URL, request headers and the password of a
    proxy. So callers must not show such an error, or chain it to their own.
    """
    text = str(error)
    if isinstance(error, aiohttp.ClientResponseError):
        text = error.message.partition("\n")[0].rstrip(":")
    return f"{type(error).__name__}: {text}".rstrip(": ")
