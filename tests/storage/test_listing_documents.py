"""Pages of listings: those written in one way, read apart, come to the same as by a parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta.errors import StorageError
from adelta.storage import azure, s3_xml
from adelta.storage.s3_xml import list_page

if TYPE_CHECKING:
    from adelta.storage.object_answers import Page

KEY, TIME = "<Key>{}</Key>", "<LastModified>2026-11-22T10:11:12.{:03d}Z</LastModified>"
TAG, SIZE = "<ETag>&quot;d41d{}&quot;</ETag>", "<Size>{}</Size>"
CLASS, OWNER = "<StorageClass>STANDARD</StorageClass>", "<Owner><ID>o</ID><Name>O</Name></Owner>"
SUM = "<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>FULL</ChecksumType>"


def contents(number: int, *elements: str) -> str:
    parts = [e.format(f"t/{number:03d}" if "Key" in e else number) for e in elements]
    return f"<Contents>{''.join(parts)}</Contents>"


def document(
    *objects: str, more: str = "", encoding: str = "<EncodingType>url</EncodingType>"
) -> bytes:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Prefix>t/</Prefix>'
        f"<IsTruncated>false</IsTruncated>{''.join(objects)}{encoding}{more}</ListBucketResult>"
    ).encode()


def read(body: bytes) -> Page:
    return list_page(body, what="a listing", root="t/", prefix="")


def by_parser(body: bytes, patch: pytest.MonkeyPatch) -> Page:
    with patch.context() as patched:
        patched.setattr(s3_xml, "_told_apart", lambda body: (body, []))
        return read(body)


def told_apart(body: bytes) -> int:
    return len(s3_xml._told_apart(body)[1])


@pytest.mark.parametrize(
    "elements",
    [
        (KEY, TIME, TAG, SIZE, CLASS),
        (KEY, TIME, TAG, SUM, SIZE, CLASS),
        (KEY, TIME, TAG, SIZE, OWNER, CLASS),
        (SIZE, CLASS, TAG, TIME, KEY),
        (KEY, KEY, TIME, TAG, SIZE, SIZE),
    ],
)
def test_objects_written_in_one_way_are_read_apart(
    elements: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = document(*(contents(number, *elements) for number in range(50)))
    assert told_apart(body) == 50
    assert read(body) == by_parser(body, monkeypatch)
    assert [found.path for found in read(body).objects] == [f"{n:03d}" for n in range(50)]
    assert read(body).objects[7].etag == '"d41d7"'


PLAIN = [contents(number, KEY, TIME, TAG, SIZE) for number in range(3)]


@pytest.mark.parametrize(
    "body",
    [
        document(*PLAIN, contents(3, KEY, SIZE, TAG, TIME)),
        document(contents(3, KEY, SIZE, TAG, TIME), *PLAIN),
        document(*PLAIN, "\n", *PLAIN[:1]),
        document(PLAIN[0], "<!-- <Contents> -->", *PLAIN[1:]),
        document(*PLAIN, contents(9, "<Key><![CDATA[t/a]]></Key>", TIME, TAG, SIZE)),
        document(contents(9, "<Key>t/&amp;</Key>", TIME, TAG, SIZE), encoding=""),
        document(*PLAIN, contents(9, "<Key>t/&#97;</Key>", TIME, TAG, SIZE), encoding=""),
        document(contents(9, "<Key>t/\u00e4</Key>", TIME, TAG, SIZE), encoding=""),
        document(*PLAIN, "<CommonPrefixes><Prefix>t/x/</Prefix></CommonPrefixes>", PLAIN[0]),
        document(PLAIN[0], "<Contents/>".replace("/", " a='b'>") + "<Key>t/b</Key>" + TIME.format(1)
                 + TAG.format(1) + SIZE.format(1) + "</Contents>"),
        document(*PLAIN).replace(b"UTF-8", b"iso-8859-1"),
        document(*(f"<x:{p[1:].replace('</Contents', '</x:Contents')}" for p in PLAIN)).replace(
            b"xmlns=", b'xmlns:x="http://s3.amazonaws.com/doc/2006-03-01/" xmlns='
        ),
    ],
)  # fmt: skip
def test_what_is_written_in_another_way_is_read_by_the_parser(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told_apart(body) == 0
    assert read(body) == by_parser(body, monkeypatch)
    assert read(body).objects


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: body.replace(b"</Size>", b"</Siz>", 1),
        lambda body: body.replace(b"</Contents>", b"", 1),
        lambda body: body.replace(b"<Size>1<", b"<Size>one<", 1),
        lambda body: body.replace(b"t/001", b"u/001", 1),
        lambda body: body.replace(b"t/001", b"t/0\x001", 1),
        lambda body: body.replace(b"<Key>t/001</Key>", b"", 1),
        lambda body: body.replace(b"t/001", b"t/]]>001", 1),
        lambda body: body[: len(body) // 2],
        lambda body: body.replace(b"<Contents>", b"<!DOCTYPE x><Contents>", 1),
    ],
)
def test_damaged_pages_are_refused(damage: Any) -> None:
    with pytest.raises(StorageError, match="a listing"):
        read(damage(document(*PLAIN)))


@given(data=st.data())
def test_any_change_of_a_page_reads_as_by_the_parser(data: st.DataObject) -> None:
    body = document(*PLAIN)
    at = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(at, min(len(body), at + 40)))
    pool = [b"", b"<", b">", b"&", b"</Contents>", b"<Contents>", b"\x00", b"]]>", b" ", b"x", b"'"]
    changed = body[:at] + data.draw(st.sampled_from(pool)) + body[end:]
    with pytest.MonkeyPatch.context() as patch:
        try:
            expected: Page | None = by_parser(changed, patch)
        except StorageError:
            expected = None
    if expected is None:
        with pytest.raises(StorageError):
            read(changed)
    else:
        assert read(changed) == expected


@given(st.lists(st.text("ab/=%+2F3D \u00e4\n&", min_size=1).map(lambda key: f"t/{key}|")))
def test_keys_come_without_their_escapes(keys: list[str]) -> None:
    written = [
        f"<Contents><Key>{quote_plus(key)}</Key>{TIME.format(1)}{TAG.format(1)}"
        f"{SIZE.format(1)}</Contents>"
        for key in keys
    ]
    assert [found.path for found in read(document(*written)).objects] == [key[2:] for key in keys]


PROPERTIES = (
    "<Creation-Time>Fri, 27 Nov 2026 01:02:02 GMT</Creation-Time>"
    "<Last-Modified>Fri, 27 Nov 2026 01:02:03 GMT</Last-Modified><Etag>0x8D</Etag>"
    "<Content-Length>12</Content-Length><Content-Type>application/x</Content-Type>"
    "<Content-Encoding /><Content-MD5>ab/cd==</Content-MD5><AccessTier>Hot</AccessTier>"
)


def blobs(*blobs: str, more: str = "") -> bytes:
    return (
        '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="c">'
        f"<Prefix>t/</Prefix><Blobs>{''.join(blobs)}</Blobs>{more}</EnumerationResults>"
    ).encode()


def blob(name: str, properties: str = PROPERTIES, more: str = "<OrMetadata />") -> str:
    return f"<Blob>{name}<Properties>{properties}</Properties>{more}</Blob>"


NAME = "<Name>t/a</Name>"


@pytest.mark.parametrize(
    "body",
    [
        blobs(blob(NAME), blob("<Name>t/b=1/c</Name>"), more="<NextMarker>2!x</NextMarker>"),
        blobs(blob(NAME), "<BlobPrefix><Name>t/d/</Name></BlobPrefix>", more="<NextMarker />"),
        blobs(blob('<Name Encoded="true">t%2F%EF%BF%BE</Name>')),
        blobs(blob(NAME, PROPERTIES + "<ResourceType>directory</ResourceType>")),
        blobs(blob(NAME, more="<Metadata><Etag>other</Etag><Name>t/x</Name></Metadata>")),
        blobs(blob(NAME, PROPERTIES.replace("application/x", "a &amp; b"))),
        blobs(blob(NAME, PROPERTIES.replace("application/x", "caf\u00e9"))),
        blobs(blob(NAME, PROPERTIES.replace("application/x", "<![CDATA[<Etag>9</Etag>]]>"))),
        blobs(blob(NAME, PROPERTIES + "<!-- <Etag>9</Etag> -->")),
        blobs(),
    ],
)
def test_a_listing_of_blobs_is_the_same_without_what_nobody_reads(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = azure._read_page(body, "a listing", 2, "t/", "")
    monkeypatch.setattr(azure, "_without_the_rest", lambda body: body)
    assert found == azure._read_page(body, "a listing", 2, "t/", "")


def test_of_a_usual_blob_little_is_left_to_the_parser() -> None:
    usual = blobs(*(blob(f"<Name>t/{number}</Name>") for number in range(50)))
    left = azure._without_the_rest(usual)
    assert left.count(b"<") < usual.count(b"<") * 0.7
    assert b"Content-MD5" not in left


@pytest.mark.parametrize(
    "broken",
    ["<Etag>0x8D</Tag>", "<Content-Type>&none;</Content-Type>", "<AccessTier>Hot</Access-Tier>"],
)
def test_a_listing_of_blobs_that_is_broken_is_refused(broken: str) -> None:
    with pytest.raises(StorageError, match="no listing of blobs"):
        azure._read_page(blobs(blob(NAME, PROPERTIES + broken)), "a listing", 2, "t/", "")
