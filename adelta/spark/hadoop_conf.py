"""Settings of Hadoop's file systems, as jobs hand them to `forPath` → storage options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SETTINGS", "storage_options_of"]

_S3A: Final = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint": "aws_endpoint_url",
    "endpoint.region": "aws_region",
}
_PATH_STYLE: Final = "fs.s3a.path.style.access"
SETTINGS: Final = frozenset({_PATH_STYLE, *(f"fs.s3a.{name}" for name in _S3A)})
"""Those of Hadoop's settings that storage options say the same of."""

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
    return found
