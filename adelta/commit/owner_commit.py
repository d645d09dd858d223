"""Commits of a managed table: staged, ratified by the table's owner, and published.

The steps of a commit (PROTOCOL.md, "Commit Protocol"):

1. the bytes are put into the log's folder of unpublished commits, under a name that is nobody
   else's, unless the owner takes them inline;
2. the owner is asked to ratify them: from then on the version is committed, and every reader who
   asks the owner sees it;
3. the bytes are copied to where readers of other tables look for them. `recover` does that, in the
   order of versions, for all commits that are known not to be there: also for those of writers that
   came no further than step 2. An owner that backfills does it by itself, and `recover` has it.

Whoever dies or loses before step 2 has ended leaves a staged file that nobody looks at: none is
deleted here, for only the owner knows which of them count. Version 0 alone is put into the log by
the store's put-if-absent: an owner learns of a table when there is one.

`give_up` makes the last commit of an owner, by which the table gets another one or none.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import orjson

from adelta._chance import new_uuid
from adelta.commit.check_then_put import is_there
from adelta.commit.coordinator import CommitOutcome, Committed, Lost, Unknown
from adelta.commit.filesystem import FilesystemCoordinator, is_by
from adelta.commit.owner import ProposedCommit
from adelta.commit.ratification import Claim, Withheld, ratify_as_short_as_may_be
from adelta.errors import (
    AdeltaError,
    CommitOutcomeUnknownError,
    InvalidTableError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    TableNotFoundError,
)
from adelta.kernel.log_path import commit_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from adelta.commit.coordinator import HasBase
    from adelta.commit.filesystem import Create
    from adelta.commit.owner import CommitOwnerClient, CommitResponse, RatifiedCommit
    from adelta.commit.owner_log import OwnerLog
    from adelta.kernel.table_features import ManagementKind
    from adelta.storage.object_store import ObjectStore

    Ask = Callable[[ProposedCommit], Awaitable[CommitResponse]]

__all__ = ["OwnerCoordinator", "not_owned", "proposed_commit"]

_log = logging.getLogger("adelta.transaction")

_FOLLOWED = 64  # commits that an owner which backfills may have published without our knowing
_IN_A_REQUEST = 16  # of the longest inline commits
_KEPT = 8  # commits; the bytes of others are read again to publish them


class OwnerCoordinator:
    """Claims versions of the table in `store` through its owner.

    Of the folders of its `kind` commits are staged in the first, and looked for in all.
    """

    def __init__(
        self,
        store: ObjectStore,
        client: CommitOwnerClient,
        log: OwnerLog,
        create: Create,
        kind: ManagementKind,
    ) -> None:
        self._store = store
        self._kind = kind
        self.client = client
        self._log = log
        self._create = create
        self._first = FilesystemCoordinator(store, create)
        self._staged: dict[int, bytes] = {}  # what we have ratified and not published yet
        self._ratified = -1  # our latest version, of which the log may not know
        self._crowd = _FOLLOWED  # commits in the log from which on it is seen which are published
        self._publishing = anyio.Lock()

    def __repr__(self) -> str:
        return f"OwnerCoordinator({self.client!r})"

    async def commit(
        self, version: int, data: bytes, transaction_id: str, has_base: HasBase | None = None
    ) -> CommitOutcome:
        """Stage the commit of `version` and have it ratified. It is published by `recover`.

        The log is not asked for the base: the owner takes no other version than the next one.

        Raises:
            InvalidTableError: the commit has no in-commit timestamp, or the owner is behind.
            AdeltaError: store or owner refused; certainly nothing was committed.
        """
        if version == 0:
            outcome = await self._first.commit(0, data, transaction_id)
            if isinstance(outcome, Committed):
                self._log.note_created()
            return outcome
        return await self._claim(version, data, transaction_id, self.client.commit)

    async def give_up(self, version: int, data: bytes, transaction_id: str) -> CommitOutcome:
        """Make the last commit of this owner, which says who comes after it, and publish it.

        Where it is committed and cannot be published, whoever reads it next does that.

        Raises:
            AdeltaError: the owner does not give the table up; certainly nothing was committed.
        """
        with suppress(TableNotFoundError):  # by the claim it is found out who owns it now
            await self.publish_all()
        outcome = await self._claim(version, data, transaction_id, self.client.release)
        if isinstance(outcome, Committed):
            try:
                if not await self._is_passed_on(version):
                    await self.recover()
                self._log.note_published(version)
            except AdeltaError as error:
                _log.warning(
                    "%s: version %d, which takes the table from its owner, is committed, but not "
                    "published: %s",
                    self._store.uri,
                    version,
                    error,
                )
        return outcome

    async def _claim(
        self, version: int, data: bytes, transaction_id: str, ask: Ask
    ) -> CommitOutcome:
        async def propose(proposed: Sequence[ProposedCommit]) -> Sequence[CommitResponse]:
            return [await ask(each) for each in proposed]

        async def claims(inline: bool) -> Sequence[Claim]:
            return [Claim(self, await self.stage(version, data, transaction_id, inline=inline))]

        try:
            (claim,), (outcome,) = await ratify_as_short_as_may_be(claims, propose)
        except TableNotFoundError as error:
            if self._kind.owner_key is None:
                raise
            raise not_owned(self._store.uri, error) from error
        assert not isinstance(outcome, Withheld)
        if isinstance(outcome, Committed):
            await self.note_ratified(claim.proposed)
        return outcome

    async def stage(
        self,
        version: int,
        data: bytes,
        transaction_id: str,
        *,
        inline: bool = True,
        together: int = 1,
    ) -> ProposedCommit:
        """What the owner is asked to ratify, staged unless the owner takes one so long `inline`.

        Of so many that are proposed `together`, one request has to have room for all.

        Raises:
            InvalidTableError: the commit has no in-commit timestamp.
            StorageError: the store refused or failed.
        """
        proposed = proposed_commit(
            version, data, transaction_id, self._store.uri, self._log.published
        )
        longest = self.client.longest_inline_commit
        if longest is not None:
            longest = min(longest, _IN_A_REQUEST * longest // together)
        takes = self.client.takes_inline_commits and (longest is None or len(data) <= longest)
        if inline and takes:
            return proposed
        name = f"{version:020d}.{new_uuid()}.json"
        staged = await self._store.put(self._kind.folders[0] + name, data)
        return replace(proposed, staged_file=name, modified_ms=staged.last_modified_ms)

    async def note_ratified(self, proposed: ProposedCommit) -> None:
        """Take in that a commit of ours has been ratified."""
        version = proposed.version
        self._ratified = max(self._ratified, version)
        if not self.client.backfills:
            self._staged[version] = proposed.content
        while len(self._staged) > _KEPT:
            del self._staged[min(self._staged)]
        followed = self._log.note_ratified(proposed.ratified())
        with suppress(AdeltaError):  # whoever reads will learn of others, before or after
            if not followed:
                await self._log.ask()
            elif len(self._log.commits) > self._crowd:
                await self._log.forget_published()
                self._crowd = len(self._log.commits) + _FOLLOWED

    # ----------------------------------------------------------------------------- ratification

    @property
    def root(self) -> str:
        """The table's address."""
        return self._store.uri

    @property
    def latest(self) -> int | None:
        """The latest version that is known; None before the owner has been asked."""
        return self._log.latest

    async def answered(
        self, proposed: ProposedCommit, response: CommitResponse, *, doubtful: bool
    ) -> CommitOutcome | None:
        """What an answer of the owner says; None where the version is nobody's yet.

        Where it is `doubtful` whose a version is, the owner is asked, and the log.

        Raises:
            StorageError: they failed.
        """
        if response.ratified:
            return Committed(proposed.version, proposed.modified_ms)
        told = response.latest
        if told is not None and not self._log.learn(told, proposed.version):
            try:
                await self._log.ask()  # other handles of this process have made those between
            except AdeltaError as error:
                return Unknown(proposed.version, error)
        elif told is None and doubtful:
            await self._log.ask()
        if self._log.latest is not None and self._log.latest >= proposed.version:
            return await (self._whose(proposed) if doubtful else self._is_kept(proposed))
        return Lost(proposed.version) if response.latest is None and not doubtful else None

    async def published_by(self, proposed: ProposedCommit) -> bool | None:
        """Whether the log shows the version by itself as ours; None where it does not show it.

        Raises:
            StorageError: the store refused or failed.
        """
        try:
            published = await self._store.get(commit_path(proposed.version))
        except ObjectNotFoundError:
            return None
        return is_by(published, proposed.transaction_id)

    async def _is_passed_on(self, version: int) -> bool:
        """Whether the log shows a version by itself."""
        return await is_there(self._store, commit_path(version))

    async def _is_kept(self, proposed: ProposedCommit) -> CommitOutcome:
        """Whose the version is, by what the owner keeps: a conflict may be with ourselves."""
        kept = self._log.commits.get(proposed.version)
        try:
            ours = kept is not None and await self._is_ours(kept, proposed)
        except AdeltaError as error:  # only the commit's file tells
            return Unknown(proposed.version, error)
        if ours:
            return Committed(proposed.version, proposed.modified_ms)
        return Lost(proposed.version)

    async def _is_ours(self, kept: RatifiedCommit, proposed: ProposedCommit) -> bool:
        if kept.staged_file is None:
            return is_by(kept.content or b"", proposed.transaction_id)
        if proposed.staged_file is not None:
            return kept.staged_file == proposed.staged_file
        if kept.size not in (0, proposed.size):
            return False
        data = await self._read_staged(kept)  # the owner has put a long commit there by itself
        if data is None:
            data = await self._store.get(commit_path(kept.version))
        return is_by(data, proposed.transaction_id)

    async def found_out(self, proposed: ProposedCommit) -> CommitOutcome | None:
        """Whose the version is, by asking the owner anew; None where it is nobody's.

        Raises:
            StorageError: the owner failed, or it has been published and cannot be read.
        """
        await self._log.ask()
        return await self._whose(proposed)

    async def _whose(self, proposed: ProposedCommit) -> CommitOutcome | None:
        """Whose the version is, by what the owner has said last; None where it is nobody's.

        Raises:
            StorageError: it has been published, and cannot be read.
        """
        latest = self._log.latest
        if latest is None or latest < proposed.version:
            return None
        if proposed.version in self._log.commits:
            return await self._is_kept(proposed)
        ours = await self.published_by(proposed)
        if ours is None:
            return Unknown(proposed.version, ObjectNotFoundError(commit_path(proposed.version)))
        return Committed(proposed.version, proposed.modified_ms) if ours else Lost(proposed.version)

    # ------------------------------------------------------------------------------ publication

    async def publish_all(self) -> int | None:
        """Publish all that the owner has ratified by now; the last version of it.

        Raises:
            StorageError: the owner failed, or a commit could not be published.
        """
        await self._log.ask(anew=True)
        return await self.recover()

    async def recover(self) -> int | None:
        """Publish, in order, what the owner has ratified; the last version that is published.

        Raises:
            StorageError: a commit could not be published, nor those after it.
        """
        async with self._publishing:
            if self.client.backfills:
                await self._have_backfilled()
                return self._log.published
            if self._staged and max(self._staged) > (self._log.latest or 0):
                await self._log.ask()  # others came before ours, and may have to be published
            waiting = self._log.unpublished()
            for commit in waiting:
                await self._publish(commit)
            self._staged = {v: data for v, data in self._staged.items() if v > self._done}
            return self._log.published

    async def _have_backfilled(self) -> None:
        waiting = self._log.unpublished()
        known = -1 if self._log.latest is None else self._log.latest  # others commit meanwhile
        latest = max(known, self._ratified)
        try:
            await self.client.backfill_to_version(None if latest < 0 else latest)
        except TableNotFoundError:  # it has given the table up, and may not have come to the end
            for commit in waiting:
                await self._publish(commit)
        self._log.note_published(latest)

    @property
    def _done(self) -> int:
        return -1 if self._log.published is None else self._log.published

    async def _publish(self, commit: RatifiedCommit) -> None:
        data = commit.content or self._staged.get(commit.version)
        if data is None:
            data = await self._read_staged(commit)
        if data is None:  # published by another, or lost
            await self._store.head(commit_path(commit.version))
            self._log.note_published(commit.version)
            return
        try:
            await self._create(commit_path(commit.version), data)
        except ObjectExistsError:
            pass  # another writer was there first, with the same bytes
        except CommitOutcomeUnknownError as error:
            raise StorageError(
                f"{self._store.uri}: version {commit.version} is committed, but perhaps not "
                f"published: {error}"
            ) from error
        self._log.note_published(commit.version)

    async def _read_staged(self, commit: RatifiedCommit) -> bytes | None:
        for folder in self._kind.folders:
            with suppress(ObjectNotFoundError):
                return await self._store.get(f"{folder}{commit.staged_file}")
        return None

    async def aclose(self) -> None:
        """There is nothing to give back: the client is the store's to close."""


