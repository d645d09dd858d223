"""The protocol that a new table gets."""

from __future__ import annotations

import pytest

from adelta.errors import InvalidPropertyError, UnsupportedFeatureError
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.types import (
    LONG,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    DataType,
    StructField,
    StructType,
)
from adelta.kernel.table_features import (
    FEATURES,
    implied_features,
    protocol_for_new_table,
    protocol_of,
    stored_properties,
    supported_names,
    validate_properties,
)


def schema(data_type: DataType = LONG, **field_metadata: str) -> StructType:
    return StructType((StructField("a", data_type, True, field_metadata),))


def for_properties(**properties: str) -> Protocol:
    return protocol_for_new_table(schema(), {f"delta.{k}": v for k, v in properties.items()})


def test_a_plain_table_gets_the_oldest_protocol_in_use() -> None:
    assert protocol_for_new_table(schema(), {}) == Protocol(1, 2)
    assert for_properties(appendOnly="true", checkpointInterval="5") == Protocol(1, 2)


def test_a_type_with_a_feature_of_readers_gets_lists_that_keep_what_was_implied() -> None:
    expected = Protocol(3, 7, ("timestampNtz",), ("appendOnly", "invariants", "timestampNtz"))
    assert protocol_for_new_table(schema(TIMESTAMP_NTZ), {}) == expected
    assert protocol_for_new_table(schema(ArrayType(TIMESTAMP_NTZ)), {}) == expected
    variant = protocol_for_new_table(schema(VARIANT), {})
    assert variant.reader_features == ("variantType",)


def test_a_feature_of_writers_gets_a_list_for_writers_alone() -> None:
    assert for_properties(enableInCommitTimestamps="true") == Protocol(
        1, 7, None, ("appendOnly", "inCommitTimestamp", "invariants")
    )
    assert for_properties(enableChangeDataFeed="true") == Protocol(
        1, 7, None, ("appendOnly", "changeDataFeed", "invariants")
    )


def test_features_bring_what_they_require() -> None:
    assert for_properties(enableRowTracking="true").writer_features == (
        "appendOnly",
        "domainMetadata",
        "invariants",
        "rowTracking",
    )
    compat = for_properties(enableIcebergWriterCompatV1="true").writer_features
    assert {"columnMapping", "icebergCompatV2"} <= set(compat or ())


def test_versions_without_lists_are_used_where_they_say_the_same() -> None:
    assert for_properties(**{"constraints.c": "a > 0"}) == Protocol(1, 3)
    for reader, writer in [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6)]:
        assert protocol_of(implied_features(reader, writer)) == Protocol(reader, writer)


def test_column_mapping_is_listed_for_writers_with_reader_version_two() -> None:
    assert for_properties(**{"columnMapping.mode": "name"}) == Protocol(
        2, 7, None, ("appendOnly", "columnMapping", "invariants")
    )


def test_versions_that_are_asked_for_bring_what_they_imply() -> None:
    assert for_properties(minReaderVersion="1", minWriterVersion="4") == Protocol(1, 4)
    assert for_properties(minReaderVersion="2", minWriterVersion="5") == Protocol(2, 5)
    assert for_properties(minWriterVersion="1") == Protocol(1, 1)
    assert for_properties(minReaderVersion="3", minWriterVersion="7") == Protocol(1, 2)
    with pytest.raises(InvalidPropertyError, match="reader version 4"):
        for_properties(minReaderVersion="4")


def test_a_feature_can_be_asked_for_by_name_in_any_case() -> None:
    expected = Protocol(1, 7, None, ("appendOnly", "domainMetadata", "invariants"))
    assert for_properties(**{"feature.domainMetadata": "supported"}) == expected
    assert for_properties(**{"feature.DOMAINmetadata": "Supported"}) == expected
    with pytest.raises(InvalidPropertyError, match="'maybe'"):
        for_properties(**{"feature.domainMetadata": "maybe"})
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        for_properties(**{"feature.fromTheFuture": "supported"})


def test_the_v2_policy_of_checkpoints_asks_for_its_feature() -> None:
    assert for_properties(checkpointPolicy="v2").reader_features == ("v2Checkpoint",)


def test_properties_of_features_are_checked_and_those_of_the_implementation_refused() -> None:
    assert validate_properties({"delta.APPENDONLY": "true"}) == {"delta.appendOnly": "true"}
    assert validate_properties({"delta.enableChangeDataCapture": "true"}) == {
        "delta.enableChangeDataCapture": "true"
    }
    with pytest.raises(InvalidPropertyError, match=r"delta\.enableDeletionVectors.*'2'"):
        validate_properties({"delta.enableDeletionVectors": "2"})
    with pytest.raises(InvalidPropertyError, match="cannot be set"):
        validate_properties({"delta.columnMapping.maxColumnId": "2"})


def test_what_asks_for_the_protocol_is_not_stored() -> None:
    asked = validate_properties(
        {
            "delta.minReaderVersion": "1",
            "delta.minWriterVersion": "4",
            "delta.feature.domainMetadata": "supported",
            "delta.appendOnly": "true",
            "mine": "x",
        }
    )
    assert stored_properties(asked) == {"delta.appendOnly": "true", "mine": "x"}


def test_any_set_of_features_gets_a_protocol_that_supports_exactly_them() -> None:
    for feature in FEATURES:
        made = protocol_of([feature])
        assert supported_names(made) == (feature.name,)
        assert (made.min_reader_version == 3) == (made.reader_features is not None)
        assert (made.min_writer_version == 7) == (made.writer_features is not None)
