"""The XML documents of the S3 API that we read and write (pure)."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from datetime import datetime
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus
from xml.sax.saxutils import escape

from adelta.errors import StorageError
from adelta.storage.object_answers import Page
from adelta.storage.object_store import ObjectMeta
from adelta.storage.sigv4 import Credentials

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "LONGEST_DOCUMENT",
    "Part",
    "complete_document",
    "completed_tag",
    "copied_tag",
    "delete_document",
    "delete_errors",
    "fits_xml",
    "folders_below",
    "list_page",
    "session_of",
    "upload_id",
]

LONGEST_DOCUMENT = 16 << 20
"""Bytes of an answer: a page of a thousand of the longest keys has less than a third of them."""

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def _root(body: bytes, what: str) -> tuple[ET.Element, str]:
    """The document's root, and its namespace as a prefix of tags."""
    try:
        if b"<!DOCTYPE" in body:
            raise ValueError("it declares a document type")
        root = ET.fromstring(body.strip())
    except (ET.ParseError, ValueError, LookupError) as error:  # of text and of encodings
        raise StorageError(f"the answer to {what} is no XML: {error}") from error
    namespace, brace, _ = root.tag.rpartition("}")
    return root, namespace + brace


_Row = tuple[str | None, ...]
"""Key, size, time and entity tag of an object, as the document has them."""

_OF_OBJECTS = ("Key", "Size", "LastModified", "ETag")
_TAG = re.compile("<(/?)([A-Za-z]+)>([^<&]*)")
_TEXT = "([^<&]*)"
_NOT_PLAIN = bytes({*range(32)} - {*b"\t\n\r"})
_TEXTS = re.compile(">[^<&]*</")


@lru_cache(64)
def _written_as(first: str) -> tuple[re.Pattern[str], int, list[int]] | None:
    """What finds objects whose elements follow each other as in `first`, the text of one.

    With it come how long they are beside their texts, and which text is which of a `_Row`.
    """
    tags = _TAG.findall(first)
    if "".join(f"<{slash}{name}>{text}" for slash, name, text in tags) != first:
        return None
    try:
        ET.fromstring(first)
    except ET.ParseError:
        return None
    pattern, constant, places = "", 0, dict[str, int]()
    depth = texts = 0
    for index, (slash, name, text) in enumerate(tags):
        pattern += f"<{slash}{name}>"
        constant += len(name) + len(slash) + 2
        depth += -1 if slash else 1
        if not slash and tags[index + 1][0]:  # it holds no other element
            if depth == 2:
                places[name] = texts
            pattern += _TEXT
            texts += 1
        else:
            pattern += re.escape(text)
            constant += len(text)
    order = [places[name] for name in _OF_OBJECTS if name in places]
    return (re.compile(pattern), constant, order) if len(order) == len(_OF_OBJECTS) else None


def _told_apart(body: bytes) -> tuple[bytes, list[_Row]]:
    """The document without its objects where all are written in one way; and these.

    A parser of XML makes objects of every element, which takes several times as long.
    """
    start, end = body.find(b"<Contents>"), body.rfind(b"</Contents>") + len("</Contents>")
    head = body[:start].lower()
    if start < 0 or not body.isascii() or body.translate(None, _NOT_PLAIN) != body:
        return body, []
    if (
        b"<!" in body
        or b"]]>" in body
        or (b"encoding=" in head and b'encoding="utf-8"' not in head)
    ):
        return body, []
    text = body[start:end].decode("ascii").replace("&quot;", '"')
    form = _TEXTS.sub("></", text[: text.find("</Contents>") + len("</Contents>")])
    known = _written_as(form)
    if known is None:
        return body, []
    pattern, constant, order = known
    found = pattern.findall(text)
    length = constant * len(found) + sum(map(len, chain.from_iterable(found)))
    if length != len(text):
        return body, []
    return body[:start] + body[end:], list(map(itemgetter(*order), found))


def list_page(body: bytes, *, what: str, root: str, prefix: str) -> Page:
    """A page of ListObjectsV2, of the keys that begin with `root` and `prefix`.

    It was asked for with ``encoding-type=url``. Keys that end in ``/`` are left out: they stand for
    folders in some tools.

    Raises:
        StorageError: it is no such page.
    """
    rest, rows = _told_apart(body)
    document, ns = _root(rest, what)
    contents = f"{ns}Contents"
    if rows and document.find(contents) is not None:  # not all of them are together
        rows, (document, ns) = [], _root(body, what)
    encoded = document.findtext(f"{ns}EncodingType") == "url"
    tags = [f"{ns}{name}" for name in _OF_OBJECTS]
    for element in document.iterfind(contents):
        found = {child.tag: child.text or "" for child in element}
        rows.append(tuple(map(found.get, tags)))
    objects: list[ObjectMeta] = []
    start, whole = len(root), root + prefix
    for key, size, time, etag in rows:
        if encoded and key:
            key = _decoded(key)
        if key is None or not key.startswith(whole):
            raise StorageError(f"{what} has the key {key!r}, which was not asked for")
        if len(key) <= start or key[-1] == "/":
            continue
        try:
            moment = round(datetime.fromisoformat(time or "").timestamp() * 1000)
            objects.append(ObjectMeta(key[start:], int(size or ""), moment, etag))
        except (ValueError, OverflowError) as error:
            raise StorageError(
                f"{what} has the size {str(size)[:40]!r} and the time {str(time)[:40]!r} of {key!r}"
            ) from error
    token = None
    if document.findtext(f"{ns}IsTruncated") == "true":
        token = document.findtext(f"{ns}NextContinuationToken")
        if not token:
            raise StorageError(f"{what}: the page is truncated, but names no next one")
    named = (each.text or "" for each in document.iterfind(f"{ns}CommonPrefixes/{ns}Prefix"))
    folders = folders_below(map(_decoded, named) if encoded else named, start, whole, what)
    return Page(objects, token, folders)


