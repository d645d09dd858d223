"""Objects of any size to S3, in bounded memory, or from S3 to S3 without their bytes.

What fits one part is one PUT. Anything larger is a multi-part upload whose parts go out a few at a
time while the next ones are made; it appears when it is complete, and is aborted if it fails.
Memory holds at most the parts under way and the one being filled. Parts grow with their number,
so that S3's limit of 10,000 parts allows for some 600 GB; parts that S3 copies are larger. R2 takes
parts of one size alone, up to some 80 GB, and no checksum of the whole but one made of theirs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import map_concurrent, map_stream
from adelta.errors import StorageError
from adelta.storage.object_answers import Answer, Kind
from adelta.storage.object_client import ObjectRequest
from adelta.storage.pieces import in_pieces, numbered, put_back
from adelta.storage.s3_checksums import COMPOSITE, MULTIPART, checksums_of
from adelta.storage.s3_xml import complete_document, completed_tag, copied_tag, upload_id
from adelta.storage.sigv4 import encode_path, encode_query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from adelta.storage.s3_client import S3Client
    from adelta.storage.s3_xml import Part

    Parts = Callable[[str, bool], Awaitable[tuple[int, list[Part]]]]

__all__ = ["FIRST_PART", "CannotCopyError", "copy", "upload"]

FIRST_PART = 8 << 20
_PARTS_UNDER_WAY = 4
_PARTS_OF_ONE_SIZE = 1000
_MOST_PARTS = 10_000
_COPIED_AT_ONCE = (
    128 << 20
)  # bytes that a store copies within the time that is allowed to a request
_CUSTOMERS_KEY = "x-amz-server-side-encryption-customer-"
_COPIES_NOTHING = frozenset({Kind.DENIED, Kind.UNSUPPORTED})
_COPIES_NOT_THIS = frozenset({Kind.REFUSED, Kind.NOT_FOUND, Kind.EXISTS})
# Ceph's gateway decodes the source of a part twice, and finds no object or another one.


class CannotCopyError(Exception):
    """The store copies no objects by itself, or not this one.

    Attributes:
        others: whether it may copy other ones.
    """

    def __init__(self, reason: str, *, others: bool) -> None:
        super().__init__(reason)
        self.others = others


async def upload(
    client: S3Client,
    key: str,
    chunks: AsyncIterator[bytes],
    *,
    write_headers: Mapping[str, str],
    part_headers: Mapping[str, str],
    checksums: bool,
) -> tuple[int, Answer]:
    """Upload the chunks as one object: its size, and the answer that made it.

    `write_headers` go with the request that names the object, `part_headers` with those that bear
    its bytes. With `checksums` these bear theirs, where the store knows them.

    Raises: StorageError.
    """
    parts = _parts(chunks, grow=not await client.is_r2())
    first = await anext(parts, b"")
    second = await anext(parts, None) if len(first) >= FIRST_PART else None
    if second is None:
        sums = await checksums_of(first) if checksums else {}
        headers = {**write_headers, **part_headers}
        put = ObjectRequest("PUT", key, "", headers, first, optional=sums, makes=True)
        return len(first), await client.send(put)
    every = numbered(put_back(first, second, rest=parts), start=1)

    async def send(upload: str, checksums: bool) -> tuple[int, list[Part]]:
        return await _send_parts(client, key, upload, every, part_headers, checksums)

    return await _in_parts(client, key, send, write_headers, part_headers, checksums)


async def copy(
    client: S3Client,
    key: str,
    source: str,
    size: int,
    etag: str | None,
    *,
    write_headers: Mapping[str, str],
    part_headers: Mapping[str, str],
) -> Answer:
    """Have the store copy an object of `size` bytes: the answer that made the copy.

    `source` is the object's bucket and key. It is copied as it is under its entity tag, `etag`.

    Raises:
        CannotCopyError: it does not, or the object has gone or changed.
        StorageError: the store failed.
    """

    async def ask(request: ObjectRequest) -> Answer:
        outcome = await client.try_send(request)
        if isinstance(outcome, Answer):
            return outcome
        if outcome.kind in _COPIES_NOTHING or outcome.kind in _COPIES_NOT_THIS:
            raise CannotCopyError(outcome.reason, others=outcome.kind in _COPIES_NOT_THIS)
        raise client.error(request, outcome)

    headers = {"x-amz-copy-source": "/" + encode_path(source)}
    if etag is not None:
        headers["x-amz-copy-source-if-match"] = etag
    for name, value in part_headers.items():
        if name.startswith(_CUSTOMERS_KEY):
            headers["x-amz-copy-source-" + name.removeprefix("x-amz-")] = value
    if size <= _COPIED_AT_ONCE:  # nothing but the bytes comes along, as with a put
        headers |= {"x-amz-metadata-directive": "REPLACE", "x-amz-tagging-directive": "REPLACE"}
        headers |= {**write_headers, **part_headers}
        made = await ask(ObjectRequest("PUT", key, "", headers))
        return _with_tag(made, copied_tag(made.body, what=f"the copy of {key!r}"))
    length = max(_COPIED_AT_ONCE, -(-size // _MOST_PARTS))

    async def send(upload: str, _: bool) -> tuple[int, list[Part]]:
        async def copy_part(part: tuple[int, int]) -> Part:
            number, start = part
            query = encode_query({"partNumber": str(number), "uploadId": upload})
            span = f"bytes={start}-{min(start + length, size) - 1}"
            asked = {**part_headers, **headers, "x-amz-copy-source-range": span}
            answer = await ask(ObjectRequest("PUT", key, query, asked))
            return copied_tag(answer.body, what=f"the copy of part {number} of {key!r}"), None

        starts = enumerate(range(0, size, length), start=1)
        return size, await map_concurrent(copy_part, [*starts], limit=_PARTS_UNDER_WAY)

    return (await _in_parts(client, key, send, write_headers, part_headers, checksums=False))[1]


async def _in_parts(
    client: S3Client,
    key: str,
    send: Parts,
    write_headers: Mapping[str, str],
    part_headers: Mapping[str, str],
    checksums: bool,
) -> tuple[int, Answer]:
    """Make an object of the parts that `send` sends to an upload: its size, and the last answer.

    `send` gets the upload's id and whether the store takes checksums; it gives all parts' size,
    their tags, and their checksums.
    """
    wanted = COMPOSITE if await client.is_r2() else MULTIPART
    begin = ObjectRequest(
        "POST",
        key,
        encode_query({"uploads": ""}),
        {**write_headers, **part_headers},
        optional=wanted if checksums else {},
    )

    async def abort(upload: str) -> None:
        await client.try_send(ObjectRequest("DELETE", key, encode_query({"uploadId": upload})))

    async def undo(began: Answer) -> None:
        await abort(upload_id(began.body, what=f"the upload of {key!r}"))

    began = await client.abandoned.run(key, client.send(begin), undo)
    checksums = checksums and all(began.headers.get(h) == value for h, value in wanted.items())
    upload = upload_id(began.body, what=f"the upload of {key!r}")
    try:
        size, parts = await send(upload, checksums)
        if wanted is not COMPOSITE:
            parts = [(tag, None) for tag, _ in parts]
        return size, await _complete(client, key, upload, parts, size, part_headers)
    except BaseException:
        with anyio.CancelScope(shield=True), anyio.move_on_after(30):  # parts left cost money
            await client.abandoned.then(key, partial(abort, upload))  # else a late part would stay
        raise


async def _send_parts(
    client: S3Client,
    key: str,
    upload: str,
    parts: AsyncIterator[tuple[int, bytes]],
    headers: Mapping[str, str],
    checksums: bool,
) -> tuple[int, list[Part]]:
    size = 0

    async def send(part: tuple[int, bytes]) -> Part:
        nonlocal size
        number, data = part
        query = encode_query({"partNumber": str(number), "uploadId": upload})
        sums = await checksums_of(data) if checksums else {}
        answer = await client.send(ObjectRequest("PUT", key, query, {**headers, **sums}, data))
        size += len(data)
        tag = answer.headers.get("etag")
        if tag is None:
            raise StorageError(f"the store gave part {number} of {key!r} no entity tag")
        return tag, next(iter(sums.values()), None)

    sent = await map_stream(send, parts, limit=_PARTS_UNDER_WAY)
    return size, sent


async def _complete(
    client: S3Client,
    key: str,
    upload: str,
    parts: list[Part],
    size: int,
    headers: Mapping[str, str],
) -> Answer:
    request = ObjectRequest(
        "POST", key, encode_query({"uploadId": upload}), headers, complete_document(parts)
    )
    outcome = await client.try_send(request)
    error: StorageError
    if isinstance(outcome, Answer):
        try:
            return _with_tag(outcome, completed_tag(outcome.body, what=f"the upload of {key!r}"))
        except StorageError as unclear:
            error = unclear
    else:
        error = client.error(request, outcome)
        if outcome.code != "NoSuchUpload" or not outcome.repeated:
            raise error
    # An attempt may have completed it, its answer lost on the way.
    found = await client.try_send(ObjectRequest("HEAD", key, headers=headers))
    if isinstance(found, Answer) and _is_upload(found, size, len(parts)):
        return found
    raise error


def _with_tag(answer: Answer, tag: str | None) -> Answer:
    """The answer as if it had the entity tag in its headers that stands in its document."""
    if tag is None:
        return answer
    quoted = '"{}"'.format(tag.strip('"'))  # which not each store does
    return replace(answer, headers={**answer.headers, "etag": quoted})


def _is_upload(found: Answer, size: int, parts: int) -> bool:
    tag = found.headers.get("etag", "").strip('"')
    return int(found.headers.get("content-length", "-1")) == size and tag.endswith(f"-{parts}")


def _parts(chunks: AsyncIterator[bytes], *, grow: bool) -> AsyncIterator[bytes]:
    """The same bytes in parts of the sizes that the upload wants; the last one may be smaller."""
    return in_pieces(
        chunks, lambda made: FIRST_PART * (1 + (made // _PARTS_OF_ONE_SIZE if grow else 0))
    )
