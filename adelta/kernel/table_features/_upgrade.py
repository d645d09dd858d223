"""The protocol that a table needs after a change of its metadata.

A protocol is never weakened here: features that have become idle stay supported until somebody
drops them (PROTOCOL.md, "Table Features for New and Existing Tables").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.actions.protocol import TABLE_FEATURES_READER, TABLE_FEATURES_WRITER, Protocol
from adelta.kernel.table_features._feature import FeatureKind
from adelta.kernel.table_features._new_table import protocol_of, wanted_features
from adelta.kernel.table_features._registry import implied_features, is_supported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.table_features._feature import TableFeature

__all__ = ["upgraded_protocol"]


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
    return _with(protocol, missing) if missing else None


def _with(protocol: Protocol, missing: Sequence[TableFeature]) -> Protocol:
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if writer < TABLE_FEATURES_WRITER:
        made = protocol_of([*implied_features(reader, writer), *missing])
        return made if made.min_reader_version >= reader else _at_reader(made, reader)
    reader = max(reader, *(f.min_reader for f in missing))
    for_writers = {*(protocol.writer_features or ()), *(f.name for f in missing)}
    for_readers = None
    if reader == TABLE_FEATURES_READER:
        binding = [f.name for f in missing if f.kind is FeatureKind.READER_WRITER]
        implied = (
            [
                f.name
                for f in implied_features(protocol.min_reader_version, TABLE_FEATURES_WRITER)
                if f.kind is FeatureKind.READER_WRITER and f.name in for_writers
            ]
            if protocol.reader_features is None
            else protocol.reader_features
        )
        for_readers = tuple(sorted({*implied, *binding}))
    return Protocol(reader, TABLE_FEATURES_WRITER, for_readers, tuple(sorted(for_writers)))


def _at_reader(made: Protocol, reader: int) -> Protocol:
    """`made` under the higher reader version that the table has already."""
    return Protocol(reader, made.min_writer_version, made.reader_features, made.writer_features)
