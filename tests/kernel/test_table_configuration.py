"""What follows from a protocol and metadata together."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from adelta.errors import InvalidTableError, UnsupportedFeatureError
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import (
    LONG,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from adelta.kernel.table_configuration import TableConfiguration


def mapped(name: str, data_type: DataType, number: int, nullable: bool = True) -> StructField:
    physical = {
        "delta.columnMapping.id": number,
        "delta.columnMapping.physicalName": f"col-{number}",
    }
    return StructField(name, data_type, nullable, physical)


SCHEMA = StructType(
    (
        mapped("P", STRING, 1),
        mapped("id", LONG, 2, nullable=False),
        mapped("s", StructType((mapped("x", LONG, 4, nullable=False),)), 3),
        mapped("m", MapType(STRING, ArrayType(StructType((mapped("y", LONG, 6),)), False)), 5),
    )
)


def configuration(
    protocol: Protocol | None = None, partition_by: tuple[str, ...] = ("P",), **properties: str
) -> TableConfiguration:
    metadata = Metadata(
        "id",
        schema_to_string(SCHEMA),
        partition_by,
        {f"delta.{key}": value for key, value in properties.items()},
    )
    return TableConfiguration(protocol or Protocol(1, 2), metadata)


def test_partition_columns_are_not_in_data_files() -> None:
    table = configuration()
    assert [f.name for f in table.partition_fields] == ["P"]
    assert table.data_schema.names == ("id", "s", "m")
    assert table.physical_partition_columns == ("P",)


@pytest.mark.parametrize(("name", "reason"), [("gone", "does not have"), ("p", "spells .* 'P'")])
def test_a_partition_column_that_is_not_in_the_schema_in_that_case_is_damage(
    name: str, reason: str
) -> None:
    with pytest.raises(InvalidTableError, match=f"'{name}'.*{reason}"):
        configuration(partition_by=(name,)).check_readable()


def test_without_mapping_files_have_the_names_of_the_schema_and_every_column_is_nullable() -> None:
    written = configuration().physical_arrow_schema
    inner = pa.list_(pa.field("element", pa.struct([("y", pa.int64())])))
    assert written == pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.struct([("x", pa.int64())])),
            ("m", pa.map_(pa.string(), inner)),
        ]
    )
    assert all(f.metadata is None for f in written)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_with_mapping_files_have_physical_names_and_field_ids_at_every_depth(mode: str) -> None:
    properties: dict[str, Any] = {"columnMapping.mode": mode}
    table = configuration(Protocol(2, 5), **properties)
    assert table.column_mapping_mode == mode
    assert table.physical_partition_columns == ("col-1",)
    written = table.physical_arrow_schema
    assert written.names == ["col-2", "col-3", "col-5"]
    inner = written.field("col-3").type.field("col-4")
    assert inner.metadata == {b"PARQUET:field_id": b"4"}
    deep = written.field("col-5").type.item_type.value_type.field("col-6")
    assert deep.metadata == {b"PARQUET:field_id": b"6"}
    assert table.schema.names == ("P", "id", "s", "m")


def test_a_mapping_that_the_protocol_does_not_support_is_none() -> None:
    assert (
        configuration(Protocol(1, 2), **{"columnMapping.mode": "name"}).column_mapping_mode
        == "none"
    )


def test_switches_count_only_where_the_protocol_supports_their_feature() -> None:
    on = {"appendOnly": "true", "enableChangeDataFeed": "true", "enableInCommitTimestamps": "true"}
    old = configuration(Protocol(1, 2), **on)
    assert (old.append_only, old.change_data_feed_enabled, old.in_commit_timestamps_enabled) == (
        True,
        False,
        False,
    )
    listed = Protocol(1, 7, None, ("changeDataFeed", "inCommitTimestamp"))
    new = configuration(listed, **on)
    assert (new.append_only, new.change_data_feed_enabled, new.in_commit_timestamps_enabled) == (
        False,
        True,
        True,
    )


def test_the_start_of_in_commit_timestamps_is_known_where_it_was_not_the_first_version() -> None:
    assert configuration().in_commit_timestamp_enablement is None
    later = configuration(
        inCommitTimestampEnablementVersion="7", inCommitTimestampEnablementTimestamp="1700"
    )
    assert later.in_commit_timestamp_enablement == (7, 1700)


def test_a_table_is_refused_by_its_name() -> None:
    unknown = configuration(Protocol(3, 7, ("new",), ("new",)))
    for check in (unknown.check_readable, unknown.check_writable):
        with pytest.raises(UnsupportedFeatureError, match=r"s3://b/t cannot be read: .* new "):
            check("s3://b/t")
    configuration().check_writable()


def test_files_of_another_format_are_damage() -> None:
    metadata = Metadata("id", schema_to_string(SCHEMA), format_provider="orc")
    with pytest.raises(InvalidTableError, match="orc"):
        TableConfiguration(Protocol(1, 2), metadata).check_readable()
