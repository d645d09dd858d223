"""Which client speaks to the owner that a table names.

Owners are known by name: those that `register_commit_owner` was told of come first, then adelta's
own, then those of installed packages, by the entry-point group ``adelta.commit_owners``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias

from adelta._arguments import check_text
from adelta.commit.owner import CommitOwnerClient, ManagedTable
from adelta.errors import InvalidOptionError

__all__ = [
    "ENTRY_POINTS",
    "OwnerFactory",
    "OwnerNotNamedError",
    "find_commit_owner",
    "register_commit_owner",
]

OwnerFactory: TypeAlias = Callable[[ManagedTable, Mapping[str, str]], CommitOwnerClient]
"""Makes the client for a table, given the storage options that the table was opened with."""

ENTRY_POINTS = "adelta.commit_owners"


class OwnerNotNamedError(InvalidOptionError):
    """The user does not name the owner that a table does: it is read without its owner.

    A factory raises it where it needs the user's word for an owner.
    """


_BUILT_IN = {  # the module and the function that makes clients, by the owner's name
    "adelta": ("adelta.commit.owner_client", "client_of"),
    "dynamodb": ("adelta.commit.dynamodb_owner", "dynamodb_owner"),
}
_registered: dict[str, OwnerFactory] = {}


def register_commit_owner(name: str, factory: OwnerFactory) -> None:
    """Have tables that name the commit owner `name` use the clients that `factory` makes.

    `factory` is given an `adelta.ManagedTable` and the table's storage options, where secrets are,
    and does no I/O. It holds in this process; a package makes an owner known everywhere by an entry
    point of the group ``adelta.commit_owners``. A later registration replaces an earlier one.

    Raises:
        InvalidOptionError: the name is no text or empty, or the factory cannot be called.
    """
    if not check_text("name", name):
        raise InvalidOptionError("name is empty; pass the commit owner's name in its tables")
    if not callable(factory):
        raise InvalidOptionError(
            f"factory is {factory!r:.100}; pass a function that makes a client of a table"
        )
    _registered[name] = factory


def find_commit_owner(name: str) -> OwnerFactory | None:
    """What makes clients for the owner `name`; None where no such owner is known.

    Raises:
        InvalidOptionError: the package that knows it cannot be loaded.
    """
    if name in _registered:
        return _registered[name]
    try:
        if name in _BUILT_IN:
            module, function = _BUILT_IN[name]
            built_in: OwnerFactory = getattr(import_module(module), function)
            return built_in
        # few tables have an owner, and few owners come from another package
        from importlib.metadata import entry_points

        for point in entry_points(group=ENTRY_POINTS, name=name):
            loaded: OwnerFactory = point.load()
            return loaded
    except (ImportError, AttributeError) as error:
        raise InvalidOptionError(
            f"the commit owner {name} is known, but what speaks to it cannot be loaded: {error}; "
            "install what is missing"
        ) from error
    return None
