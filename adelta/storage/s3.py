"""Objects in a bucket of S3 or of a server that speaks its API.

Relies on what S3 promises since 2024: conditional writes (``If-None-Match: *``), strong
consistency, and listings in the order of the keys' UTF-8 bytes. Of a store that has no conditional
writes, which the option ``aws_conditional_put=disabled`` says, `put_if_absent` is refused.

Directory buckets of S3 Express list in no order, whole folders alone, and from their beginning.
Their entity tags are no digests, and how objects are encrypted is said where a session begins.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._concurrency import map_concurrent
from adelta.errors import InvalidOptionError
from adelta.storage.forwarding_store import innermost
from adelta.storage.http_store import HttpObjectStore
from adelta.storage.object_answers import Answer, Kind
from adelta.storage.object_client import Into, ObjectRequest
from adelta.storage.object_path import check_path
from adelta.storage.s3_checksums import MODE, checksums_of
from adelta.storage.s3_client import S3Client
from adelta.storage.s3_multipart import CannotCopyError, copy, upload
from adelta.storage.s3_options import S3Options, parse_options
from adelta.storage.s3_xml import (
    LONGEST_DOCUMENT,
    delete_document,
    delete_errors,
    fits_xml,
    list_page,
)
from adelta.storage.sigv4 import encode_query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from adelta.storage.object_answers import Page
    from adelta.storage.object_store import ObjectMeta, ObjectStore
    from adelta.storage.pin import Pin

__all__ = ["S3Store"]

_log = logging.getLogger("adelta.storage")

_WEAK = "W/"  # such a tag matches none that is asked for


class S3Store(HttpObjectStore):
    """An `ObjectStore` over the keys of `bucket` below `root`."""

    _client: S3Client
    _most_deletes = 1000
    _without_conditions = "; if the store has no conditional puts, set aws_conditional_put=disabled"

    def __init__(self, bucket: str, root: str, options: S3Options, *, scheme: str = "s3") -> None:
        super().__init__(S3Client(bucket, options), f"{scheme}://{bucket}", root)
        self._bucket = bucket
        self._options = options
        self._deletes_many = self._copies = True
        self._verifies = options.response_checksums
        self._read_headers = options.read_headers
        express = self._client.is_express
        self._write_headers = {} if express else options.write_headers
        self._put_headers = {**options.read_headers, **self._write_headers}
        self.lists_from_anywhere = self.lists_prefixes = self._in_order = not express

    @classmethod
    def from_options(
        cls, bucket: str, root: str, storage_options: Mapping[str, str], *, scheme: str = "s3"
    ) -> S3Store:
        """A store by delta-rs's option keys. Raises: InvalidOptionError."""
        return cls(bucket, root, parse_options(storage_options), scheme=scheme)

    @property
    def identity(self) -> str:
        """Its address, with the endpoint or the profile that names one."""
        where = self._options.endpoint or self._options.profile or ""
        return f"s3|{where}|{self._bucket}/{self._root}"

    def _tag(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("etag")

    def _only_if(self, tag: str) -> Mapping[str, str]:
        return {} if tag.startswith(_WEAK) else {"if-match": tag}

    def _get(
        self,
        path: str,
        span: str | None = None,
        most: int | None = None,
        into: Into | None = None,
        pin: Pin | None = None,
    ) -> ObjectRequest:
        request = super()._get(path, span, most, into, pin)
        return replace(request, optional=MODE) if self._verifies and span is None else request

    # ------------------------------------------------------------------------------------ write

    async def _put_request(self, path: str, data: bytes, *, if_absent: bool) -> ObjectRequest:
        key = self._root + check_path(path)
        sums = await checksums_of(data) if self._options.request_checksums else {}
        headers = self._put_headers
        if if_absent:
            headers = {**headers, "if-none-match": "*"}
        return ObjectRequest("PUT", key, headers=headers, body=data, optional=sums, makes=True)

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        """Create the object.

        Raises:
            ObjectExistsError: another object is there.
            CommitOutcomeUnknownError: it may have been created, and the store cannot be asked.
            InvalidOptionError: by the options, the store has no conditional puts.
        """
        if not self._options.conditional_put:
            raise InvalidOptionError(f"{self._uri}: aws_conditional_put=disabled rules this out")
        return await super().put_if_absent(path, data)

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Create or replace an object of any size, by a multi-part upload if it is large."""
        size, answer = await upload(
            self._client,
            self._root + check_path(path),
            chunks,
            write_headers=self._write_headers,
            part_headers=self._read_headers,
            checksums=self._options.request_checksums,
        )
        return self._made(path, size, answer)

    async def copy_from(self, path: str, source: ObjectStore, there: str) -> ObjectMeta | None:
        """Have S3 copy an object of a store with the same options; None where it does not.

        Raises:
            ObjectNotFoundError: there is no such object in `source`.
            StorageError: the store failed.
        """
        theirs = innermost(source)
        if not isinstance(theirs, S3Store) or theirs._options != self._options or not self._copies:
            return None
        found = await theirs.head(there)
        try:
            answer = await copy(
                self._client,
                self._root + check_path(path),
                f"{theirs._bucket}/{theirs._root}{there}",
                found.size,
                found.etag,
                write_headers=self._options.write_headers,
                part_headers=self._read_headers,
            )
        except CannotCopyError as error:
            what = there if error.others else "objects"
            _log.info("%s: %s comes by way of this machine: %s", self._uri, what, error)
            self._copies = error.others
            return None
        return self._made(path, found.size, answer)

    def _goes_together(self, key: str) -> bool:
        return fits_xml(key)

    async def _delete_many(self, keys: Sequence[str]) -> None:
        if len(keys) > 1 and self._deletes_many:
            body = delete_document(keys)
            if self._client.is_express:
                headers = await checksums_of(body)
            else:
                digest = hashlib.md5(body, usedforsecurity=False).digest()
                headers = {"content-md5": base64.b64encode(digest).decode()}
            query = encode_query({"delete": ""})
            request = ObjectRequest("POST", "", query, headers, body, most=LONGEST_DOCUMENT)
            outcome = await self._client.try_send(request)
            if isinstance(outcome, Answer):
                keys = list(delete_errors(outcome.body, what=f"deletes in {self._uri}"))
            elif outcome.kind is Kind.UNSUPPORTED:
                self._deletes_many = False
            else:
                raise self._client.error(request, outcome)
        await map_concurrent(self._delete_one, keys, limit=self.concurrency)

    async def _delete_one(self, key: str) -> None:
        request = ObjectRequest("DELETE", key)
        outcome = await self._client.try_send(request)
        if not isinstance(outcome, Answer) and outcome.code != "NoSuchKey":
            raise self._client.error(request, outcome)

    async def _page(
        self, prefix: str, start_after: str | None, token: str | None, recursive: bool
    ) -> Page:
        query = {
            "list-type": "2",
            "encoding-type": "url",
            "prefix": self._root + prefix,
        }
        if not recursive:
            query["delimiter"] = "/"
        if token is not None:
            query["continuation-token"] = token
        elif start_after:
            query["start-after"] = self._root + start_after
        request = ObjectRequest("GET", "", encode_query(query), most=LONGEST_DOCUMENT)
        answer = await self._client.send(request)
        what = f"the listing of {self._uri}/{prefix}"
        return list_page(answer.body, what=what, root=self._root, prefix=prefix)
