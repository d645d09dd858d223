from __future__ import annotations

import calendar
import hashlib
import time

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials
from hypothesis import given
from hypothesis import strategies as st

from adelta.storage.sigv4 import EMPTY_SHA256, Credentials, Signer, encode_path, encode_query

# The examples of "Signature Calculations for the Authorization Header" in the S3 API reference.
KEYS = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = "examplebucket.s3.amazonaws.com"
MOMENT = calendar.timegm((2013, 5, 24, 0, 0, 0))


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "headers", "signature"),
    [
        (
            "GET",
            "/test.txt",
            {},
            b"",
            {"range": "bytes=0-9"},
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test$file.text",
            {},
            b"Welcome to Amazon S3.",
            {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET",
            "/",
            {"lifecycle": ""},
            b"",
            {},
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET",
            "/",
            {"prefix": "J", "max-keys": "2"},
            b"",
            {},
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_the_published_examples_come_out(
    method: str,
    path: str,
    query: dict[str, str],
    body: bytes,
    headers: dict[str, str],
    signature: str,
) -> None:
    sent = Signer(KEYS, host=HOST, region="us-east-1").sign(
        method,
        encode_path(path),
        encode_query(query),
        payload_sha256=hashlib.sha256(body).hexdigest(),
        now=MOMENT + 0.7,
        headers=headers,
    )
    assert sent["authorization"].endswith(f"Signature={signature}")
    assert sent["x-amz-date"] == "20130524T000000Z"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(
    key=TEXT,
    query=st.dictionaries(st.sampled_from(["prefix", "list-type", "start-after", "a"]), TEXT),
    token=st.one_of(st.none(), st.just("a-session/token+=")),
    moment=st.integers(1_000_000_000, 2_000_000_000),
)
def test_it_signs_as_botocore_does(
    key: str, query: dict[str, str], token: str | None, moment: int
) -> None:
    path, text = encode_path(f"/{key}"), encode_query(query)
    signer = Signer(Credentials("id", "secret", token), host="host:9000", region="eu-north-1")
    ours = signer.sign("GET", path, text, payload_sha256=EMPTY_SHA256, now=moment)

    theirs = AWSRequest("GET", f"http://host:9000{path}" + (f"?{text}" if text else ""))
    theirs.headers["host"] = "host:9000"
    theirs.headers["X-Amz-Content-SHA256"] = EMPTY_SHA256
    if token is not None:
        theirs.headers["X-Amz-Security-Token"] = token
    theirs.headers["X-Amz-Date"] = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(moment))
    theirs.context["timestamp"] = theirs.headers["X-Amz-Date"]
    auth = S3SigV4Auth(BotoCredentials("id", "secret", token), "s3", "eu-north-1")
    expected = auth.signature(auth.string_to_sign(theirs, auth.canonical_request(theirs)), theirs)
    assert ours["authorization"].rpartition("=")[2] == expected


def test_a_signer_goes_on_after_midnight_as_a_new_one_would() -> None:
    old = Signer(KEYS, host=HOST, region="us-east-1")
    for moment in (MOMENT - 1, MOMENT, MOMENT + 86_400):
        new = Signer(KEYS, host=HOST, region="us-east-1")
        ask = {"payload_sha256": EMPTY_SHA256, "now": moment}
        assert old.sign("GET", "/x", "", **ask) == new.sign("GET", "/x", "", **ask)


def test_secrets_are_not_shown() -> None:
    shown = repr(Credentials("the-id", "the-secret", "the-token"))
    assert "the-id" in shown
    assert "the-secret" not in shown
    assert "the-token" not in shown
