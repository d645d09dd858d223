"""What the storage option `allowed_roots` can say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidOptionError
from adelta.storage.addresses import Place
from adelta.storage.allowed_roots import (
    allowed_roots,
    given_roots,
    local_roots,
    option_text,
    with_root,
)
from adelta.table import open_table

if TYPE_CHECKING:
    from adelta.storage.allowed_roots import AllowedRoots


def _places(value: str) -> list[str]:
    return [root.place.address for root in allowed_roots({"allowed_roots": value})]


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ("", []),
        (" ", []),
        ("[]", []),
        ("/lake/t", ["/lake/t"]),
        ("/lake/t/", ["/lake/t"]),
        ("/lake/../t", ["/t"]),
        ("file:///lake/my%20t", ["/lake/my t"]),
        ("/lake/my t", ["/lake/my t"]),
        ("/a,/b", ["/a", "/b"]),
        ("/a , /b,", ["/a", "/b"]),
        ("/a /b\n s3://c/d s3a://e", ["/a", "/b", "s3://c/d", "s3://e"]),
        ('["/a, b", "s3://c"]', ["/a, b", "s3://c"]),
        ('{"/a, b": {}, "s3://c": null}', ["/a, b", "s3://c"]),
        ("/", ["/"]),
    ],
)
def test_roots_are_one_address_or_several(value: str, places: list[str]) -> None:
    assert _places(value) == places


def test_a_root_may_have_options_of_its_own() -> None:
    value = '{"s3://c/d": {"aws_profile": "reader"}, "/a": null}'
    (own, none) = allowed_roots({"ALLOWED_ROOTS": value})
    assert own.options == {"aws_profile": "reader"}
    assert none.options is None
    assert "reader" not in repr(own)
    assert local_roots({"allowed_roots": value}) == ("/a",)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("lake/t", "absolute"),
        ("/my,lake", "absolute"),
        ("nosuch://bucket/t", "scheme"),
        ("file://host/t", "another host"),
        ("s3://", "bucket"),
        ("[1]", "absolute"),
        ("[/a]", "JSON"),
        ('{"/a": 1}', "object of texts"),
        ('{"/a": {"aws_region": 1}}', "object of texts"),
        ('{"/a": {"aws_regoin": "x"}}', "aws_region"),
        ('{"/a": {"allowed_roots": "/"}}', "beside"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_what_is_no_root_is_refused(value: str, said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said) as caught:
        _places(value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ("/a, s3://b", ["/a", "s3://b"]),
        (Path("/a, b"), ["/a, b"]),
        ([Path("/a, b"), "s3://c"], ["/a, b", "s3://c"]),
        ((root for root in ("/a", "/b")), ["/a", "/b"]),
        ({"/a": {}, Path("/b"): {}}, ["/a", "/b"]),
        ([], []),
    ],
)
def test_an_argument_is_the_option(value: AllowedRoots, places: list[str]) -> None:
    assert _places(given_roots(value)) == places
    assert open_table("/t", allowed_roots=value).storage_options.keys() == {"allowed_roots"}


@pytest.mark.parametrize("value", [1, [1], {"/a": 1}, {1: {}}, [b"/a"], {"/a": {"x": b""}}])
def test_an_argument_that_is_none_is_refused(value: AllowedRoots) -> None:
    with pytest.raises(InvalidOptionError, match="addresses of roots"):
        open_table("/t", allowed_roots=value)


def test_no_variable_allows_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALLOWED_ROOTS", "AWS_ALLOWED_ROOTS", "ADELTA_ALLOWED_ROOTS"):
        monkeypatch.setenv(name, "/")
    assert allowed_roots({}) == ()


@pytest.mark.parametrize("address", ["/a", "/a, b", "/a /b", "/my t", "s3://b/c", "s3://b", "/"])
def test_a_place_can_be_told_as_the_option_s_value(address: str) -> None:
    assert _places(option_text(Place.of(address))) == [address]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, {"/new": None}),
        ("", {"/new": None}),
        ("/a, /b", {"/a": None, "/b": None, "/new": None}),
        ("/new /b", {"/new": None, "/b": None}),
        ('{"s3://b/c": {"aws_region": "eu"}}', {"s3://b/c": {"aws_region": "eu"}, "/new": None}),
        ('{"/new": {}}', {"/new": {}}),
    ],
)
def test_a_root_is_allowed_beside_those_before(
    text: str | None, expected: dict[str, dict[str, str] | None]
) -> None:
    found = allowed_roots({"allowed_roots": with_root(text, "/new")})
    assert {each.place.address: each.options for each in found} == expected
