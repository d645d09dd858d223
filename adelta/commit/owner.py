"""The port to who decides on a table's commits: what adelta asks of the client of a commit owner.

Of a managed table the filesystem says what a commit holds, and its owner whether the commit counts
(PROTOCOL.md, "Catalog-managed tables", and the RFC of `managedCommit`, from which that came). A
client is written for one table. It is found by the owner's name in the table, or given to
`open_table` where a catalog is the owner. adelta puts commits into the log's folder of unpublished
ones itself, and copies them to where readers of the filesystem look ("backfilling", "publishing"),
unless the owner does.

Guarantees that a client gives:

1. Of all commits proposed for one version, by any process, at most one is ever ratified.
2. A version is ratified only after the one before it.
3. `get_commits` tells of every commit that was ratified before it was called.
"""

from __future__ import annotations

from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, InvalidTableError
from adelta.kernel.log_path import STAGED_DIR, LogFileKind, parse_log_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "CommitOwner",
    "CommitOwnerClient",
    "CommitResponse",
    "CommitTooLongError",
    "ManagedTable",
    "ProposedCommit",
    "RatifiedCommit",
    "RatifiedCommits",
]

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ManagedTable:
    """Which table a client is for: what its owner is told of it.

    `uri` is the table's root as an absolute URI and `table_id` the id in its metadata. `conf` is
    what the table says of how its owner is reached, and `table_conf` what the owner has had the
    table keep for it; both are empty where it says nothing.
    """

    uri: str
    table_id: str
    conf: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    table_conf: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)


@dataclass(frozen=True, slots=True)
class RatifiedCommit:
    """A commit that the owner has ratified and still keeps.

    Either `staged_file` is the bare name of its file in the log's folder of unpublished commits, or
    `content` is the commit itself, an action a line. `size` is in bytes and `modified_ms` the time
    of the file in milliseconds since the epoch; both may be 0 where the owner does not know them.
    """

    version: int
    staged_file: str | None = None
    content: bytes | None = None
    size: int = 0
    modified_ms: int = 0

    def __post_init__(self) -> None:
        """Prove that there is one commit, and that it is of this version.

        Raises:
            InvalidTableError: the owner says something else.
        """
        if (self.staged_file is None) == (self.content is None):
            raise InvalidTableError(
                f"the table's owner says of version {self.version} neither where its commit is "
                "staged nor what it holds, or both; its client has to say one of them"
            )
        if self.staged_file is None:
            return
        named = parse_log_path(STAGED_DIR + self.staged_file)
        if (
            named is None
            or named.kind is not LogFileKind.STAGED_COMMIT
            or named.version != self.version
        ):
            raise InvalidTableError(
                f"the table's owner says that version {self.version} is staged as "
                f"{self.staged_file[:_SHOWN]!r}, which is not <version>.<uuid>.json of that version"
            )


@dataclass(frozen=True, slots=True)
class RatifiedCommits:
    """What an owner says of a table: its latest version, and the commits that it still keeps.

    `commits` ascend without a gap. Versions of the range that was asked for that are not among them
    have been published. `latest_version` is -1 where nothing has been ratified.
    """

    latest_version: int
    commits: tuple[RatifiedCommit, ...] = ()

    def __post_init__(self) -> None:
        """Prove that the commits are contiguous.

        Raises:
            InvalidTableError: one is missing between two others, or is later than the latest.
        """
        for before, after in pairwise(self.commits):
            if after.version != before.version + 1:
                raise InvalidTableError(
                    f"the table's owner tells of the commits {before.version} and {after.version} "
                    "one after the other; what it tells of has to ascend without a gap"
                )
        if self.commits and self.commits[-1].version > self.latest_version:
            raise InvalidTableError(
                f"the table's owner tells of the commit {self.commits[-1].version}, and that the "
                f"latest version is {self.latest_version}"
            )


@dataclass(frozen=True, slots=True)
class ProposedCommit:
    """A commit that adelta asks an owner to ratify.

    `content` is the commit, an action a line. `staged_file` is the bare name of the file in the
    log's folder of unpublished commits that holds it already, of `size` bytes and the time
    `modified_ms`; None where the client takes one so long inline. `in_commit_timestamp` (ms) and
    `transaction_id` stand in its `commitInfo`. All versions up to `published_version` are known to
    be published, so that the owner need not keep them; None where that is not known of any.
    """

    version: int
    content: bytes
    in_commit_timestamp: int
    transaction_id: str
    staged_file: str | None = None
    size: int = 0
    modified_ms: int = 0
    published_version: int | None = None

    def ratified(self) -> RatifiedCommit:
        """What an owner tells of it, once it has been ratified."""
        content = self.content if self.staged_file is None else None
        return RatifiedCommit(self.version, self.staged_file, content, self.size, self.modified_ms)


@dataclass(frozen=True, slots=True)
class CommitResponse:
    """Whether a proposed commit is `ratified`; if not, its version is another one's.

    `latest` is what `get_commits` would say now of the commits from the proposed version on; there
    may be earlier ones. An owner that tells it with a conflict saves that request. `again` is
    whether the commit was ratified before it was proposed this time.
    """

    ratified: bool
    latest: RatifiedCommits | None = None
    again: bool = False


class CommitTooLongError(InvalidOptionError):
    """What is proposed is longer than the owner takes, or something before it; nothing came of it.

    A client raises it of commits that are not staged. They are staged then, and proposed again.
    """


