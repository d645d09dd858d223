"""From the address of a table in a file system of fsspec to its store."""

from __future__ import annotations

import importlib.util
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidOptionError
from adelta.storage.given_options import GivenOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.fsspec_store import FsspecStore

__all__ = ["FORCED", "FSSPEC_OPTIONS", "is_of_fsspec", "open_fsspec"]

FORCED = "fsspec+"
"""What goes before a scheme that is to be fsspec's, though adelta has a store of its own."""

FSSPEC_OPTIONS = "fsspec_options"
"""The storage option that has what the file system is made with, as an object in JSON."""

_UNFIT = {
    "http": "lists what a page links to, and takes a failing server for one without the file",
    "https": "lists what a page links to, and takes a failing server for one without the file",
    "ftp": "takes a listing that broke off for an empty folder",
}
"""File systems that cannot be relied on, and why."""


def is_of_fsspec(scheme: str) -> bool:
    """Whether addresses of a scheme are for fsspec, which may have to be installed first."""
    if scheme.startswith(FORCED):
        return True
    if importlib.util.find_spec("fsspec") is None:
        return scheme in ("sftp", "ssh", "smb", "zip", "tar", "github", "git")
    from fsspec.registry import known_implementations, registry

    return scheme not in _UNFIT and (scheme in known_implementations or scheme in registry)


def open_fsspec(address: str, options: Mapping[str, str]) -> FsspecStore:
    """The store at an address. No I/O.

    Raises:
        InvalidOptionError: the package is not there, or one that the file system needs; it is not
            to be relied on; the address has a password in it; or the option `FSSPEC_OPTIONS` is no
            object in JSON.
    """
    scheme, _, rest = address.partition("://")
    protocol = scheme.lower().removeprefix(FORCED)
    if protocol in _UNFIT:
        raise InvalidOptionError(
            f"{scheme}:// cannot be relied on for tables: its file system {_UNFIT[protocol]}; copy "
            "the table to another store"
        )
    if "::" in rest:
        raise InvalidOptionError(
            f"{address!r} is a chain; give the file that the table is in by the storage option "
            f'{FSSPEC_OPTIONS}, such as {{"fo": "s3://bucket/tables.zip"}}'
        )
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if at and ":" in user and protocol not in ("github", "gist"):
        raise InvalidOptionError(
            f"the address of a table by {scheme} has a password in it, which would be shown in "
            f'messages; give it by the storage option {FSSPEC_OPTIONS} as {{"password": "..."}}'
        )
    given = _given(options)
    made = _file_system(protocol)
    url = f"{protocol}://{rest}"
    how = {**made._get_kwargs_from_urls(url), **given}
    from adelta.storage.fsspec_calls import AsyncCalls, BlockingCalls
    from adelta.storage.fsspec_store import FsspecStore

    make = partial(made, **how)
    is_async = bool(made.async_impl)
    calls = AsyncCalls(make) if is_async else BlockingCalls(make)
    return FsspecStore(
        calls,
        f"{scheme.lower()}://{rest}",
        made._strip_protocol(url),
        renames=not is_async and _renames(made),
    )


def _given(options: Mapping[str, str]) -> dict[str, Any]:
    text = GivenOptions(options, {}).text(FSSPEC_OPTIONS)
    try:
        given = {} if text is None else json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise InvalidOptionError(
            f"storage option {FSSPEC_OPTIONS} is an object in JSON, such as "
            '{"username": "me", "port": 2222}; correct it'  # whose value may be a secret
        )
    return given


def _file_system(protocol: str) -> Any:
    try:
        from fsspec import get_filesystem_class

        return get_filesystem_class(protocol)
    except ImportError as error:
        raise InvalidOptionError(
            f"tables by {protocol}:// need further packages ({error}); install adelta[fsspec], and "
            "what fsspec's documentation names for this file system"
        ) from error
    except ValueError as error:
        raise InvalidOptionError(f"fsspec has no file system {protocol!r}: {error}") from error


def _renames(made: Any) -> bool:
    """Whether a file system moves files by more than a copy."""
    from fsspec import AbstractFileSystem

    return made.mv is not AbstractFileSystem.mv
