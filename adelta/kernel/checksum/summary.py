"""The checksum of a version that is known as a whole: `summarize` makes it of a replayed table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.checksum.file_facts import DELETED_RECORDS, FileFacts, with_files
from adelta.kernel.checksum.version_checksum import FileSizeHistogram, VersionChecksum

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction

__all__ = ["nothing", "summarize"]


def summarize(
    files: pa.Table,
    protocol: Protocol,
    metadata: Metadata,
    *,
    set_transactions: Iterable[SetTransaction] = (),
    domain_metadata: Iterable[DomainMetadata] = (),
    in_commit_timestamp: int | None = None,
    transaction_id: str | None = None,
    size_boundaries: Sequence[int] = (),
) -> VersionChecksum:
    """The checksum of a version whose live files are `files`.

    Of the columns of `ADD_SCHEMA`, `files` needs `size` and `deletion_vector`, and all of them for
    the list of files. Without `size_boundaries` there is no histogram of file sizes.
    """
    empty = nothing(
        protocol,
        metadata,
        set_transactions=set_transactions,
        domain_metadata=domain_metadata,
        in_commit_timestamp=in_commit_timestamp,
        transaction_id=transaction_id,
        size_boundaries=size_boundaries,
    )
    return with_files(empty, FileFacts.of_table(files))


def nothing(
    protocol: Protocol,
    metadata: Metadata,
    *,
    set_transactions: Iterable[SetTransaction] | None = (),
    domain_metadata: Iterable[DomainMetadata] | None = (),
    in_commit_timestamp: int | None = None,
    transaction_id: str | None = None,
    size_boundaries: Sequence[int] = (),
) -> VersionChecksum:
    """The checksum of a version without files; see `summarize`."""
    boundaries, zeros = tuple(size_boundaries), (0,) * len(size_boundaries)
    return VersionChecksum(
        num_files=0,
        table_size_bytes=0,
        protocol=protocol,
        metadata=metadata,
        transaction_id=transaction_id,
        in_commit_timestamp=in_commit_timestamp,
        set_transactions=None if set_transactions is None else frozenset(set_transactions),
        domain_metadata=None if domain_metadata is None else frozenset(domain_metadata),
        num_deleted_records=0,
        num_deletion_vectors=0,
        file_sizes=FileSizeHistogram(boundaries, zeros, zeros) if boundaries else None,
        deleted_record_counts=(0,) * len(DELETED_RECORDS),
        all_files={},
    )