class CommitOwnerClient(Protocol):
    """The client of a commit owner, for one table.

    Its methods may be called by several tasks at once, and each may be called again where an answer
    was lost. A client that derives from this class need not have what is said here to be so by
    default.
    """

    @property
    def takes_inline_commits(self) -> bool:
        """Whether `commit` gets commits that are not staged, and keeps their content."""
        ...

    @property
    def longest_inline_commit(self) -> int | None:
        """How many bytes a commit that is not staged may have; None, the default, is any number."""
        return None

    @property
    def permits_maintenance(self) -> bool:
        """Whether adelta may clean up the table's log, and vacuum, optimize and reorganize it."""
        ...

    @property
    def backfills(self) -> bool:
        """Whether the owner publishes by itself what it has ratified; else adelta does. No."""
        return False

    @property
    def announces_commits(self) -> bool:
        """Whether `wait_for_commit` waits. It does not by default."""
        return False

    @property
    def queues_losers(self) -> bool:
        """Whether `commit` tells who has lost a race when it is its turn again. Not by default."""
        return False

    @property
    def owner(self) -> CommitOwner | None:
        """Who commits over several tables; None, the default, where the owner cannot."""
        return None

    async def get_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        """The commits of the range that the owner keeps, and the latest version of the table.

        Both ends are included, and all commits that it keeps are meant by default. Whatever the
        range, the latest version is the table's.

        Raises:
            TableNotFoundError: the owner has no such table, not yet or no longer. Of one that it
                has given up it tells until the last commit has been published.
            StorageError: the owner refused or failed.
        """
        ...

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify `proposed`, if its version is the next one.

        It may be asked again of the same commit, where an answer was lost. Any exception but
        those named below is taken for a lost answer.

        Raises:
            CommitOutcomeUnknownError: it may have been ratified.
            ThrottledError: the owner keeps as many unpublished commits as it can; they are
                published, and it is asked again. Nothing was ratified.
            TableNotFoundError: it does not own the table any more; nothing was ratified.
            AdeltaError: the owner refused for another reason than that the version is taken;
                certainly nothing was ratified.
        """
        ...

    async def backfill_to_version(self, version: int | None = None) -> None:
        """Publish all that is ratified up to `version`, all by default; it is there on return.

        It is asked of owners that backfill; by default it does nothing.

        Raises:
            StorageError: the owner refused or failed, or could not publish a commit.
        """
        return

    async def table_conf(self) -> Mapping[str, str]:
        """What the metadata of a table that is to be owned have to keep for the owner: nothing.

        It is asked before `propose`, of a client of a table that says nothing of that yet.

        Raises:
            StorageError: the owner refused or failed.
        """
        return {}

    async def propose(self, proposed: ProposedCommit) -> None:
        """Have the owner promise to own the table, if `proposed`, which says so, gets into the log.

        The owner keeps its promise durably, and never refuses the table once the commit has been
        put into the log as `<version>.json`. Promises for one table stand beside each other, also
        for one version: which of them gets into the log is not known before. That another commit
        stands in the place ends them all.

        Raises:
            AdeltaError: the owner refused, and has promised nothing.
        """
        ...

    async def accept(self, version: int) -> None:
        """Tell the owner that the commit which it promised to own the table by is in the log.

        Any later client may do so, who sees at `version` of the log, or later, that the table
        names the owner; and the owner may find out by itself. It is told where it has said of the
        table that it does not own it. Telling it twice does nothing.

        Raises:
            AdeltaError: it has made no promise for that version or one before, or failed.
        """
        ...

    async def release(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify `proposed`, which takes the table from its owner, as its last commit.

        All before it have been published by then; no other is ratified any more. An owner that
        backfills has published it as well when this returns, or will certainly do so; else adelta
        publishes it, and whoever finds it unpublished.

        Raises:
            CommitOutcomeUnknownError: it may have been ratified.
            AdeltaError: the owner does not give the table up; nothing was ratified.
        """
        ...

    async def wait_for_commit(self, after: int, timeout: float) -> int | None:
        """Wait for a version later than `after`, for `timeout` seconds: the latest one, or None.

        By default it returns None at once, and `announces_commits` says so.

        Raises:
            StorageError: the owner refused or failed.
        """
        return None

    async def aclose(self) -> None:
        """Give back connections, when a table that was opened with the client is closed.

        Other tables may be open with it: later calls make new connections.
        """
        ...


class CommitOwner(Protocol):
    """Commits over several tables. Clients whose `owner` is equal may commit together."""

    async def commit_together(
        self, proposals: Sequence[tuple[CommitOwnerClient, ProposedCommit]]
    ) -> tuple[CommitResponse, ...]:
        """Ratify all proposals, in one database transaction, or none; the answers in that order.

        Where some version is taken, the answer for that table says so, and no answer is
        `ratified`.

        Raises:
            CommitOutcomeUnknownError: they may have been ratified.
            AdeltaError: the owner refused; certainly nothing was ratified.
        """
        ...

    async def get_commits_together(
        self, tables: Sequence[tuple[CommitOwnerClient, int | None]]
    ) -> tuple[RatifiedCommits, ...]:
        """What `get_commits` says of each table from a version on, all of one moment.

        Raises:
            TableNotFoundError: the owner has no such table.
            StorageError: the owner refused or failed.
        """
        ...
