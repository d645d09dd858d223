"""Storage options as they are given: read by key, from the options first and the environment next.

A key is written in lower case with or without ``aws_``; its environment variable is the same in
upper case with ``AWS_``. The variables of `DELTA_DYNAMO_...` and `ADELTA_...` are read too. Options
of other stores than S3 have their own namespace in the place of ``aws_``.
"""

from __future__ import annotations

import os
import re
from math import inf
from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError
from adelta.storage.option_names import AWS, plain_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.sigv4 import Credentials

__all__ = ["GivenOptions"]

_TRUE = frozenset({"1", "true", "on", "yes", "y"})
_FALSE = frozenset({"0", "false", "off", "no", "n"})
_UNITS = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip
_UNIT_WORDS = {
    "": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m",
    "minute": "m", "minutes": "m", "hr": "h", "hrs": "h", "hour": "h", "hours": "h",
    "day": "d", "days": "d", "millis": "ms", "msec": "ms",
}  # fmt: skip
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([a-z]*)")
_SIZE_UNITS = {"": 1} | {
    name: base**power
    for power, letter in enumerate("kmgt", 1)
    for name, base in ((letter, 1000), (f"{letter}i", 1024))
}
_VARIABLES = ("DELTA_DYNAMO_", "ADELTA_")
_MOST_DIGITS = 9
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


class GivenOptions:
    """The values given, by key, with readers that check them."""

    def __init__(
        self,
        options: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        namespace: tuple[str, ...] = AWS,
    ) -> None:
        """The values of `options`, and of the environment: this process's, if none is given.

        Of several spellings of one name that with the longest beginning is taken: it is for that
        kind of store alone.

        Raises:
            InvalidOptionError: an option stands twice, with different values.
        """
        environment = os.environ if environment is None else environment
        _refuse_twofold(options)
        self._options: dict[str, str] = {}
        for beginning in ("", *reversed(namespace)):
            for key, value in options.items():
                if key.lower().startswith(beginning):
                    self._options[plain_name(key, namespace)] = str(value)
        self._environment: dict[str, str] = {}
        for beginning in (*reversed(namespace), *_VARIABLES):
            for key, value in environment.items():
                if value and key.startswith(beginning.upper()):
                    self._environment[plain_name(key, namespace)] = value
        if limit := environment.get("OBJECT_STORE_CONCURRENCY_LIMIT"):
            self._environment["concurrency_limit"] = limit

    def without_environment(self) -> GivenOptions:
        """The values that the options give."""
        return GivenOptions(self._options, {})

    def of_identity(self) -> GivenOptions:
        """The values that say in whose name to ask: of the options alone, if they say it.

        Raises:
            InvalidOptionError: the options have one half of a pair of keys.
        """
        own = self.without_environment()
        says = (
            own.flag("skip_signature")
            or own.credentials() is not None
            or own.text("profile", "web_identity_token_file") is not None
        )
        return own if says else self

    def text(self, *keys: str) -> str | None:
        """The value of the first of `keys` that has one."""
        for values in (self._options, self._environment):
            for key in keys:
                if value := values.get(key, "").strip():
                    return value
        return None

    def flag(self, *keys: str) -> bool | None:
        """A truth value, None where none is given. Raises: InvalidOptionError."""
        value = self.text(*keys)
        if value is None:
            return None
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        raise InvalidOptionError(f"storage option {keys[0]} is true or false, not {value!r}")

    def number(self, default: int, *keys: str, least: int) -> int:
        """A whole number. Raises: InvalidOptionError."""
        value = self.text(*keys)
        if value is None:
            return default
        if not value.isdecimal() or len(value) > _MOST_DIGITS or int(value) < least:
            raise InvalidOptionError(
                f"storage option {keys[0]} is a whole number of at least {least}, and of at most "
                f"{_MOST_DIGITS} digits, not {value!r:.100}"
            )
        return int(value)

    def size(self, *keys: str) -> int | None:
        """A number of bytes, None where none is given. Raises: InvalidOptionError."""
        value = self.text(*keys)
        if value is None:
            return None
        match = _SIZE.fullmatch(value.lower())
        unit = None if match is None else _SIZE_UNITS.get(match[2].removesuffix("b"))
        size = 0 if match is None or unit is None else int(float(match[1]) * unit)
        if size < 1:
            raise InvalidOptionError(
                f"storage option {keys[0]} is a number of bytes such as '512MiB' or '4GB', not "
                f"{value!r}"
            )
        return size

    def factor(self, key: str, default: float) -> float:
        """A factor of growth. Raises: InvalidOptionError."""
        value = self.text(key)
        if value is None:
            return default
        try:
            factor = float(value)
        except ValueError:
            factor = 0.0
        if not 1.0 <= factor < 100.0:
            raise InvalidOptionError(f"storage option {key} is a factor from 1, not {value!r}")
        return factor

    def seconds(self, default: float, *keys: str) -> float:
        """A duration in seconds. Raises: InvalidOptionError."""
        value = self.text(*keys)
        if value is None:
            return default
        total, at = 0.0, 0
        text = value.lower()
        while match := _DURATION.match(text, at):
            unit = _UNITS.get(_UNIT_WORDS.get(match[2], match[2]))
            if unit is None:
                break
            total += float(match[1]) * unit
            at = match.end()
        if at != len(text) or not 0 < total < inf:
            raise InvalidOptionError(
                f"storage option {keys[0]} is a duration such as '30s' or '500ms', not "
                f"{value!r:.100}"
            )
        return total

    def credentials(self, suffix: str = "") -> Credentials | None:
        """Access keys, whose options' names end with `suffix`, all from one place.

        Raises:
            InvalidOptionError: one half of a pair is missing.
        """
        for values, source in (
            (self._options, "storage options"),
            (self._environment, "environment variables"),
        ):
            key = values.get(f"access_key_id{suffix}")
            secret = values.get(f"secret_access_key{suffix}")
            if key and secret:
                token = values.get(f"session_token{suffix}") or None
                if token is None and not suffix:
                    token = values.get("token") or None
                from adelta.storage.sigv4 import Credentials

                return Credentials(key, secret, token, source)
            if key or secret:
                missing = "aws_secret_access_key" if key else "aws_access_key_id"
                raise InvalidOptionError(f"{source} lack {missing}{suffix}: keys come in pairs")
            if values is self._options and "profile" in values and not suffix:
                return None
        return None


def _refuse_twofold(options: Mapping[str, str]) -> None:
    values: dict[str, str] = {}
    for key, value in options.items():
        if values.setdefault(key.lower(), str(value)) != str(value):
            raise InvalidOptionError(
                f"storage option {key:.100} is given twice, in different spellings and with "
                "different values: give it once"
            )
