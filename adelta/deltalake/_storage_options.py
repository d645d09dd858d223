"""Storage options as programs for deltalake give them, in the names that adelta reads."""

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
"""Bytes of a file that is written through a file system, and held in memory, if none are given."""

_BUFFER_SIZE = "max_buffer_size"
_PROFILE = "profile_name"
_DEFAULT_PROFILE = "default"
_RENAMED = {
    _PROFILE: "aws_profile",
    "aws_storage_allow_http": "aws_allow_http",
    "storage_allow_http": "aws_allow_http",
}


def known_options(options: Mapping[str, str] | None) -> dict[str, str] | None:
    """The options that adelta knows, under its names. Unknown ones are left out with a warning.

    boto3's name of the default profile stands for no profile: there may be none of that name.
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
    """The option `max_buffer_size` in bytes, `DEFAULT_BUFFER_SIZE` where it is no number."""
    text = next((v for k, v in (options or {}).items() if k.lower() == _BUFFER_SIZE), "")
    return max(1, int(text)) if text.isdecimal() else DEFAULT_BUFFER_SIZE


def open_table(uri: str, options: Mapping[str, str] | None) -> sync.Table:
    """The handle on the table at an address.

    Raises:
        InvalidOptionError: a known option has a value that is not allowed.
    """
    return sync.open_table(uri, known_options(options))


def _level_of_caller() -> int:
    """The `stacklevel` with which `known_options` warns of the first caller outside adelta."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("adelta."):
        level, frame = level + 1, frame.f_back
    return level
