"""`catalogManaged`: a catalog decides on commits (PROTOCOL.md, "Catalog-managed tables").

A commit file in the log proves that the catalog has ratified the version. Commits that are ratified
and not published yet, be they staged files or kept by the catalog itself, are known to the catalog
alone: a table that is opened without its catalog is read as far as its published log goes, which is
a version that counts, though perhaps not the latest, and is never written. With the catalog's
client (`adelta.commit.catalog`) it is read in full and written.

A table is managed by a catalog from its first version on, and always has in-commit timestamps: the
time at which a commit is published says nothing of when it was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidPropertyError
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import with_properties
from adelta.kernel.table_features.in_commit_timestamp import (
    IN_COMMIT_TIMESTAMP,
    IN_COMMIT_TIMESTAMPS_ENABLED,
)
from adelta.kernel.table_features.vacuum_protocol_check import VACUUM_PROTOCOL_CHECK

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.table_features._feature import ProtocolAndMetadata

__all__ = ["CATALOG_MANAGED"]

_NAME = "catalogManaged"


def _complete_metadata(
    before: Metadata | None, after: Metadata, protocol: Protocol, _unique: Callable[[], str]
) -> Metadata:
    """A new table that a catalog is to manage has in-commit timestamps."""
    managed = before is None and _NAME in (protocol.writer_features or ())
    if not managed or IN_COMMIT_TIMESTAMPS_ENABLED.key in after.configuration:
        return after
    return with_properties(after, {IN_COMMIT_TIMESTAMPS_ENABLED.key: "true"})


def _check(before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
    if before is not None and _NAME not in (before.protocol.writer_features or ()):
        raise InvalidPropertyError(
            f"a table that exists cannot come to be managed by a catalog: {_NAME} is for new "
            "tables; create one with the property delta.feature.catalogManaged, and copy the rows"
        )
    if not IN_COMMIT_TIMESTAMPS_ENABLED.read(after.configuration):
        raise InvalidPropertyError(
            f"a table that a catalog manages has in-commit timestamps: "
            f"{IN_COMMIT_TIMESTAMPS_ENABLED.key} has to be true"
        )


CATALOG_MANAGED = TableFeature(
    name=_NAME,
    kind=FeatureKind.READER_WRITER,
    requires=(IN_COMMIT_TIMESTAMP, VACUUM_PROTOCOL_CHECK),
    can_write=True,
    check=_check,
    complete_metadata=_complete_metadata,
    outlasting=("io.unitycatalog.tableId",),
    followed=True,
)
