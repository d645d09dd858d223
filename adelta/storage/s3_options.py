"""The storage options of S3: the keys and environment variables that delta-rs has.

A key is written in lower case with or without ``aws_``; its environment variable is the same in
upper case with ``AWS_``. An option wins over the environment. Keys, profile, role and web identity
go together: where the options say in whose name to ask, the environment is not asked for that.

Keys that only tune another program's client are ignored. A key whose meaning would be lost is
refused. `option_names` lists both.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import field
from typing import TYPE_CHECKING, TypedDict

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.storage.client_options import (
    check_endpoint,
    concurrency_of,
    http_options,
    retry_policy,
)
from adelta.storage.given_options import GivenOptions
from adelta.storage.http import HttpOptions
from adelta.storage.option_names import refuse_without_meaning
from adelta.storage.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.sigv4 import Credentials

__all__ = ["S3Options", "parse_options"]


@dataclass(frozen=True, slots=True)
class S3Options:
    """What the options and the environment say, checked."""

    credentials: Credentials | None = None
    profile: str | None = None
    skip_signature: bool = False
    unsigned_payload: bool = False
    region: str | None = None
    endpoint: str | None = None
    virtual_hosted: bool | None = None
    express: bool | None = None
    role_arn: str | None = None
    role_session_name: str = "adelta"
    web_identity_token_file: str | None = None
    sts_endpoint: str | None = field(default=None, repr=False)
    allow_http: bool = False
    conditional_put: bool = True
    request_checksums: bool = True
    response_checksums: bool = True
    request_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    read_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    write_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    concurrency: int = 128
    http: HttpOptions = field(default_factory=HttpOptions)
    retry: RetryPolicy = field(default_factory=RetryPolicy)


def parse_options(
    options: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> S3Options:
    """What `options` and the environment (this process's, if none is given) say.

    Raises:
        InvalidOptionError: a value is not allowed, or a key asks for what there is not.
    """
    refuse_without_meaning(options)
    given = GivenOptions(options, environment)
    _refuse(given)
    endpoint = given.text("endpoint_url_s3", "endpoint_url", "endpoint")
    allow_http = bool(given.flag("allow_http"))
    request, read, write = _extra_headers(given)
    return S3Options(
        **_identity(given),
        unsigned_payload=bool(given.flag("unsigned_payload")),
        region=given.text("region", "default_region"),
        endpoint=None if endpoint is None else check_endpoint(endpoint, allow_http=allow_http),
        virtual_hosted=_virtual_hosted(given),
        express=given.flag("s3_express"),
        sts_endpoint=given.text("sts_endpoint", "endpoint_url_sts"),
        allow_http=allow_http,
        conditional_put=_conditional_put(given),
        request_checksums=_when_supported(given, "request_checksum_calculation"),
        response_checksums=_when_supported(given, "response_checksum_validation"),
        request_headers=request,
        read_headers=read,
        write_headers=write,
        concurrency=concurrency_of(given),
        http=http_options(given),
        retry=retry_policy(given),
    )


class _Identity(TypedDict):
    """In whose name to ask."""

    credentials: Credentials | None
    profile: str | None
    skip_signature: bool
    role_arn: str | None
    role_session_name: str
    web_identity_token_file: str | None


def _identity(given: GivenOptions) -> _Identity:
    """In whose name to ask: as the options say, or else as the environment says.

    Of the environment keys go before a web identity, as in AWS's own tools.
    """
    said = given.of_identity()
    skip_signature = bool(said.flag("skip_signature"))
    credentials = None if skip_signature else said.credentials()
    token_file = said.text("web_identity_token_file")
    role = said.text("iam_role_arn", "role_arn", "s3_assume_role_arn")
    names = ("iam_role_session_name", "role_session_name", "s3_role_session_name")
    if said is given and credentials is not None and token_file is not None:
        own = given.without_environment().text("role_arn")
        role, token_file = own or said.text("iam_role_arn", "s3_assume_role_arn"), None
    return _Identity(
        credentials=credentials,
        profile=said.text("profile"),
        skip_signature=skip_signature,
        role_arn=role,
        role_session_name=said.text(*names) or "adelta",
        web_identity_token_file=token_file,
    )


def _refuse(given: GivenOptions) -> None:
    """Refuse what would make a commit less safe, or objects unreadable, if it were ignored."""
    locking = given.text("s3_locking_provider")
    if locking is not None and locking.lower() not in ("dynamodb", "none"):
        raise InvalidOptionError(
            f"storage option aws_s3_locking_provider={locking!r} is not supported, only 'dynamodb'"
            " and 'none' are. Remove it only if no writer of the table relies on that lock"
        )


def _conditional_put(given: GivenOptions) -> bool:
    value = given.text("conditional_put") or "etag"
    if value.lower() not in ("etag", "etag-put-if-not-exists", "disabled"):
        raise InvalidOptionError(
            f"storage option aws_conditional_put={value!r} is not supported: it is etag, or"
            " disabled for a store that has no conditional puts"
        )
    return value.lower() != "disabled"


def _when_supported(given: GivenOptions, name: str) -> bool:
    value = given.text(name) or "when_supported"
    if value.lower() not in ("when_supported", "when_required"):
        raise InvalidOptionError(
            f"storage option aws_{name}={value!r} is not supported: it is when_supported, or"
            " when_required for a store that takes no checksums"
        )
    return value.lower() == "when_supported"


def _virtual_hosted(given: GivenOptions) -> bool | None:
    flag = given.flag("virtual_hosted_style_request")
    style = given.text("s3_addressing_style")
    if flag is not None or style is None:
        return flag
    styles = {"virtual": True, "path": False, "auto": None}
    if style.lower() not in styles:
        raise InvalidOptionError(
            f"storage option aws_s3_addressing_style is one of {', '.join(styles)}, not {style!r}"
        )
    return styles[style.lower()]


def _extra_headers(given: GivenOptions) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Headers of every request, of those that touch an object's bytes, and of those that write."""
    request: dict[str, str] = {}
    read: dict[str, str] = {}
    write: dict[str, str] = {}
    if given.flag("request_payer"):
        request["x-amz-request-payer"] = "requester"
    encryption = given.text("server_side_encryption")
    if encryption is not None:
        if encryption not in ("AES256", "aws:kms", "aws:kms:dsse", "sse-c"):
            raise InvalidOptionError(
                "storage option aws_server_side_encryption is one of AES256, aws:kms,"
                f" aws:kms:dsse, sse-c, not {encryption!r}"
            )
        if encryption != "sse-c":
            write["x-amz-server-side-encryption"] = encryption
    if key := given.text("sse_kms_key_id"):
        write["x-amz-server-side-encryption-aws-kms-key-id"] = key
    if given.flag("sse_bucket_key_enabled"):
        write["x-amz-server-side-encryption-bucket-key-enabled"] = "true"
    customer_key = given.text("sse_customer_key_base64")
    if (encryption == "sse-c") != (customer_key is not None):
        raise InvalidOptionError(
            "storage options aws_server_side_encryption=sse-c and aws_sse_customer_key_base64 go"
            " together"
        )
    if customer_key is not None:
        try:
            raw = base64.b64decode(customer_key, validate=True)
        except binascii.Error:
            raw = b""
        if len(raw) != 32:
            raise InvalidOptionError(
                "storage option aws_sse_customer_key_base64 is 32 bytes in base64"
            )
        digest = base64.b64encode(hashlib.md5(raw, usedforsecurity=False).digest()).decode()
        prefix = "x-amz-server-side-encryption-customer"
        read = {
            f"{prefix}-algorithm": "AES256",
            f"{prefix}-key": customer_key,
            f"{prefix}-key-md5": digest,
        }
    return request, read, write
