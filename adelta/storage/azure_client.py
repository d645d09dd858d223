"""Requests to one container of Azure: how they are authorized, and what answers of errors mean."""

from __future__ import annotations

import base64
import re
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from adelta._concurrency import in_thread
from adelta.errors import InvalidOptionError
from adelta.storage.azure_auth import azure_tokens, shared_key
from adelta.storage.body_checks import DIGESTED_INLINE, Fault, is_whole, md5_of
from adelta.storage.bucket_names import is_fabrics_host
from adelta.storage.object_answers import Answer, Failure, Kind, kind_of
from adelta.storage.object_client import ObjectRequest, Signed
from adelta.storage.s3_errors import error_fields
from adelta.storage.sigv4 import encode_path
from adelta.storage.token_client import TokenClient, TokenTarget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.storage.azure_options import AzureOptions

__all__ = ["AzureClient"]

_VERSION = "2023-11-03"
_CONTAINER = re.compile(r"[a-z0-9](?:-?[a-z0-9]){2,62}|\$root|\$web")
_WORKSPACE = re.compile(r"[^/\\\x00-\x1f]{1,256}")  # of Fabric, each a container
_DIRECTORY = "directory"
_WRONG_SUM = re.compile(r"(?i)md5.*match")
_KINDS: Mapping[str, Kind] = {
    "BlobAlreadyExists": Kind.EXISTS,
    "PathAlreadyExists": Kind.EXISTS,
    "ConditionNotMet": Kind.EXISTS,
    "TargetConditionNotMet": Kind.EXISTS,
    "UnauthorizedBlobOverwrite": Kind.EXISTS,
    "BlobNotFound": Kind.NOT_FOUND,
    "PathNotFound": Kind.NOT_FOUND,
    "ResourceNotFound": Kind.NOT_FOUND,
    "ContainerNotFound": Kind.NOT_FOUND,
    "FilesystemNotFound": Kind.NOT_FOUND,
    "ContainerBeingDeleted": Kind.BUSY,
    "OperationTimedOut": Kind.BROKEN,
    "InternalError": Kind.BROKEN,
    "ServerBusy": Kind.THROTTLED,
    "Md5Mismatch": Kind.DAMAGED,
    "Crc64Mismatch": Kind.DAMAGED,
    "InvalidRange": Kind.OUT_OF_RANGE,
    "LeaseIdMissing": Kind.REFUSED,
    "PublicAccessNotPermitted": Kind.DENIED,
}
_ADVICE = {
    "AuthenticationFailed": "check the account's key or the signature, and this machine's clock",
    "AuthorizationFailure": "look whether the account's firewall lets this machine in",
    "PublicAccessNotPermitted": "give credentials: the account allows no access without",
    "LeaseIdMissing": "somebody holds a lease of the blob: break it, or wait for its end",
    "BlobArchived": "rehydrate the blob: move it to another tier than the archive",
    "BlobBeingRehydrated": "wait until the blob has left the archive",
    "SnapshotsPresent": "delete the blob's snapshots first",
    "ContainerNotFound": "check the container's name and the account",
    "KeyBasedAuthenticationNotPermitted": (
        "leave azure_storage_account_key out, so that tokens of Microsoft Entra are used"
    ),
    "AuthorizationPermissionMismatch": (
        "give the identity a role for the data, such as Storage Blob Data Contributor"
    ),
}


