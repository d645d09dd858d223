"""VersionChecksum: what a writer may state beside a commit of what the table holds after it.

That is protocol, metadata, how many files of how many bytes, and more where it likes. `differences`
says where two of one version disagree.
"""

from __future__ import annotations

from dataclasses import field, fields
from itertools import pairwise
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.checksum.all_files import AllFiles

__all__ = ["FileCounts", "FileSizeHistogram", "VersionChecksum", "differences"]


@dataclass(frozen=True, slots=True)
class FileSizeHistogram:
    """How many live files, and how many bytes in them, there are by the size of the file.

    Bin i takes sizes from `boundaries[i]` up to the next boundary; the last one is open.
    """

    boundaries: tuple[int, ...]
    counts: tuple[int, ...]
    total_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        """Prove that the bins fit together.

        Raises:
            InvalidTableError: they do not.
        """
        ascending = all(a < b for a, b in pairwise(self.boundaries))
        lengths = {len(self.boundaries), len(self.counts), len(self.total_bytes)}
        if not self.boundaries or self.boundaries[0] != 0 or not ascending or len(lengths) > 1:
            raise InvalidTableError("the bins of its file size histogram do not fit together")


@dataclass(frozen=True, slots=True)
class VersionChecksum:
    """What a version holds; None where it is not stated.

    `num_deleted_records` counts the rows that deletion vectors mask, `deleted_record_counts` the
    files by the number of these. Removed domains are not among `domain_metadata`. `all_files` lists
    the live files of small tables.
    """

    num_files: int
    table_size_bytes: int
    protocol: Protocol
    metadata: Metadata
    transaction_id: str | None = None
    in_commit_timestamp: int | None = None
    set_transactions: frozenset[SetTransaction] | None = None
    domain_metadata: frozenset[DomainMetadata] | None = None
    num_deleted_records: int | None = None
    num_deletion_vectors: int | None = None
    file_sizes: FileSizeHistogram | None = None
    deleted_record_counts: tuple[int, ...] | None = None
    all_files: AllFiles | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class FileCounts:
    """All that the checksums of old writers state, which tell neither protocol nor metadata."""

    num_files: int
    table_size_bytes: int


_NAMES: Mapping[str, str] = {
    "num_files": "the number of files",
    "table_size_bytes": "the bytes in the files",
    "protocol": "the protocol",
    "metadata": "the metadata",
    "transaction_id": "the id of the transaction",
    "in_commit_timestamp": "the in-commit timestamp",
    "set_transactions": "the application transactions",
    "domain_metadata": "the domain metadata",
    "num_deleted_records": "the number of deleted records",
    "num_deletion_vectors": "the number of deletion vectors",
    "file_sizes": "the histogram of file sizes",
    "deleted_record_counts": "the histogram of deleted records",
    "all_files": "the list of files",
}


def differences(
    stated: VersionChecksum | FileCounts, found: VersionChecksum | FileCounts
) -> tuple[str, ...]:
    """Where two checksums of one version disagree, in words; what one of them leaves out agrees.

    Both are of the same form. Of listed files, only the identities are compared here.
    """
    differing = []
    for each in fields(stated):
        one, other = getattr(stated, each.name), getattr(found, each.name)
        if each.name == "all_files" and one is not None and other is not None:
            one, other = one.keys(), other.keys()
        if one is None or other is None or one == other:
            continue
        values = f": {one} is stated, {other} found" if isinstance(one, int) else ""
        differing.append(f"{_NAMES[each.name]}{values}")
    return tuple(differing)
