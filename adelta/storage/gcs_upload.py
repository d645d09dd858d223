"""Objects of any size to Google Cloud Storage, in bounded memory, by resumable uploads.

The pieces of such an upload go one after the other to its session. A piece whose answer was lost is
sent again: the store leaves out what it has of it, and says how far it has got, which may be no
further than before. The object appears with its last piece, and its
checksum is compared then; a session that fails is cancelled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import anyio
import orjson
from yarl import URL

from adelta._chance import fraction
from adelta._concurrency import in_thread
from adelta.errors import StorageError
from adelta.storage.gcs_checksums import StreamSum
from adelta.storage.gcs_client import RESUME_INCOMPLETE, GcsClient, document_of
from adelta.storage.object_answers import Answer, Kind
from adelta.storage.object_client import ObjectRequest
from adelta.storage.pieces import in_pieces
from adelta.storage.sigv4 import encode_query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["PIECE", "upload"]

PIECE = 8 << 20
"""Bytes of a piece, which the store wants in multiples of 256 KiB."""

_RANGE = re.compile(r"bytes=0-(\d{1,18})")
_MADE = "generation,updated,size,crc32c,md5Hash"


async def upload(
    client: GcsClient, key: str, address: str, chunks: AsyncIterator[bytes]
) -> bytes | tuple[int, Answer]:
    """Upload the chunks as one object: its size, and the answer that made it.

    What fits one piece is not uploaded, but returned. Raises: StorageError.
    """
    pieces = in_pieces(chunks, lambda _: PIECE)
    first = await anext(pieces, b"")
    second = await anext(pieces, None) if len(first) >= PIECE else None
    if second is None:
        return first
    begin = ObjectRequest(
        "POST",
        key,
        encode_query({"uploadType": "resumable", "fields": _MADE}),
        {"content-type": "application/json; charset=UTF-8"},
        orjson.dumps({"name": key, "contentType": "application/octet-stream"}),
        path=address,
    )

    async def undo(began: Answer) -> None:
        await session_of(began).cancel()

    def session_of(began: Answer) -> _Session:
        return _Session(client, key, began.headers.get("location", ""))

    session = session_of(await client.abandoned.run(key, client.send(begin), undo))
    try:
        piece: bytes | None = first
        following: bytes | None = second
        while piece is not None:
            await session.send(piece, last=following is None)
            piece, following = following, await anext(pieces, None)
        return await session.finished()
    except BaseException:
        with anyio.CancelScope(shield=True), anyio.move_on_after(30):
            await session.cancel()
        raise


class _Session:
    """One upload under way: where its pieces go, and what has been sent."""

    def __init__(self, client: GcsClient, key: str, location: str) -> None:
        where = URL(location, encoded=True)
        if "upload_id" not in where.query:
            raise StorageError(f"the store named no session for the upload of {key!r}")
        # Pieces go where all requests go: an answer may not have tokens sent elsewhere.
        self._path = where.raw_path.removeprefix(client.base_path)
        self._query = where.raw_query_string
        self._client = client
        self._key = key
        self._sent = 0
        self._sum = StreamSum()
        self._done: Answer | None = None

    def _request(self, span: str, body: bytes) -> ObjectRequest:
        return ObjectRequest(
            "PUT",
            self._key,
            self._query,
            {"content-range": f"bytes {span}"},
            body,
            path=self._path,
        )

    async def send(self, piece: bytes, *, last: bool) -> None:
        """Send the next piece, and what the store has not taken of it again."""
        end = self._sent + len(piece)
        whole = str(end) if last else "*"
        await in_thread(self._sum.add, piece)
        rest, stalls = piece, 0
        while True:
            start = end - len(rest)
            span = f"{start}-{end - 1}" if rest else "*"  # else its status is asked for
            request = self._request(f"{span}/{whole}", rest)
            outcome = await self._client.try_send(request)
            if not isinstance(outcome, Answer):
                if last and outcome.repeated and outcome.kind in (Kind.NOT_FOUND, Kind.REFUSED):
                    # An earlier attempt may have completed it, its answer lost on the way.
                    outcome = await self._client.try_send(self._request(f"*/{whole}", b""))
                if not isinstance(outcome, Answer):
                    raise self._client.error(request, outcome)
            if outcome.status != RESUME_INCOMPLETE:
                self._done = outcome
                break
            taken = _RANGE.fullmatch(outcome.headers.get("range", ""))
            reached = int(taken[1]) + 1 if taken else 0
            if reached >= end and not last:
                break
            stalls = stalls + 1 if reached == start else 0
            wait = self._client.retry.delay(stalls - 1, 0.0, fraction()) if stalls else 0.0
            if not start <= reached <= end or wait is None:
                raise StorageError(
                    f"the upload of {self._key!r} does not go on: the store has {reached:,} bytes "
                    f"of it, where {start:,} to {end:,} were sent"
                )
            rest = rest[reached - start :]
            await anyio.sleep(wait)
        self._sent = end

    async def finished(self) -> tuple[int, Answer]:
        """The object's size and the answer that made it, when it has the bytes that were sent."""
        done = self._done
        if done is None:
            raise StorageError(f"the upload of {self._key!r} ended, and the store waits for more")
        said = document_of(done.body)
        if "generation" not in said:
            raise StorageError(f"the store does not say what the upload of {self._key!r} made")
        if said.get("size") != str(self._sent) or self._sum.differs(said):
            raise StorageError(
                f"the upload of {self._key!r} made an object of other bytes than were sent: write "
                "it again"
            )
        return self._sent, done

    async def cancel(self) -> None:
        """Have the store forget what it has got."""
        request = ObjectRequest("DELETE", self._key, self._query, path=self._path)
        await self._client.abandoned.then(  # else a late piece may complete it
            self._key, lambda: self._client.try_send(request)
        )
