"""Storage options that programs pass to deltalake, converted to those of adelta."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from adelta import sync
from adelta.errors import InvalidOptionError
from adelta.storage.option_names import check_names_known, plain_name

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULT_BUFFER_SIZE", "buffer_size", "known_options", "open_table"]

DEFAULT_BUFFER_SIZE = 5 * 1024 * 1024
"""How many bytes of a file that is being written are held in memory, by default."""

_BUFFER_SIZE = "max_buffer_size"
_PROFILE = "profile_name"
_DEFAULT_PROFILE = "default"
_RENAMED = {
    _PROFILE: "aws_profile",
    "aws_storage_allow_http": "aws_allow_http",
    "storage_allow_http": "aws_allow_http",
}


def known_options(options: Mapping[str, str] | None) -> dict[str, str] | None:
    """The options that adelta knows, under its own names. Each unknown option causes a warning.

    The profile ``default`` is left out: boto3 uses that name even if no such profile exists.
    """
    if options is None:
        return None
    known: dict[str, str] = {}
    given = {plain_name(name) for name in options}
    for name, value in options.items():
        plain = name.lower()
        if plain == _BUFFER_SIZE or (plain == _PROFILE and value == _DEFAULT_PROFILE):
            continue
        if plain in _RENAMED:
            if plain_name(_RENAMED[plain]) not in given:
                known[_RENAMED[plain]] = value
            continue
        try:
            check_names_known([name])
        except InvalidOptionError as error:
            message = f"a storage option is left out: {error}"
            warnings.warn(message, UserWarning, stacklevel=_level_of_caller())
        else:
            known[name] = value
    return known


def buffer_size(options: Mapping[str, str] | None) -> int:
    """The option `max_buffer_size` in bytes; `DEFAULT_BUFFER_SIZE` if it is not a number."""
    text = next((v for k, v in (options or {}).items() if k.lower() == _BUFFER_SIZE), "")
    return max(1, int(text)) if text.isdecimal() else DEFAULT_BUFFER_SIZE


def open_table(uri: str, options: Mapping[str, str] | None) -> sync.Table:
    """A handle on the table at `uri`, opened with the options that adelta knows.

    Raises:
        InvalidOptionError: a known option has a value that is not allowed.
    """
    return sync.open_table(uri, known_options(options))


def _level_of_caller() -> int:
    """The `stacklevel` with which `known_options` blames the first caller outside adelta."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("adelta."):
        level, frame = level + 1, frame.f_back
    return level
