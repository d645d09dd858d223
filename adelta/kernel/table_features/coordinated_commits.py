"""`coordinatedCommits-preview`: Delta Spark 3.3's and 4.0's commit coordinators.

What became of `managedCommit`, before it became `catalogManaged`. A table may support it and have
no coordinator. How it differs from the other two is in `ManagementKind`.
"""

from __future__ import annotations

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._management import COORDINATED
from adelta.kernel.table_features._removal import Removal
from adelta.kernel.table_features.in_commit_timestamp import IN_COMMIT_TIMESTAMP
from adelta.kernel.table_features.vacuum_protocol_check import VACUUM_PROTOCOL_CHECK

__all__ = ["COORDINATED_COMMITS"]

COORDINATED_COMMITS = TableFeature(
    name=COORDINATED.feature,
    kind=FeatureKind.WRITER,
    requires=(IN_COMMIT_TIMESTAMP, VACUUM_PROTOCOL_CHECK),
    properties=COORDINATED.properties,
    can_write=True,
    wanted=COORDINATED.has_owner,
    active=COORDINATED.has_owner,
    check=COORDINATED.check,
    contradiction=COORDINATED.contradiction,
    complete_metadata=COORDINATED.complete_metadata,
    removal=Removal(forgotten=tuple(p.key for p in COORDINATED.properties)),
    rebasable=True,
    tolerates=COORDINATED.changes_owner,
    outlasting=tuple(p.key for p in COORDINATED.properties),
)
