"""What a table is said to be, and the names that `deltalake.table` has beside its classes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from adelta.deltalake._raw import RawDeltaTable

__all__ = [
    "FSCK_METRICS_FILES_REMOVED_LABEL",
    "MAX_SUPPORTED_PYARROW_WRITER_VERSION",
    "MAX_SUPPORTED_READER_VERSION",
    "NOT_SUPPORTED_PYARROW_WRITER_VERSIONS",
    "NOT_SUPPORTED_READER_VERSION",
    "SUPPORTED_READER_FEATURES",
    "SUPPORTED_WRITER_FEATURES",
    "DeltaTableConfig",
    "FilePruningPredicateType",
    "FilterConjunctionType",
    "FilterDNFType",
    "FilterLiteralType",
    "FilterType",
    "Metadata",
    "PartitionFilterType",
    "ProtocolVersions",
]

MAX_SUPPORTED_PYARROW_WRITER_VERSION = 7
NOT_SUPPORTED_PYARROW_WRITER_VERSIONS = [3, 4, 5, 6]
SUPPORTED_WRITER_FEATURES = {
    "appendOnly",
    "invariants",
    "timestampNtz",
    "variantType",
    "variantType-preview",
}
MAX_SUPPORTED_READER_VERSION = 3
NOT_SUPPORTED_READER_VERSION = -1
SUPPORTED_READER_FEATURES = {"timestampNtz", "variantType", "variantType-preview"}
FSCK_METRICS_FILES_REMOVED_LABEL = "files_removed"

FilterLiteralType = tuple[str, str, Any]
FilterConjunctionType = list[FilterLiteralType]
FilterDNFType = list[FilterConjunctionType]
FilterType = FilterConjunctionType | FilterDNFType
PartitionFilterType = list[tuple[str, str, str | list[str]]]
FilePruningPredicateType = str | FilterType


class Metadata:
    """The metadata of a table."""

    def __init__(self, table: RawDeltaTable) -> None:
        self._metadata = table.metadata()

    @property
    def id(self) -> str:
        """The table's unique id."""
        return self._metadata.id

    @property
    def name(self) -> str | None:
        """The name that a user has given it."""
        return self._metadata.name

    @property
    def description(self) -> str | None:
        """The description that a user has given it."""
        return self._metadata.description

    @property
    def partition_columns(self) -> list[str]:
        """The columns that it is partitioned by."""
        return self._metadata.partition_columns

    @property
    def created_time(self) -> int | None:
        """When the metadata were made, in milliseconds since the Unix epoch."""
        return self._metadata.created_time

    @property
    def configuration(self) -> dict[str, str]:
        """The table's properties."""
        return self._metadata.configuration

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metadata) and other._metadata == self._metadata

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return (
            f"Metadata(id: {self.id}, name: {self.name}, description: {self.description}, "
            f"partition_columns: {self.partition_columns}, created_time: {self.created_time}, "
            f"configuration: {self.configuration})"
        )

    __repr__ = __str__


class _DeltaTableConfigBase(NamedTuple):
    without_files: bool
    log_buffer_size: int
    skip_stats: bool = False


class DeltaTableConfig(_DeltaTableConfigBase):
    """What deprecated arguments of `DeltaTable` were."""

    def __new__(
        cls, without_files: bool, log_buffer_size: int, skip_stats: bool = False
    ) -> DeltaTableConfig:
        """Make one, with a warning."""
        warnings.warn(
            "The DeltaTableConfig class is deprecated and will be removed in a future release. ",
            DeprecationWarning,
            stacklevel=2,
        )
        return super().__new__(cls, without_files, log_buffer_size, skip_stats)


class ProtocolVersions(NamedTuple):
    """Which clients may read and write a table."""

    min_reader_version: int
    min_writer_version: int
    writer_features: list[str] | None
    reader_features: list[str] | None
