"""The next checksum of the last one and a commit, without a look at the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adelta import _compute as pc
from adelta.kernel.checksum.all_files import lists_files
from adelta.kernel.checksum.file_facts import FileFacts, with_files
from adelta.kernel.table_properties import TableProperties

if TYPE_CHECKING:
    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.json import ActionBatch
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.checksum.version_checksum import VersionChecksum

__all__ = ["MOST_DOMAINS", "MOST_TRANSACTIONS", "advanced"]


MOST_TRANSACTIONS = 100
"""More application transactions are left out of a checksum that is written."""
MOST_DOMAINS = 10
"""More domains are left out of a checksum that is written."""
_NOT_COUNTED = frozenset(
    {
        "COMPUTE STATS",
        "ROW TRACKING BACKFILL",
        "ROW TRACKING UNBACKFILL",
        "Manual Update",
        "Deletion Vector Tombstones",
    }
)
"""Operations whose adds or removes may name files without changing which are live."""

_HOLD_REMOVES_TO_LIVE = ("adelta/", "Apache-Spark/", "Databricks-Runtime/", "Kernel-")
"""How the engines name themselves that check a commit's removes against those that came first."""


def advanced(previous: VersionChecksum, commit: ActionBatch) -> VersionChecksum | None:
    """The checksum after one more commit; None where the commit does not say enough.

    That is so of a commit without provenance, of one that repeats live files or names others, of
    one that removes a file without its size, and of one that removes files and was made by an
    engine of which it is not known that it holds what it removes to what is live. A checksum has to
    be exact or must not be; that new files are new is believed of everybody.
    """
    (version,) = commit.versions
    info = commit.commit_infos.get(version)
    adds, removes = _facts_of(commit, "adds"), _facts_of(commit, "removes")
    if info is None or info.operation in _NOT_COUNTED or adds is None or removes is None:
        return None
    if len(removes.sizes) and not (info.engine_info or "").startswith(_HOLD_REMOVES_TO_LIVE):
        return None
    if len(adds.sizes) and not _all_change(commit, "adds") and _all_change(commit, "removes"):
        return None  # files of which only the description changes, it seems
    metadata = commit.metadata[-1][1] if commit.metadata else previous.metadata
    stated = replace(
        previous,
        protocol=commit.protocols[-1][1] if commit.protocols else previous.protocol,
        metadata=metadata,
        transaction_id=info.txn_id,
        in_commit_timestamp=info.in_commit_timestamp,
        set_transactions=_later_transactions(previous, commit, metadata),
        domain_metadata=_later_domains(previous, commit),
    )
    if commit.metadata and not _still_lists_files(previous.metadata, metadata):
        stated = replace(stated, all_files=None)
    found = with_files(with_files(stated, removes, -1), adds)
    if not found.num_files:
        found = replace(found, all_files={})
    counts = (found.num_files, found.table_size_bytes, found.num_deleted_records or 0)
    binned = (*(found.file_sizes.counts if found.file_sizes else ()),)
    return found if min(*counts, *binned, *(found.deleted_record_counts or ())) >= 0 else None


def _still_lists_files(before: Metadata, after: Metadata) -> bool:
    """Whether files stay listed over a change of metadata.

    As in Delta Spark, a change of schema begins a new list, so that the statistics of columns that
    were dropped do not stay in the checksums.
    """
    return before.schema_string == after.schema_string and lists_files(after)


def _facts_of(commit: ActionBatch, kind: str) -> FileFacts | None:
    """What the commit's adds or removes count for; None where a size is missing or odd."""
    bodies = commit.few_adds if kind == "adds" else commit.few_removes
    if bodies is not None:
        sizes = [body.get("size") for body in bodies]
        return FileFacts.of_bodies(bodies) if all(map(_is_size, sizes)) else None
    table = commit.adds if kind == "adds" else commit.removes
    sizes_column: Any = table.column("size")
    least = pc.min(sizes_column).as_py()
    odd = sizes_column.null_count or (least is not None and least < 0)
    return None if odd else FileFacts.of_table(table)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _all_change(commit: ActionBatch, kind: str) -> bool:
    """Whether every file that is added, or removed, changes data; also where there is none."""
    bodies = commit.few_adds if kind == "adds" else commit.few_removes
    if bodies is not None:
        return all(body.get("dataChange") for body in bodies)
    table = commit.adds if kind == "adds" else commit.removes
    return pc.all(pc.fill_null(table.column("data_change"), False)).as_py() is not False


def _later_transactions(
    previous: VersionChecksum, commit: ActionBatch, metadata: Metadata
) -> frozenset[SetTransaction] | None:
    """All transactions; None where they are too many, or the clock decides which there are."""
    retention = TableProperties.set_transaction_retention_ms
    expiring = any(retention.text(m.configuration) for m in (previous.metadata, metadata))
    if previous.set_transactions is None or expiring:
        return None
    found = {txn.app_id: txn for txn in previous.set_transactions}
    found.update({txn.app_id: txn for _, txn in commit.set_transactions})
    return frozenset(found.values()) if len(found) <= MOST_TRANSACTIONS else None


def _later_domains(
    previous: VersionChecksum, commit: ActionBatch
) -> frozenset[DomainMetadata] | None:
    if previous.domain_metadata is None:
        return None
    found = {domain.domain: domain for domain in previous.domain_metadata}
    found.update({domain.domain: domain for _, domain in commit.domain_metadata})
    live = frozenset(domain for domain in found.values() if not domain.removed)
    return live if len(live) <= MOST_DOMAINS else None
