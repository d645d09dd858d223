"""Commits that clients propose: by whichever API they come, they go the same way.

That the table's log is not ahead of the ledger is seen first, and what is too long for the ledger
is put beside the log. The ledger ratifies the commit, or does not; and all who wait for that are
told of it: the backfiller, long polls, and the next in the line of those who lost.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.commit.owner import CommitResponse
from adelta.errors import InvalidOptionError, ThrottledError
from adelta.owner.owned_table import COMMITS_FOLDER
from adelta.owner.requests import check_content

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.commit.owner import ProposedCommit
    from adelta.owner.announcements import Announcements
    from adelta.owner.backfiller import Backfiller
    from adelta.owner.ledger import Ledger
    from adelta.owner.metrics import Metrics
    from adelta.owner.ownership import Ownership
    from adelta.owner.table_key import TableKey
    from adelta.owner.table_logs import TableLogs
    from adelta.owner.turns import Turns

    Proposals = Sequence[tuple[TableKey, ProposedCommit]]

__all__ = ["Commits"]

_IN_A_THREAD = 64 << 10  # bytes of a commit from which on checking it takes long


class Commits:
    """The way of commits into the `ledger`, which keeps those of `inline_bytes` at most."""

    def __init__(
        self,
        ledger: Ledger,
        ownership: Ownership,
        logs: TableLogs,
        backfiller: Backfiller,
        announcements: Announcements,
        turns: Turns,
        metrics: Metrics,
        inline_bytes: int,
    ) -> None:
        self._ledger = ledger
        self._ownership = ownership
        self._logs = logs
        self._backfiller = backfiller
        self._announcements = announcements
        self._turns = turns
        self._metrics = metrics
        self._inline_bytes = inline_bytes

    async def commit(
        self,
        table: TableKey,
        proposed: ProposedCommit,
        describe: tuple[str, str] | None = None,
        *,
        folder: str = COMMITS_FOLDER,
    ) -> CommitResponse:
        """Ratify a commit, if its version is the next one. A loser is answered when it is its turn.

        `folder` of the log is that of the table's un-backfilled commits.

        Raises: as `Ledger.commit`, but for UnsettledError; and InvalidOptionError: it is no commit,
            or not of such a table.
        """
        proposed = await self._fit(table, proposed, folder)
        response: CommitResponse | None = None
        if not self._turns.has_lost(table, proposed):
            commit = partial(self._ledger.commit, table, proposed, describe)
            try:
                response = await self._ownership.settled([table], commit)
            except ThrottledError:
                self._throttled(table)
                raise
            if response.ratified:
                self._ratified(table, proposed, again=response.again)
                return response
        self._count("lost")
        if await self._turns.take(table) or response is None:
            told = None
            if not self._ledger.database.is_shared:  # else others may have ratified later ones
                told = self._turns.winners(table, proposed.version)
            if told is None:
                told = await self._ledger.get_commits(table, proposed.version)
            response = CommitResponse(ratified=False, latest=told)
        return response

    async def commit_together(self, proposals: Proposals) -> Sequence[CommitResponse]:
        """Ratify all commits in one transaction, or none of them; the answers in that order.

        Raises: as `commit`.
        """
        proposals = [(table, await self._fit(table, proposed)) for table, proposed in proposals]
        tables = [table for table, _ in proposals]
        commit = partial(self._ledger.commit_together, proposals)
        try:
            answers = await self._ownership.settled(tables, commit)
        except ThrottledError:
            self._throttled(*tables)
            raise
        told = list(zip(proposals, answers, strict=True))
        for (table, proposed), answer in told:
            if answer.ratified:
                self._ratified(table, proposed, again=answer.again)
            else:
                self._count("lost")
        lost = (table for (table, proposed), answer in told if _has_lost(proposed, answer))
        first = next(lost, None)  # it would be the turn of another in the next line
        if first is None or not await self._turns.take(first):
            return answers
        asked = [(table, proposed.version) for table, proposed in proposals]
        latest = await self._ledger.get_commits_together(asked)
        return [CommitResponse(ratified=False, latest=each) for each in latest]

    async def release(
        self, table: TableKey, proposed: ProposedCommit, wait_seconds: float
    ) -> CommitResponse:
        """Ratify the last commit of a table, as `Ownership.release` does.

        Raises: as that, and as `commit`.
        """
        proposed = await self._fit(table, proposed)
        release = partial(self._ownership.release, table, proposed, wait_seconds)
        response = await self._ownership.settled([table], release)
        if response.ratified:
            self._ratified(table, proposed, again=response.again)
            self._turns.forget(table)
        return response

    async def _fit(
        self, table: TableKey, proposed: ProposedCommit, folder: str = COMMITS_FOLDER
    ) -> ProposedCommit:
        """The commit as the ledger keeps it: one too long for it is put beside the log first."""
        await self._ownership.check_current(table, folder)
        self._backfiller.check_log(table)
        if proposed.staged_file is not None:
            await self._check_staged(table, proposed, folder)
            return proposed
        if len(proposed.content) > _IN_A_THREAD:
            await in_thread(check_content, proposed)
        else:
            check_content(proposed)
        if len(proposed.content) <= self._inline_bytes:
            return proposed
        read = partial(self._ledger.get_commits, table, proposed.version)
        told = await self._ownership.settled([table], read)
        if told.latest_version != proposed.version - 1:
            return proposed  # it will be refused, or is there already
        log = self._logs.of(table.uri)
        name, modified = await log.stage(folder, proposed.version, proposed.content)
        return replace(proposed, staged_file=name, modified_ms=modified)

    async def _check_staged(self, table: TableKey, proposed: ProposedCommit, folder: str) -> None:
        """Refuse a commit whose file is not there, unless the version has been ratified already.

        Nothing could be backfilled after it, and nobody could read the table.

        Raises: InvalidOptionError, StorageError.
        """
        assert proposed.staged_file is not None
        size = await self._logs.of(table.uri).staged_size(folder, proposed.staged_file)
        if size == proposed.size:
            return
        read = partial(self._ledger.get_commits, table, proposed.version)
        told = await self._ownership.settled([table], read)
        if told.latest_version < proposed.version:
            what = "is not there" if size is None else f"has {size:,} bytes, not {proposed.size:,}"
            raise InvalidOptionError(
                f"{table.uri}: the file {proposed.staged_file} in the log's folder {folder} "
                f"{what}; nothing was ratified, put it there first"
            )

    def _ratified(self, table: TableKey, proposed: ProposedCommit, *, again: bool) -> None:
        """Wake whoever waits for a ratification."""
        self._count("ratified")
        self._turns.ratified(table, None if again else proposed)
        self._announcements.ratified(table, proposed.version)
        self._backfiller.wake(table)

    def _throttled(self, *tables: TableKey) -> None:
        self._count("throttled")
        for table in tables:
            self._backfiller.wake(table)

    def _count(self, outcome: str) -> None:
        self._metrics.commits.labels(outcome).inc()


def _has_lost(proposed: ProposedCommit, answer: CommitResponse) -> bool:
    """Whether another commit has the version."""
    return answer.latest is not None and answer.latest.latest_version >= proposed.version
