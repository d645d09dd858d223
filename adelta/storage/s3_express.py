"""Directory buckets of S3 Express: how they are told, and the sessions that requests are signed by.

A directory bucket names its zone, ``base--zone--x-s3``, and is reached in that zone alone. Its
requests are signed by the keys of a session, which the user's own keys begin and which ends after
five minutes. It is renewed before, by one caller while the others go on with the old one.
"""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING

import anyio

from adelta._clock import monotonic
from adelta._dataclasses import dataclass
from adelta._shared_work import SharedWork
from adelta.errors import InvalidOptionError, StorageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.storage.credentials import Access
    from adelta.storage.s3_options import S3Options
    from adelta.storage.sigv4 import Credentials

__all__ = ["Session", "Sessions", "check_express", "is_directory_bucket", "zonal_host"]

_NAME = re.compile(r".+--([a-z0-9-]+)--x-s3")
_RENEW_AHEAD = 90.0
_LAST_MOMENT = 10.0
_PAUSE = 10.0  # after a failure, while the session at hand is not over


def is_directory_bucket(bucket: str, options: S3Options) -> bool:
    """Whether the bucket is one, by the options or else by its name."""
    return bucket.endswith("--x-s3") if options.express is None else options.express


def zonal_host(bucket: str, region: str, suffix: str) -> str:
    """Where the bucket is reached, below Amazon's domain `suffix`.

    Raises:
        InvalidOptionError: its name does not say in which zone it is.
    """
    named = _NAME.fullmatch(bucket)
    if named is None:
        raise InvalidOptionError(
            f"the bucket {bucket!r:.100} does not name its zone as directory buckets do, such as "
            "lake--usw2-az1--x-s3: leave aws_s3_express out, or say by aws_endpoint_url where it is"
        )
    return f"{bucket}.s3express-{named[1]}.{region}.{suffix}"


def check_express(options: S3Options) -> None:
    """Refuse what a directory bucket does not have.

    Raises:
        InvalidOptionError: an option asks for it.
    """
    no_host = options.virtual_hosted is False and options.endpoint is None
    lacking: dict[str, object] = {
        "aws_server_side_encryption=sse-c": options.read_headers,
        "aws_server_side_encryption=aws:kms:dsse": "aws:kms:dsse" in options.write_headers.values(),
        "aws_request_payer": options.request_headers,
        "aws_virtual_hosted_style_request=false": no_host,
    }
    if asked := [name for name, is_given in lacking.items() if is_given]:
        raise InvalidOptionError(
            f"directory buckets of S3 Express have no {', '.join(asked)}: leave that out"
        )


@dataclass(frozen=True, slots=True)
class Session:
    """The keys of a session, and by whose keys it was begun; the times are those of `monotonic`."""

    credentials: Credentials
    access: Access
    renewed_from: float
    needed_until: float

    @classmethod
    def lasting(cls, seconds: float, credentials: Credentials, access: Access) -> Session:
        """One that ends after so many seconds from now."""
        ends = monotonic() + seconds
        ahead, last = (min(most, seconds / 3) for most in (_RENEW_AHEAD, _LAST_MOMENT))
        return cls(credentials, access, ends - ahead, ends - last)

    @property
    def is_fresh(self) -> bool:
        """Whether it need not be renewed now."""
        return monotonic() < self.renewed_from

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or does so at any moment."""
        return monotonic() >= self.needed_until


class Sessions:
    """The newest session that `begin` has given, by the keys of an access.

    Any number of requests at one moment begin one session.
    """

    def __init__(self, begin: Callable[[Access], Awaitable[Session]]) -> None:
        self._begin = begin
        self._session: Session | None = None
        self._renewing: int | None = None  # the process that does so ahead of time
        self._paused_until = 0.0
        self._work: tuple[asyncio.AbstractEventLoop, SharedWork[Session]] | None = None

    def peek(self, access: Access) -> Session | None:
        """The session at hand, where it need not be renewed now."""
        session = self._session
        return session if session and session.access is access and session.is_fresh else None

    async def current(self, access: Access) -> Session:
        """The session to use now. Raises: StorageError."""
        if (session := self.peek(access)) is not None:
            return session
        known = self._session
        if known is None or known.access is not access or known.is_over:
            return await self._renewed(access)
        if self._renewing == os.getpid() or monotonic() < self._paused_until:
            return known
        self._renewing = os.getpid()
        try:
            return await self._renewed(access)
        except StorageError:
            if known.is_over:
                raise
            self._paused_until = monotonic() + _PAUSE
            return known
        finally:
            self._renewing = None

    def forget(self, used: Session) -> None:
        """Go on with another session than one that the store calls expired."""
        if self._session is used:
            self._session = None

    async def _renewed(self, access: Access) -> Session:
        """A fresh session: one that is begun, or has been meanwhile."""
        loop = asyncio.get_running_loop()
        if self._work is None or self._work[0] is not loop:
            self._work = loop, SharedWork(anyio.Lock())

        async def begin() -> Session:
            if (found := self.peek(access)) is None:
                found = self._session = await self._begin(access)
            return found

        return await self._work[1].result(begin)
