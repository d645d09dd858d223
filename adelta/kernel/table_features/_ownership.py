"""A table's commit owner when another definition comes in the place of the table's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._management import KINDS, management_by
from adelta.kernel.table_features._registry import find_feature, is_supported
from adelta.kernel.table_features._removal import unset, with_properties
from adelta.kernel.table_features._upgrade import protocol_with, protocol_without

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.table_features._feature import ProtocolAndMetadata

__all__ = ["with_owner_of", "without_owner"]


def with_owner_of(
    table: ProtocolAndMetadata | None, protocol: Protocol, metadata: Metadata
) -> tuple[Protocol, Metadata]:
    """A definition that goes by the commit owner of `table`, whatever it says itself.

    Where that has none, or there is no such table, nor has the definition. Catalogs are let be.
    """
    managed = None if table is None else management_by(table.protocol, table.metadata)
    protocol, metadata = without_owner(protocol, metadata)
    if table is None or managed is None or managed.owner is None:
        return protocol, metadata
    texts = {p.key: p.text(table.configuration) for p in managed.kind.properties}
    stored = {key: text for key, text in texts.items() if text is not None}
    feature = find_feature(managed.kind.feature)
    assert feature is not None
    needed = (feature, *feature.requires)
    missing = [each for each in needed if not is_supported(each, protocol)]
    if missing:
        protocol = protocol_with(protocol, *missing)
    return protocol, with_properties(metadata, stored)


def without_owner(protocol: Protocol, metadata: Metadata) -> tuple[Protocol, Metadata]:
    """A definition without the commit owner that it names, and without the feature for it."""
    for kind in KINDS:
        feature = find_feature(kind.feature)
        if kind.owner_key is None or feature is None:
            continue
        metadata = unset(metadata, *(p.key for p in kind.properties))
        if is_supported(feature, protocol):
            protocol = protocol_without(protocol, feature)
    return protocol, metadata
