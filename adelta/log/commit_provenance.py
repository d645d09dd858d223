"""Provenance of a commit, read without the rest of its file where the file begins with it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from adelta.errors import InvalidTableError
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.commit import decode_commit
from adelta.kernel.log_path import commit_path
from adelta.log.commit_reader import read_commit

if TYPE_CHECKING:
    from adelta.storage.object_store import ObjectStore

__all__ = ["read_commit_info"]

_NONE = CommitInfo()
_FIRST_LINE = 16 * 1024  # bytes: provenance is rarely longer


async def read_commit_info(store: ObjectStore, version: int) -> CommitInfo:
    """The `commitInfo` of a version, empty where its commit has none.

    One small request, and another one for the whole commit where that does not begin with it.

    Raises:
        ObjectNotFoundError: there is no such commit.
        InvalidTableError: its file is damaged.
    """
    head = await store.get_range(commit_path(version), 0, _FIRST_LINE)
    whole = len(head) < _FIRST_LINE
    line, end, _ = head.partition(b"\n")
    if end or whole:
        with suppress(InvalidTableError):  # the whole commit says what is wrong, if anything is
            found = decode_commit(version, line).info
            if found != _NONE:
                return found
    if whole:
        return decode_commit(version, head).info
    return (await read_commit(store, version)).info
