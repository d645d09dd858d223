"""`domainMetadata`: named configuration beside the table's (PROTOCOL.md, "Domain Metadata")."""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal

__all__ = ["DOMAIN_METADATA"]

DOMAIN_METADATA = TableFeature(
    name="domainMetadata",
    kind=FeatureKind.WRITER,
    can_write=True,
    removal=Removal("DOMAIN METADATA CLEANUP", domains=None),
    rebasable=True,
)
