"""The file actions `add`, `remove` and `cdc`, one a value: for small numbers.

They are for what a transaction stages, for the command line, and for messages. Many are tables, of
the schemas in `kernel/actions/file_schemas.py`.

`path` is kept as the log has it, that is percent-encoded; `decode_path` gives the object's path.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "VERSION_COLUMN",
    "AddCDCFile",
    "AddFile",
    "DeletionVectorDescriptor",
    "RemoveFile",
    "decode_path",
    "encode_path",
]


VERSION_COLUMN = "version"
"""The column behind those of the actions: the version that each is of."""

_UNRESERVED = "/-_.~!$&'()*+,;=:@"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def decode_path(path: str) -> str:
    """The object's path for the `path` of a file action, which is a percent-encoded URI.

    Example: ``part=a%2525/x.parquet`` is the object ``part=a%25/x.parquet``.
    """
    return unquote(path) if "%" in path else path


def encode_path(path: str) -> str:
    """The `path` of a file action for an object's path: percent-encoded once.

    Example: ``part=a%25/x y.parquet`` becomes ``part=a%2525/x%20y.parquet``.
    """
    return quote(path, safe=_UNRESERVED)


@dataclass(frozen=True, slots=True)
class DeletionVectorDescriptor:
    """Where a deletion vector is (PROTOCOL.md, "Deletion Vectors")."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None

    @property
    def unique_id(self) -> str:
        """What tells this vector from every other one on the same file."""
        base = self.storage_type + self.path_or_inline_dv
        return base if self.offset is None else f"{base}@{self.offset}"

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> DeletionVectorDescriptor:
        """The value of a decoded descriptor.

        Raises:
            InvalidTableError: a field is missing, or is a number below zero.
        """
        kind, text = raw.get("storageType"), raw.get("pathOrInlineDv")
        size, cardinality = raw.get("sizeInBytes"), raw.get("cardinality")
        offset = raw.get("offset")
        texts = isinstance(kind, str) and isinstance(text, str)
        if not texts or not _is_count(size) or not _is_count(cardinality) or (offset or 0) < 0:
            raise InvalidTableError(
                f"a file action has the deletion vector {str(dict(raw))[:200]}, which is damaged; "
                "restore the table to an earlier version"
            )
        return cls(str(kind), str(text), int(size or 0), int(cardinality or 0), offset)

    def to_json(self) -> dict[str, Any]:
        """The descriptor as the log writes it."""
        body: dict[str, Any] = {
            "storageType": self.storage_type,
            "pathOrInlineDv": self.path_or_inline_dv,
        }
        if self.offset is not None:
            body["offset"] = self.offset
        body["sizeInBytes"] = self.size_in_bytes
        body["cardinality"] = self.cardinality
        return body


@dataclass(frozen=True, slots=True)
class AddFile:
    """One `add`: a data file of the table. `path` is percent-encoded, `size` in bytes, times in ms.

    `partition_values` are the log's texts by physical column name; `stats` is JSON text.
    """

    path: str
    partition_values: Mapping[str, str | None] = field(hash=False)
    size: int
    modification_time: int
    data_change: bool = True
    stats: str | None = None
    tags: Mapping[str, str | None] | None = field(default=None, hash=False)
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        body: dict[str, Any] = {
            "path": self.path,
            "partitionValues": dict(self.partition_values),
            "size": self.size,
            "modificationTime": self.modification_time,
            "dataChange": self.data_change,
        }
        if self.stats is not None:
            body["stats"] = self.stats
        if self.tags is not None:
            body["tags"] = dict(self.tags)
        _put_shared(body, self)
        if self.clustering_provider is not None:
            body["clusteringProvider"] = self.clustering_provider
        return body

    def remove(self, deletion_timestamp: int, *, data_change: bool = True) -> RemoveFile:
        """The `remove` that takes this file out of the table."""
        return RemoveFile(
            path=self.path,
            deletion_timestamp=deletion_timestamp,
            data_change=data_change,
            extended_file_metadata=True,
            partition_values=self.partition_values,
            size=self.size,
            tags=self.tags,
            deletion_vector=self.deletion_vector,
            base_row_id=self.base_row_id,
            default_row_commit_version=self.default_row_commit_version,
        )


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """One `remove`: a tombstone. Fields as in `AddFile`."""

    path: str
    deletion_timestamp: int | None
    data_change: bool = True
    extended_file_metadata: bool | None = None
    partition_values: Mapping[str, str | None] | None = field(default=None, hash=False)
    size: int | None = None
    stats: str | None = None
    tags: Mapping[str, str | None] | None = field(default=None, hash=False)
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        body: dict[str, Any] = {"path": self.path, "dataChange": self.data_change}
        if self.deletion_timestamp is not None:
            body["deletionTimestamp"] = self.deletion_timestamp
        if self.extended_file_metadata is not None:
            body["extendedFileMetadata"] = self.extended_file_metadata
        if self.partition_values is not None:
            body["partitionValues"] = dict(self.partition_values)
        if self.size is not None:
            body["size"] = self.size
        if self.stats is not None:
            body["stats"] = self.stats
        if self.tags is not None:
            body["tags"] = dict(self.tags)
        _put_shared(body, self)
        return body


@dataclass(frozen=True, slots=True)
class AddCDCFile:
    """One `cdc`: a file of row changes. Fields as in `AddFile`."""

    path: str
    partition_values: Mapping[str, str | None] = field(hash=False)
    size: int
    tags: Mapping[str, str | None] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        body: dict[str, Any] = {
            "path": self.path,
            "partitionValues": dict(self.partition_values),
            "size": self.size,
            "dataChange": False,
        }
        if self.tags:
            body["tags"] = dict(self.tags)
        return body


def _put_shared(body: dict[str, Any], action: AddFile | RemoveFile) -> None:
    if action.deletion_vector is not None:
        body["deletionVector"] = action.deletion_vector.to_json()
    if action.base_row_id is not None:
        body["baseRowId"] = action.base_row_id
    if action.default_row_commit_version is not None:
        body["defaultRowCommitVersion"] = action.default_row_commit_version
