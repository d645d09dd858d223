"""`domainMetadata`: named configuration beside the table's (PROTOCOL.md, "Domain Metadata")."""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature

__all__ = ["DOMAIN_METADATA"]

DOMAIN_METADATA = TableFeature(
    name="domainMetadata",
    kind=FeatureKind.WRITER,
    can_write=True,
)
