"""Where S3 keys come from, and how they are kept fresh.

Keys in the options or the environment are used as they are. Everything else (profiles, assumed
roles, SSO, web identity, container and instance roles) is resolved by aiobotocore, in a worker
thread with a loop of its own: loading it, and reading its files, would hold up the caller's loop.
Keys that end are renewed before their end, as `renewal` says.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adelta._clock import SYSTEM_CLOCK, monotonic
from adelta._dataclasses import dataclass
from adelta.errors import AdeltaError, PermissionDeniedError
from adelta.storage.aws_client import client_arguments
from adelta.storage.bearer import unresolved
from adelta.storage.client_options import check_endpoint
from adelta.storage.renewal import Renewed
from adelta.storage.sigv4 import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.storage.s3_options import S3Options

__all__ = ["Access", "AccessProvider"]

_LOOK_EVERY = 10.0
_RENEW_AHEAD = 15 * 60.0
_LAST_MOMENT = 60.0


@dataclass(frozen=True, slots=True)
class Access:
    """What is needed to reach a bucket: keys (None: sign nothing), region and endpoint.

    `ca_bundle` has the certificates to trust, where the profile names some.
    """

    credentials: Credentials | None
    region: str
    endpoint: str | None
    ca_bundle: str | None = None


@dataclass(frozen=True, slots=True)
class _Resolved:
    access: Access
    ends_within: Callable[[float], bool]


class AccessProvider:
    """Resolves an `Access` when it is first asked for, and keeps it fresh."""

    def __init__(self, options: S3Options) -> None:
        self._options = options
        self._found = Renewed(self._resolve)
        self._next_look = 0.0
        complete = options.region is not None or options.endpoint is not None
        if options.skip_signature or (options.credentials and complete and not options.role_arn):
            fixed = Access(options.credentials, options.region or "us-east-1", options.endpoint)
            self._found.newest = _Resolved(fixed, lambda _seconds: False)
            self._next_look = float("inf")

    @property
    def fixed(self) -> bool:
        """Whether the keys are as given: asking again would give the same."""
        return self._next_look == float("inf")

    def peek(self) -> Access | None:
        """The access at hand, where it need not be looked after now."""
        resolved = self._found.newest
        return resolved.access if resolved is not None and monotonic() < self._next_look else None

    async def current(self) -> Access:
        """The access to use now.

        Raises:
            PermissionDeniedError: there are no keys, or they cannot be renewed.
        """
        if (access := self.peek()) is not None:
            return access
        resolved = self._found.newest
        if resolved is None:
            return (await self._found.after(None)).access
        if resolved.ends_within(_RENEW_AHEAD):
            is_over = partial(resolved.ends_within, _LAST_MOMENT)
            resolved = await self._found.ahead(resolved, is_over)
        self._next_look = monotonic() + _LOOK_EVERY
        return resolved.access

    async def after_expiry(self, used: Access) -> Access | None:
        """A fresh access after the store called `used` expired, or None where there is none."""
        resolved = self._found.newest
        if self.fixed or resolved is None:
            return None
        if resolved.access is not used:
            return resolved.access
        return (await self._found.after(resolved)).access

    def _resolve(self) -> _Resolved:
        resolved = asyncio.run(_resolve(self._options))
        self._next_look = monotonic() + _LOOK_EVERY
        return resolved


async def _resolve(options: S3Options) -> _Resolved:
    from aiobotocore.session import AioSession
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

    passes = False
    try:
        session = AioSession(profile=options.profile)
        region = options.region or session.get_config_variable("region") or "us-east-1"
        endpoint = options.endpoint or await _configured_endpoint(session, region)
        if endpoint is not None:
            endpoint = check_endpoint(endpoint, allow_http=options.allow_http)
        ca_bundle = session.get_config_variable("ca_bundle")
        credentials = options.credentials
        ends_within: Callable[[float], bool] = _never
        if options.role_arn is not None:
            credentials, ends_within = await _assume_role(session, options, region)
        elif credentials is None:
            credentials, ends_within = await _from_session(session)
    except AdeltaError:
        raise
    except (BotoCoreError, ClientError, OSError, ValueError) as error:
        reason = str(error)
        passes = isinstance(error, (ConnectionError, HTTPClientError))
        if isinstance(error, ClientError):
            passes = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500
    else:
        return _Resolved(Access(credentials, region, endpoint, ca_bundle), ends_within)
    # raised here, so that no other error is its context: an address in it may hold a password
    raise unresolved(f"the AWS credentials cannot be resolved: {reason}", passes=passes)


def _never(_seconds: float) -> bool:
    return False


async def _configured_endpoint(session: Any, region: str) -> str | None:
    """The endpoint that the profile or the environment names, None for AWS's own."""
    from botocore import UNSIGNED
    from botocore.config import Config

    config = Config(signature_version=UNSIGNED)
    async with session.create_client("s3", region_name=region, config=config) as client:
        endpoint = str(client.meta.endpoint_url)
    return None if ".amazonaws.com" in endpoint else endpoint


async def _from_session(session: Any) -> tuple[Credentials, Callable[[float], bool]]:
    found = await session.get_credentials()
    if found is None:
        raise PermissionDeniedError(
            "there are no AWS credentials: set the storage options aws_access_key_id and"
            " aws_secret_access_key, the variables of the same names, or a profile; or"
            " aws_skip_signature=true for a public bucket"
        )
    frozen = await found.get_frozen_credentials()
    credentials = Credentials(
        frozen.access_key, frozen.secret_key, frozen.token, f"AWS {found.method}"
    )
    refresh_needed = getattr(found, "refresh_needed", None)
    if refresh_needed is None:
        return credentials, _never
    return credentials, lambda seconds: bool(refresh_needed(seconds))


async def _assume_role(
    session: Any, options: S3Options, region: str
) -> tuple[Credentials, Callable[[float], bool]]:
    base = options.credentials
    keys: dict[str, str | None] = {}
    if base is not None:
        keys = {
            "aws_access_key_id": base.access_key_id,
            "aws_secret_access_key": base.secret_access_key,
            "aws_session_token": base.session_token,
        }
    role = {"RoleArn": options.role_arn, "RoleSessionName": options.role_session_name}
    async with contextlib.AsyncExitStack() as stack:
        sts = await stack.enter_async_context(
            session.create_client(
                **client_arguments(
                    session, "sts", options.http, region=region, endpoint=options.sts_endpoint
                ),
                **keys,
            )
        )
        if options.web_identity_token_file is not None:
            token = _read_token(options.web_identity_token_file)
            answer = await sts.assume_role_with_web_identity(WebIdentityToken=token, **role)
        else:
            answer = await sts.assume_role(**role)
    made = answer["Credentials"]
    ends = made["Expiration"].timestamp()
    credentials = Credentials(
        made["AccessKeyId"],
        made["SecretAccessKey"],
        made["SessionToken"],
        f"assumed role {options.role_arn}",
    )
    return credentials, lambda seconds: SYSTEM_CLOCK.now_ms() / 1000 + seconds >= ends


def _read_token(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PermissionDeniedError(f"the web identity token cannot be read: {error}") from error