def not_owned(uri: str, error: Exception) -> InvalidTableError:
    """The error that says that a table's owner says that it is not."""
    return InvalidTableError(
        f"{uri} names a commit owner that says it does not own the table ({error}); where its "
        "database was lost, have it take the table up again by recover_table (adelta owner recover)"
    )


def proposed_commit(
    version: int, data: bytes, transaction_id: str, uri: str, published: int | None = None
) -> ProposedCommit:
    """A commit that is not staged, as its owner is asked to ratify it.

    Raises:
        InvalidTableError: it has no in-commit timestamp.
    """
    return ProposedCommit(
        version,
        data,
        _in_commit_timestamp(data, uri),
        transaction_id,
        size=len(data),
        published_version=published,
    )


def _in_commit_timestamp(data: bytes, uri: str) -> int:
    """The in-commit timestamp of a commit, whose provenance comes first.

    Raises:
        InvalidTableError: it has none.
    """
    info = orjson.loads(data[: data.find(b"\n") + 1 or None]).get("commitInfo")
    stamp = info.get("inCommitTimestamp") if isinstance(info, dict) else None
    if not isinstance(stamp, int):
        raise InvalidTableError(
            f"{uri} has a commit owner, and its commits carry no in-commit timestamps, as they "
            "must; set delta.enableInCommitTimestamps to true where the owner allows it"
        )
    return stamp
