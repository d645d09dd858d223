"""Requests to one S3 bucket: how they are signed, and what is particular to S3 in trying again.

Those to a directory bucket of S3 Express are signed by the keys of a session, but for the request
that begins it and for copies, which are signed by the user's own.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.storage.bucket_names import check_bucket, fits_certificates
from adelta.storage.credentials import Access, AccessProvider
from adelta.storage.object_answers import Answer, Failure
from adelta.storage.object_client import (
    LARGE,
    ObjectClient,
    ObjectRequest,
    Sending,
    Signed,
    Target,
)
from adelta.storage.retry import Outcome
from adelta.storage.s3_checksums import body_fault, is_digested_inline, refuses_checksums
from adelta.storage.s3_errors import failure_of, is_error, is_region, outcome_of_s3
from adelta.storage.s3_express import (
    Session,
    Sessions,
    check_express,
    is_directory_bucket,
    zonal_host,
)
from adelta.storage.s3_xml import LONGEST_DOCUMENT, session_of
from adelta.storage.sigv4 import EMPTY_SHA256, UNSIGNED, Signer, encode_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.body_checks import Fault
    from adelta.storage.s3_options import S3Options

__all__ = ["S3Client"]

_TOKEN = "x-amz-security-token"
_SESSION_TOKEN = "x-amz-s3session-token"
_BEGIN_SESSION = "session="
_R2 = re.compile(r"\.r2\.cloudflarestorage\.com(?::\d+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target(Target):
    """Where requests go: made of an access, and good as long as that is the current one."""

    access: Access
    session: Session | None
    region: str
    prefix: str
    signer: Signer | None


class S3Client(ObjectClient[_Target]):
    """Sends requests to one bucket of S3.

    Attributes:
        is_express: whether it is a directory bucket of S3 Express.
        knows_checksums: whether the store takes checksums, as far as it has been asked.
        tags_are_digests: whether entity tags have been seen to be MD5s.
    """

    service = "S3"
    named_by = "aws_endpoint_url, aws_region and the name of the bucket"

    def __init__(self, bucket: str, options: S3Options) -> None:
        """A client of `bucket`.

        Raises:
            InvalidOptionError: no bucket can have that name, by the rules of the store.
        """
        self.is_express = is_directory_bucket(bucket, options)
        if self.is_express:
            check_express(options)
        in_host = self.is_express if options.virtual_hosted is None else options.virtual_hosted
        self._bucket, self._in_host = check_bucket(bucket, in_host=in_host), in_host
        super().__init__(f"s3://{bucket}", options.http, options.retry, options.concurrency)
        self._options = options
        self._provider = AccessProvider(options)
        self._sessions = Sessions(self._begin_session) if self.is_express else None
        self._target: _Target | None = None
        self._region: str | None = None
        self.knows_checksums = True
        self.tags_are_digests = False

    def credentials_source(self) -> str:
        """In words, where the keys come from that were used last."""
        target = self._target
        keys = target.access.credentials if target is not None else None
        return "none, requests are not signed" if keys is None else keys.source

    def failure_of(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """What an answer that is no success means."""
        return failure_of(status, headers, body)

    def failed(self, request: ObjectRequest, failure: Failure, target: _Target | None) -> Outcome:
        """What may help after a failure of a request to `target`."""
        region = "" if target is None else target.region
        return outcome_of_s3(failure, method=request.method, region=region)

    def succeeded(self, request: ObjectRequest, answer: Answer) -> bool:
        """Whether it is one of success: an answer that was begun before may tell of an error."""
        if not 200 <= answer.status < 300:
            return False
        late = request.method == "POST" or "x-amz-copy-source" in request.headers
        return not (late and is_error(answer.body))

    def signed(self, target: _Target, request: ObjectRequest, payload: str) -> Signed:
        """The request as it is sent to `target`."""
        path = target.prefix + encode_path(request.key)
        headers = request.headers
        if self._options.request_headers:
            headers = {**self._options.request_headers, **headers}
        if target.signer is not None:
            headers = target.signer.sign(
                request.method,
                path,
                request.query,
                payload_sha256=payload,
                now=SYSTEM_CLOCK.now_ms() / 1000,
                headers=headers,
            )
        return Signed(path, request.query, headers)

    async def body_fault(self, request: ObjectRequest, answer: Answer) -> Fault | None:
        """What is wrong with the body of a request that is to be verified."""
        digests = None if self.is_express else self.tags_are_digests
        look = partial(body_fault, answer, tags_are_digests=digests)
        found = look() if is_digested_inline(answer) else await in_thread(look)
        fault, digests = found
        self.tags_are_digests = bool(digests)
        return fault

    async def sending(self, request: ObjectRequest) -> Sending[_Target]:
        """The request on its way, with the digest of its body."""
        return _Sending(self, request, await self._payload_hash(request.body))

    async def _payload_hash(self, body: bytes) -> str:
        if not body:
            return EMPTY_SHA256
        if self._options.unsigned_payload:
            return UNSIGNED
        if len(body) < LARGE:
            return _sha256(body)
        return await in_thread(_sha256, body)

    # ------------------------------------------------------------------------------- the target

    async def aim(self) -> _Target:
        """Where a request goes now. Raises: PermissionDeniedError, StorageError."""
        access = self._provider.peek() or await self._provider.current()
        sessions, session = self._sessions, None
        if sessions is not None and access.credentials is not None:
            session = sessions.peek(access) or await sessions.current(access)
        target = self._target
        if target is None or target.access is not access or target.session is not session:
            target = self._target = self._aim(access, session)
        return target

    async def is_r2(self) -> bool:
        """Whether it is a bucket of Cloudflare's. Raises: PermissionDeniedError, StorageError."""
        return _R2.search((await self.aim()).origin) is not None

    async def aim_by_keys(self) -> _Target:
        """Where a request goes that no session is good for. Raises: PermissionDeniedError."""
        return self._aim(self._provider.peek() or await self._provider.current(), None)

    async def renew(self, used: _Target) -> bool:
        """Whether there are newer credentials than those of `used`, which the store calls expired.

        Raises:
            PermissionDeniedError: they cannot be renewed.
        """
        if self._sessions is not None and used.session is not None:
            self._sessions.forget(used.session)
            return True
        return await self._provider.after_expiry(used.access) is not None

    async def _begin_session(self, access: Access) -> Session:
        """A session that the keys of `access` begin. Raises: StorageError."""
        request = ObjectRequest("GET", "", _BEGIN_SESSION, self._options.write_headers, kind="get")
        answer = await self.send(replace(request, most=LONGEST_DOCUMENT))
        now = (self.now_ms() or SYSTEM_CLOCK.now_ms()) / 1000
        keys, lasts = session_of(answer.body, now, what=f"the session in {self.name}")
        return Session.lasting(lasts, keys, access)

    def _aim(self, access: Access, session: Session | None) -> _Target:
        region = self._region or access.region
        endpoint = access.endpoint
        bucket, virtual = self._bucket, self._in_host
        if endpoint is None:
            if not is_region(region):
                raise InvalidOptionError(
                    f"storage option aws_region is a name such as eu-north-1, not {region!r:.100}"
                )
            suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
            if self.is_express:
                endpoint = f"https://{zonal_host(bucket, region, suffix)}"
            else:
                endpoint = f"https://s3.{region}.{suffix}"
            if self._options.virtual_hosted is None:
                virtual = self.is_express or fits_certificates(bucket)
        scheme, _, rest = endpoint.partition("://")
        host, slash, base = rest.partition("/")
        prefix = f"{slash}{base}/"
        if not virtual:
            prefix += f"{encode_path(bucket)}/"
        elif not host.startswith(f"{bucket}."):
            host = f"{bucket}.{host}"
        signer = None
        if access.credentials is not None:
            signer = Signer(
                access.credentials if session is None else session.credentials,
                host=_host_header(scheme, host),
                region=region,
                service="s3express" if self.is_express else "s3",
                token_header=_TOKEN if session is None else _SESSION_TOKEN,
            )
        origin = f"{scheme}://{host}"
        return _Target(
            origin=origin,
            proxy=self.proxy_before(origin),
            ca_bundle=access.ca_bundle,
            access=access,
            session=session,
            region=region,
            prefix=prefix,
            signer=signer,
        )

    def move(self, region: str) -> None:
        """Follow the bucket to the region that the store named."""
        if region != self._region:
            self._region, self._target = region, None


