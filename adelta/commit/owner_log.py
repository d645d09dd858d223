"""OwnerLog: what is known of the commits that a table's owner has ratified.

It only ever grows. Who needs to know more asks the owner; those who ask at the same time share
one request, and never one that was sent before they asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from adelta.errors import AdeltaError, InvalidTableError, StorageError

if TYPE_CHECKING:
    from adelta.commit.owner import CommitOwnerClient, RatifiedCommit, RatifiedCommits

__all__ = ["OwnerLog"]


class _Question:
    """A question to the owner that is being asked."""

    __slots__ = ("answered", "done")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.answered = False


class OwnerLog:
    """The ratified commits of the table at `uri`.

    Attributes:
        client: who is asked.
        latest: the latest version, None before the owner has been asked.
        published: every version up to it is known to be published.
        commits: commits that the owner keeps, by version.
    """

    def __init__(self, client: CommitOwnerClient, uri: str, published: int = -1) -> None:
        """All versions up to `published` have been seen in the log: the owner may not know them."""
        self.client = client
        self._uri = uri
        self._unsent: _Question | None = None
        self._least = published
        self.latest: int | None = None
        self.published: int | None = None if published < 0 else published
        self.commits: dict[int, RatifiedCommit] = {}

    @property
    def next_unknown(self) -> int | None:
        """The version after the latest that is known; None before the owner has been asked."""
        return None if self.latest is None else self.latest + 1

    async def ask(self, *, anew: bool = False) -> None:
        """Learn of what has been ratified since; with `anew` also what has been published.

        Raises:
            TableNotFoundError: the owner has no such table.
            InvalidTableError: it contradicts itself.
            StorageError: it refused or failed.
        """
        while self._unsent is not None:
            question = self._unsent
            await question.done.wait()
            if question.answered:
                return
        question = self._unsent = _Question()
        try:
            try:
                await anyio.lowlevel.checkpoint()  # whoever asks at the same time joins
            finally:
                self._unsent = None
            start = self.next_unknown
            if anew and start is not None:
                start = min(self.commits, default=start)
            self.learn(await self._told(start), start)
            question.answered = True
        finally:
            question.done.set()

    async def forget_published(self) -> None:
        """Ask which commits have not been published yet, and keep no others.

        Raises: as `ask`.
        """
        self.learn(await self._told(None), None)

    async def _told(self, start: int | None) -> RatifiedCommits:
        try:
            return await self.client.get_commits(start)
        except AdeltaError:
            raise
        except Exception as error:
            raise StorageError(f"{self._uri}: its owner failed: {error!r}") from error

    def learn(self, answer: RatifiedCommits, start: int | None) -> bool:
        """Take in an answer about the commits from `start` on; None is all that are kept.

        False where that cannot be, since there are others before them that are not known: who took
        it would never ask for those.

        Raises:
            InvalidTableError: the last commits are not told of.
        """
        commits = answer.commits
        if commits and commits[-1].version != answer.latest_version:
            raise InvalidTableError(
                f"{self._uri}: its owner tells of commits up to {commits[-1].version}, and that "
                f"the latest version is {answer.latest_version}; the commits between are missing"
            )
        first = commits[0].version if commits else answer.latest_version + 1
        if start is not None and min(start, first) > self._next_missing:
            return False
        if start is None or first > start:  # what the owner no longer keeps is published
            self._forget_below(first)
        for commit in commits:
            self.commits[commit.version] = commit
        told = self.told_latest(answer)
        if self.latest is None or told > self.latest:
            self.latest = told
        return True

    def told_latest(self, answer: RatifiedCommits) -> int:
        """The latest version by an answer, which another one may have gone beyond meanwhile."""
        return max(answer.latest_version, self._least)

    @property
    def _next_missing(self) -> int:
        """The first version of which it is not known that it is published, or what it holds."""
        return 1 + max(-1 if known is None else known for known in (self.latest, self.published))

    def note_ratified(self, commit: RatifiedCommit) -> bool:
        """Take in a commit of our own; False where others before it are not known."""
        if self.latest is None or self.latest < commit.version - 1:
            return False
        self.commits[commit.version] = commit
        self.latest = max(self.latest, commit.version)
        return True

    def note_created(self) -> None:
        """Take in that version 0 has been published."""
        self.latest = self.latest or 0
        self._forget_below(1)

    def note_published(self, version: int) -> None:
        """Take in that `version` and all before it are published, by us."""
        self._forget_below(version + 1)

    def note_listed(self, version: int) -> None:
        """Take in that the published commit of `version` was seen, so that all before it are too.

        What the owner keeps of them is kept: its copies are the ones to read.
        """
        if self.published is None or version > self.published:
            self.published = version

    def _forget_below(self, version: int) -> None:
        if version > 0:
            self.note_listed(version - 1)
            self.commits = {v: commit for v, commit in self.commits.items() if v >= version}

    def held(self, versions: range) -> list[tuple[int, bytes, int]] | None:
        """Versions, contents and times of modification, where all contents of a range are here.

        None where one is not: then the store has to be asked.
        """
        found = []
        for commit in map(self.commits.get, versions):
            if commit is None or commit.content is None or commit.staged_file is not None:
                return None
            found.append((commit.version, commit.content, commit.modified_ms))
        return found

    def unpublished(self) -> list[RatifiedCommit]:
        """The commits that are not known to be published, in order."""
        done = -1 if self.published is None else self.published
        return [self.commits[version] for version in sorted(self.commits) if version > done]
