"""`catalogManaged`: a catalog decides on commits (PROTOCOL.md, "Catalog-managed tables")."""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature, always
from adelta.kernel.table_features.in_commit_timestamp import IN_COMMIT_TIMESTAMP
from adelta.kernel.table_features.vacuum_protocol_check import VACUUM_PROTOCOL_CHECK

__all__ = ["CATALOG_MANAGED"]

CATALOG_MANAGED = TableFeature(
    name="catalogManaged",
    kind=FeatureKind.READER_WRITER,
    requires=(IN_COMMIT_TIMESTAMP, VACUUM_PROTOCOL_CHECK),
    can_read=False,
    needed_to_read=always,
)
