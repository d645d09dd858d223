"""Which features there are, which a table supports, and whether adelta may read and write it.

A feature that is missing here is unknown: a table that lists it cannot be read, if readers have to
know it, and cannot be written in any case.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from adelta.errors import (
    InvalidTableError,
    UnreadableTableError,
    UnwritableTableError,
)
from adelta.kernel.actions.protocol import TABLE_FEATURES_READER, TABLE_FEATURES_WRITER
from adelta.kernel.table_features._feature import FeatureKind, TableFeature, no_contradiction
from adelta.kernel.table_features.allow_column_defaults import ALLOW_COLUMN_DEFAULTS
from adelta.kernel.table_features.append_only import APPEND_ONLY
from adelta.kernel.table_features.catalog_managed import CATALOG_MANAGED
from adelta.kernel.table_features.change_data_feed import CHANGE_DATA_FEED
from adelta.kernel.table_features.check_constraints import CHECK_CONSTRAINTS
from adelta.kernel.table_features.checkpoint_protection import CHECKPOINT_PROTECTION
from adelta.kernel.table_features.clustering import CLUSTERING
from adelta.kernel.table_features.column_mapping import COLUMN_MAPPING
from adelta.kernel.table_features.coordinated_commits import COORDINATED_COMMITS
from adelta.kernel.table_features.deletion_vectors import DELETION_VECTORS
from adelta.kernel.table_features.domain_metadata import DOMAIN_METADATA
from adelta.kernel.table_features.generated_columns import GENERATED_COLUMNS
from adelta.kernel.table_features.geospatial import GEOSPATIAL
from adelta.kernel.table_features.iceberg_compat import (
    ICEBERG_COMPAT_V1,
    ICEBERG_COMPAT_V2,
    ICEBERG_COMPAT_V3,
)
from adelta.kernel.table_features.iceberg_writer_compat import ICEBERG_WRITER_COMPAT_V1
from adelta.kernel.table_features.identity_columns import IDENTITY_COLUMNS
from adelta.kernel.table_features.in_commit_timestamp import IN_COMMIT_TIMESTAMP
from adelta.kernel.table_features.invariants import INVARIANTS
from adelta.kernel.table_features.managed_commit import MANAGED_COMMIT
from adelta.kernel.table_features.materialize_partition_columns import (
    MATERIALIZE_PARTITION_COLUMNS,
)
from adelta.kernel.table_features.row_tracking import ROW_TRACKING
from adelta.kernel.table_features.timestamp_ntz import TIMESTAMP_NTZ
from adelta.kernel.table_features.type_widening import TYPE_WIDENING
from adelta.kernel.table_features.v2_checkpoint import V2_CHECKPOINT
from adelta.kernel.table_features.vacuum_protocol_check import VACUUM_PROTOCOL_CHECK
from adelta.kernel.table_features.variant_shredding import VARIANT_SHREDDING
from adelta.kernel.table_features.variant_type import VARIANT_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.table_features._feature import ProtocolAndMetadata

__all__ = [
    "FEATURES",
    "check_readable",
    "check_writable",
    "find_feature",
    "implied_features",
    "is_active",
    "is_supported",
    "supported_features",
    "supported_names",
]

FEATURES: tuple[TableFeature, ...] = (
    ALLOW_COLUMN_DEFAULTS,
    APPEND_ONLY,
    CATALOG_MANAGED,
    CHANGE_DATA_FEED,
    CHECK_CONSTRAINTS,
    CHECKPOINT_PROTECTION,
    CLUSTERING,
    COLUMN_MAPPING,
    COORDINATED_COMMITS,
    DELETION_VECTORS,
    DOMAIN_METADATA,
    GENERATED_COLUMNS,
    GEOSPATIAL,
    ICEBERG_COMPAT_V1,
    ICEBERG_COMPAT_V2,
    ICEBERG_COMPAT_V3,
    ICEBERG_WRITER_COMPAT_V1,
    IDENTITY_COLUMNS,
    IN_COMMIT_TIMESTAMP,
    INVARIANTS,
    MANAGED_COMMIT,
    MATERIALIZE_PARTITION_COLUMNS,
    ROW_TRACKING,
    TIMESTAMP_NTZ,
    TYPE_WIDENING,
    V2_CHECKPOINT,
    VACUUM_PROTOCOL_CHECK,
    VARIANT_SHREDDING,
    VARIANT_TYPE,
)
"""Every feature that adelta knows, by name."""

_CONTRADICTABLE = tuple(f for f in FEATURES if f.contradiction is not no_contradiction)
_BY_NAME = {name: feature for feature in FEATURES for name in feature.names}


def find_feature(name: str) -> TableFeature | None:
    """The feature that a protocol lists under `name`, previews included."""
    return _BY_NAME.get(name)


@lru_cache(maxsize=64)
def implied_features(reader: int, writer: int) -> tuple[TableFeature, ...]:
    """The features that protocol versions stand for, without any list."""
    return tuple(
        f
        for f in FEATURES
        if f.legacy_writer is not None and f.legacy_writer <= writer and f.legacy_reader <= reader
    )


def supported_names(protocol: Protocol) -> tuple[str, ...]:
    """The names of the features that a table supports, whether adelta knows them or not; sorted."""
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    names = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    if writer < TABLE_FEATURES_WRITER:
        names.update(f.name for f in implied_features(reader, writer))
    return tuple(sorted(names))


def is_supported(feature: TableFeature, protocol: Protocol) -> bool:
    """Whether a table supports a feature: by its lists, or by its versions."""
    names = supported_names(protocol)
    return any(name in names for name in feature.names)


@lru_cache(maxsize=64)
def supported_features(protocol: Protocol) -> tuple[TableFeature, ...]:
    """The features that a table supports and adelta knows, in the order of `FEATURES`."""
    return tuple(feature for feature in FEATURES if is_supported(feature, protocol))


def is_active(feature: TableFeature, table: ProtocolAndMetadata) -> bool:
    """Whether a table supports a feature and its metadata switches it on.

    Raises:
        InvalidPropertyError: a property that decides on it has a value that is not allowed.
    """
    return is_supported(feature, table.protocol) and feature.active(table.metadata)


def check_readable(protocol: Protocol, metadata: Metadata, *, table: str = "the table") -> None:
    """Refuse a table that adelta would read wrongly.

    Raises:
        UnsupportedFeatureError: reading it takes features that adelta does not have.
        InvalidTableError: the protocol's versions contradict each other, or the metadata is
            damaged, or they contradict each other.
    """
    _check_versions(protocol, table)
    for feature in _CONTRADICTABLE:
        if (clause := feature.contradiction(protocol, metadata)) is not None:
            raise InvalidTableError(
                f"{table} {clause}: a table has both or neither; restore its log to the version "
                "before"
            )
    missing = {n for n in protocol.reader_features or () if find_feature(n) is None}
    for feature in _known(supported_names(protocol)):
        if not feature.can_read and feature.needed_to_read(metadata):
            missing.add(feature.name)
    if protocol.min_reader_version > TABLE_FEATURES_READER or missing:
        raise UnreadableTableError(_sentence("read", protocol, missing, table))


def check_writable(protocol: Protocol, metadata: Metadata, *, table: str = "the table") -> None:
    """Refuse a table that adelta would damage by writing to it.

    Raises:
        UnsupportedFeatureError: writing it takes features that adelta does not have.
        InvalidTableError: the protocol contradicts itself, or the metadata is damaged.
        InvalidPropertyError: a property that decides on a feature has a value that is not allowed.
    """
    check_readable(protocol, metadata, table=table)
    _check_lists(protocol, table)
    names = supported_names(protocol)
    missing = {name for name in names if find_feature(name) is None}
    for feature in _known(names):
        if not feature.can_write and feature.active(metadata):
            missing.add(feature.name)
    if protocol.min_writer_version > TABLE_FEATURES_WRITER or missing:
        raise UnwritableTableError(_sentence("written", protocol, missing, table))


def _known(names: Iterable[str]) -> tuple[TableFeature, ...]:
    found = (find_feature(name) for name in names)
    return tuple(dict.fromkeys(feature for feature in found if feature is not None))


def _check_versions(protocol: Protocol, table: str) -> None:
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader == TABLE_FEATURES_READER and writer < TABLE_FEATURES_WRITER:
        raise InvalidTableError(
            f"{table} asks for reader version {reader} and writer version {writer}, but that "
            f"reader version goes with writer version {TABLE_FEATURES_WRITER} only; its protocol "
            "is damaged: restore it from an earlier version"
        )


def _check_lists(protocol: Protocol, table: str) -> None:
    listed = protocol.writer_features or ()
    alone = [name for name in protocol.reader_features or () if name not in listed]
    unread = [
        name
        for name in listed
        if (feature := find_feature(name)) is not None
        and feature.kind is FeatureKind.READER_WRITER
        and not _is_listed_for_readers(feature, protocol)
    ]
    if alone or unread:
        raise InvalidTableError(
            f"{table} lists the features {', '.join(sorted({*alone, *unread}))} for readers or for "
            "writers alone, but they bind both; its protocol is damaged: add them to both lists"
        )


def _is_listed_for_readers(feature: TableFeature, protocol: Protocol) -> bool:
    if protocol.reader_features is None:
        return feature.min_reader <= protocol.min_reader_version
    return any(name in protocol.reader_features for name in feature.names)


def _sentence(verb: str, protocol: Protocol, missing: set[str], table: str) -> str:
    versions = (
        f"reader version {protocol.min_reader_version}, "
        f"writer version {protocol.min_writer_version}"
    )
    if not missing:
        return (
            f"{table} cannot be {verb}: its protocol ({versions}) is newer than this adelta; "
            "upgrade adelta"
        )
    noun = "feature" if len(missing) == 1 else "features"
    names = ", ".join(name[:80] for name in sorted(missing)[:20])
    return (
        f"{table} cannot be {verb}: it uses the table {noun} {names} "
        f"({versions}), which this adelta does not have; upgrade adelta"
    )
