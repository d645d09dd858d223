"""The storage options of Google Cloud Storage: the keys and environment variables of delta-rs.

A key is written in lower case with or without ``google_``; its environment variable is the same in
upper case with ``GOOGLE_``. An option wins over the environment: where the options say in whose
name to ask, the environment is not asked for that. `option_names` lists those that are refused.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

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
from adelta.storage.option_names import GOOGLE, refuse_without_meaning
from adelta.storage.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GcsOptions", "parse_gcs_options"]

_ENDPOINT = "https://storage.googleapis.com"
_OF_IDENTITY = (
    ("skip_signature",),
    ("bearer_token",),
    ("service_account_key",),
    ("service_account", "service_account_path"),
    ("application_credentials",),
)


@dataclass(frozen=True, slots=True)
class GcsOptions:
    """What the options and the environment say, checked.

    One at most of the five that say in whose name to ask is given: `skip_signature`, a token, the
    text of a service account's key, its file, or a file of any kind of credentials. Without any
    they are the application's default ones.
    """

    skip_signature: bool = False
    bearer_token: str | None = field(default=None, repr=False)
    service_account_key: str | None = field(default=None, repr=False)
    service_account_file: str | None = None
    credentials_file: str | None = None
    endpoint: str = _ENDPOINT
    user_project: str | None = None
    concurrency: int = 128
    http: HttpOptions = field(default_factory=HttpOptions)
    retry: RetryPolicy = field(default_factory=RetryPolicy)


def parse_gcs_options(
    options: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> GcsOptions:
    """What `options` and the environment (this process's, if none is given) say.

    Raises:
        InvalidOptionError: a value is not allowed, or a key asks for what there is not.
    """
    refuse_without_meaning(options, GOOGLE)
    given = GivenOptions(options, environment, GOOGLE)
    own = given.without_environment()
    said = own if any(own.text(*names) for names in _OF_IDENTITY) else given
    skip = bool(said.flag("skip_signature"))
    token, key, file, credentials = (
        None if skip else said.text(*names) for names in _OF_IDENTITY[1:]
    )
    if said is own and sum(each is not None for each in (token, key, file, credentials)) > 1:
        raise InvalidOptionError(
            "the storage options name more than one of google_bearer_token, "
            "google_service_account_key, google_service_account and "
            "google_application_credentials: give the one in whose name to ask"
        )
    endpoint = given.text("base_url")
    return GcsOptions(
        skip_signature=skip,
        bearer_token=token,
        service_account_key=key,
        service_account_file=file,
        credentials_file=credentials,
        endpoint=_ENDPOINT
        if endpoint is None
        else check_endpoint(
            endpoint,
            allow_http=bool(given.flag("allow_http")),
            name="google_base_url",
            permission="allow_http",
        ),
        user_project=given.text("user_project"),
        concurrency=concurrency_of(given),
        http=http_options(given),
        retry=retry_policy(given),
    )
