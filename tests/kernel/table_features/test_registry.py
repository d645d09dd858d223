"""Which tables may be read and written, by their protocol and metadata."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import adelta.kernel.table_features as package
from adelta.errors import InvalidTableError, UnsupportedFeatureError
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import (
    LONG,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    DataType,
    StructField,
    StructType,
)
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import (
    FEATURES,
    MANAGED_COMMIT,
    FeatureKind,
    check_readable,
    check_writable,
    find_feature,
    is_active,
    supported_names,
)


def metadata(
    data_type: DataType = LONG,
    field_metadata: dict[str, Any] | None = None,
    **configuration: str,
) -> Metadata:
    nested = StructType((StructField("x", data_type, True, field_metadata or {}),))
    schema = StructType((StructField("a", LONG), StructField("s", ArrayType(nested))))
    return Metadata(
        "id", schema_to_string(schema), (), {f"delta.{k}": v for k, v in configuration.items()}
    )


def protocol(*names: str, reader: int = 3) -> Protocol:
    """A protocol with lists in which `names` stand where they belong."""
    for_readers = [
        n for n in names if (f := find_feature(n)) and f.kind is FeatureKind.READER_WRITER
    ]
    raw: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": 7}
    raw["writerFeatures"] = list(names)
    if reader == 3:
        raw["readerFeatures"] = for_readers
    return Protocol.from_json(raw)


def test_features_are_listed_once_in_order_and_what_they_require_is_listed_too() -> None:
    names = [f.name for f in FEATURES]
    assert names == sorted(names)
    every = [n for f in FEATURES for n in f.names]
    assert len(every) == len(set(every))
    for feature in FEATURES:
        assert all(find_feature(r.name) is r for r in feature.requires)


def test_the_name_of_a_feature_stands_in_its_own_file_alone() -> None:
    root = Path(package.__file__).parents[2]
    # the face for deltalake's users has the names of an enumeration of its own
    apart = ("table_features", "deltalake")
    files = [p for p in root.rglob("*.py") if p.parent.name not in apart]
    # keys of the log that are called like a feature
    shared = {"domainMetadata", "inCommitTimestamp", "v2Checkpoint"}
    for feature in FEATURES:
        for name in set(feature.names) - shared:
            # as a string of its own; keys of properties and of field metadata have longer ones
            pattern = re.compile(rf"""["']{re.escape(name)}["']""")
            assert [p.name for p in files if pattern.search(p.read_text())] == []


@pytest.mark.parametrize(
    ("reader", "writer", "implied"),
    [
        (1, 1, ""),
        (1, 2, "appendOnly invariants"),
        (1, 3, "appendOnly checkConstraints invariants"),
        (1, 4, "appendOnly changeDataFeed checkConstraints generatedColumns invariants"),
        (1, 5, "appendOnly changeDataFeed checkConstraints generatedColumns invariants"),
        (
            2,
            5,
            "appendOnly changeDataFeed checkConstraints columnMapping generatedColumns invariants",
        ),
        (
            2,
            6,
            "appendOnly changeDataFeed checkConstraints columnMapping generatedColumns "
            "identityColumns invariants",
        ),
    ],
)
def test_old_versions_imply_features(reader: int, writer: int, implied: str) -> None:
    assert supported_names(Protocol(reader, writer)) == tuple(implied.split())


def test_with_lists_only_what_is_listed_counts() -> None:
    assert supported_names(protocol("checkConstraints", "someThing")) == (
        "checkConstraints",
        "someThing",
    )


@pytest.mark.parametrize(
    "name",
    [f.name for f in FEATURES if f.kind is FeatureKind.WRITER],
)
def test_a_feature_that_binds_writers_alone_never_stops_a_reader(name: str) -> None:
    owned = {"managedCommit.commitOwner": "somebody"} if name == MANAGED_COMMIT.name else {}
    check_readable(protocol(name), metadata(**owned))


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("deletionVectors", metadata()),
        ("columnMapping", metadata(**{"columnMapping.mode": "name"})),
        ("typeWidening", metadata(field_metadata={"delta.typeChanges": []})),
        ("typeWidening-preview", metadata(field_metadata={"delta.typeChanges": []})),
        ("variantType", metadata(VARIANT)),
        ("variantType-preview", metadata(VARIANT)),
        ("variantShredding", metadata(VARIANT)),
        ("catalogManaged", metadata()),
    ],
)
def test_a_reader_feature_that_is_not_built_is_refused_by_name_where_rows_depend_on_it(
    name: str, table: Metadata
) -> None:
    feature = find_feature(name)
    assert feature is not None
    if feature.can_read:
        check_readable(protocol(name), table)
        return
    for check in (check_readable, check_writable):
        with pytest.raises(UnsupportedFeatureError) as caught:
            check(protocol(name), table, table="s3://b/t")
        message = str(caught.value)
        assert feature.name in message
        assert "s3://b/t" in message
        assert "reader version 3, writer version 7" in message
        assert "upgrade adelta" in message


