"""Whether a transaction that lost a race may be replayed on top of what won.

Winning commits are judged in ascending order. First the transaction looks for itself among them: a
put whose answer was lost may well have won. For each other winner, in Delta Spark's order: its
protocol, its metadata, its domains, its application transactions, the files it added against what
was read, the files it removed against what was read, and the files that both remove.

A blind append has read nothing, so no file action can conflict with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from adelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.file_set import canonical_paths
from adelta.kernel.table_features import ROW_TRACKING_BACKFILL
from adelta.kernel.transaction.metadata_change import leaves_files_valid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.staged import StagedChanges, WinningCommit
    from adelta.kernel.transaction.isolation import IsolationLevel
    from adelta.kernel.transaction.read_set import ReadSet

__all__ = ["Rebase", "already_applied", "rebase"]


@dataclass(frozen=True, slots=True)
class Rebase:
    """Where a transaction stands after the winners were judged and found harmless.

    `own_version` is set where one of the winners is the transaction itself. `applied_at` is set
    where a winner has recorded the application transactions that this one wanted to record, so that
    its work is done already.
    """

    read_version: int
    protocol: Protocol
    metadata: Metadata
    own_version: int | None = None
    applied_at: int | None = None


def already_applied(
    staged: Sequence[SetTransaction], recorded: Mapping[str, SetTransaction]
) -> bool:
    """Whether `recorded` shows every application transaction of `staged` as done."""
    return bool(staged) and all(
        txn.app_id in recorded and recorded[txn.app_id].version >= txn.version for txn in staged
    )


def rebase(
    staged: StagedChanges,
    read: ReadSet,
    winners: Sequence[WinningCommit],
    *,
    protocol: Protocol,
    metadata: Metadata,
    level: IsolationLevel,
    root: str | None = None,
) -> Rebase:
    """Judge `winners`, the commits after the version that `staged` was made against.

    `protocol` and `metadata` are those of that version, `root` the table's address.

    Raises:
        CommitConflictError: one of its family, where the work has to be done again.
    """
    for winner in winners:
        info = winner.commit_info
        if info is not None and info.txn_id == staged.transaction_id:
            return Rebase(winner.version, protocol, metadata, own_version=winner.version)
    for winner in winners:
        recorded = {txn.app_id: txn for txn in winner.set_transactions}
        if already_applied(staged.set_transactions, recorded):
            return Rebase(winner.version, protocol, metadata, applied_at=winner.version)
    removed = _removed_paths(staged, root)
    for winner in winners:
        protocol = _check_protocol(staged, protocol, winner)
        metadata = _check_metadata(staged, metadata, winner)
        _check_domains(staged, read, winner)
        _check_applications(staged, winner)
        _check_added(staged, read, winner, level)
        _check_removed(read, removed, winner, root)
    return Rebase(winners[-1].version, protocol, metadata)


def _check_protocol(staged: StagedChanges, protocol: Protocol, winner: WinningCommit) -> Protocol:
    changed = winner.protocol
    if changed is None or changed == protocol:
        if changed is not None and staged.protocol is not None:
            raise _conflict(
                ProtocolChangedError, winner, "set the table's protocol, as this one wants to"
            )
        return protocol
    raise _conflict(ProtocolChangedError, winner, "changed the table's protocol")


def _check_metadata(staged: StagedChanges, metadata: Metadata, winner: WinningCommit) -> Metadata:
    changed = winner.metadata
    if changed is None:
        return metadata
    if staged.metadata is not None:
        raise _conflict(
            MetadataChangedError, winner, "changed the table's metadata, as this one wants to"
        )
    if not leaves_files_valid(metadata, changed):
        raise _conflict(
            MetadataChangedError,
            winner,
            "changed the table's schema, partitioning or properties that files depend on",
        )
    return changed


def _check_domains(staged: StagedChanges, read: ReadSet, winner: WinningCommit) -> None:
    mine = read.domains | {domain.domain for domain in staged.domains}
    both = sorted(mine & {domain.domain for domain in winner.domains})
    if both:
        raise _conflict(
            ConcurrentTransactionError, winner, f"changed the domain metadata {both[0]!r}"
        )


def _check_applications(staged: StagedChanges, winner: WinningCommit) -> None:
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
    staged: StagedChanges, read: ReadSet, winner: WinningCommit, level: IsolationLevel
) -> None:
    if not winner.adds.num_rows:
        return
    _check_added_twice(staged, winner)
    if winner.operation == ROW_TRACKING_BACKFILL or not level.must_see_adds_of(winner, staged):
        return
    if read.whole_table:
        raise _conflict(
            ConcurrentAppendError, winner, f"added {_example(winner.adds)}; all files were read"
        )
    for predicate in read.predicates:
        matching = winner.adds.filter(predicate.may_match(winner.adds))
        if matching.num_rows:
            raise _conflict(
                ConcurrentAppendError,
                winner,
                f"added {_example(matching)}, which may hold rows where {predicate.text}",
            )


def _check_added_twice(staged: StagedChanges, winner: WinningCommit) -> None:
    """Two commits that add one file again, say with a vector or with ids, would undo each other."""
    paths = pa.array([decode_path(file.path) for file in staged.adds], pa.string())
    added = canonical_paths(winner.adds.column("path"))
    twice = winner.adds.filter(pc.is_in(added, value_set=paths))
    if twice.num_rows:
        raise _conflict(
            ConcurrentAppendError, winner, f"added {_example(twice)}, which this one adds too"
        )


def _check_removed(
    read: ReadSet, removed: pa.Array[Any] | None, winner: WinningCommit, root: str | None
) -> None:
    if not winner.removes.num_rows:
        return
    if read.whole_table:
        raise _conflict(
            ConcurrentDeleteReadError,
            winner,
            f"removed {_example(winner.removes)}; all files were read",
        )
    gone = canonical_paths(winner.removes.column("path"), root)
    if read.paths:
        lost = winner.removes.filter(
            pc.is_in(gone, value_set=pa.array(sorted(read.paths), pa.string()))
        )
        if lost.num_rows:
            raise _conflict(
                ConcurrentDeleteReadError, winner, f"removed {_example(lost)}, which was read"
            )
    if removed is not None:
        twice = winner.removes.filter(pc.is_in(gone, value_set=removed))
        if twice.num_rows:
            raise _conflict(
                ConcurrentDeleteDeleteError,
                winner,
                f"removed {_example(twice)}, which this one removes too",
            )


def _removed_paths(staged: StagedChanges, root: str | None) -> pa.Array[Any] | None:
    """Decoded paths: two commits that give one file different deletion vectors collide as well."""
    if not staged.removes.num_rows:
        return None
    return canonical_paths(staged.removes.column("path"), root).combine_chunks()


def _example(files: pa.Table) -> str:
    first = repr(str(files.column("path")[0]))
    return first if files.num_rows == 1 else f"{first} and {files.num_rows - 1} more files"


def _conflict(
    kind: type[CommitConflictError], winner: WinningCommit, what: str
) -> CommitConflictError:
    by = f" ({winner.operation})" if winner.operation else ""
    return kind(
        f"the commit of version {winner.version}{by} came first and {what}; "
        "read the table again and repeat the work",
        winning_version=winner.version,
        winning_operation=winner.operation,
    )
