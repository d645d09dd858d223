"""`clustering`: rows kept together by columns of choice (PROTOCOL.md, "Clustered Table")."""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features.domain_metadata import DOMAIN_METADATA

__all__ = ["CLUSTERING"]

CLUSTERING = TableFeature(
    name="clustering",
    kind=FeatureKind.WRITER,
    requires=(DOMAIN_METADATA,),
)
