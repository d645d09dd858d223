"""What Spark says of a file that is not there, of a table that it scans by itself.

Spark advises to make a DataFrame anew for files that were overwritten. Files of a Delta table are
not; they go where VACUUM deletes those of earlier versions, which a DataFrame may be of.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final

from adelta.errors import MissingDataFileError

__all__ = ["missing_file", "note_root"]

_MISSING: Final = re.compile(
    r"^\[FAILED_READ_FILE\.FILE_NOT_EXIST\] .* while reading file (.+?)\. +File does not",
    re.MULTILINE,
)
_MOST: Final = 10_000
_roots: OrderedDict[str, None] = OrderedDict()


def note_root(root: str) -> None:
    """Note the folder of a table that Spark scans, as the JVM calls it."""
    _roots.pop(root, None)
    _roots[root] = None
    while len(_roots) > _MOST:
        _roots.popitem(last=False)


def missing_file(message: str) -> MissingDataFileError | None:
    """The error of a table whose file is not there; None where the message is about others."""
    found = _MISSING.search(message)
    if found is None:
        return None
    path = _plain(found[1])
    if not any(path.startswith(_plain(root).rstrip("/") + "/") for root in list(_roots)):
        return None
    return MissingDataFileError(
        f"{found[1]} is not there any longer. VACUUM deletes the files of earlier versions, and a "
        "DataFrame stays at the version that it was made of: load the table again. Where that says "
        "the same, the file is lost: restore it, or remove it from the log by adelta.fsck"
    )


def _plain(address: str) -> str:
    """An address with one slash behind the scheme of local files."""
    return re.sub("^file:/+", "file:/", address)