@pytest.mark.parametrize(
    "name", ["columnMapping", "typeWidening", "variantType", "variantShredding"]
)
def test_a_reader_feature_that_no_row_depends_on_stops_nobody(name: str) -> None:
    check_readable(protocol(name), metadata())
    check_writable(protocol(name), metadata())


@pytest.mark.parametrize("name", ["timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"])
def test_what_is_built_is_read_and_written(name: str) -> None:
    check_writable(protocol(name, "domainMetadata", "appendOnly"), metadata(TIMESTAMP_NTZ))


def test_an_unknown_feature_of_readers_stops_reading_and_one_of_writers_only_writing() -> None:
    for_both = Protocol(3, 7, ("fromTheFuture",), ("fromTheFuture",))
    with pytest.raises(UnsupportedFeatureError, match=r"cannot be read: .*fromTheFuture"):
        check_readable(for_both, metadata())
    for_writers = Protocol(1, 7, None, ("fromTheFuture", "other"))
    check_readable(for_writers, metadata())
    with pytest.raises(UnsupportedFeatureError, match=r"cannot be written: .*fromTheFuture, other"):
        check_writable(for_writers, metadata())


def test_versions_from_the_future_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"reader version 4.*upgrade"):
        check_readable(Protocol(4, 8, (), ()), metadata())
    check_readable(Protocol(1, 8, None, ()), metadata())
    with pytest.raises(UnsupportedFeatureError, match=r"writer version 8.*upgrade"):
        check_writable(Protocol(1, 8, None, ()), metadata())


def test_contradicting_versions_and_lists_are_damage_for_writers() -> None:
    with pytest.raises(InvalidTableError, match="reader version 3 and writer version 6"):
        check_readable(Protocol(3, 6, ()), metadata())
    for damaged in (
        Protocol(3, 7, ("timestampNtz",), ()),
        Protocol(3, 7, (), ("timestampNtz",)),
        Protocol(1, 7, None, ("timestampNtz",)),
    ):
        check_readable(damaged, metadata())
        with pytest.raises(InvalidTableError, match="timestampNtz"):
            check_writable(damaged, metadata())


def test_column_mapping_may_be_listed_for_writers_alone_with_reader_version_two() -> None:
    both = protocol("columnMapping", "identityColumns", reader=2)
    check_writable(both, metadata())


WRITER_FEATURES = [
    ("invariants", metadata(field_metadata={"delta.invariants": "{}"})),
    ("checkConstraints", metadata(**{"constraints.positive": "a > 0"})),
    ("changeDataFeed", metadata(enableChangeDataFeed="true")),
    ("changeDataFeed", metadata(enableChangeDataCapture="true")),
    ("generatedColumns", metadata(field_metadata={"delta.generationExpression": "a"})),
    ("identityColumns", metadata(field_metadata={"delta.identity.start": 1})),
    ("allowColumnDefaults", metadata(field_metadata={"CURRENT_DEFAULT": "1"})),
    ("rowTracking", metadata()),
    ("clustering", metadata()),
    ("icebergCompatV1", metadata(enableIcebergCompatV1="true")),
    ("icebergCompatV2", metadata(enableIcebergCompatV2="true")),
    ("icebergCompatV3", metadata(enableIcebergCompatV3="true")),
    ("icebergWriterCompatV1", metadata(enableIcebergWriterCompatV1="true")),
    ("materializePartitionColumns", metadata()),
    ("checkpointProtection", metadata(requireCheckpointProtectionBeforeVersion="5")),
    ("inCommitTimestamp", metadata(enableInCommitTimestamps="true")),
    ("appendOnly", metadata(appendOnly="true")),
]


@pytest.mark.parametrize(("name", "table"), WRITER_FEATURES)
def test_an_active_writer_feature_stops_writers_that_lack_it_by_name(
    name: str, table: Metadata
) -> None:
    feature = find_feature(name)
    assert feature is not None
    assert is_active(feature, TableConfiguration(protocol(name), table))
    check_readable(protocol(name), table)
    if feature.can_write:
        check_writable(protocol(name), table)
    else:
        with pytest.raises(UnsupportedFeatureError, match=f"written: .*{name}"):
            check_writable(protocol(name), table)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        *((n, metadata()) for n, t in WRITER_FEATURES if t != metadata()),
        ("rowTracking", metadata(rowTrackingSuspended="true")),
    ],
)
def test_an_inactive_writer_feature_stops_nobody(name: str, table: Metadata) -> None:
    check_writable(protocol(name), table)


def test_a_property_counts_only_where_the_protocol_supports_its_feature() -> None:
    feature = find_feature("changeDataFeed")
    assert feature is not None
    table = metadata(enableChangeDataFeed="true")
    assert not is_active(feature, TableConfiguration(Protocol(1, 2), table))
    assert is_active(feature, TableConfiguration(Protocol(1, 4), table))
    check_writable(Protocol(1, 2), table)


def test_a_damaged_property_does_not_stop_readers() -> None:
    check_readable(protocol("changeDataFeed"), metadata(enableChangeDataFeed="perhaps"))
