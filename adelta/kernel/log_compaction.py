"""Log compactions: what is in one, and which files to read instead of a run of commits.

(PROTOCOL.md, "Log Compaction Files".) A compaction `<x>.<y>.compacted.json` holds what the commits
x to y leave: live files, tombstones, removed domains, the last of every singleton, and neither
`commitInfo` nor `cdc`. It stands for these commits only as a whole. The commits themselves still
have to be there: `LogSegment` proves that. There are files of that name that merely string commits
together; what they leave depends on an order that nobody defined. And there are empty ones, of
commits that do leave something. `is_reconciled` tells both apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from adelta import _compute as pc
from adelta.kernel.actions.json import encode_commit
from adelta.kernel.file_id import file_ids
from adelta.kernel.file_set import add_files, remove_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adelta.kernel.actions.json import Action, ActionBatch
    from adelta.kernel.log_path import LogPath

__all__ = ["compaction_pieces", "files_to_read", "is_reconciled"]

_PIECE = 512  # actions


def compaction_pieces(
    batches: Sequence[ActionBatch], adds: pa.Table, removes: pa.Table
) -> Iterator[bytes]:
    """The content of the compaction of the commits `batches`, which leave `adds` and `removes`.

    It comes in pieces, each quick to make. Domains that were removed are among the actions: without
    them an earlier checkpoint would bring them back.
    """
    protocols = [one for batch in batches for _, one in batch.protocols]
    metadata = [one for batch in batches for _, one in batch.metadata]
    transactions = {t.app_id: t for batch in batches for _, t in batch.set_transactions}
    domains = {d.domain: d for batch in batches for _, d in batch.domain_metadata}
    singletons: list[Action] = [
        *protocols[-1:],
        *metadata[-1:],
        *transactions.values(),
        *domains.values(),
    ]
    if singletons:
        yield encode_commit(singletons)
    for start in range(0, removes.num_rows, _PIECE):
        yield encode_commit(remove_files(removes.slice(start, _PIECE)))
    for start in range(0, adds.num_rows, _PIECE):
        yield encode_commit(add_files(adds.slice(start, _PIECE)))


def files_to_read(
    commits: Sequence[LogPath], compactions: Sequence[LogPath]
) -> tuple[LogPath, ...]:
    """The fewest files, greedily, that say what `commits` do; in ascending order of version.

    Example: for the commits 3 to 9 and compactions of 4 to 6 and 4 to 8: 3, 4 to 8, 9.
    """
    if not commits:
        return ()
    last = commits[-1].version
    longest: dict[int, LogPath] = {}
    for compaction in compactions:
        start = compaction.start_version
        if start is None or not start < compaction.version <= last:
            continue
        if start not in longest or longest[start].version < compaction.version:
            longest[start] = compaction
    chosen: list[LogPath] = []
    reached = commits[0].version - 1
    for commit in commits:
        if commit.version > reached:
            chosen.append(longest.get(commit.version, commit))
            reached = chosen[-1].version
    return tuple(chosen)


def is_reconciled(batch: ActionBatch, root: str) -> bool:
    """Whether there are actions in a compaction, and each file and all else is named once at most.

    Next to no commits leave nothing, so that a compaction without actions is hardly ever right, and
    never worth being read.
    """
    keys = [*file_ids(batch.adds, root).chunks, *file_ids(batch.removes, root).chunks]
    files = pa.chunked_array(keys, pa.string())
    applications = [txn.app_id for _, txn in batch.set_transactions]
    domains = [domain.domain for _, domain in batch.domain_metadata]
    singletons = [*batch.protocols, *batch.metadata, *applications, *domains]
    return (
        bool(len(files) or singletons)
        and pc.count_distinct(files).as_py() == len(files)
        and max(len(batch.protocols), len(batch.metadata)) <= 1
        and len(set(applications)) == len(applications)
        and len(set(domains)) == len(domains)
    )
