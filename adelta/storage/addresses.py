"""Addresses of tables and objects: their spellings, and the places that they name.

An address is a local path, or a URI of one of the schemes of `adelta.storage.providers`. A ``file``
URI is percent-decoded, as every tool does; in the others the path is the object's key as it stands,
which is how Spark reads them. `split_uri` is for the URIs inside Delta logs, which are
percent-encoded whatever their scheme.
"""

from __future__ import annotations

import os
from urllib.parse import unquote

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.storage.providers import LOCAL, Provider, provider_of, scheme_of

__all__ = ["Place", "file_path", "is_absolute_uri", "split_uri"]


@dataclass(frozen=True, slots=True)
class Place:
    """A root, or what lies below it: equal for all spellings of one address.

    Attributes:
        scheme: the one that stands for all schemes of its provider that mean the same.
        authority: the bucket, or the name of a store in memory.
        path: below the authority, without a slash at its ends; empty at the top.
    """

    scheme: str
    authority: str
    path: str

    @classmethod
    def of(cls, address: str) -> Place:
        """What an address leads to. Raises: InvalidOptionError."""
        provider, rest = provider_of(address), _behind_scheme(address)
        if provider is LOCAL:
            path = os.path.abspath(address) if rest is None else file_path(address, rest)
            return cls(provider.scheme, "", path.strip("/"))
        assert rest is not None
        authority, _, path = rest.removeprefix("//").partition("/")
        if not rest.startswith("//") or not authority:
            raise InvalidOptionError(f"{address!r} names no {provider.authority}")
        scheme, path = provider.scheme, path.strip("/")
        if provider.named is not None:
            written = str(scheme_of(address)).lower()
            scheme, authority, path = provider.named(written, authority, path)
            if not authority.partition("@")[0]:
                raise InvalidOptionError(f"{address!r} names no {provider.authority}")
        return cls(scheme, authority, path.strip("/"))

    @property
    def provider(self) -> Provider:
        """The kind of store that it is in."""
        return provider_of(f"{self.scheme}:/")

    @property
    def top(self) -> Place:
        """The whole bucket or file system."""
        return Place(self.scheme, self.authority, "")

    @property
    def address(self) -> str:
        """How a user writes it."""
        if self.provider is LOCAL:
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
    return scheme_of(path) is not None


def split_uri(uri: str) -> tuple[str, str]:
    """The top of the store and the path below it, of a percent-encoded URI found in a log.

    >>> split_uri("s3://bucket/a%20table/part-0.parquet")
    ('s3://bucket', 'a table/part-0.parquet')
    >>> split_uri("file:///lake/part-0.parquet")
    ('file:///', 'lake/part-0.parquet')

    Raises:
        InvalidOptionError: the scheme is unknown, or the URI names no object.
    """
    provider, rest = provider_of(uri), _behind_scheme(uri)
    if rest is None:
        raise InvalidOptionError(f"{uri!r} is not an absolute URI")
    if provider is LOCAL:
        top, path = f"{provider.scheme}:///", file_path(uri, rest).lstrip("/")
    else:
        authority, _, path = rest.removeprefix("//").partition("/")
        scheme = str(scheme_of(uri)).lower()
        if provider.named is not None:
            scheme, authority, path = provider.named(scheme, authority, path)
        top, path = f"{scheme}://{authority}", unquote(path)
    if not path:
        raise InvalidOptionError(f"{uri!r} names no object")
    return top, path


def _behind_scheme(address: str) -> str | None:
    """What follows the scheme and its colon; None of a path."""
    scheme = scheme_of(address)
    return None if scheme is None else address[len(scheme) + 1 :]


def file_path(uri: str, rest: str) -> str:
    """The local path that a ``file`` URI names. Raises: InvalidOptionError."""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidOptionError(f"{uri!r} names another host; file URIs are of this machine")
        rest = slash + path
    return os.path.normpath(unquote(rest)) if rest.strip("/") else "/"
