"""What S3 does with objects, for tests of what its relatives do otherwise.

`FakeS3` is a server of our own, held to the reference of S3's API as far as adelta asks for it. It
checks every signature by botocore. What a relative of S3 does otherwise is a subclass, which says
by `check` what it refuses.
"""

from __future__ import annotations

import base64
import hashlib
import time
import uuid
import xml.etree.ElementTree as ET
import zlib
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote
from xml.sax.saxutils import escape

from aiohttp import web
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.support.local_servers import ThreadedServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Asked", "FakeS3", "RefusedError", "Stored", "document"]

_NS = "http://s3.amazonaws.com/doc/2006-03-01/"
_KEYS = Credentials("AKIDUSER", "user secret")


@dataclass(frozen=True, slots=True)
class Stored:
    """An object, or a part of one; its tag is an MD5, of its bytes or of those of its parts."""

    data: bytes
    tag: str
    modified: float
    crc32: str

    @property
    def headers(self) -> dict[str, str]:
        return {"etag": self.tag, "last-modified": formatdate(self.modified, usegmt=True)}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as it came: the path is not decoded, the names of headers are lower."""

    operation: str
    method: str
    host: str
    path: str
    query_text: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    bucket: str
    key: str
    objects: dict[str, Stored]


class RefusedError(Exception):
    """An answer of failure."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


@dataclass(slots=True)
class _Upload:
    key: str
    checksum: str
    parts: dict[int, Stored]


