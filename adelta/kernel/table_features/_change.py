"""What a change of metadata becomes before it is committed, and which changes are refused.

Some of what metadata say is Delta's to fill in: ids of columns, names of hidden ones. Each feature
knows its own; here they are asked in turn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.kernel.table_features._registry import FEATURES, supported_features

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.table_features._feature import ProtocolAndMetadata, TableFeature

__all__ = [
    "check_change",
    "check_replacement",
    "check_succession",
    "completed_metadata",
    "outlasting_properties",
    "outlasting_protocol",
]


def _dependants_first(features: Iterable[TableFeature]) -> tuple[TableFeature, ...]:
    """Every feature before those that it requires: it may say how these are to be."""
    ordered: list[TableFeature] = []

    def place(feature: TableFeature) -> None:
        if feature not in ordered:
            for required in feature.requires:
                place(required)
            ordered.append(feature)

    for each in features:
        place(each)
    return tuple(reversed(ordered))


_COMPLETING = _dependants_first(FEATURES)


def completed_metadata(
    before: Metadata | None, after: Metadata, protocol: Protocol, unique: Callable[[], str]
) -> Metadata:
    """`after` with what the features of its table add to it; `before` is None for a new table.

    `protocol` is the one after the change, and `unique` makes up parts of names.

    Raises:
        InvalidPropertyError: properties contradict each other.
        SchemaMismatchError: the schema cannot change like this.
    """
    for feature in _COMPLETING:
        after = feature.complete_metadata(before, after, protocol, unique)
    return after


def check_change(before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
    """Refuse a change that a feature of the table does not allow; `before` is None for a new table.

    Raises:
        InvalidPropertyError: a property cannot have its value, or not together with another one.
        SchemaMismatchError: the schema cannot be as it is, or cannot change like this.
        InvalidTableError: the ids or the physical names of columns are wrong.
    """
    for feature in supported_features(after.protocol):
        feature.check(before, after)


def check_replacement(before: ProtocolAndMetadata, after: ProtocolAndMetadata) -> None:
    """Refuse a definition of a table in place of another one, all of whose files go.

    Raises: as `check_change` does.
    """
    for feature in supported_features(after.protocol):
        feature.check(before if feature.followed else None, after)


def check_succession(before: ProtocolAndMetadata, after: ProtocolAndMetadata) -> None:
    """Refuse a definition in place of another one that breaks with clients who follow the table.

    All else of it is taken to be right: it has been another table's, or another version's.

    Raises: as `check_change` does.
    """
    both = (*supported_features(before.protocol), *supported_features(after.protocol))
    for feature in dict.fromkeys(both):
        if feature.followed:
            feature.check(before, after)


def outlasting_properties(before: ProtocolAndMetadata, after: Metadata) -> Mapping[str, str]:
    """What of a table's properties is there under the definition `after` as well, which is new."""
    stored = before.configuration
    return {
        key: stored[key]
        for feature in supported_features(before.protocol)
        if feature.outlasting and feature.active(before.metadata) and feature.active(after)
        for key in feature.outlasting
        if key in stored
    }


def outlasting_protocol(before: Protocol, after: Metadata) -> Protocol:
    """What a table's protocol demands as well under the definition `after`, which is another one.

    Example: that of a clustered table, where `after` is partitioned, without ``clustering``.
    """
    gone = {
        name
        for feature in supported_features(before)
        if feature.gives_way(after)
        for name in feature.names
    }
    if not gone or before.writer_features is None:
        return before
    return replace(
        before, writer_features=tuple(n for n in before.writer_features if n not in gone)
    )
