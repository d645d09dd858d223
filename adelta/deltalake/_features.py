"""TableFeatures, as deltalake counts them, and the names that Delta's protocol has for them."""

from __future__ import annotations

from enum import Enum

__all__ = ["FEATURE_NAMES", "OF_READERS", "TableFeatures"]


class TableFeatures(Enum):
    """The table features that `TableAlterer.add_feature` takes."""

    ColumnMapping = 0
    DeletionVectors = 1
    TimestampNanos = 2
    TimestampWithoutTimezone = 3
    V2Checkpoint = 4
    AppendOnly = 5
    Invariants = 6
    CheckConstraints = 7
    ChangeDataFeed = 8
    GeneratedColumns = 9
    IdentityColumns = 10
    RowTracking = 11
    DomainMetadata = 12
    IcebergCompatV1 = 13
    VariantType = 14
    VariantTypePreview = 15

    def __int__(self) -> int:
        return int(self.value)

    def __repr__(self) -> str:
        return str(self)


_OTHERWISE = {
    "TimestampWithoutTimezone": "timestampNtz",
    "VariantTypePreview": "variantType-preview",
}

FEATURE_NAMES = {
    each: _OTHERWISE.get(each.name, each.name[0].lower() + each.name[1:]) for each in TableFeatures
}
"""The protocol's names of the features."""

OF_READERS = frozenset(
    {
        TableFeatures.ColumnMapping,
        TableFeatures.DeletionVectors,
        TableFeatures.TimestampNanos,
        TableFeatures.TimestampWithoutTimezone,
        TableFeatures.V2Checkpoint,
        TableFeatures.VariantType,
        TableFeatures.VariantTypePreview,
    }
)
"""Those that readers have to know, too."""
