"""Where links in a directory tree may lead: what is opened has to lie below a root that is allowed.

A link is in a table because somebody may write to its folder, so it is no more trusted than a path
in the log. It is judged by the file that has been opened, not by its name, which may lead elsewhere
a moment later.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from adelta.errors import RootNotAllowedError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LinkBounds"]


class LinkBounds:
    """The directories below which files may lie that are reached through `root`."""

    def __init__(self, root: str, allowed: Sequence[str] = ()) -> None:
        self._given = (root, *allowed)
        self._prefixes: tuple[str, ...] = ()

    def check(self, file: str, descriptor: int) -> None:
        """Refuse an open file that links led out of the bounds.

        Raises:
            RootNotAllowedError: it lies elsewhere.
            OSError: `file` has gone, and where it was is not known.
        """
        try:
            place = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:  # another system than Linux
            place = ""
        if not f"{place}/".startswith(self._prefixes):
            self._look(file, place, os.fstat(descriptor))

    def holds(self, directory: str) -> bool:
        """Whether the links in the name of a directory stay within the bounds."""
        self._prefixes = tuple(map(_real_prefix, self._given))
        return _real_prefix(directory).startswith(self._prefixes)

    def _look(self, file: str, place: str, opened: os.stat_result) -> None:
        """Look anew where everything is: a root may be a link, and lead elsewhere by now."""
        self._prefixes = tuple(map(_real_prefix, self._given))
        if f"{place}/".startswith(self._prefixes):
            return
        real = os.path.realpath(file)
        if f"{real}/".startswith(self._prefixes) and os.path.samestat(os.lstat(real), opened):
            return
        place = place or real
        folder = place if stat.S_ISDIR(opened.st_mode) else os.path.dirname(place)
        raise RootNotAllowedError(
            f"{file!r} is reached through a link that leads out of {self._given[0]!r}, to "
            f"{place!r}. If you trust whoever may put links there, open the table with the "
            f"storage option allowed_roots={folder}, or a folder above it; else remove the link"
        )


def _real_prefix(directory: str) -> str:
    return os.path.realpath(directory).rstrip("/") + "/"
