"""A table as the ledger has it, and what it is to its owner."""

from __future__ import annotations

from enum import StrEnum

from adelta._dataclasses import dataclass

__all__ = ["COMMITS_FOLDER", "FOLDERS", "STAGED_FOLDER", "OwnedTable", "State"]

COMMITS_FOLDER = "_commits/"
STAGED_FOLDER = "_staged_commits/"
FOLDERS = (COMMITS_FOLDER, STAGED_FOLDER)
"""Folders of the log for un-backfilled commits: of `managedCommit`, and of `catalogManaged`."""


class State(StrEnum):
    """What a table is to its owner."""

    PROMISED = "promised"  # somebody was promised that it would be owned
    OWNED = "owned"
    RELEASING = "releasing"  # its last commit is ratified, and is still to be backfilled
    RELEASED = "released"
    REPLACED = "replaced"  # another table lies in its place
    DROPPED = "dropped"  # from the catalog


@dataclass(frozen=True, slots=True)
class OwnedTable:
    """A table in the ledger. `backfilled` is the last version that lies in the log's folder."""

    table_key: int
    uri: str
    table_id: str
    folder: str
    state: str
    latest: int
    backfilled: int
    name: str | None = None

    @property
    def is_gone(self) -> bool:
        """Whether nothing is to be done for it any more."""
        return self.state in (State.REPLACED, State.DROPPED)

    @property
    def waiting(self) -> int:
        """How many commits are to be backfilled."""
        return self.latest - self.backfilled
