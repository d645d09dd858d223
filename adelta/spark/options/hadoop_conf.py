"""Settings of Hadoop's file systems, as jobs and sessions have them → storage options.

A session says as well which commit owner gets which token, by ``spark.adelta.owner.endpoint`` and
``spark.adelta.owner.token``, and from which other roots its tables may read, by
``spark.adelta.allowedRoots``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from adelta.storage.allowed_roots import ALLOWED_ROOTS, with_root
from adelta.storage.option_names import OWNER_ENDPOINT, OWNER_TOKEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


__all__ = [
    "ALLOWED_ROOTS_SETTING",
    "SETTINGS",
    "TABLE_SETTINGS",
    "allow_origin",
    "prefixed",
    "storage_of",
    "storage_of_session",
    "storage_of_tables",
    "storage_options_of",
]

_S3A: Final = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint": "aws_endpoint_url",
    "endpoint.region": "aws_region",
}
_ENDPOINT: Final = "fs.s3a.endpoint"
_PLAIN_HTTP: Final = re.compile("http://", re.IGNORECASE)
_PATH_STYLE: Final = "fs.s3a.path.style.access"
SETTINGS: Final = frozenset({_PATH_STYLE, *(f"fs.s3a.{name}" for name in _S3A)})
"""Those of Hadoop's settings that storage options say the same of."""

ALLOWED_ROOTS_SETTING: Final = "spark.adelta.allowedRoots"
TABLE_SETTINGS: Final = {
    "spark.adelta.owner.endpoint": OWNER_ENDPOINT,
    "spark.adelta.owner.token": OWNER_TOKEN,
    ALLOWED_ROOTS_SETTING: ALLOWED_ROOTS,
}
"""The settings for all tables of a session, and the storage options that say the same."""

_OF_THE_JVM: Final = (".impl", ".impl.disable.cache")  # which class of Hadoop's opens files


def storage_options_of(conf: Mapping[str, str]) -> dict[str, str]:
    """The storage options that say the same; what is none of Hadoop's settings is one already."""
    found: dict[str, str] = {}
    for key, value in conf.items():
        if key.startswith("fs.") and key.endswith(_OF_THE_JVM):
            continue
        if key == _PATH_STYLE:
            found["aws_virtual_hosted_style_request"] = str(value.lower() != "true").lower()
        else:
            found[_S3A.get(key.removeprefix("fs.s3a."), key)] = value
    if _PLAIN_HTTP.match(conf.get(_ENDPOINT, "")):  # Hadoop needs no more said
        found.setdefault("aws_allow_http", "true")
    return found


def storage_of_tables(settings: Mapping[str, str]) -> dict[str, str]:
    """The storage options that a session's settings name for all of its tables."""
    return {name: settings[key] for key, name in TABLE_SETTINGS.items() if key in settings}


def storage_of_session(spark: SparkSession, uri: str) -> dict[str, str]:
    """As `storage_of`, by the settings that a session has now."""
    return storage_of(dict(spark.conf.getAll), uri)


def storage_of(settings: Mapping[str, str], uri: str) -> dict[str, str]:
    """How a session's settings of Hadoop's say that stores of S3 are opened, with those of tables.

    Other stores are opened without the former.
    """
    of_tables = storage_of_tables(settings)
    if not uri.startswith(("s3://", "s3a://")):
        return of_tables
    said = {key.removeprefix("spark.hadoop."): value for key, value in settings.items()}
    return {**storage_options_of({k: said[k] for k in said.keys() & SETTINGS}), **of_tables}


def prefixed(storage_options: Mapping[str, str] | None) -> dict[str, str]:
    """Storage options as a reader or a writer is given them, ``option.aws_region`` and the like."""
    return {f"option.{key}": str(value) for key, value in (storage_options or {}).items()}


def allow_origin(spark: SparkSession, root: str) -> None:
    """Let tables of the session read from `root`: a shallow clone of it was made here."""
    said = spark.conf.get(ALLOWED_ROOTS_SETTING, None)
    spark.conf.set(ALLOWED_ROOTS_SETTING, with_root(said, root))
