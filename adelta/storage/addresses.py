"""Addresses of tables and objects: their spellings, and the places that they name.

An address is a local path, or a URI of one of the schemes ``file``, ``memory``, ``s3`` and ``s3a``.
A ``file`` URI is percent-decoded, as every tool does; in the others the path is the object's key
as it stands, which is how Spark reads them. `split_uri` is for the URIs inside Delta logs, which
are percent-encoded whatever their scheme.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote

from adelta.errors import InvalidOptionError

__all__ = ["Place", "file_path", "is_absolute_uri", "split_scheme", "split_uri"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_SUPPORTED = "a local path, file://, memory://, s3:// and s3a://"


@dataclass(frozen=True, slots=True)
class Place:
    """A root, or what lies below it: equal for all spellings of one address.

    Attributes:
        scheme: ``file``, ``memory`` or ``s3``.
        authority: the bucket, or the name of a store in memory.
        path: below the authority, without a slash at its ends; empty at the top.
    """

    scheme: str
    authority: str
    path: str

    @classmethod
    def of(cls, address: str) -> Place:
        """What an address leads to. Raises: InvalidOptionError."""
        scheme, rest = split_scheme(address)
        if scheme is None or scheme == "file":
            path = os.path.abspath(address) if scheme is None else file_path(address, rest)
            return cls("file", "", path.strip("/"))
        authority, _, path = rest.removeprefix("//").partition("/")
        if not rest.startswith("//") or not authority:
            raise InvalidOptionError(
                f"{address!r} names no {'bucket' if 's3' in scheme else 'store'}"
            )
        return cls("s3" if scheme == "s3a" else scheme, authority, path.strip("/"))

    @property
    def top(self) -> Place:
        """The whole bucket or file system."""
        return Place(self.scheme, self.authority, "")

    @property
    def address(self) -> str:
        """How a user writes it."""
        if self.scheme == "file":
            return f"/{self.path}"
        return f"{self.scheme}://{self.authority}/{self.path}".rstrip("/")

    def shares_store_with(self, other: Place) -> bool:
        """Whether both are in one bucket, in one store in memory, or on the local disk."""
        return (self.scheme, self.authority) == (other.scheme, other.authority)

    def below(self, root: Place) -> str | None:
        """The path from `root` to here, or None where this is not below it.

        >>> Place.of("s3://lake/t/x").below(Place.of("s3a://lake/t"))
        'x'
        """
        prefix = f"{root.path}/" if root.path else ""
        if not self.shares_store_with(root) or not self.path.startswith(prefix):
            return None
        return self.path.removeprefix(prefix) or None


def is_absolute_uri(path: str) -> bool:
    """Whether a path found in a log is a URI of its own, not relative to the table."""
    return _SCHEME.match(path) is not None


def split_uri(uri: str) -> tuple[str, str]:
    """The top of the store and the path below it, of a percent-encoded URI found in a log.

    >>> split_uri("s3://bucket/a%20table/part-0.parquet")
    ('s3://bucket', 'a table/part-0.parquet')
    >>> split_uri("file:///lake/part-0.parquet")
    ('file:///', 'lake/part-0.parquet')

    Raises:
        InvalidOptionError: the scheme is unknown, or the URI names no object.
    """
    scheme, rest = split_scheme(uri)
    if scheme is None:
        raise InvalidOptionError(f"{uri!r} is not an absolute URI")
    if scheme == "file":
        top, path = "file:///", file_path(uri, rest).lstrip("/")
    else:
        authority, _, path = rest.removeprefix("//").partition("/")
        top, path = f"{scheme}://{authority}", unquote(path)
    if not path:
        raise InvalidOptionError(f"{uri!r} names no object")
    return top, path


def split_scheme(uri: str) -> tuple[str | None, str]:
    """The scheme of an address, in lower case, and the rest; None for a local path.

    Raises:
        InvalidOptionError: the scheme is unknown.
    """
    match = _SCHEME.match(uri)
    if match is None:
        return None, uri
    scheme = match[1].lower()
    if scheme not in ("file", "memory", "s3", "s3a"):
        raise InvalidOptionError(f"{uri!r} has an unknown scheme; supported are {_SUPPORTED}")
    return scheme, uri[match.end() :]


def file_path(uri: str, rest: str) -> str:
    """The local path that a ``file`` URI names. Raises: InvalidOptionError."""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidOptionError(f"{uri!r} names another host; file URIs are of this machine")
        rest = slash + path
    return os.path.normpath(unquote(rest)) if rest.strip("/") else "/"
