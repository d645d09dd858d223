"""Which changes of protocol and metadata leave commits that were prepared before them as they were.

Names, descriptions, properties of the user's own, and the properties that only steer upkeep say
nothing about data files. Beyond these, features say which of their own changes do no harm: Delta
Spark's list, and for every other change the work has to be done again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adelta.kernel.table_features import find_feature, supported_features, supported_names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.kernel.table_features import TableFeature

__all__ = ["metadata_may_change", "protocol_may_change"]

_PREFIX = "delta."
_UPKEEP = frozenset(
    {
        "delta.checkpointinterval",
        "delta.checkpointpolicy",
        "delta.checkpointretentionduration",
        "delta.checkpoint.writestatsasjson",
        "delta.checkpoint.writestatsasstruct",
        "delta.deletedfileretentionduration",
        "delta.enableexpiredlogcleanup",
        "delta.enablefullretentionrollback",
        "delta.logretentionduration",
        "delta.sampleretentionduration",
        "delta.settransactionretentionduration",
        "delta.targetfilesize",
        "delta.tunefilesizesforrewrites",
    }
)


def protocol_may_change(before: Protocol, after: Protocol) -> bool:
    """Whether a commit that was prepared for the protocol `before` may follow `after`.

    Example: deletion vectors may have come to be supported, check constraints may not.
    """
    old, new = set(supported_names(before)), set(supported_names(after))
    added = [find_feature(name) for name in new - old]
    return old <= new and all(feature is not None and feature.rebasable for feature in added)


def metadata_may_change(before: TableConfiguration, after: TableConfiguration) -> bool:
    """Whether a commit that was prepared for the metadata of `before` may follow those of `after`.

    Example: another checkpoint interval leaves every commit as good as it was, another column does
    not.
    """
    old, new = before.metadata, after.metadata
    tolerant = [each for each in supported_features(after.protocol) if each.tolerates(old, new)]
    return (
        old.id == new.id
        and old.partition_columns == new.partition_columns
        and old.format_provider == new.format_provider
        and _only_adds(old.configuration, new.configuration, tolerant)
        and _same_schema(old.schema_string, new.schema_string, tolerant)
    )


def _only_adds(
    old: Mapping[str, str], new: Mapping[str, str], tolerant: Collection[TableFeature]
) -> bool:
    """Whether beside upkeep nothing but the properties of tolerant features has changed."""
    allowed = {each.key.lower() for feature in tolerant for each in feature.properties}
    was, now = _binding(old), _binding(new)
    changed = {key for key, value in now.items() if was.get(key) != value}
    return was.keys() <= now.keys() and changed <= allowed


def _binding(configuration: Mapping[str, str]) -> dict[str, str]:
    folded = {key.lower(): value for key, value in configuration.items()}
    return {
        key: value
        for key, value in folded.items()
        if key.startswith(_PREFIX) and key not in _UPKEEP
    }


def _same_schema(old: str, new: str, tolerant: Collection[TableFeature]) -> bool:
    if old == new:
        return True
    ignored = {key for feature in tolerant for key in feature.field_metadata}
    return bool(_without(orjson.loads(old), ignored) == _without(orjson.loads(new), ignored))


def _without(schema: Any, keys: Collection[str]) -> Any:
    """A schema's JSON without some keys of its fields' metadata, at any depth."""
    if isinstance(schema, list):
        return [_without(each, keys) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {k: v for k, v in value.items() if k not in keys}
        if name == "metadata" and isinstance(value, dict)
        else _without(value, keys)
        for name, value in schema.items()
    }
