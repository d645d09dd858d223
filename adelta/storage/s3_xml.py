"""The XML documents of the S3 API that we read and write (pure)."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus
from xml.sax.saxutils import escape

from adelta.errors import StorageError
from adelta.storage.object_store import ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "LONGEST_DOCUMENT",
    "ListPage",
    "complete_document",
    "delete_document",
    "delete_errors",
    "fits_xml",
    "list_page",
    "upload_id",
]

LONGEST_DOCUMENT = 16 << 20
"""Bytes of an answer: a page of a thousand of the longest keys has less than a third of them."""

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a listing, its paths cut by the root; `token` asks for the next one."""

    objects: list[ObjectMeta]
    token: str | None


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


def list_page(body: bytes, *, what: str, root: str, prefix: str) -> ListPage:
    """A page of ListObjectsV2, of the keys that begin with `root` and `prefix`.

    It was asked for with ``encoding-type=url``. Keys that end in ``/`` are left out: they stand for
    folders in some tools.

    Raises:
        StorageError: it is no such page.
    """
    document, ns = _root(body, what)
    encoded = document.findtext(f"{ns}EncodingType") == "url"
    objects: list[ObjectMeta] = []
    start, whole = len(root), root + prefix
    tags = [f"{ns}{name}" for name in ("Key", "Size", "LastModified", "ETag")]
    for element in document.iterfind(f"{ns}Contents"):
        found = {child.tag: child.text or "" for child in element}
        key, size, time, etag = map(found.get, tags)
        if encoded and key:
            key = unquote_plus(key)
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
    return ListPage(objects, token)


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


def complete_document(tags: Sequence[str]) -> bytes:
    """The body of CompleteMultipartUpload for parts 1, 2, ... with these entity tags."""
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
        for number, tag in enumerate(tags, 1)
    )
    return (
        '<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"{parts}</CompleteMultipartUpload>"
    ).encode()
