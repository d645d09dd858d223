"""`allowed_roots`: the storage option that says where else than below its root a log may lead.

Its value is the address of one root, or of several, separated by commas or spaces; or, in JSON, a
list of addresses, or an object that gives each root the storage options to open it with::

    allowed_roots=s3://lake/source, /mnt/archive
    allowed_roots=["/mnt/a, b"]
    allowed_roots={"s3://other/source": {"aws_profile": "reader"}}

It is an option alone: no variable of the environment allows anything.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.storage.addresses import Place, is_absolute_uri
from adelta.storage.given_options import GivenOptions
from adelta.storage.option_names import check_names_known, plain_name
from adelta.storage.providers import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ALLOWED_ROOTS",
    "AllowedRoot",
    "AllowedRoots",
    "allowed_roots",
    "given_roots",
    "local_roots",
    "option_text",
    "with_root",
]

ALLOWED_ROOTS = "allowed_roots"
_BETWEEN = re.compile(r"\s*,\s*|\s+(?=/|[A-Za-z][A-Za-z0-9+.-]+:/)")

Address: TypeAlias = "str | os.PathLike[str]"
AllowedRoots: TypeAlias = "Address | Iterable[Address] | Mapping[Address, Mapping[str, str]]"
"""Roots as an argument: as the option has them, or as addresses, or with their options."""


@dataclass(frozen=True, slots=True)
class AllowedRoot:
    """A root that objects of a table may lie below, and the options that were given for it."""

    place: Place
    options: Mapping[str, str] | None = field(default=None, repr=False)


def allowed_roots(storage_options: Mapping[str, str]) -> tuple[AllowedRoot, ...]:
    """The roots that the options allow.

    Raises:
        InvalidOptionError: the value is none that the option can have.
    """
    text = GivenOptions(storage_options, {}).text(ALLOWED_ROOTS)
    return tuple(_root(*each) for each in _given(text)) if text else ()


def local_roots(storage_options: Mapping[str, str]) -> tuple[str, ...]:
    """Those of the allowed roots that are directories of this machine. Raises: as above."""
    allowed = allowed_roots(storage_options)
    return tuple(each.place.address for each in allowed if each.place.provider is LOCAL)


def given_roots(value: AllowedRoots) -> str:
    """An argument as the option's text. Raises: InvalidOptionError."""
    if isinstance(value, str):
        return value
    try:
        if isinstance(value, os.PathLike):
            value = [value]
        if isinstance(value, Mapping):
            return json.dumps({os.fspath(root): dict(given) for root, given in value.items()})
        return json.dumps([os.fspath(root) for root in value])
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidOptionError(
            f"{ALLOWED_ROOTS} are addresses of roots, or a mapping of them to storage options: "
            f"{error}"
        ) from error


def option_text(place: Place) -> str:
    """The shortest value of the option that allows `place`."""
    address = place.address
    return address if [*_BETWEEN.split(address)] == [address] else json.dumps([address])


def with_root(text: str | None, root: str) -> str:
    """The option's value that allows `root` beside what `text` allows.

    Raises:
        InvalidOptionError: `text` is none that the option can have.
    """
    known = allowed_roots({ALLOWED_ROOTS: text}) if text else ()
    place = Place.of(root)
    if text and any(each.place == place for each in known):
        return text
    options = {each.place.address: each.options for each in known} | {place.address: None}
    return json.dumps(options if any(v is not None for v in options.values()) else [*options])


def _given(text: str) -> list[tuple[object, object]]:
    if text[0] not in "[{":
        return [(address, None) for address in _BETWEEN.split(text) if address]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidOptionError(
            f"storage option {ALLOWED_ROOTS} begins like JSON, and is not: {error}"
        ) from error
    if isinstance(value, dict):
        return list(value.items())
    return [(address, None) for address in value]


def _root(address: object, options: object) -> AllowedRoot:
    if not isinstance(address, str) or not (address.startswith("/") or is_absolute_uri(address)):
        shown = repr(address)[:300] if isinstance(address, str) else "something else"
        raise InvalidOptionError(
            f"storage option {ALLOWED_ROOTS} has {shown} where the address of a root "
            "belongs: give absolute paths or URIs, separated by commas, or a JSON list of them; "
            'options of a root are given as {"address": {"option": "value"}}'
        )
    place = Place.of(address)
    if options is None:
        return AllowedRoot(place)
    if not isinstance(options, dict) or not all(isinstance(v, str) for v in options.values()):
        raise InvalidOptionError(
            f"storage option {ALLOWED_ROOTS}: what {address!r:.300} is opened with is no object of "
            'texts; give {"address": {"option": "value"}}'
        )
    check_names_known(options)
    if any(plain_name(name) == ALLOWED_ROOTS for name in options):
        raise InvalidOptionError(
            f"storage option {ALLOWED_ROOTS}: what {address!r:.300} is opened with cannot allow "
            "further roots; name them beside it"
        )
    return AllowedRoot(place, options)
