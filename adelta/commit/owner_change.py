"""OwnerChange: the commit by which a table comes to have an owner, gets another one, or has none.

A table is taken over in two phases (the RFC of `managedCommit`, "Converting an existing filesystem
based table"). First the new owner promises to own the table if the commit gets into the log. Then
that is attempted by whoever has decided on commits so far: the filesystem by put-if-absent, or the
owner before, as its last commit. Who comes second meets a version that is there, reads it, and sees
who decides from then on. Telling the new owner that its time has come only tidies up: any later
client does it too.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from adelta.commit.check_then_put import is_there
from adelta.commit.coordinator import Committed
from adelta.commit.owner_commit import OwnerCoordinator, proposed_commit
from adelta.kernel.log_path import commit_path

if TYPE_CHECKING:
    from adelta.commit.coordinator import CommitCoordinator, CommitOutcome, HasBase
    from adelta.commit.owner import CommitOwnerClient
    from adelta.storage.object_store import ObjectStore

__all__ = ["OwnerChange"]

_log = logging.getLogger("adelta.transaction")


class OwnerChange:
    """Claims the version by which the table in `store` goes from one who decides to another.

    `before` claims versions up to then; `after` is the client of the owner that comes, None where
    the filesystem is to decide.
    """

    def __init__(
        self, store: ObjectStore, before: CommitCoordinator, after: CommitOwnerClient | None
    ) -> None:
        self._store = store
        self._before = before
        self._after = after

    async def commit(
        self, version: int, data: bytes, transaction_id: str, has_base: HasBase | None = None
    ) -> CommitOutcome:
        """Try to make `data` the commit of `version`, with a promise of the owner that comes.

        Raises:
            InvalidTableError: the commit has no in-commit timestamp.
            AdeltaError: an owner refused, or the store; certainly nothing was committed.
        """
        if self._after is not None:
            proposed = proposed_commit(version, data, transaction_id, self._store.uri)
            await self._after.propose(proposed)
        if isinstance(self._before, OwnerCoordinator):
            outcome = await self._before.give_up(version, data, transaction_id)
        else:
            outcome = await self._before.commit(version, data, transaction_id, has_base)
        if isinstance(outcome, Committed) and self._after is not None:
            await self._tell(self._after, version)
        return outcome

    async def _tell(self, owner: CommitOwnerClient, version: int) -> None:
        try:
            if await is_there(self._store, commit_path(version)):
                await owner.accept(version)
        except Exception as error:  # the commit stands: who comes next tells the owner
            _log.warning(
                "%s: version %d is committed, and its owner has not been told: %s",
                self._store.uri,
                version,
                error,
            )

    async def recover(self) -> int | None:
        """Publish what the owner before has ratified. Raises: StorageError."""
        return await self._before.recover()

    async def aclose(self) -> None:
        """There is nothing to give back: clients are their stores' to close."""
