"""What a client may say of a table and of a commit: hostile until it is proved here.

A table is known by its root and by the id in its metadata, together: a copy of its folder elsewhere
has the same id, and another table that is made in its place the same root.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.log_path import MAX_VERSION
from adelta.storage.addresses import Place
from adelta.storage.providers import scheme_of

__all__ = ["TableKey", "check_staged_file", "check_version", "lies_below", "root_of"]

_LONGEST = 2048
_SHOWN = 200
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_STAGED = re.compile(r"(\d{20})\.[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\.json")


@dataclass(frozen=True, slots=True, order=True)
class TableKey:
    """A table: `uri` is its root, one spelling for all, and `table_id` the id in its metadata."""

    uri: str
    table_id: str

    @classmethod
    def of(cls, uri: object, table_id: object) -> TableKey:
        """What a client calls a table.

        Raises:
            InvalidOptionError: it is none that an owner can have.
        """
        if not isinstance(table_id, str) or _ID.fullmatch(table_id) is None:
            raise InvalidOptionError(
                f"{_shown(table_id)} is no id of a table; give the id in its metadata"
            )
        return cls(root_of(uri), table_id)


def root_of(uri: object) -> str:
    """The root at an address, one spelling for all.

    >>> root_of("s3a://lake/orders/")
    's3://lake/orders'
    >>> root_of("file:///lake/orders")
    '/lake/orders'

    Raises:
        InvalidOptionError: it is no absolute address that this machine shares with its clients.
    """
    if not isinstance(uri, str) or not uri or len(uri) > _LONGEST or not uri.isprintable():
        raise InvalidOptionError(f"{_shown(uri)} is no address of a table; give its root as a URI")
    absolute = uri.startswith("/") or scheme_of(uri) is not None
    behind = unquote(uri).partition(":")[2] if not uri.startswith("/") else uri
    if not absolute or {".", ".."} & set(behind.split("/")):
        raise InvalidOptionError(
            f"{_shown(uri)} is no absolute address of a table without '.' and '..'; give its root "
            "as a URI"
        )
    place = Place.of(uri)
    if place.scheme == "memory" or not place.path or not place.path.isprintable():
        raise InvalidOptionError(
            f"{_shown(uri)} is no place that an owner shares with its clients; give a folder "
            "below a bucket, or on a disk that both see"
        )
    return place.address


def lies_below(uri: str, prefix: str) -> bool:
    """Whether a root is `prefix` or lies below it; everything lies below ``*``.

    >>> lies_below("s3://lake/orders", "s3://lake"), lies_below("s3://lakes", "s3://lake")
    (True, False)
    """
    return prefix == "*" or uri == prefix or uri.startswith(f"{prefix.rstrip('/')}/")


def check_staged_file(name: object, version: int) -> str:
    """The bare name of the file of an un-backfilled commit of `version`.

    Raises:
        InvalidOptionError: it is another name, or leads elsewhere.
    """
    found = _STAGED.fullmatch(name) if isinstance(name, str) else None
    if found is None or int(found[1]) != version or not isinstance(name, str):
        raise InvalidOptionError(
            f"{_shown(name)} is no name of a commit file of version {version}: "
            "<version of 20 digits>.<uuid>.json"
        )
    return name


def check_version(version: object, what: str = "version") -> int:
    """A version. Raises: InvalidOptionError: it is none."""
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= MAX_VERSION:
        raise InvalidOptionError(f"{what} is {_shown(version)}; give a whole number of 0 or more")
    return version


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN]
