"""`vacuumProtocolCheck`: vacuum checks the protocol (PROTOCOL.md, "VACUUM Protocol Check")."""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal

__all__ = ["VACUUM_PROTOCOL_CHECK"]

VACUUM_PROTOCOL_CHECK = TableFeature(
    name="vacuumProtocolCheck",
    kind=FeatureKind.READER_WRITER,
    can_write=True,
    removal=Removal(protects_history=True),
    rebasable=True,
)