class AzureClient(TokenClient):
    """Sends requests to one container."""

    service = "Azure"
    named_by = "azure_storage_account_name, azure_storage_endpoint or the address"

    def __init__(self, container: str, name: str, options: AzureOptions) -> None:
        """A client of `container`, which texts call `name`.

        Raises:
            InvalidOptionError: no container can have that name.
        """
        scheme, _, rest = options.endpoint.partition("://")
        host, slash, base = rest.partition("/")
        names = _CONTAINER
        if is_fabrics_host(host):
            container, names = unquote(container), _WORKSPACE
        if not names.fullmatch(container):
            raise InvalidOptionError(
                f"{container!r:.300} is no name of a container: it is made of 3 to 63 lower-case "
                "letters, digits and single '-'"
            )
        tokens = azure_tokens(options)
        super().__init__(name, options.http, options.retry, options.concurrency, tokens)
        self._options = options
        self._origin = f"{scheme}://{host}"
        self._base = f"{slash}{base}/{quote(container, safe='~$')}"

    async def aim(self) -> TokenTarget:
        """Where a request goes now. Raises: StorageError."""
        return await self._aim_at(self._origin)

    async def signed_deletes(self, keys: Sequence[str]) -> list[Signed]:
        """Deletes of blobs as they stand in a batch, which says by which version all are made.

        Raises: PermissionDeniedError.
        """
        target = await self.aim()
        deletes = (ObjectRequest("DELETE", key) for key in keys)
        date = {"x-ms-date": formatdate(usegmt=True)}
        return [self._signed(target, delete, {**date}) for delete in deletes]

    def signed(self, target: TokenTarget, request: ObjectRequest, payload: str) -> Signed:
        """The request as it is sent to `target`."""
        return self._signed(target, request, {**request.headers, "x-ms-version": _VERSION})

    def _signed(
        self, target: TokenTarget, request: ObjectRequest, headers: dict[str, str]
    ) -> Signed:
        path = self._base
        if request.key:
            path += f"/{encode_path(request.key)}"
        query = request.query
        options = self._options
        if target.token is not None:
            headers["authorization"] = f"Bearer {target.token.text}"
        elif options.key is not None:
            headers["x-ms-date"] = formatdate(usegmt=True)
            headers["authorization"] = shared_key(
                options.account,
                options.key,
                request.method,
                path,
                query,
                headers,
                len(request.body),
            )
        elif options.sas is not None:
            query = f"{query}&{options.sas}" if query else options.sas
        return Signed(path, query, headers)

    def address_of(self, key: str) -> str:
        """Where a blob is, for a copy of it: with the signature that lets it be read, if any."""
        address = f"{self._origin}{self._base}/{encode_path(key)}"
        return address if self._options.sas is None else f"{address}?{self._options.sas}"

    def credentials_source(self) -> str:
        """In words, where the credentials come from that were used last."""
        if self._tokens is not None:
            return self._tokens.source
        if self._options.skip_signature:
            return "none, requests are not signed"
        return "the account's key" if self._options.key is not None else "a shared access signature"

    def succeeded(self, request: ObjectRequest, answer: Answer) -> bool:
        """Whether the answer is one of success: a directory is no object."""
        if not 200 <= answer.status < 300:
            return False
        reads = request.method in ("GET", "HEAD")
        return not (reads and _is_directory(answer.headers))

    def failure_of(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """What an answer that is no success means."""
        if 200 <= status < 300:
            return Failure(Kind.NOT_FOUND, "", "it is a directory", headers)
        said = error_fields(body)
        code = headers.get("x-ms-error-code") or said.get("Code", "")
        kind = _KINDS.get(code)
        if kind is None:
            kind = Kind.EXPIRED if status == 401 else kind_of(status)
        message = said.get("Message", "").partition("\n")[0]
        if kind is Kind.REFUSED and _WRONG_SUM.search(message):
            kind = Kind.DAMAGED
        reason = " ".join(filter(None, (f"HTTP {status}", code, message)))
        if request_id := headers.get("x-ms-request-id"):
            reason += f" [request {request_id}]"
        return Failure(kind, code, reason, headers, advice=_ADVICE.get(code))

    async def body_fault(self, request: ObjectRequest, answer: Answer) -> Fault | None:
        """What is wrong with the body of an object: it must have the MD5 that is told, if any."""
        said = answer.headers.get("content-md5")
        if said is None or answer.placed is not None or not is_whole(answer):
            return None
        body = answer.body
        digest = md5_of(body) if len(body) < DIGESTED_INLINE else await in_thread(md5_of, body)
        if base64.b64encode(digest).decode() == said:
            return None
        return Fault(f"the body's MD5 is not {said}", certain=True)


def _is_directory(headers: Mapping[str, str]) -> bool:
    """Whether the headers are of a directory of a hierarchical namespace."""
    return (
        headers.get("x-ms-resource-type") == _DIRECTORY
        or headers.get("x-ms-meta-hdi_isfolder", "").lower() == "true"
    )