class _Sending(Sending[_Target]):
    """One request on its way to S3, with checksums or without."""

    def __init__(self, client: S3Client, request: ObjectRequest, payload: str) -> None:
        super().__init__(client, request, payload)
        self._s3 = client
        self._knows_checksums = client.knows_checksums

    async def attempt(self) -> tuple[Outcome | None, Answer | Failure]:
        """Make the request, by what is known of the store now."""
        client, request = self._s3, self.request
        by_keys = client.is_express and _is_by_keys(request)
        target = self.target = await (client.aim_by_keys() if by_keys else client.aim())
        sent = request
        if request.optional:
            knows = self._knows_checksums
            vouching = request.optional if knows else _instead(request, self.payload)
            sent = replace(request, headers={**request.headers, **vouching})
        result = await client.attempt(target, sent, self.payload)
        if isinstance(result, Answer):
            client.knows_checksums = client.knows_checksums and self._knows_checksums
        elif request.optional and self._knows_checksums and refuses_checksums(result):
            self._knows_checksums = False
            return Outcome("the store refuses checksums", otherwise=True), result
        return await self.judged(result)


def _is_by_keys(request: ObjectRequest) -> bool:
    """Whether it is one that begins a session, or copies an object or a part of one."""
    return "x-amz-copy-source" in request.headers or request.query == _BEGIN_SESSION


def _instead(request: ObjectRequest, payload: str) -> dict[str, str]:
    """What vouches for a body whose checksum the store refuses, where the signature does not."""
    if payload != UNSIGNED:
        return {}
    digest = hashlib.md5(request.body, usedforsecurity=False).digest()
    return {"content-md5": base64.b64encode(digest).decode()}


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _host_header(scheme: str, host: str) -> str:
    return host.removesuffix(":443" if scheme == "https" else ":80").lower()
