"""The port to a catalog: what adelta asks of the client of a catalog that manages tables.

Of a table with the feature `catalogManaged` the catalog decides which commits count (PROTOCOL.md,
"Catalog-managed tables"). A client is written for one table: it knows the table's name in the
catalog, its credentials there, and how to talk to it. adelta stages and publishes commits itself.

Guarantees that a client gives:

1. Of all commits proposed for one version, by any process, at most one is ever ratified.
2. A version is ratified only after the one before it.
3. `get_ratified_commits` tells of every commit that was ratified before it was called.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from adelta.errors import InvalidTableError
from adelta.kernel.log_path import STAGED_DIR, LogFileKind, parse_log_path

__all__ = [
    "CatalogClient",
    "CommitResponse",
    "ProposedCommit",
    "RatifiedCommit",
    "RatifiedCommits",
]

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class RatifiedCommit:
    """A commit that the catalog has ratified and still keeps.

    Either `staged_file` is the bare name of its file in `_delta_log/_staged_commits`, or `content`
    is the commit itself, an action a line. `size` is in bytes and `modified_ms` the time of the
    file in milliseconds since the epoch; both may be 0 where the catalog does not know them.
    """

    version: int
    staged_file: str | None = None
    content: bytes | None = None
    size: int = 0
    modified_ms: int = 0

    def __post_init__(self) -> None:
        """Prove that there is one commit, and that it is of this version.

        Raises:
            InvalidTableError: the catalog says something else.
        """
        if (self.staged_file is None) == (self.content is None):
            raise InvalidTableError(
                f"the catalog says of version {self.version} neither where its commit is staged "
                "nor what it holds, or both; its client has to say one of them"
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
                f"the catalog says that version {self.version} is staged as "
                f"{self.staged_file[:_SHOWN]!r}, which is not <version>.<uuid>.json of that version"
            )


@dataclass(frozen=True, slots=True)
class RatifiedCommits:
    """What a catalog says of a table: its latest version, and the commits that it still keeps.

    `commits` ascend without a gap. Versions up to `latest_version` that are not among them have
    been published. `latest_version` is -1 where nothing has been ratified.
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
                    f"the catalog tells of the commits {before.version} and {after.version} one "
                    "after the other; what it tells of has to ascend without a gap"
                )
        if self.commits and self.commits[-1].version > self.latest_version:
            raise InvalidTableError(
                f"the catalog tells of the commit {self.commits[-1].version}, and that the latest "
                f"version is {self.latest_version}"
            )


@dataclass(frozen=True, slots=True)
class ProposedCommit:
    """A commit that adelta asks a catalog to ratify.

    `content` is the commit, an action a line. `staged_file` is the bare name of the file in
    `_delta_log/_staged_commits` that holds it already, of `size` bytes and the time `modified_ms`;
    None where the client takes commits inline. `in_commit_timestamp` (ms) and `transaction_id`
    stand in its `commitInfo`. All versions up to `published_version` are known to be published, so
    that the catalog need not keep them; None where that is not known of any.
    """

    version: int
    content: bytes
    in_commit_timestamp: int
    transaction_id: str
    staged_file: str | None = None
    size: int = 0
    modified_ms: int = 0
    published_version: int | None = None


@dataclass(frozen=True, slots=True)
class CommitResponse:
    """Whether a proposed commit is `ratified`; if not, its version is another one's.

    `latest` is what `get_ratified_commits` would say now. A catalog that tells it with a conflict
    saves that request.
    """

    ratified: bool
    latest: RatifiedCommits | None = None


class CatalogClient(Protocol):
    """The client of a catalog, for one table; given to `open_table` as `catalog`.

    Its methods may be called by several tasks at once.
    """

    @property
    def takes_inline_commits(self) -> bool:
        """Whether `commit` gets commits that are not staged, and stores their content."""
        ...

    @property
    def permits_maintenance(self) -> bool:
        """Whether adelta may delete expired commits and checkpoints from the table's log."""
        ...

    async def get_ratified_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        """The commits of the range that the catalog keeps, and the latest version of the table.

        Both ends are included, and all commits that it keeps are meant by default. Whatever the
        range, the latest version is the table's.

        Raises:
            TableNotFoundError: the catalog has no such table, or not yet.
            StorageError: the catalog refused or failed.
        """
        ...

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify `proposed`, if its version is the next one.

        It may be asked again of the same commit, where an answer was lost. Any exception but
        those named below is taken for a lost answer.

        Raises:
            CommitOutcomeUnknownError: it may have been ratified.
            ThrottledError: the catalog keeps as many unpublished commits as it can; adelta
                publishes them, and asks again. Nothing was ratified.
            AdeltaError: the catalog refused for another reason than that the version is taken;
                certainly nothing was ratified.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections, when a table that was opened with the client is closed.

        Other tables may be open with it: later calls make new connections.
        """
        ...
