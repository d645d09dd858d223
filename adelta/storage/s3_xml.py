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
    "ListPage",
    "complete_document",
    "delete_document",
    "delete_errors",
    "fits_xml",
    "list_page",
    "upload_id",
]

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a listing, its paths cut by the root; `token` asks for the next one."""

    objects: list[ObjectMeta]
    token: str | None


def _root(body: bytes, what: str) -> tuple[ET.Element, str]:
    """The document's root, and its namespace as a prefix of tags."""
    try:
        root = ET.fromstring(body.strip())
    except ET.ParseError as error:
        raise StorageError(f"the answer to {what} is no XML: {error}") from error
    namespace, brace, _ = root.tag.rpartition("}")
    return root, namespace + brace


def list_page(body: bytes, *, what: str, root_length: int) -> ListPage:
    """A page of ListObjectsV2 asked with ``encoding-type=url``.

    Keys that end in ``/`` are left out: they stand for folders in some tools.
    """
    root, ns = _root(body, what)
    encoded = root.findtext(f"{ns}EncodingType") == "url"
    objects: list[ObjectMeta] = []
    key_tag, size_tag, time_tag, tag_tag = (
        f"{ns}Key",
        f"{ns}Size",
        f"{ns}LastModified",
        f"{ns}ETag",
    )
    for element in root.iterfind(f"{ns}Contents"):
        found = {child.tag: child.text or "" for child in element}
        key = unquote_plus(found[key_tag]) if encoded else found[key_tag]
        if len(key) <= root_length or key[-1] == "/":
            continue
        objects.append(
            ObjectMeta(
                key[root_length:],
                int(found[size_tag]),
                round(datetime.fromisoformat(found[time_tag]).timestamp() * 1000),
                found.get(tag_tag),
            )
        )
    token = None
    if root.findtext(f"{ns}IsTruncated") == "true":
        token = root.findtext(f"{ns}NextContinuationToken")
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
