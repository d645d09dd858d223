"""`geospatial`: columns of shapes, `geometry` and `geography`, read as well-known binary (WKB)."""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature

__all__ = ["GEOSPATIAL"]

GEOSPATIAL = TableFeature(name="geospatial", kind=FeatureKind.READER_WRITER)
