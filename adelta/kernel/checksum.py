"""The version checksum, a `.crc` file (PROTOCOL.md, "Version Checksum File").

A writer leaves beside a commit what the table holds after it: protocol, metadata, how many files
of how many bytes, and more where it likes. `decode` takes what is stated, `summarize` makes the
same of a replayed table, and `differences` says where the two disagree. Lists of files
(`allFiles`) are passed over: they would only repeat the log.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute

from adelta.errors import InvalidTableError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "FileSizeHistogram",
    "VersionChecksum",
    "decode",
    "differences",
    "encode",
    "summarize",
]

pc: Any = pyarrow.compute  # the stubs refuse most mixtures of arrays and scalars

_DELETED_RECORDS = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 2_147_483_647)


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
    files by the number of these. Removed domains are not among `domain_metadata`.
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


def decode(data: bytes, source: str) -> VersionChecksum:
    """The checksum that the file `source` holds.

    Raises:
        InvalidTableError: the file is damaged.
    """
    try:
        raw = orjson.loads(data)
        if not isinstance(raw, dict):
            raise TypeError("it is no JSON object")
        return _decode(raw)
    except (ValueError, KeyError, TypeError, AttributeError, InvalidTableError) as error:
        raise InvalidTableError(
            f"{source}: the version checksum cannot be read ({type(error).__name__}: "
            f"{str(error)[:200]}); the log does not need it: delete the file"
        ) from error


def _decode(raw: dict[str, Any]) -> VersionChecksum:
    if not isinstance(raw["metadata"], dict) or "schemaString" not in raw["metadata"]:
        raise TypeError("its metadata has no schema")
    transactions, domains = raw.get("setTransactions"), raw.get("domainMetadata")
    sizes = raw.get("fileSizeHistogram") or raw.get("histogramOpt")
    deleted = raw.get("deletedRecordCountsHistogramOpt")
    identity = raw.get("txnId")
    return VersionChecksum(
        num_files=_count(raw["numFiles"]),
        table_size_bytes=_count(raw["tableSizeBytes"]),
        protocol=Protocol.from_json(raw["protocol"]),
        metadata=Metadata.from_json(raw["metadata"]),
        transaction_id=None if identity is None else str(identity),
        in_commit_timestamp=_optional(raw.get("inCommitTimestampOpt")),
        set_transactions=(
            None
            if transactions is None
            else frozenset(SetTransaction.from_json(one) for one in transactions)
        ),
        domain_metadata=(
            None
            if domains is None
            else frozenset(d for d in map(DomainMetadata.from_json, domains) if not d.removed)
        ),
        num_deleted_records=_optional(raw.get("numDeletedRecordsOpt")),
        num_deletion_vectors=_optional(raw.get("numDeletionVectorsOpt")),
        file_sizes=(
            None
            if sizes is None
            else FileSizeHistogram(
                _counts(sizes["sortedBinBoundaries"]),
                _counts(sizes["fileCounts"]),
                _counts(sizes["totalBytes"]),
            )
        ),
        deleted_record_counts=None if deleted is None else _counts(deleted["deletedRecordCounts"]),
    )


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{str(value)[:40]!r} is no number of something")
    return value


def _counts(values: Iterable[object]) -> tuple[int, ...]:
    return tuple(_count(value) for value in values)


def _optional(value: object) -> int | None:
    return None if value is None else _count(value)


def encode(checksum: VersionChecksum) -> bytes:
    """The content of the file."""
    body: dict[str, Any] = {
        "txnId": checksum.transaction_id,
        "tableSizeBytes": checksum.table_size_bytes,
        "numFiles": checksum.num_files,
        "numMetadata": 1,
        "numProtocol": 1,
        "numDeletedRecordsOpt": checksum.num_deleted_records,
        "numDeletionVectorsOpt": checksum.num_deletion_vectors,
        "inCommitTimestampOpt": checksum.in_commit_timestamp,
        "setTransactions": _sorted(checksum.set_transactions),
        "domainMetadata": _sorted(checksum.domain_metadata),
        "metadata": checksum.metadata.to_json(),
        "protocol": checksum.protocol.to_json(),
    }
    if checksum.file_sizes is not None:
        body["fileSizeHistogram"] = {
            "sortedBinBoundaries": checksum.file_sizes.boundaries,
            "fileCounts": checksum.file_sizes.counts,
            "totalBytes": checksum.file_sizes.total_bytes,
        }
    if checksum.deleted_record_counts is not None:
        counts = {"deletedRecordCounts": checksum.deleted_record_counts}
        body["deletedRecordCountsHistogramOpt"] = counts
    return orjson.dumps({key: value for key, value in body.items() if value is not None})


def _sorted(
    actions: frozenset[SetTransaction] | frozenset[DomainMetadata] | None,
) -> list[dict[str, Any]] | None:
    if actions is None:
        return None
    return sorted((action.to_json() for action in actions), key=orjson.dumps)


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

    Of the columns of `ADD_SCHEMA`, `files` needs `size` and `deletion_vector`. Without
    `size_boundaries` there is no histogram of file sizes.
    """
    sizes = files.column("size")
    vectors: Any = files.column("deletion_vector")
    cardinality = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0)
    histogram = None
    if size_boundaries:
        counts, totals = _histogram(sizes, size_boundaries)
        histogram = FileSizeHistogram(tuple(size_boundaries), counts, totals)
    return VersionChecksum(
        num_files=files.num_rows,
        table_size_bytes=int(pc.sum(sizes).as_py() or 0),
        protocol=protocol,
        metadata=metadata,
        transaction_id=transaction_id,
        in_commit_timestamp=in_commit_timestamp,
        set_transactions=frozenset(set_transactions),
        domain_metadata=frozenset(domain_metadata),
        num_deleted_records=int(pc.sum(cardinality).as_py() or 0),
        num_deletion_vectors=files.num_rows - vectors.null_count,
        file_sizes=histogram,
        deleted_record_counts=_histogram(cardinality, _DELETED_RECORDS)[0],
    )


def _histogram(
    values: pa.ChunkedArray[Any], boundaries: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many of the values are in each bin, and their sums."""
    above = [pc.greater_equal(values, boundary) for boundary in boundaries]
    counts = [int(pc.sum(mask).as_py() or 0) for mask in above] + [0]
    sums = [int(pc.sum(values.filter(mask)).as_py() or 0) for mask in above] + [0]
    return (
        tuple(one - above for one, above in pairwise(counts)),
        tuple(one - above for one, above in pairwise(sums)),
    )


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
}


def differences(stated: VersionChecksum, found: VersionChecksum) -> tuple[str, ...]:
    """Where two checksums of one version disagree, in words; what one of them leaves out agrees."""
    told = []
    for field in fields(VersionChecksum):
        one, other = getattr(stated, field.name), getattr(found, field.name)
        if one is None or other is None or one == other:
            continue
        values = f": {one} is stated, {other} found" if isinstance(one, int) else ""
        told.append(f"{_NAMES[field.name]}{values}")
    return tuple(told)
