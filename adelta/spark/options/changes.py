"""The options of the change data feed: whether it is read, and which range of commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CHANGE_OPTIONS", "ChangeRange", "is_true", "reads_changes"]

CHANGE_OPTIONS = (
    "readChangeFeed",
    "readChangeData",
    "startingVersion",
    "startingTimestamp",
    "endingVersion",
    "endingTimestamp",
    "timestampOutOfRange",
)


def reads_changes(given: Mapping[str, str]) -> bool:
    """Whether options, by lower-case key, ask for the change data feed.

    Raises:
        InvalidOptionError: they neither do nor do not.
    """
    return any(is_true(name, given) for name in ("readChangeFeed", "readChangeData"))


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """The commits whose changes are read: each bound a version, or text that names a time.

    With `is_lenient` there are no changes behind the latest version, where that is an error else.
    """

    start: int | str
    end: int | str | None = None
    is_lenient: bool = False

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ChangeRange | None:
        """The range that options, by lower-case key, name; None where no feed is asked for.

        Raises:
            InvalidOptionError: there is no start, a bound twice, or a bound without a feed.
        """
        start, end = _bound("starting", given), _bound("ending", given)
        if not reads_changes(given):
            if start is not None or end is not None:
                raise InvalidOptionError(
                    "startingVersion, startingTimestamp, endingVersion and endingTimestamp are for"
                    " streams and for the change data feed: add the option readChangeFeed, or ask"
                    " for a version with versionAsOf"
                )
            return None
        if start is None:
            raise InvalidOptionError(
                "readChangeFeed needs to know from where: give startingVersion or startingTimestamp"
            )
        return cls(start, end, is_true("timestampOutOfRange", given))


def _bound(which: str, given: Mapping[str, str]) -> int | str | None:
    version, time = f"{which}Version", f"{which}Timestamp"
    number, text = given.get(version.lower()), given.get(time.lower())
    if number is not None and text is not None:
        raise InvalidOptionError(f"give {version} or {time}, not both")
    if number is None:
        return text
    if not number.strip().isdecimal():
        raise InvalidOptionError(
            f"the option {version} is {number!r}; it must be an integer of 0 or more"
        )
    return int(number)


def is_true(name: str, given: Mapping[str, str], *, default: str = "false") -> bool:
    """Whether an option, by lower-case key, is ``true``.

    Raises:
        InvalidOptionError: it is neither that nor ``false``.
    """
    text = given.get(name.lower(), default).lower()
    if text not in ("true", "false"):
        raise InvalidOptionError(f"the option {name} is {text!r}; it can be 'true' or 'false'")
    return text == "true"
