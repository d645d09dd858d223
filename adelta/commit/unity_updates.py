"""What Unity Catalog is told of a table beside its commits: the updates of its description.

The description has the table's schema, partition columns, properties, comment, protocol, clustering
and highest row id, in the words of the UC Delta API 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adelta.kernel.table_features import CLUSTERING_DOMAIN, ROW_TRACKING_DOMAIN
from adelta.kernel.table_properties import FEATURE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["TOLD_DOMAINS", "leading_actions", "told_domain", "told_protocol", "updates_of_metadata"]

_BEFORE_FILES = ("commitInfo", "protocol", "metaData", "txn", "domainMetadata")
TOLD_DOMAINS = {CLUSTERING_DOMAIN: "clusteringColumns", ROW_TRACKING_DOMAIN: "rowIdHighWaterMark"}
"""The domains that the catalog knows, and what of them it is told."""
_DERIVED = (
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.clusteringColumns",
    "delta.rowTracking.rowIdHighWaterMark",
    "delta.lastUpdateVersion",
    "delta.lastCommitTimestamp",
)
"""Properties that the catalog adds to the table's own, beside those of features."""


def leading_actions(content: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The actions before those of files, as adelta writes a commit."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start)
        line = content[start : end if end >= 0 else None]
        start = end + 1 if end >= 0 else len(content)
        if not line.startswith(tuple(b'{"%s"' % name.encode() for name in _BEFORE_FILES)):
            return
        yield from orjson.loads(line).items()


def updates_of_metadata(
    known: Mapping[str, Any], metadata: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The updates that make of the description `known` the one of a `metaData` action."""
    updates: list[dict[str, Any]] = []
    columns = orjson.loads(metadata["schemaString"])
    if columns != known.get("columns"):
        updates.append({"action": "set-columns", "columns": columns})
    partitions = list(metadata.get("partitionColumns") or ())
    if partitions != list(known.get("partition-columns") or ()):
        updates.append({"action": "set-partition-columns", "partition-columns": partitions})
    if metadata.get("description") is not None:
        updates.append({"action": "set-table-comment", "comment": metadata["description"]})
    before = {
        key: value
        for key, value in (known.get("properties") or {}).items()
        if key not in _DERIVED and not key.startswith(FEATURE_PREFIX)
    }
    after = dict(metadata.get("configuration") or {})
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    if changed:
        updates.append({"action": "set-properties", "updates": changed})
    if gone := sorted(before.keys() - after.keys()):
        updates.append({"action": "remove-properties", "removals": gone})
    return updates


def told_protocol(action: Mapping[str, Any]) -> dict[str, Any]:
    """A `protocol` action."""
    return {
        "min-reader-version": action["minReaderVersion"],
        "min-writer-version": action["minWriterVersion"],
        "reader-features": list(action.get("readerFeatures") or ()),
        "writer-features": list(action.get("writerFeatures") or ()),
    }


def told_domain(name: str, configuration: str) -> dict[str, Any]:
    """A domain that the catalog knows, with its configuration."""
    told = TOLD_DOMAINS[name]
    return {name: {told: orjson.loads(configuration)[told]}}
