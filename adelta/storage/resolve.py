"""From an address to the store behind it.

An address is a local path, or a URI of one of the schemes ``file``, ``memory``, ``s3`` and ``s3a``.
A ``file`` URI is percent-decoded, as every tool does; in the others the path is the object's key
as it stands, which is how Spark reads them. `split_uri` is for the URIs inside Delta logs, which
are percent-encoded whatever their scheme.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from adelta.errors import InvalidOptionError
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from adelta.storage.option_names import check_names_known

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.object_store import ObjectStore

__all__ = ["is_absolute_uri", "open_store", "split_uri"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_SUPPORTED = "a local path, file://, memory://, s3:// and s3a://"


def open_store(uri: str, storage_options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store whose root is at `uri`. It does no I/O before its first request.

    Options that are for stores of another scheme are ignored.

    Raises:
        InvalidOptionError: the scheme or a storage option is unknown, or an option has a wrong
            value.
    """
    check_names_known(storage_options or ())
    scheme, rest = _split_scheme(uri)
    if scheme is None:
        if not uri:
            raise InvalidOptionError("the address is empty: give a path or a URI")
        return LocalStore(uri)
    if scheme == "file":
        return LocalStore(_file_path(uri, rest))
    authority, _, path = rest.removeprefix("//").partition("/")
    if not rest.startswith("//") or not authority:
        raise InvalidOptionError(f"{uri!r} names no {'bucket' if 's3' in scheme else 'store'}")
    if scheme == "memory":
        return MemoryStore(authority, path)
    from adelta.storage.s3 import S3Store  # aiohttp is loaded by those alone who use it

    return S3Store.from_options(authority, path, storage_options or {}, scheme=scheme)


def is_absolute_uri(path: str) -> bool:
    """Whether a path found in a log is a URI of its own, not relative to the table."""
    return _SCHEME.match(path) is not None


def split_uri(uri: str) -> tuple[str, str]:
    """The root to open and the path below it, of a percent-encoded URI found in a log.

    >>> split_uri("s3://bucket/a%20table/part-0.parquet")
    ('s3://bucket', 'a table/part-0.parquet')
    >>> split_uri("file:///lake/part-0.parquet")
    ('file:///', 'lake/part-0.parquet')

    Raises:
        InvalidOptionError: the scheme is unknown, or the URI names no object.
    """
    scheme, rest = _split_scheme(uri)
    if scheme is None:
        raise InvalidOptionError(f"{uri!r} is not an absolute URI")
    if scheme == "file":
        root, path = "file:///", _file_path(uri, rest).lstrip("/")
    else:
        authority, _, path = rest.removeprefix("//").partition("/")
        root, path = f"{scheme}://{authority}", unquote(path)
    if not path:
        raise InvalidOptionError(f"{uri!r} names no object")
    return root, path


def _split_scheme(uri: str) -> tuple[str | None, str]:
    match = _SCHEME.match(uri)
    if match is None:
        return None, uri
    scheme = match[1].lower()
    if scheme not in ("file", "memory", "s3", "s3a"):
        raise InvalidOptionError(f"{uri!r} has an unknown scheme; supported are {_SUPPORTED}")
    return scheme, uri[match.end() :]


def _file_path(uri: str, rest: str) -> str:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidOptionError(f"{uri!r} names another host; file URIs are of this machine")
        rest = slash + path
    return os.path.normpath(unquote(rest)) if rest.strip("/") else "/"
