"""The protocol that a table needs after a change of its metadata, or without a feature.

Features that have become idle stay supported until somebody drops them (PROTOCOL.md, "Table
Features for New and Existing Tables"). Where protocol versions alone say the same as lists, they
are preferred, since more clients know them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError
from adelta.kernel.actions.protocol import TABLE_FEATURES_READER, TABLE_FEATURES_WRITER, Protocol
from adelta.kernel.table_features._new_table import protocol_of_names, wanted_features
from adelta.kernel.table_features._registry import (
    FEATURES,
    implied_features,
    is_supported,
    supported_names,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.table_features._feature import TableFeature

__all__ = [
    "dependants",
    "protocol_with",
    "protocol_without",
    "raised_protocol",
    "upgraded_protocol",
]


def upgraded_protocol(
    protocol: Protocol,
    before: Metadata,
    after: Metadata,
    asked: Mapping[str, str] | None = None,
) -> Protocol | None:
    """The protocol for `after`, or None where `protocol` serves as it is.

    Only what `after` asks for and `before` did not counts. `asked` are properties that ask for
    features by name, which are not stored.

    Example: a first ``timestamp_ntz`` column turns versions (1, 2) into (3, 7) with lists.

    Raises:
        InvalidPropertyError: a feature is asked for in another way than ``supported``.
        UnsupportedFeatureError: a feature is asked for that adelta does not know.
    """
    wanted_before = wanted_features(before.schema, before.configuration)
    wanted = wanted_features(after.schema, {**after.configuration, **(asked or {})})
    missing = [f for f in wanted if f not in wanted_before and not is_supported(f, protocol)]
    return protocol_with(protocol, *missing) if missing else None


def protocol_with(protocol: Protocol, *missing: TableFeature) -> Protocol:
    """The weakest protocol that supports these features too, and keeps out whom `protocol` does."""
    names = {*supported_names(protocol), *(f.name for f in missing)}
    made = protocol_of_names(names)
    reader = protocol.min_reader_version
    if made.min_reader_version >= reader:
        return made
    # the readers that the table was closed to stay shut out
    for_readers = protocol.reader_features if reader == TABLE_FEATURES_READER else None
    for_writers = made.writer_features
    if for_readers is not None and for_writers is None:
        for_writers = tuple(sorted(names))
    writer = made.min_writer_version if for_writers is None else TABLE_FEATURES_WRITER
    return Protocol(reader, writer, for_readers, for_writers)


def raised_protocol(protocol: Protocol, reader: int, writer: int) -> Protocol:
    """The weakest protocol that supports what `protocol` does, and what two versions imply.

    Example: versions (1, 2) raised to (1, 4) are (1, 4); with a list of features they keep one.

    Raises:
        InvalidOptionError: there are no such versions.
    """
    known = 1 <= reader <= TABLE_FEATURES_READER and 1 <= writer <= TABLE_FEATURES_WRITER
    if not known or (reader == TABLE_FEATURES_READER and writer < TABLE_FEATURES_WRITER):
        raise InvalidOptionError(
            f"there is no protocol with reader version {reader} and writer version {writer}: "
            f"versions go from 1 to {TABLE_FEATURES_READER} and {TABLE_FEATURES_WRITER}, and the "
            "highest of readers goes with the highest of writers only"
        )
    implied = implied_features(reader, writer) if writer < TABLE_FEATURES_WRITER else ()
    missing = [feature for feature in implied if not is_supported(feature, protocol)]
    return protocol_with(protocol, *missing) if missing else protocol


def protocol_without(protocol: Protocol, feature: TableFeature) -> Protocol:
    """The weakest protocol that supports what `protocol` does, but for one feature.

    Example: versions (1, 3) without ``invariants`` are (1, 7) with a list of the two that are left.
    """
    return protocol_of_names(n for n in supported_names(protocol) if n not in feature.names)


def dependants(protocol: Protocol, feature: TableFeature) -> tuple[TableFeature, ...]:
    """The features that a table supports and that cannot be without `feature`."""
    return tuple(f for f in FEATURES if feature in f.requires and is_supported(f, protocol))
