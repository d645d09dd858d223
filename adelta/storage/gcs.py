"""Objects in a bucket of Google Cloud Storage.

Relies on what it promises: strong consistency, puts on the condition that there is no object
(``ifGenerationMatch=0``), and listings in the order of the names' UTF-8 bytes. An object's tag is
its generation, which no other object of that name ever has.
"""

from __future__ import annotations

import base64
import secrets
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from adelta._concurrency import in_thread, map_concurrent
from adelta.errors import ObjectNotFoundError, StorageError
from adelta.storage.body_checks import md5_of
from adelta.storage.forwarding_store import innermost
from adelta.storage.gcs_checksums import is_summed_inline, sum_of
from adelta.storage.gcs_client import GcsClient, document_of
from adelta.storage.gcs_options import GcsOptions, parse_gcs_options
from adelta.storage.gcs_upload import upload
from adelta.storage.http_store import HttpObjectStore
from adelta.storage.object_answers import Answer, Kind, Page
from adelta.storage.object_client import LARGE, ObjectRequest
from adelta.storage.object_path import check_path
from adelta.storage.object_store import ObjectMeta
from adelta.storage.s3_xml import (
    LONGEST_DOCUMENT,
    delete_document,
    delete_errors,
    fits_xml,
    folders_below,
)
from adelta.storage.sigv4 import encode_query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from adelta.storage.object_store import ObjectStore

__all__ = ["GcsStore"]

_PAGE = 1000
_FIELDS = "items(name,size,updated,generation),nextPageToken"
_MADE = "generation,updated"
_UNKNOWN = frozenset({Kind.UNSUPPORTED, Kind.REFUSED, Kind.NOT_FOUND})


