"""`catalogManaged`: a catalog decides on commits (PROTOCOL.md, "Catalog-managed tables").

Such a table is read as far as its published log goes. A commit file in the log proves that the
catalog has ratified the version; commits that are ratified and not published yet, be they staged
files or kept by the catalog itself, are known to the catalog alone and not looked at. So the latest
version here may be older than the catalog's, and is never one that does not count. Writing needs
the catalog, and is refused.
"""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features.in_commit_timestamp import IN_COMMIT_TIMESTAMP
from adelta.kernel.table_features.vacuum_protocol_check import VACUUM_PROTOCOL_CHECK

__all__ = ["CATALOG_MANAGED"]

CATALOG_MANAGED = TableFeature(
    name="catalogManaged",
    kind=FeatureKind.READER_WRITER,
    requires=(IN_COMMIT_TIMESTAMP, VACUUM_PROTOCOL_CHECK),
    rebasable=True,
)
