"""`managedCommit`: a commit owner that the table names decides on commits (the RFC of that name).

A feature for writers: what the filesystem shows of such a table is a version that counts, though
perhaps not the latest. How it differs from its successors is in `ManagementKind`.
"""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._management import MANAGED
from adelta.kernel.table_features._removal import Removal
from adelta.kernel.table_features.in_commit_timestamp import IN_COMMIT_TIMESTAMP

__all__ = ["MANAGED_COMMIT"]

MANAGED_COMMIT = TableFeature(
    name=MANAGED.feature,
    kind=FeatureKind.WRITER,
    requires=(IN_COMMIT_TIMESTAMP,),
    properties=MANAGED.properties,
    can_write=True,
    wanted=MANAGED.has_owner,
    active=MANAGED.has_owner,
    check=MANAGED.check,
    contradiction=MANAGED.contradiction,
    complete_metadata=MANAGED.complete_metadata,
    removal=Removal(forgotten=tuple(p.key for p in MANAGED.properties)),
    rebasable=True,
    tolerates=MANAGED.changes_owner,
    outlasting=tuple(p.key for p in MANAGED.properties),
)