class GcsStore(HttpObjectStore):
    """An `ObjectStore` over the objects of `bucket` below `root`."""

    _client: GcsClient
    _most_deletes = 1000

    def __init__(self, bucket: str, root: str, options: GcsOptions) -> None:
        super().__init__(GcsClient(bucket, options), f"gs://{bucket}", root)
        self._options = options
        self._deletes_many = True
        self._objects = f"/storage/v1/b/{bucket}/o"
        self._uploads = f"/upload{self._objects}"

    @classmethod
    def from_options(cls, bucket: str, root: str, storage_options: Mapping[str, str]) -> GcsStore:
        """A store by delta-rs's option keys. Raises: InvalidOptionError."""
        return cls(bucket, root, parse_gcs_options(storage_options))

    @property
    def identity(self) -> str:
        """Its address, with the endpoint."""
        return f"gs|{self._options.endpoint}|{self._client.bucket}/{self._root}"

    def _tag(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("x-goog-generation")

    def _only_if(self, tag: str) -> Mapping[str, str]:
        return {"x-goog-if-generation-match": tag}

    # ------------------------------------------------------------------------------------ write

    async def _put_request(self, path: str, data: bytes, *, if_absent: bool) -> ObjectRequest:
        key = self._root + check_path(path)
        wanted = {"fields": _MADE, "uploadType": "multipart"}
        if if_absent:
            wanted["ifGenerationMatch"] = "0"
        boundary = secrets.token_hex(16)
        if is_summed_inline(data):
            body = _two_parts(key, data, boundary)
        else:
            body = await in_thread(_two_parts, key, data, boundary)
        headers = {"content-type": f"multipart/related; boundary={boundary}"}
        query, path = encode_query(wanted), self._uploads
        return ObjectRequest("POST", key, query, headers, body, path=path, makes=True)

    def _made(self, path: str, size: int, answer: Answer) -> ObjectMeta:
        """What the answer says of an object that was put."""
        said = document_of(answer.body)
        made = super()._made(path, size, answer)
        return ObjectMeta(
            path, size, _moment(said) or made.last_modified_ms, said.get("generation") or made.etag
        )

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Create or replace an object of any size, by a resumable upload if it is large."""
        key = self._root + check_path(path)
        done = await upload(self._client, key, self._uploads, chunks)
        if isinstance(done, bytes):  # it is small
            return await self.put(path, done)
        size, answer = done
        return self._made(path, size, answer)

    async def copy_from(self, path: str, source: ObjectStore, there: str) -> ObjectMeta | None:
        """Have Google copy an object of a store with the same options; None where it does not.

        Raises:
            ObjectNotFoundError: there is no such object in `source`.
            StorageError: the store failed.
        """
        theirs = innermost(source)
        if not isinstance(theirs, GcsStore) or theirs._options != self._options:
            return None
        found = await theirs.head(there)
        key = self._root + check_path(path)
        origin = f"{theirs._objects}/{quote(theirs._root + there, safe='')}"
        address = f"{origin}/rewriteTo{self._objects.removeprefix('/storage/v1')}"
        wanted = {"fields": f"done,rewriteToken,resource({_MADE})"}
        if found.etag is not None:
            wanted["ifSourceGenerationMatch"] = found.etag
        while True:  # a large object is copied piece by piece between regions
            request = ObjectRequest(
                "POST", key, encode_query(wanted), path=f"{address}/{quote(key, safe='')}"
            )
            outcome = await self._client.try_send(request)
            if not isinstance(outcome, Answer):
                error = self._client.error(request, outcome)
                if outcome.kind in (Kind.EXISTS, Kind.DENIED, Kind.NOT_FOUND, Kind.REFUSED):
                    return None  # it has changed, or may be read only; who asks then says why
                raise error
            said = document_of(outcome.body)
            token = said.get("rewriteToken")
            if said.get("done") is not False or not token:
                break
            wanted["rewriteToken"] = token
        resource = said.get("resource")
        if not isinstance(resource, dict) or "generation" not in resource:
            raise StorageError(
                f"the answer to the copy of {theirs._uri}/{there} tells of no object that was made"
            )
        made = super()._made(path, found.size, outcome)
        return ObjectMeta(
            path,
            found.size,
            _moment(resource) or made.last_modified_ms,
            resource.get("generation"),
        )

    def _goes_together(self, key: str) -> bool:
        return fits_xml(key)

    async def _delete_many(self, keys: Sequence[str]) -> None:
        if len(keys) > 1 and self._deletes_many:
            body = delete_document(keys)
            digest = base64.b64encode(md5_of(body)).decode()
            request = ObjectRequest(
                "POST",
                "",
                "delete",
                {"content-md5": digest, "content-type": "application/xml"},
                body,
                most=LONGEST_DOCUMENT,
            )
            outcome = await self._client.try_send(request)
            if isinstance(outcome, Answer):
                keys = list(delete_errors(outcome.body, what=f"deletes in {self._uri}"))
            elif outcome.kind in _UNKNOWN:  # of servers that only speak JSON
                self._deletes_many = False
            else:
                raise self._client.error(request, outcome)
        await map_concurrent(self._delete_one, keys, limit=self.concurrency)

    async def _delete_one(self, key: str) -> None:
        request = ObjectRequest("DELETE", key, path=f"{self._objects}/{quote(key, safe='')}")
        outcome = await self._client.try_send(request)
        if not isinstance(outcome, Answer):
            error = self._client.error(request, outcome)
            if not isinstance(error, ObjectNotFoundError):
                raise error

    # ------------------------------------------------------------------------------------- list

    async def _page(
        self, prefix: str, start_after: str | None, token: str | None, recursive: bool
    ) -> Page:
        whole = self._root + prefix
        wanted = {"prefix": whole, "fields": _FIELDS, "maxResults": str(_PAGE)}
        if not recursive:
            wanted |= {"delimiter": "/", "fields": f"prefixes,{_FIELDS}"}
        first = f"{self._root}{start_after}" if start_after else ""
        if first > whole:
            wanted["startOffset"] = first
        if token is not None:
            wanted["pageToken"] = token
        request = ObjectRequest(
            "GET", "", encode_query(wanted), most=LONGEST_DOCUMENT, path=self._objects
        )
        answer = await self._client.send(request)
        what = f"the listing of {self._uri}/{prefix}"
        start = len(self._root)
        if len(answer.body) < LARGE:
            return _read_page(answer.body, what, start, whole, first)
        return await in_thread(_read_page, answer.body, what, start, whole, first)


def _two_parts(key: str, data: bytes, boundary: str) -> bytes:
    """What the object is called and its checksum, and its bytes."""
    said = {"name": key, **sum_of(data)}
    return b"".join(
        (
            f"--{boundary}\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n".encode(),
            orjson.dumps(said),
            f"\r\n--{boundary}\r\ncontent-type: application/octet-stream\r\n\r\n".encode(),
            data,
            f"\r\n--{boundary}--\r\n".encode(),
        )
    )


def _moment(resource: Mapping[str, Any]) -> int | None:
    """When an object was changed, in milliseconds since the Unix epoch."""
    try:
        return round(datetime.fromisoformat(resource["updated"]).timestamp() * 1000)
    except (LookupError, TypeError, ValueError, OverflowError):
        return None


def _read_page(body: bytes, what: str, start: int, whole: str, first: str) -> Page:
    """A page of the objects whose names begin with `whole` and sort after `first`.

    Names that end in ``/`` are left out: they stand for folders in some tools.
    """
    try:
        said = orjson.loads(body)
        items, token = said.get("items") or [], said.get("nextPageToken")
        objects: list[ObjectMeta] = []
        for item in items:
            name = item["name"]
            if not name.startswith(whole):
                raise StorageError(f"{what} has the name {name!r}, which was not asked for")
            if len(name) <= start or name[-1] == "/" or name <= first:
                continue
            moment = _moment(item)
            if moment is None:
                raise StorageError(f"{what} does not say when {name!r} was changed")
            objects.append(
                ObjectMeta(name[start:], int(item["size"]), moment, str(item["generation"]))
            )
        folders = folders_below(said.get("prefixes") or [], start, whole, what)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise StorageError(f"the answer to {what} is no listing: {error!r}") from error
    return Page(objects, token, folders)