def _decoded(key: str) -> str:
    """A key without its escapes. Most have none but of the signs in ``day=1/part-0``."""
    key = key.replace("%2F", "/").replace("%3D", "=")  # each % begins an escape
    return unquote_plus(key) if "%" in key or "+" in key else key


def folders_below(names: Iterable[str], start: int, whole: str, what: str) -> list[str]:
    """The paths of the folders that a listing names, cut at `start`.

    Raises:
        StorageError: one does not begin with `whole`, or is no folder.
    """
    folders: list[str] = []
    for name in names:
        if not name.startswith(whole) or name[-1:] != "/":
            raise StorageError(f"{what} has the folder {name!r}, which was not asked for")
        folders.append(name[start:])
    return folders


def fits_xml(key: str) -> bool:
    """Whether the key can be written in an XML document at all."""
    return _NOT_XML.search(key) is None


def delete_document(keys: Sequence[str]) -> bytes:
    """The body of DeleteObjects, asking for errors alone."""
    objects = "".join(
        f"<Object><Key>{escape(key, {chr(13): '&#13;', chr(10): '&#10;'})}</Key></Object>"
        for key in keys
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Quiet>true</Quiet>{objects}</Delete>"
    ).encode()


def delete_errors(body: bytes, *, what: str) -> dict[str, tuple[str, str]]:
    """Code and message of every key that DeleteObjects did not delete."""
    if not body:
        return {}
    root, ns = _root(body, what)
    return {
        element.findtext(f"{ns}Key", ""): (
            element.findtext(f"{ns}Code", ""),
            element.findtext(f"{ns}Message", ""),
        )
        for element in root.iterfind(f"{ns}Error")
    }


def upload_id(body: bytes, *, what: str) -> str:
    """The id that CreateMultipartUpload gave."""
    root, ns = _root(body, what)
    found = root.findtext(f"{ns}UploadId")
    if not found:
        raise StorageError(f"the answer to {what} names no upload")
    return found


def session_of(body: bytes, now: float, *, what: str) -> tuple[Credentials, float]:
    """The keys that CreateSession gave, and for how many seconds from `now` they are good.

    Raises:
        StorageError: it gave none.
    """
    root, ns = _root(body, what)
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    found = [root.findtext(f"{ns}Credentials/{ns}{name}") or "" for name in names]
    try:
        lasts = datetime.fromisoformat(found[3]).timestamp() - now
    except (ValueError, OverflowError):
        lasts = 0.0
    if not all(found[:3]) or lasts <= 0:
        raise StorageError(
            f"the answer to {what} has no keys that are good for some minutes; check that the "
            "endpoint speaks S3 Express, and that no proxy changes its answers"
        )
    return Credentials(found[0], found[1], found[2], "a session of S3 Express"), lasts


def copied_tag(body: bytes, *, what: str) -> str:
    """The entity tag that CopyObject or UploadPartCopy gave. Raises: StorageError."""
    root, ns = _root(body, what)
    found = root.findtext(f"{ns}ETag")
    if not found:
        raise StorageError(f"the answer to {what} names no entity tag")
    return found


def completed_tag(body: bytes, *, what: str) -> str | None:
    """The entity tag that CompleteMultipartUpload gave, which some servers leave out.

    Raises:
        StorageError: it gave none of its documents.
    """
    root, ns = _root(body, what)
    if root.tag.removeprefix(ns) != "CompleteMultipartUploadResult":
        raise StorageError(f"the answer to {what} is not the store's, but perhaps a proxy's")
    return root.findtext(f"{ns}ETag") or None


Part = tuple[str, str | None]
"""Entity tag of a part of an upload, and its CRC-32 where that is to be named."""


def complete_document(parts: Sequence[Part]) -> bytes:
    """The body of CompleteMultipartUpload for parts 1, 2, ..."""
    named = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag>"
        f"{'' if crc32 is None else f'<ChecksumCRC32>{crc32}</ChecksumCRC32>'}</Part>"
        for number, (tag, crc32) in enumerate(parts, 1)
    )
    return (
        '<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"{named}</CompleteMultipartUpload>"
    ).encode()
