"""Whether a transaction that lost a race may be replayed on top of what won.

Winning commits are judged in ascending order. First the transaction looks for itself among them: a
put whose answer was lost may well have won. For each other winner, in Delta Spark's order: its
protocol, its metadata, its domains, its application transactions, the files it added against what
was read, the files it removed against what was read, and the files that both remove.

Files that a winner added or removed with `dataChange` false hold the rows that were there before:
what was read of them stays true, and from then on it was read in the winner's new files. Files are
compared by their data file, whatever their deletion vectors: two commits that give one file
different vectors collide.

A blind append has read nothing, so no file action can conflict with it.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from adelta.kernel.file_id import FileIds, canonical_path
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import (
    CATALOG_MANAGED,
    MAINTAINED_DOMAINS,
    is_supported,
    rebased,
)
from adelta.kernel.transaction.metadata_change import metadata_may_change, protocol_may_change
from adelta.kernel.transaction.read_set import ReadSet, changing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.commit import Commit
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.transaction.isolation import IsolationLevel

__all__ = ["Rebase", "already_applied", "partly_applied", "rebase"]


@dataclass(frozen=True, slots=True)
class Rebase:
    """Where a transaction stands after the winners were judged and found harmless.

    `staged` and `read` are what it wants to write, and has read, on top of them. `own_version` is
    set where one of the winners is the transaction itself. `applied_at` is set where a winner has
    recorded the application transactions that this one wanted to record, so that its work is done
    already.
    """

    read_version: int
    protocol: Protocol
    metadata: Metadata
    staged: StagedChanges = field(repr=False, compare=False)
    read: ReadSet = field(default_factory=ReadSet)
    own_version: int | None = None
    applied_at: int | None = None


def already_applied(
    staged: Sequence[SetTransaction], recorded: Mapping[str, SetTransaction]
) -> bool:
    """Whether `recorded` shows every application transaction of `staged` as done."""
    return bool(staged) and all(
        txn.app_id in recorded and recorded[txn.app_id].version >= txn.version for txn in staged
    )


def partly_applied(
    staged: Sequence[SetTransaction], recorded: Mapping[str, SetTransaction]
) -> SetTransaction | None:
    """One application transaction that `recorded` shows as done, where others are not.

    Then the work can be neither skipped nor done: an application's version never goes back.
    """
    done = [
        txn
        for txn in staged
        if txn.app_id in recorded and recorded[txn.app_id].version >= txn.version
    ]
    return done[0] if done and len(done) < len(staged) else None


def rebase(
    staged: StagedChanges,
    read: ReadSet,
    winners: Sequence[Commit],
    *,
    protocol: Protocol,
    metadata: Metadata,
    level: IsolationLevel,
    root: str,
) -> Rebase:
    """Judge `winners`, the commits after the version that `staged` was made against.

    `protocol` and `metadata` are those of that version, `root` the table's address.

    Raises:
        CommitConflictError: one of its family, where the work has to be done again.
        UnsupportedFeatureError: the table has come to need what adelta cannot write.
    """
    harmless = Rebase(winners[-1].version, protocol, metadata, staged, read)
    for winner in winners:
        if winner.info.txn_id == staged.transaction_id:
            own = winner.version
            return replace(harmless, read_version=own, own_version=own)
    for winner in winners:
        recorded = {txn.app_id: txn for txn in winner.set_transactions}
        if already_applied(staged.set_transactions, recorded):
            return replace(harmless, read_version=winner.version, applied_at=winner.version)
    if read.whole_log:
        what = "this one was to follow the version that it is based on, or nothing"
        raise _conflict(CommitConflictError, winners[0], what)
    removed = FileIds.of_table(staged.removes, root)
    placed = staged.existing.few_paths()
    before = now = TableConfiguration(protocol, metadata)
    for winner in winners:
        now = _check_protocol(staged, now, winner)
        now = _check_metadata(staged, now, winner)
        _check_domains(staged, read, winner)
        _check_applications(staged, winner)
        _check_added(staged, read, winner, level)
        _check_removed(read, removed, winner, root)
        if placed is None or _may_name(placed, winner, root):
            _check_placed(staged, winner, root)
        read = read.after(winner, root, now)
    if now != before:
        now.check_writable(root)
    return replace(
        harmless,
        protocol=now.protocol,
        metadata=now.metadata,
        staged=rebased(staged, winners, root),
        read=read,
    )


def _check_protocol(
    staged: StagedChanges, now: TableConfiguration, winner: Commit
) -> TableConfiguration:
    changed = winner.protocol
    if changed is None:
        return now
    if staged.protocol is not None:
        raise _conflict(
            ProtocolChangedError, winner, "set the table's protocol, as this one wants to"
        )
    if is_supported(CATALOG_MANAGED, changed) != is_supported(CATALOG_MANAGED, now.protocol):
        raise _conflict(ProtocolChangedError, winner, "changed who decides on the table's commits")
    if staged.depends_on_table and not protocol_may_change(now.protocol, changed):
        raise _conflict(ProtocolChangedError, winner, "changed the table's protocol")
    return replace(now, protocol=changed)


def _check_metadata(
    staged: StagedChanges, now: TableConfiguration, winner: Commit
) -> TableConfiguration:
    changed = winner.metadata
    if changed is None:
        return now
    if staged.metadata is not None:
        raise _conflict(
            MetadataChangedError, winner, "changed the table's metadata, as this one wants to"
        )
    after = replace(now, metadata=changed)
    if staged.depends_on_table and not metadata_may_change(now, after):
        raise _conflict(
            MetadataChangedError,
            winner,
            "changed the table's schema, partitioning or properties that files depend on",
        )
    return after


def _check_domains(staged: StagedChanges, read: ReadSet, winner: Commit) -> None:
    mine = read.domains | {domain.domain for domain in staged.domains}
    theirs = {domain.domain for domain in winner.domain_metadata} - MAINTAINED_DOMAINS
    both = sorted(theirs if read.all_domains else mine & theirs)
    if both:
        raise _conflict(
            ConcurrentTransactionError, winner, f"changed the domain metadata {both[0]!r}"
        )


def _check_applications(staged: StagedChanges, winner: Commit) -> None:
    mine = {txn.app_id for txn in staged.set_transactions}
    for txn in winner.set_transactions:
        if txn.app_id in mine:
            raise _conflict(
                ConcurrentTransactionError,
                winner,
                f"moved the application {txn.app_id!r} to version {txn.version}: two of its "
                "instances are running at once",
            )


def _check_added(
    staged: StagedChanges, read: ReadSet, winner: Commit, level: IsolationLevel
) -> None:
    if read.is_empty or not level.must_see_adds_of(winner, staged):
        return
    adds = changing(winner.adds)
    if not adds.num_rows:
        return
    if read.whole_table:
        raise _conflict(ConcurrentAppendError, winner, "added {}; all files were read", adds)
    for predicate in read.predicates:
        matching = adds.filter(predicate.may_match(adds))
        if matching.num_rows:
            what = f"added {{}}, which may hold rows where {_literal(predicate.text)}"
            raise _conflict(ConcurrentAppendError, winner, what, matching)


def _check_removed(read: ReadSet, removed: FileIds, winner: Commit, root: str) -> None:
    if (read.is_empty and not len(removed)) or not winner.removes.num_rows:
        return
    gone = changing(winner.removes)
    if gone.num_rows and read.whole_table:
        raise _conflict(ConcurrentDeleteReadError, winner, "removed {}; all files were read", gone)
    lost = read.files.sharing_data(gone, root)
    if lost.num_rows:
        raise _conflict(ConcurrentDeleteReadError, winner, "removed {}, which was read", lost)
    twice = removed.sharing_data(winner.removes, root)
    if twice.num_rows:
        what = "removed {}, which this one removes too"
        raise _conflict(ConcurrentDeleteDeleteError, winner, what, twice)


def _may_name(paths: frozenset[str], winner: Commit, root: str) -> bool:
    """Whether a winner may add or remove a file at one of some canonical paths.

    That is told without tables of its files, of which nothing else may have need.
    """
    if not paths:
        return False
    adds, removes = winner.actions.few_adds, winner.actions.few_removes
    if adds is None or removes is None:
        return True
    return any(canonical_path(body["path"], root) in paths for body in (*adds, *removes))


def _check_placed(staged: StagedChanges, winner: Commit, root: str) -> None:
    """Files that were not written for this commit: others may add them again, or remove them.

    Two commits that add one file again, say with a vector or with ids, would undo each other; and
    a file that others have removed must not come back.
    """
    if not len(staged.existing):
        return
    again = staged.existing.sharing_data(winner.adds, root)
    if again.num_rows:
        raise _conflict(ConcurrentAppendError, winner, "added {}, which this one adds too", again)
    gone = staged.existing.sharing_data(winner.removes, root)
    if gone.num_rows:
        raise _conflict(ConcurrentDeleteReadError, winner, "removed {}, which this one adds", gone)


def _conflict(
    kind: type[CommitConflictError],
    winner: Commit,
    what: str,
    files: pa.Table | None = None,
) -> CommitConflictError:
    """The error; `{}` in `what` stands for the first of `files`."""
    by = f" ({winner.info.operation})" if winner.info.operation else ""
    path = str(files.column("path")[0]) if files is not None else None
    partition: dict[str, str | None] = {}
    if files is not None:
        partition = dict(files.column("partition_values")[0].as_py() or ())
        others = f" and {files.num_rows - 1} more files" if files.num_rows > 1 else ""
        what = what.format(f"{path!r}{others}")
    return kind(
        f"the commit of version {winner.version}{by} came first and {what}; "
        "read the table again and repeat the work",
        winning_version=winner.version,
        winning_operation=winner.info.operation,
        path=path,
        partition=partition,
    )


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
