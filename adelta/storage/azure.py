"""Objects in a container of Azure Blob Storage, or of Data Lake Storage with its directories.

Relies on what Azure promises: strong consistency, and puts on the condition that there is no blob
(``If-None-Match: *``), which hold in a hierarchical namespace too. There directories are left out
of listings, and a listing is put into the order of the paths' UTF-8 bytes, which is not Azure's.
Listings begin at their beginning: older versions of Azure's API, as the one that is spoken here,
cannot begin them elsewhere.
"""

from __future__ import annotations

import base64
import re
import secrets
import xml.etree.ElementTree as ET
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

import anyio

from adelta._concurrency import in_thread, map_concurrent, map_stream
from adelta.errors import StorageError
from adelta.storage.azure_batch import (
    BATCH_QUERY,
    CONTENT_TYPE,
    LARGEST_BATCH,
    batch_document,
    deleted_in,
)
from adelta.storage.azure_client import AzureClient
from adelta.storage.azure_options import AzureOptions, parse_azure_options
from adelta.storage.body_checks import DIGESTED_INLINE, md5_of
from adelta.storage.forwarding_store import innermost
from adelta.storage.http_store import HttpObjectStore
from adelta.storage.http_time import http_time_ms
from adelta.storage.object_answers import Answer, Kind, Page
from adelta.storage.object_client import ObjectRequest
from adelta.storage.object_path import check_path
from adelta.storage.object_store import ObjectMeta
from adelta.storage.pieces import in_pieces, numbered, put_back
from adelta.storage.s3_xml import LONGEST_DOCUMENT, folders_below
from adelta.storage.sigv4 import encode_query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from adelta.storage.object_store import ObjectStore

__all__ = ["AzureStore"]

_READ = (
    rb"EnumerationResults|Blobs?|BlobPrefix|Name|Properties|NextMarker|ResourceType|Etag|"
    rb"Content-Length|Last-Modified"
)
_NOT_READ = re.compile(
    rb"(?:<(?!(?:" + _READ + rb")[ />])([A-Za-z][A-Za-z0-9-]*)(?:>[ !-%'-;=?-~]*</\1>| ?/>))+"
)
"""Elements of a listing that have no others in them, nor anything that may be wrong."""

FIRST_BLOCK = 8 << 20
_BLOCKS_UNDER_WAY = 4
_BLOCKS_OF_ONE_SIZE = 5000  # of 50,000 that there may be
_PAGE = 5000
_BLOB = {"x-ms-blob-type": "BlockBlob"}
_NOT_COPIED = frozenset({Kind.EXISTS, Kind.DENIED, Kind.NOT_FOUND, Kind.REFUSED, Kind.UNSUPPORTED})


