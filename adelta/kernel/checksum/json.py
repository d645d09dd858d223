"""The checksum file: one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adelta.errors import InvalidTableError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.checksum.all_files import decode_all_files
from adelta.kernel.checksum.version_checksum import FileCounts, FileSizeHistogram, VersionChecksum

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["decode", "decode_counts", "encode"]


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
    num_files, table_size_bytes = _count(raw["numFiles"]), _count(raw["tableSizeBytes"])
    return VersionChecksum(
        num_files=num_files,
        table_size_bytes=table_size_bytes,
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
        all_files=decode_all_files(raw.get("allFiles"), num_files, table_size_bytes),
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
    if checksum.all_files is not None:
        body["allFiles"] = [*checksum.all_files.values()]
    return orjson.dumps({key: value for key, value in body.items() if value is not None})


def _sorted(
    actions: frozenset[SetTransaction] | frozenset[DomainMetadata] | None,
) -> list[dict[str, Any]] | None:
    if actions is None:
        return None
    return sorted((action.to_json() for action in actions), key=orjson.dumps)
