"""The protocol and the stored properties of a table that is being created.

A new table gets the weakest protocol that does what its schema and properties ask for (PROTOCOL.md,
"Table Features for New and Existing Tables").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidPropertyError, UnsupportedFeatureError
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import (
    TABLE_FEATURES_READER,
    TABLE_FEATURES_WRITER,
    Protocol,
)
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._registry import FEATURES, find_feature, implied_features
from adelta.kernel.table_properties import (
    FEATURE_PREFIX,
    PROPERTIES,
    PROTOCOL_KEYS,
    Property,
    parse_whole,
    validate,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.kernel.schema.types import StructType

__all__ = [
    "named_feature",
    "protocol_for_new_table",
    "protocol_of",
    "protocol_of_names",
    "settable_properties",
    "stored_properties",
    "validate_properties",
    "wanted_features",
]

_DEFAULT_VERSIONS = (1, 2)
_SUPPORTED = ("supported", "enabled")


def validate_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """Properties that a user sets, checked, under their proper keys, those of features included.

    Raises:
        InvalidPropertyError: a key that begins with ``delta.`` is unknown or not for users, or a
            value is not allowed.
    """
    return validate(configuration, (*PROPERTIES, *(p for f in FEATURES for p in f.properties)))


def settable_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """What of a table's properties a user may set: all but what Delta keeps there itself."""
    kept = {p.key for each in FEATURES for p in each.properties if not p.settable}
    return {key: value for key, value in configuration.items() if key not in kept}


def stored_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """What of validated properties goes into the metadata: all but what asks for the protocol."""
    return {
        key: value
        for key, value in configuration.items()
        if key not in PROTOCOL_KEYS and not key.startswith(FEATURE_PREFIX)
    }


def wanted_features(schema: StructType, configuration: Mapping[str, str]) -> list[TableFeature]:
    """The features that a schema and validated properties ask for, with all that those require.

    Raises:
        InvalidPropertyError: a feature is asked for in another way than ``supported``.
        UnsupportedFeatureError: a feature is asked for that adelta does not know.
    """
    metadata = Metadata(
        id="", schema_string=schema_to_string(schema), configuration=dict(configuration)
    )
    found = [feature for feature in FEATURES if feature.wanted(metadata)]
    for key, value in configuration.items():
        if key.startswith(FEATURE_PREFIX):
            found.append(_asked_for(key, value))
    position = 0
    while position < len(found):  # the list grows by what its features require
        found.extend(f for f in found[position].requires if f not in found)
        position += 1
    return list(dict.fromkeys(found))


def protocol_for_new_table(schema: StructType, properties: Mapping[str, str]) -> Protocol:
    """The weakest protocol for a new table of this schema with these properties.

    Example: a plain schema gets versions (1, 2), a ``timestamp_ntz`` column versions (3, 7) with
    the lists that say what (1, 2) implied.

    Raises:
        InvalidPropertyError: a property is unknown, or has a value that is not allowed.
        UnsupportedFeatureError: a feature is asked for that adelta does not know.
    """
    configuration = validate_properties(properties)
    reader, writer = (
        Property(key, parse_whole(1), default).read(configuration)
        for key, default in zip(PROTOCOL_KEYS, _DEFAULT_VERSIONS, strict=True)
    )
    if reader > TABLE_FEATURES_READER or writer > TABLE_FEATURES_WRITER:
        raise InvalidPropertyError(
            f"there is no protocol with reader version {reader} and writer version {writer}; the "
            f"highest are {TABLE_FEATURES_READER} and {TABLE_FEATURES_WRITER}"
        )
    asked = PROTOCOL_KEYS[1] in configuration and writer < TABLE_FEATURES_WRITER
    base = implied_features(reader, writer if asked else _DEFAULT_VERSIONS[1])
    return protocol_of([*base, *wanted_features(schema, configuration)])


def protocol_of(features: Iterable[TableFeature]) -> Protocol:
    """The weakest protocol that supports exactly these features.

    Versions alone where they imply exactly these, else versions with lists.
    """
    return protocol_of_names(f.name for f in features)


def protocol_of_names(names: Iterable[str]) -> Protocol:
    """`protocol_of` for features under the names that a protocol lists them by."""
    wanted = {name: named_feature(name) for name in names}
    features = set(wanted.values())
    reader = max((f.min_reader for f in features), default=1)
    writer = max((f.legacy_writer or TABLE_FEATURES_WRITER for f in features), default=1)
    if writer < TABLE_FEATURES_WRITER and set(implied_features(reader, writer)) == features:
        return Protocol(reader, writer)
    for_readers = (n for n, f in wanted.items() if f.kind is FeatureKind.READER_WRITER)
    return Protocol(
        reader,
        TABLE_FEATURES_WRITER,
        tuple(sorted(for_readers)) if reader == TABLE_FEATURES_READER else None,
        tuple(sorted(wanted)),
    )


def named_feature(name: str) -> TableFeature:
    """The feature that a user calls `name`, in any case.

    Raises:
        UnsupportedFeatureError: there is none that adelta knows.
    """
    feature = find_feature(name) or next(
        (f for f in FEATURES if name.lower() in (n.lower() for n in f.names)), None
    )
    if feature is None:
        raise UnsupportedFeatureError(
            f"the table feature {name} is not known to this adelta; check its name, or upgrade "
            "adelta"
        )
    return feature


def _asked_for(key: str, value: str) -> TableFeature:
    if value.strip().lower() not in _SUPPORTED:
        raise InvalidPropertyError(
            f"the table property {key} is {value!r}, but a feature can only be 'supported'"
        )
    return named_feature(key.removeprefix(FEATURE_PREFIX))