class AzureStore(HttpObjectStore):
    """An `ObjectStore` over the blobs of `container` below `root`."""

    _client: AzureClient
    _has_suffixes = False
    _most_deletes = LARGEST_BATCH
    lists_from_anywhere = False

    def __init__(self, container: str, root: str, options: AzureOptions, uri: str) -> None:
        super().__init__(AzureClient(container, uri, options), uri, root)
        self._options = options
        self._place = f"az|{options.endpoint}|{container}"
        self._deletes_many = options.sas is None  # which Azurite, where this is tested, fails at
        self._in_order = True  # as far as is known: not in hierarchical namespaces

    @classmethod
    def from_options(
        cls, authority: str, root: str, storage_options: Mapping[str, str]
    ) -> AzureStore:
        """A store by delta-rs's option keys, of a container or of ``container@host``.

        Raises: InvalidOptionError.
        """
        container, at, host = authority.partition("@")
        options = parse_azure_options(host or None, storage_options)
        return cls(container, root, options, f"{'abfss' if at else 'az'}://{authority}")

    @property
    def identity(self) -> str:
        """Its address, with the account's endpoint."""
        return f"{self._place}/{self._root}"

    def _tag(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("etag")

    def _only_if(self, tag: str) -> Mapping[str, str]:
        return {"if-match": tag}

    # ------------------------------------------------------------------------------------ write

    async def _put_request(self, path: str, data: bytes, *, if_absent: bool) -> ObjectRequest:
        key = self._root + check_path(path)
        headers = {**_BLOB, **await _sums(data)}
        if if_absent:
            headers["if-none-match"] = "*"
        return ObjectRequest("PUT", key, headers=headers, body=data, makes=True)

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Create or replace an object of any size, by blocks if it is large.

        Blocks that were sent and are in no object are forgotten by Azure after a week.
        """
        key = self._root + check_path(path)
        blocks = in_pieces(chunks, lambda made: FIRST_BLOCK * (1 + made // _BLOCKS_OF_ONE_SIZE))
        first = await anext(blocks, b"")
        second = await anext(blocks, None) if len(first) >= FIRST_BLOCK else None
        if second is None:
            return await self.put(path, first)
        ours, size = secrets.token_hex(8), 0  # others may write the same object

        async def send(block: tuple[int, bytes]) -> str:
            nonlocal size
            number, data = block
            name = base64.b64encode(f"{ours}-{number:08}".encode()).decode()
            query = encode_query({"comp": "block", "blockid": name})
            await self._client.send(ObjectRequest("PUT", key, query, await _sums(data), data))
            size += len(data)
            return name

        every = numbered(put_back(first, second, rest=blocks))
        names = await map_stream(send, every, limit=_BLOCKS_UNDER_WAY)
        listed = "".join(f"<Latest>{name}</Latest>" for name in names)
        body = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{listed}</BlockList>'.encode()
        request = ObjectRequest("PUT", key, "comp=blocklist", await _sums(body), body, makes=True)
        return self._made(path, size, await self._client.send(request))

    async def _delete_many(self, keys: Sequence[str]) -> None:
        """Delete blobs by one request, and one by one what it has left, as directories are."""
        if len(keys) > 1 and self._deletes_many:
            body = batch_document(await self._client.signed_deletes(keys))
            headers = {"content-type": CONTENT_TYPE}
            request = ObjectRequest(
                "POST", "", BATCH_QUERY, headers, body, most=LONGEST_DOCUMENT, kind="delete"
            )
            outcome = await self._client.try_send(request)
            if isinstance(outcome, Answer):
                gone = deleted_in(outcome.body)
                self._deletes_many = bool(gone)
                keys = [key for number, key in enumerate(keys) if number not in gone]
            elif outcome.kind in (Kind.UNSUPPORTED, Kind.REFUSED, Kind.DENIED):
                self._deletes_many = False
            else:
                raise self._client.error(request, outcome)
        await map_concurrent(self._delete_one, keys, limit=self.concurrency)

    async def _delete_one(self, key: str) -> None:
        request = ObjectRequest("DELETE", key)
        outcome = await self._client.try_send(request)
        if not isinstance(outcome, Answer) and outcome.code == "PendingCopyOperation":
            await self._end_copy(key)
            outcome = await self._client.try_send(request)
        if not isinstance(outcome, Answer) and outcome.kind is not Kind.NOT_FOUND:
            raise self._client.error(request, outcome)

    async def _end_copy(self, key: str) -> None:
        """Have Azure leave off copying to this blob, if it still is."""
        found = await self._client.send(ObjectRequest("HEAD", key))
        query = encode_query({"comp": "copy", "copyid": found.headers.get("x-ms-copy-id", "")})
        headers = {"x-ms-copy-action": "abort"}
        await self._client.try_send(ObjectRequest("PUT", key, query, headers, kind="delete"))

    async def copy_from(self, path: str, source: ObjectStore, there: str) -> ObjectMeta | None:
        """Have Azure copy a blob of a store with the same options; None where it does not.

        Raises:
            ObjectNotFoundError: there is no such blob in `source`.
            StorageError: the store failed.
        """
        theirs = innermost(source)
        if not isinstance(theirs, AzureStore) or theirs._options != self._options:
            return None
        found = await theirs.head(there)
        key = self._root + check_path(path)
        origin = theirs._client.address_of(theirs._root + there)
        headers = {"x-ms-copy-source": origin}
        if found.etag is not None:
            headers["x-ms-source-if-match"] = found.etag
        request = ObjectRequest("PUT", key, headers=headers)
        outcome = await self._client.try_send(request)
        if not isinstance(outcome, Answer):
            if outcome.kind in _NOT_COPIED:
                return None  # it has changed, or may be read only; who asks then says why
            raise self._client.error(request, outcome)
        try:
            outcome = await self._copied(key, outcome, f"{theirs._uri}/{there}")
        except BaseException:
            with anyio.CancelScope(shield=True), anyio.move_on_after(30), suppress(StorageError):
                await self._delete_one(key)  # it is there from the beginning of the copy on
            raise
        return self._made(path, found.size, outcome)

    async def _copied(self, key: str, begun: Answer, source: str) -> Answer:
        """The answer that says that the copy to `key` is made. Raises: StorageError."""
        outcome, state = begun, begun.headers.get("x-ms-copy-status", "")
        for pause in _pauses():
            if state != "pending":
                break
            await anyio.sleep(pause)
            outcome = await self._client.send(ObjectRequest("HEAD", key))
            state = outcome.headers.get("x-ms-copy-status", "")
        if state != "success":
            raise StorageError(
                f"{self._client.name}/{key}: Azure's copy of {source} ended as {state!r:.100}"
            )
        return outcome

    # ------------------------------------------------------------------------------------- list

    async def _page(
        self, prefix: str, start_after: str | None, token: str | None, recursive: bool
    ) -> Page:
        whole = self._root + prefix
        wanted = {
            "restype": "container",
            "comp": "list",
            "maxresults": str(_PAGE),
            "prefix": whole,
        }
        if not recursive:
            wanted["delimiter"] = "/"
        if token is not None:
            wanted["marker"] = token
        request = ObjectRequest("GET", "", encode_query(wanted), most=4 * LONGEST_DOCUMENT)
        outcome = await self._client.try_send(request)
        if not isinstance(outcome, Answer):
            if outcome.code in ("PathNotFound", "BlobNotFound"):
                return Page([], None)  # of a hierarchical namespace without that directory
            raise self._client.error(request, outcome)
        what = f"the listing of {self._uri}/{prefix}"
        page, hierarchical = await in_thread(
            _read_page, outcome.body, what, len(self._root), whole, start_after or ""
        )
        if hierarchical:
            self._in_order = False
        return page


def _pauses() -> Iterator[float]:
    """Seconds between looks at a copy that goes on."""
    pause = 0.05
    while True:
        yield pause
        pause = min(2 * pause, 5.0)


async def _sums(data: bytes) -> dict[str, str]:
    """The header with the checksum of a body."""
    digest = md5_of(data) if len(data) < DIGESTED_INLINE else await in_thread(md5_of, data)
    return {"content-md5": base64.b64encode(digest).decode()}


def _read_page(body: bytes, what: str, start: int, whole: str, after: str) -> tuple[Page, bool]:
    """A page of the blobs whose names begin with `whole`, of paths after `after`.

    With it comes whether the namespace is hierarchical. Names that end in ``/`` are left out: they
    stand for folders in some tools.
    """
    objects: list[ObjectMeta] = []
    hierarchical = False
    try:
        if b"<!DOCTYPE" in body:
            raise ValueError("it declares a document type")
        document = ET.fromstring(_without_the_rest(body.removeprefix(b"\xef\xbb\xbf").strip()))
        for blob in document.iterfind("Blobs/Blob"):
            name = _name_of(blob)
            said = blob.find("Properties")
            if said is None:
                raise LookupError(f"{name!r} has no properties")
            if not name.startswith(whole):
                raise StorageError(f"{what} has the name {name!r}, which was not asked for")
            kind = said.findtext("ResourceType")
            hierarchical = hierarchical or kind is not None
            path = name[start:]
            if kind == "directory" or not path or path[-1] == "/":
                continue
            if path.encode() <= after.encode():
                continue
            tag = said.findtext("Etag", "").strip('"')
            objects.append(
                ObjectMeta(
                    path,
                    int(said.findtext("Content-Length", "")),
                    http_time_ms(said.findtext("Last-Modified", "")),
                    f'"{tag}"' if tag else None,
                )
            )
        named = map(_name_of, document.iterfind("Blobs/BlobPrefix"))
        folders = folders_below(named, start, whole, what)
        token = document.findtext("NextMarker") or None
    except (ET.ParseError, ValueError, LookupError) as error:
        raise StorageError(f"the answer to {what} is no listing of blobs: {error!r}") from error
    objects.sort(key=lambda meta: meta.path.encode())
    return Page(objects, token, folders), hierarchical


def _without_the_rest(body: bytes) -> bytes:
    """The document without most of what nobody reads of each blob.

    A parser of XML takes several times as long to make objects of all that. Whatever is written in
    another way than Azure's is left as it is.
    """
    return body if b"<!" in body else _NOT_READ.sub(b"", body)


def _name_of(element: ET.Element) -> str:
    named = element.find("Name")
    name = "" if named is None else named.text or ""
    return unquote(name) if named is not None and named.get("Encoded") == "true" else name
