"""The version checksum, a `.crc` file (PROTOCOL.md, "Version Checksum File").

A writer leaves beside a commit what the table holds after it: protocol, metadata, how many files
of how many bytes, and more where it likes. `decode` takes what is stated, `summarize` makes the
same of a replayed table, `advanced` makes the next one of the last one and a commit, and
`differences` says where two disagree. Lists of files
(`allFiles`) are passed over: they would only repeat the log.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, fields, replace
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute

from adelta.errors import InvalidTableError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.table_properties import TableProperties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from adelta.kernel.actions.json import ActionBatch

__all__ = [
    "MOST_DOMAINS",
    "MOST_TRANSACTIONS",
    "SIZE_BOUNDARIES",
    "FileCounts",
    "FileFacts",
    "FileSizeHistogram",
    "VersionChecksum",
    "advanced",
    "decode",
    "decode_counts",
    "differences",
    "encode",
    "nothing",
    "summarize",
    "with_files",
]

pc: Any = pyarrow.compute  # the stubs refuse most mixtures of arrays and scalars

MOST_TRANSACTIONS = 100
"""More application transactions are left out of a checksum that is written."""
MOST_DOMAINS = 10
"""More domains are left out of a checksum that is written."""
_FEW_FILES = 64  # binned one by one
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
SIZE_BOUNDARIES: tuple[int, ...] = (
    0,
    *(8 * _KIB << power for power in range(10)),
    *range(8 * _MIB, 40 * _MIB + 1, 4 * _MIB),
    *range(48 * _MIB, 120 * _MIB + 1, 8 * _MIB),
    *range(124 * _MIB, 144 * _MIB + 1, 4 * _MIB),
    *range(160 * _MIB, 576 * _MIB + 1, 16 * _MIB),
    *range(640 * _MIB, 1408 * _MIB + 1, 64 * _MIB),
    *range(1536 * _MIB, 2048 * _MIB + 1, 128 * _MIB),
    *range(2304 * _MIB, 4096 * _MIB + 1, 256 * _MIB),
    *(8 * _GIB << power for power in range(6)),
)
"""The bins of file sizes, in bytes, that Delta Spark has."""
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


@dataclass(frozen=True, slots=True)
class FileCounts:
    """All that the checksums of old writers state, which tell neither protocol nor metadata."""

    num_files: int
    table_size_bytes: int


def decode_counts(data: bytes) -> FileCounts | None:
    """What an old writer's checksum states; None where it is of another form, or damaged."""
    try:
        raw = orjson.loads(data)
        if not isinstance(raw, dict) or not raw.keys().isdisjoint({"metadata", "protocol"}):
            return None
        return FileCounts(_count(raw["numFiles"]), _count(raw["tableSizeBytes"]))
    except (ValueError, KeyError, TypeError):
        return None


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
        deleted_record_counts=(0,) * len(_DELETED_RECORDS),
    )


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a checksum counts of some files: their sizes, and the rows that vectors mask in each."""

    sizes: NDArray[np.int64]
    masked: NDArray[np.int64]
    num_vectors: int

    @classmethod
    def of_table(cls, files: pa.Table) -> FileFacts:
        """Of files with the columns `size` and `deletion_vector`; no size counts as none."""
        vectors: Any = files.column("deletion_vector")
        masked = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0)
        sizes = pc.fill_null(files.column("size"), 0)
        numbers = [np.asarray(column.to_numpy(), np.int64) for column in (sizes, masked)]
        return cls(numbers[0], numbers[1], files.num_rows - vectors.null_count)

    @classmethod
    def of_bodies(cls, bodies: Sequence[Mapping[str, Any]]) -> FileFacts:
        """Of decoded actions; no size counts as none."""
        vectors = [body.get("deletionVector") for body in bodies]
        masked = [vector["cardinality"] if vector else 0 for vector in vectors]
        sizes = [body.get("size") or 0 for body in bodies]
        numbers = [np.array(values, np.int64) for values in (sizes, masked)]
        return cls(numbers[0], numbers[1], sum(vector is not None for vector in vectors))


def with_files(checksum: VersionChecksum, files: FileFacts, sign: int = 1) -> VersionChecksum:
    """The checksum with some files more, or with `sign` -1 with them less.

    What the checksum does not state stays so.
    """
    if not len(files.sizes):
        return checksum
    deleted, vectors = checksum.num_deleted_records, checksum.num_deletion_vectors
    histogram, records = checksum.file_sizes, checksum.deleted_record_counts
    if histogram is not None:
        histogram = replace(
            histogram,
            counts=_binned(histogram.counts, histogram.boundaries, files.sizes, sign, None),
            total_bytes=_binned(
                histogram.total_bytes, histogram.boundaries, files.sizes, sign, files.sizes
            ),
        )
    if records is not None:
        records = _binned(records, _DELETED_RECORDS, files.masked, sign, None)
    return replace(
        checksum,
        num_files=checksum.num_files + sign * len(files.sizes),
        table_size_bytes=checksum.table_size_bytes + sign * int(files.sizes.sum()),
        num_deleted_records=(None if deleted is None else deleted + sign * int(files.masked.sum())),
        num_deletion_vectors=None if vectors is None else vectors + sign * files.num_vectors,
        file_sizes=histogram,
        deleted_record_counts=records,
    )


def _binned(
    before: Sequence[int],
    boundaries: Sequence[int],
    values: NDArray[np.int64],
    sign: int,
    weights: NDArray[np.int64] | None,
) -> tuple[int, ...]:
    """Counts, or sums of `weights`, by bin, with those of `values` added."""
    if len(values) <= _FEW_FILES:
        after = list(before)
        numbers = values.tolist()
        counted = repeat(1) if weights is None else weights.tolist()
        for value, weight in zip(numbers, counted, strict=False):
            after[bisect_right(boundaries, value) - 1] += sign * weight
        return tuple(after)
    bins = np.searchsorted(np.asarray(boundaries, np.int64), values, side="right") - 1
    found = np.zeros(len(boundaries), np.int64)
    np.add.at(found, bins, 1 if weights is None else weights)
    return tuple(b + sign * int(f) for b, f in zip(before, found, strict=True))


def advanced(previous: VersionChecksum, commit: ActionBatch) -> VersionChecksum | None:
    """The checksum after one more commit; None where the commit does not say enough.

    That is so of a commit without provenance, of one that repeats live files or names others, and
    of one that removes a file without its size. A checksum has to be exact or must not be.
    """
    (version,) = commit.versions
    info = commit.commit_infos.get(version)
    adds, removes = _facts_of(commit, "adds"), _facts_of(commit, "removes")
    if info is None or info.operation in _NOT_COUNTED or adds is None or removes is None:
        return None
    if len(adds.sizes) and not len(removes.sizes) and not _all_news(commit):
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
    found = with_files(with_files(stated, adds), removes, -1)
    counts = (found.num_files, found.table_size_bytes, found.num_deleted_records or 0)
    binned = (*(found.file_sizes.counts if found.file_sizes else ()),)
    return found if min(*counts, *binned, *(found.deleted_record_counts or ())) >= 0 else None


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


def _all_news(commit: ActionBatch) -> bool:
    """Whether every added file changes data."""
    bodies = commit.few_adds
    if bodies is not None:
        return all(body.get("dataChange") for body in bodies)
    return bool(pc.all(pc.fill_null(commit.adds.column("data_change"), False)).as_py())


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


def differences(
    stated: VersionChecksum | FileCounts, found: VersionChecksum | FileCounts
) -> tuple[str, ...]:
    """Where two checksums of one version disagree, in words; what one of them leaves out agrees.

    Both are of the same form.
    """
    told = []
    for field in fields(stated):
        one, other = getattr(stated, field.name), getattr(found, field.name)
        if one is None or other is None or one == other:
            continue
        values = f": {one} is stated, {other} found" if isinstance(one, int) else ""
        told.append(f"{_NAMES[field.name]}{values}")
    return tuple(told)
