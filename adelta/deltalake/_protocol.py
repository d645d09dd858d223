"""Which protocol a table gets: versions as long as they will do, as deltalake has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import FEATURES, is_active, supported_features
from adelta.kernel.table_properties import PROTOCOL_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.table_features import TableFeature

__all__ = ["NEW", "protocol_of_definition"]

NEW = Protocol(1, 2)
"""What a table begins with."""
_LISTED, _LISTED_FOR_READERS = 7, 3


def protocol_of_definition(
    before: Protocol, wanted: Protocol, metadata: Metadata, properties: Mapping[str, str]
) -> Protocol:
    """The protocol of a table that had `before`, and needs what `wanted` supports.

    It has versions alone where `before` had, every feature is older than lists of features, and
    `properties` ask for no higher version.
    """
    asked = [int(properties.get(key, "0")) for key in PROTOCOL_KEYS]
    needed = wanted if before.writer_features is not None else _versioned(before, wanted)
    if needed == before and not any(asked):
        return wanted
    reader = max(asked[0], needed.min_reader_version)
    writer = max(asked[1], needed.min_writer_version)
    if reader < _LISTED_FOR_READERS and writer < _LISTED:
        return Protocol(reader, writer)
    if not any(asked):
        return wanted
    used = {each for each in FEATURES if is_active(each, TableConfiguration(wanted, metadata))}
    listed = () if wanted.writer_features is None else supported_features(wanted)
    names = sorted({each.name for each in (*used, *listed, *supported_features(before))})
    for_readers = [each.name for each in FEATURES if each.name in names and _is_readers(each)]
    return Protocol(reader, _LISTED, tuple(for_readers), tuple(names))


def _versioned(before: Protocol, wanted: Protocol) -> Protocol:
    """The versions that imply what is wanted; `wanted` itself where none do."""
    features = supported_features(wanted)
    if wanted.writer_features is None or any(each.legacy_writer is None for each in features):
        return wanted
    return Protocol(
        _highest(before.min_reader_version, (each.legacy_reader for each in features)),
        _highest(before.min_writer_version, (each.legacy_writer or 1 for each in features)),
    )


def _highest(version: int, others: Iterable[int]) -> int:
    return max([version, *others])


def _is_readers(feature: TableFeature) -> bool:
    return feature.min_reader > 1
