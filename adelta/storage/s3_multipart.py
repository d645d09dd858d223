"""Objects of any size to S3, in bounded memory.

What fits one part is one PUT. Anything larger is a multi-part upload whose parts go out a few at a
time while the next ones are made; it appears when it is complete, and is aborted if it fails.
Memory holds at most the parts under way and the one being filled. Parts grow with their number,
so that S3's limit of 10,000 parts allows for some 600 GB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import map_stream
from adelta.errors import StorageError
from adelta.storage.s3_checksums import MULTIPART, checksums_of
from adelta.storage.s3_client import S3Client, S3Request
from adelta.storage.s3_errors import Answer
from adelta.storage.s3_xml import complete_document, upload_id
from adelta.storage.sigv4 import encode_query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

__all__ = ["FIRST_PART", "upload"]

FIRST_PART = 8 << 20
_PARTS_UNDER_WAY = 4
_PARTS_OF_ONE_SIZE = 1000


async def upload(
    client: S3Client,
    key: str,
    chunks: AsyncIterator[bytes],
    *,
    write_headers: Mapping[str, str],
    part_headers: Mapping[str, str],
    checksums: bool,
) -> tuple[int, Mapping[str, str]]:
    """Upload the chunks as one object: its size, and the headers of the answer that made it.

    `write_headers` go with the request that names the object, `part_headers` with those that bear
    its bytes. With `checksums` these bear theirs, where the store knows them.

    Raises: StorageError.
    """
    parts = _parts(chunks)
    first = await anext(parts, b"")
    second = await anext(parts, None) if len(first) >= FIRST_PART else None
    if second is None:
        sums = await checksums_of(first) if checksums else {}
        headers = {**write_headers, **part_headers}
        answer = await client.send(S3Request("PUT", key, "", headers, first, optional=sums))
        return len(first), answer.headers
    begin = S3Request(
        "POST",
        key,
        encode_query({"uploads": ""}),
        {**write_headers, **part_headers},
        optional=MULTIPART if checksums else {},
    )
    began = await client.send(begin)
    checksums = checksums and all(began.headers.get(h) == value for h, value in MULTIPART.items())
    upload = upload_id(began.body, what=f"the upload of {key!r}")
    every = _all(first, second, parts)
    try:
        return await _send_parts(client, key, upload, every, part_headers, checksums)
    except BaseException:
        with anyio.CancelScope(shield=True), anyio.move_on_after(30):  # parts left cost money
            await client.abandoned.over([key])  # a part that comes later would stay
            await client.try_send(S3Request("DELETE", key, encode_query({"uploadId": upload})))
        raise


async def _send_parts(
    client: S3Client,
    key: str,
    upload: str,
    parts: AsyncIterator[tuple[int, bytes]],
    headers: Mapping[str, str],
    checksums: bool,
) -> tuple[int, Mapping[str, str]]:
    size = 0

    async def send(part: tuple[int, bytes]) -> str:
        nonlocal size
        number, data = part
        query = encode_query({"partNumber": str(number), "uploadId": upload})
        sums = await checksums_of(data) if checksums else {}
        answer = await client.send(S3Request("PUT", key, query, {**headers, **sums}, data))
        size += len(data)
        tag = answer.headers.get("etag")
        if tag is None:
            raise StorageError(f"the store gave part {number} of {key!r} no entity tag")
        return tag

    tags = await map_stream(send, parts, limit=_PARTS_UNDER_WAY)
    request = S3Request(
        "POST", key, encode_query({"uploadId": upload}), headers, complete_document(tags)
    )
    outcome = await client.try_send(request)
    if isinstance(outcome, Answer):
        return size, outcome.headers
    if outcome.code == "NoSuchUpload" and outcome.repeated:
        # An earlier attempt may have completed it, its answer lost on the way.
        found = await client.try_send(S3Request("HEAD", key, headers=headers))
        if isinstance(found, Answer) and _is_upload(found, size, len(tags)):
            return size, found.headers
    raise client.error(request, outcome)


def _is_upload(found: Answer, size: int, parts: int) -> bool:
    tag = found.headers.get("etag", "").strip('"')
    return int(found.headers.get("content-length", "-1")) == size and tag.endswith(f"-{parts}")


async def _all(
    first: bytes, second: bytes, rest: AsyncIterator[bytes]
) -> AsyncIterator[tuple[int, bytes]]:
    yield 1, first
    yield 2, second
    number = 2
    async for part in rest:
        number += 1
        yield number, part


async def _parts(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in parts of the sizes that the upload wants; the last one may be smaller."""
    waiting: list[bytes] = []
    held = made = 0
    async for chunk in chunks:
        view = memoryview(chunk)
        while view:
            wanted = FIRST_PART * (1 + made // _PARTS_OF_ONE_SIZE)
            piece, view = view[: wanted - held], view[wanted - held :]
            waiting.append(bytes(piece))
            held += len(piece)
            if held == wanted:
                yield b"".join(waiting)
                waiting, held = [], 0
                made += 1
    if held:
        yield b"".join(waiting)
