"""Entries of properties that look like secrets. Loaded where one is about to be stored."""

from __future__ import annotations

import re

__all__ = ["is_secret"]

_SECRET_KEY = re.compile(
    r"pass(?:wor[dt]|wd|phrase)|secret|credential|signature|bearer|private"
    r"|(?:^|[^a-z])(?:pwd|sas|sig|pat)(?:$|[^a-z])"
    r"|(?:access|api|account|shared|encryption).?key|token(?!.?(?:endpoint|url|uri|path|file|type))"
)
_SECRET_VALUE = re.compile(
    r"(?i:bearer|basic)\s+\S{8}"  # an HTTP header
    r"|://[^\s/@]*:[^\s/@]+@"  # a password in an address
    r"|[?&](?i:sig|token|access_token|x-amz-signature|password)=[^\s&]"
    r"|\b(?i:password|passwd|pwd)\s*=\s*\S"  # of a database
    r"|\badelta_[0-9a-f]{12}_[0-9a-f]{16}"  # a token of adelta's own commit owner
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # an access key of AWS
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\."  # a JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(?:gh[pousr]_|github_pat_|xox[abprs]-|sk-|dapi)[\w-]{16}"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_secret(key: str, value: str) -> bool:
    """Whether an entry of an owner's configuration is named like a secret, or looks like one."""
    folded = _CAMEL.sub("_", key).lower()
    return bool(_SECRET_KEY.search(folded) or _SECRET_VALUE.search(value))
