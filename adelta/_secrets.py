"""Texts for people, without the passwords and signatures that addresses bear."""

from __future__ import annotations

import re

__all__ = ["without_secrets"]

_SHOWN = "***"
# A password may have been given unencoded: whatever stands between the user and an @ is one. What
# stands alone before an @ may be a token, but for Azure, where it is a container.
_USER = re.compile(
    r"://[^\s/'\"@:]{0,512}:(?!\d{1,5}/)[^\s'\"]{0,512}@"
    r"|(?<!abfs)(?<!abfss)(?<!wasb)(?<!wasbs)://[^\s/'\"@:]{0,512}@"
)
_PARAMETER = re.compile(
    r"([?&;][^\s=&'\"]{0,64}?(?:sig|secret|token|passw|credential|key|delegation)[^\s=&'\"]{0,64}=)[^\s&'\"]+",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """`text` with the user and password of every address in it, and signatures in queries, hidden.

    >>> without_secrets("no answer from http://user:secret@proxy:3128")
    'no answer from http://***@proxy:3128'
    >>> without_secrets("https://host/x?version=2&sig=abc%3D")
    'https://host/x?version=2&sig=***'
    """
    if "://" not in text:
        return text
    return _PARAMETER.sub(rf"\1{_SHOWN}", _USER.sub(f"://{_SHOWN}@", text))