class FakeS3(ThreadedServer):
    """The server. What a test may change or look at:

    `page`, how many entries a listing gives at once; `asked`, how many requests there were of each
    operation; `sent`, these with their headers, in order; `objects` by bucket and key; `uploads`
    that are under way.
    """

    region = "us-east-1"
    service = "s3"

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, dict[str, Stored]] = {}
        self.uploads: dict[str, _Upload] = {}
        self.asked: Counter[str] = Counter()
        self.sent: list[tuple[str, Mapping[str, str]]] = []
        self.reset()

    def reset(self) -> None:
        """Be empty, and as at first."""
        for each in (self.objects, self.uploads, self.asked, self.sent):
            each.clear()
        self.page = 1000

    def begin(self, key: str, checksum: str = "") -> str:
        """The id of an upload that begins."""
        self.uploads[upload := uuid.uuid4().hex] = _Upload(key, checksum, {})
        return upload

    # ----------------------------------------------------------------- what a relative may change

    def place(self, host: str, path: str) -> tuple[str, str]:
        """The bucket and the key, which is still encoded, of a request."""
        bucket, _, key = path.lstrip("/").partition("/")
        return bucket, key

    def keys(self, asked: Asked) -> Credentials:
        """The keys that a request has to be signed by."""
        return _KEYS

    def check(self, asked: Asked) -> None:
        """Refuse what the relative does not have."""

    def stored(self, data: bytes, parts: Sequence[Stored] = ()) -> Stored:
        """An object as it is kept, of one put or of parts."""
        digest = hashlib.md5(data).hexdigest()
        if parts:
            sums = b"".join(bytes.fromhex(part.tag.strip('"')) for part in parts)
            digest = f"{hashlib.md5(sums).hexdigest()}-{len(parts)}"
        return Stored(data, f'"{digest}"', time.time(), _crc32(data))

    def entries(self, asked: Asked) -> Iterable[str]:
        """Keys and folders of a listing, in the order of its pages."""
        prefix, start = asked.query.get("prefix", ""), asked.query.get("start-after", "")
        found: set[str] = set()
        for key in asked.objects:
            if key.startswith(prefix) and key > start:
                name, slash, _ = key[len(prefix) :].partition("/")
                found.add(f"{prefix}{name}/" if slash and "delimiter" in asked.query else key)
        return sorted(found)

    # --------------------------------------------------------------------------------- requests

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = b"".join([chunk async for chunk in request.content.iter_any()])
        try:
            answer = self._answer(request, body)
        except RefusedError as error:
            answer = web.Response(status=error.status)
            if request.method != "HEAD":
                answer.text = (
                    f"<Error><Code>{error.code}</Code><Message>{error.message}</Message></Error>"
                )
        answer.headers.setdefault("Date", formatdate(usegmt=True))
        return answer

    def _answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        address = request.raw_path.removeprefix("http://" + headers["host"])
        path, _, query_text = address.partition("?")
        query = dict(parse_qsl(query_text, keep_blank_values=True))
        bucket, key = self.place(headers["host"], path)
        operation = _operation(request.method, key, query, headers)
        self.asked[operation] += 1
        self.sent.append((operation, headers))
        asked = Asked(
            operation,
            request.method,
            headers["host"],
            path,
            query_text,
            query,
            headers,
            body,
            bucket,
            unquote(key),
            self.objects.setdefault(bucket, {}),
        )
        self._admit(asked)
        self.check(asked)
        answer: web.Response = getattr(self, f"_{operation}")(asked)
        return answer

    def _admit(self, asked: Asked) -> None:
        """Refuse what is not signed, or not what was signed."""
        headers = asked.headers
        claimed = headers.get("x-amz-content-sha256")
        if claimed not in (hashlib.sha256(asked.body).hexdigest(), "UNSIGNED-PAYLOAD"):
            raise RefusedError(400, "XAmzContentSHA256Mismatch")
        moment = headers["x-amz-date"]
        told = datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        if abs(told - time.time()) > 900:
            raise RefusedError(403, "RequestTimeTooSkewed")
        said = headers.get("authorization", "")
        names = said.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        if any(name.startswith("x-amz-") and name not in names for name in headers):
            raise RefusedError(403, "AccessDenied", "There were headers that were not signed")
        signed = {name: headers[name] for name in names if name != "host"}
        address = f"http://{asked.host}{asked.path}?{asked.query_text}"
        request = AWSRequest(asked.method, address.rstrip("?"), headers=signed, data=asked.body)
        request.context["timestamp"] = moment
        keys = self.keys(asked)
        auth = S3SigV4Auth(keys, self.service, self.region)
        text = auth.string_to_sign(request, auth.canonical_request(request))
        scope = f"{keys.access_key}/{moment[:8]}/{self.region}/{self.service}/aws4_request"
        signature = auth.signature(text, request)
        if not said.startswith(f"AWS4-HMAC-SHA256 Credential={scope},") or not said.endswith(
            f"Signature={signature}"
        ):
            raise RefusedError(403, "SignatureDoesNotMatch")
        crc = headers.get("x-amz-checksum-crc32")
        if crc is not None and crc != _crc32(asked.body):
            raise RefusedError(400, "BadDigest")
        md5 = headers.get("content-md5")
        if md5 is not None and base64.b64decode(md5) != hashlib.md5(asked.body).digest():
            raise RefusedError(400, "BadDigest")

    # ---------------------------------------------------------------------------------- objects

    def _get(self, asked: Asked) -> web.Response:
        found = asked.objects.get(asked.key)
        if found is None:
            raise _missing()
        if asked.headers.get("if-match") not in (None, found.tag):
            raise RefusedError(412, "PreconditionFailed")
        told = found.headers
        if (span := asked.headers.get("range", "").removeprefix("bytes=")) == "":
            if asked.headers.get("x-amz-checksum-mode") == "ENABLED":
                told["x-amz-checksum-crc32"] = found.crc32
            return web.Response(body=found.data, headers=told)
        first, _, last = span.partition("-")
        size = len(found.data)
        start = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1) if first and last else size
        if start >= size:
            raise RefusedError(416, "InvalidRange")
        told["content-range"] = f"bytes {start}-{end - 1}/{size}"
        return web.Response(status=206, body=found.data[start:end], headers=told)

    def _head(self, asked: Asked) -> web.Response:
        found = asked.objects.get(asked.key)
        if found is None:
            raise _missing()
        return web.Response(headers={**found.headers, "content-length": str(len(found.data))})

    def _put(self, asked: Asked) -> web.Response:
        if asked.headers.get("if-none-match") == "*" and asked.key in asked.objects:
            raise RefusedError(412, "PreconditionFailed")
        made = self.stored(asked.body)
        if "partNumber" in asked.query:
            self._parts(asked)[int(asked.query["partNumber"])] = made
        else:
            asked.objects[asked.key] = made
        return web.Response(headers={"etag": made.tag})

    def _copy(self, asked: Asked) -> web.Response:
        return self._copied(asked)

    def _copy_part(self, asked: Asked) -> web.Response:
        return self._copied(asked)

    def _copied(self, asked: Asked) -> web.Response:
        bucket, _, source = unquote(asked.headers["x-amz-copy-source"]).lstrip("/").partition("/")
        found = self.objects.get(bucket, {}).get(source)
        if found is None:
            raise _missing()
        if asked.headers.get("x-amz-copy-source-if-match") not in (None, found.tag):
            raise RefusedError(412, "PreconditionFailed")
        span = asked.headers.get("x-amz-copy-source-range", "").removeprefix("bytes=")
        first, _, last = span.partition("-")
        made = self.stored(found.data[int(first or 0) : int(last) + 1 if last else None])
        if asked.query:
            self._parts(asked)[int(asked.query["partNumber"])] = made
        else:
            asked.objects[asked.key] = made
        return document("CopyObjectResult", f"<ETag>{escape(made.tag)}</ETag>")

    def _begin_upload(self, asked: Asked) -> web.Response:
        upload = self.begin(asked.key, asked.headers.get("x-amz-checksum-type", ""))
        answer = document("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")
        for name in ("x-amz-checksum-algorithm", "x-amz-checksum-type"):
            if name in asked.headers:
                answer.headers[name] = asked.headers[name]
        return answer

    def _parts(self, asked: Asked) -> dict[int, Stored]:
        if asked.query["uploadId"] not in self.uploads:
            raise _missing("NoSuchUpload")
        return self.uploads[asked.query["uploadId"]].parts

    def _complete(self, asked: Asked) -> web.Response:
        parts = self._parts(asked)
        named = [
            (int(part.findtext(f"{{{_NS}}}PartNumber", "")), part.findtext(f"{{{_NS}}}ETag"))
            for part in ET.fromstring(asked.body)
        ]
        if [number for number, _ in named] != [*range(1, len(named) + 1)]:
            raise RefusedError(400, "InvalidPartOrder", "part numbers have to be consecutive")
        if any(parts.get(number) is None or parts[number].tag != tag for number, tag in named):
            raise RefusedError(400, "InvalidPart")
        if any(len(parts[number].data) < 5 << 20 for number, _ in named[:-1]):
            raise RefusedError(400, "EntityTooSmall")
        whole = [parts[number] for number, _ in named]
        made = self.stored(b"".join(part.data for part in whole), whole)
        asked.objects[asked.key] = made
        del self.uploads[asked.query["uploadId"]]
        return document("CompleteMultipartUploadResult", f"<ETag>{escape(made.tag)}</ETag>")

    def _abort(self, asked: Asked) -> web.Response:
        self._parts(asked)
        del self.uploads[asked.query["uploadId"]]
        return web.Response(status=204)

    def _delete(self, asked: Asked) -> web.Response:
        asked.objects.pop(asked.key, None)
        return web.Response(status=204)

    def _delete_many(self, asked: Asked) -> web.Response:
        keys = [element.text or "" for element in ET.fromstring(asked.body).iter(f"{{{_NS}}}Key")]
        vouched = asked.headers.keys() & {"x-amz-checksum-crc32", "content-md5"}
        if not vouched or len(keys) > 1000:
            raise RefusedError(400, "InvalidRequest")
        for key in keys:
            asked.objects.pop(key, None)
        return document("DeleteResult", "")

    def _list(self, asked: Asked) -> web.Response:
        if asked.query.get("list-type") != "2":
            raise RefusedError(501, "NotImplemented")
        order = list(self.entries(asked))
        start = int(asked.query.get("continuation-token", "0"))
        page, end = order[start : start + self.page], start + self.page
        said = f"<IsTruncated>{'true' if end < len(order) else 'false'}</IsTruncated>"
        said += "<EncodingType>url</EncodingType>"
        if end < len(order):
            said += f"<NextContinuationToken>{end}</NextContinuationToken>"
        for entry in page:
            if entry.endswith("/"):
                said += f"<CommonPrefixes><Prefix>{quote(entry)}</Prefix></CommonPrefixes>"
                continue
            found = asked.objects[entry]
            moment = datetime.fromtimestamp(found.modified, UTC).isoformat(timespec="milliseconds")
            said += (
                f"<Contents><Key>{quote(entry)}</Key><LastModified>{moment[:23]}Z</LastModified>"
                f"<ETag>{escape(found.tag)}</ETag><Size>{len(found.data)}</Size>"
                "<StorageClass>EXPRESS_ONEZONE</StorageClass></Contents>"
            )
        return document("ListBucketResult", said)


def _operation(method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    if not key:
        if "session" in query:
            return "begin_session"
        return "delete_many" if "delete" in query else "list"
    if method == "POST":
        return "begin_upload" if "uploads" in query else "complete"
    if method == "PUT" and "x-amz-copy-source" in headers:
        return "copy_part" if query else "copy"
    if method == "DELETE":
        return "abort" if "uploadId" in query else "delete"
    return method.lower()


def _missing(what: str = "NoSuchKey") -> RefusedError:
    return RefusedError(404, what, "The specified key does not exist.")


def _crc32(data: bytes) -> str:
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


def document(name: str, inner: str) -> web.Response:
    """An answer in XML."""
    text = f'<?xml version="1.0" encoding="UTF-8"?><{name} xmlns="{_NS}">{inner}</{name}>'
    return web.Response(text=text, content_type="application/xml")
