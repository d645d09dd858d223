"""The properties of tables: read leniently, set strictly."""

from __future__ import annotations

import pytest

from adelta.errors import InvalidPropertyError
from adelta.kernel.table_properties import (
    PROPERTIES,
    Property,
    TableProperties,
    parse_boolean,
    split_columns,
    validate,
)

DAY = 86_400_000


def test_what_is_not_set_has_its_default() -> None:
    properties = TableProperties.parse({})
    assert properties.checkpoint_interval == 10
    assert properties.log_retention_ms == 30 * DAY
    assert properties.deleted_file_retention_ms == 7 * DAY
    assert properties.set_transaction_retention_ms is None
    assert properties.data_skipping_num_indexed_cols == 32
    assert properties.data_skipping_stats_columns is None
    assert properties.checkpoint_write_stats_as_json is True
    assert properties.checkpoint_write_stats_as_struct is False
    assert properties.parquet_compression_codec == "zstd"
    assert properties.isolation_level == "Serializable"
    assert properties.target_file_size is None


def test_what_is_set_is_read_whatever_the_case_of_its_key() -> None:
    properties = TableProperties.parse(
        {
            "delta.CHECKPOINTinterval": "3",
            "delta.deletedFileRetentionDuration": "interval 2 weeks 1 day",
            "delta.setTransactionRetentionDuration": "90 minutes",
            "delta.dataSkippingStatsColumns": "a, b.c, `odd,`` name`.x",
            "delta.parquet.compression.codec": "NONE",
            "delta.targetFileSize": "128mb",
        }
    )
    assert properties.checkpoint_interval == 3
    assert properties.deleted_file_retention_ms == 15 * DAY
    assert properties.set_transaction_retention_ms == 5_400_000
    assert properties.data_skipping_stats_columns == (("a",), ("b", "c"), ("odd,` name", "x"))
    assert properties.parquet_compression_codec == "uncompressed"
    assert properties.target_file_size == 128 << 20


def test_every_property_is_listed_once_and_has_a_default_that_it_reads_back() -> None:
    keys = [p.key.lower() for p in PROPERTIES]
    assert len(keys) == len(set(keys)) >= 27
    for known in PROPERTIES:
        assert known.read({}) == known.default


def test_a_damaged_value_counts_only_when_it_is_asked_for() -> None:
    properties = TableProperties.parse({"delta.checkpointInterval": "often"})
    assert properties.log_retention_ms == 30 * DAY
    with pytest.raises(InvalidPropertyError, match=r"delta\.checkpointInterval.*'often'"):
        _ = properties.checkpoint_interval


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.checkpointInterval", "0"),
        ("delta.checkpointInterval", "1.5"),
        ("delta.logRetentionDuration", "interval 1 month"),
        ("delta.logRetentionDuration", "interval 1 year"),
        ("delta.logRetentionDuration", "soon"),
        ("delta.logRetentionDuration", "interval"),
        ("delta.logRetentionDuration", "interval -2 days"),
        ("delta.enableExpiredLogCleanup", "yes"),
        ("delta.dataSkippingNumIndexedCols", "-2"),
        ("delta.dataSkippingStatsColumns", "a,,b"),
        ("delta.dataSkippingStatsColumns", "`a"),
        ("delta.isolationLevel", "ReadUncommitted"),
        ("delta.parquet.compression.codec", "brotli"),
        ("delta.parquet.format.version", "3.0.0"),
        ("delta.targetFileSize", "0"),
        ("delta.checkpointPolicy", "v3"),
    ],
)
def test_a_bad_value_cannot_be_set(key: str, value: str) -> None:
    with pytest.raises(InvalidPropertyError) as caught:
        validate({key: value})
    assert key in str(caught.value)
    assert repr(value) in str(caught.value)


def test_keys_are_stored_in_their_proper_spelling_and_foreign_ones_as_they_are() -> None:
    assert validate(
        {
            "DELTA.checkpointINTERVAL": "5",
            "Mine": "x",
            "delta.CONSTRAINTS.Positive": "a > 0",
            "delta.minreaderversion": "1",
            "DELTA.feature.someThing": "supported",
        }
    ) == {
        "delta.checkpointInterval": "5",
        "Mine": "x",
        "delta.constraints.Positive": "a > 0",
        "delta.minReaderVersion": "1",
        "delta.feature.someThing": "supported",
    }


def test_an_unknown_delta_key_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidPropertyError, match=r"did you mean delta\.checkpointInterval"):
        validate({"delta.checkpointinter": "5"})
    with pytest.raises(InvalidPropertyError, match=r"'delta\.nothing' is not a table property"):
        validate({"delta.nothing": "5"})


def test_one_property_in_two_spellings_is_refused() -> None:
    with pytest.raises(InvalidPropertyError, match="twice"):
        validate({"delta.checkpointInterval": "5", "delta.CheckpointInterval": "6"})


def test_the_log_must_outlive_the_files_it_names() -> None:
    with pytest.raises(InvalidPropertyError, match="outlive"):
        validate({"delta.logRetentionDuration": "interval 1 day"})
    validate(
        {
            "delta.logRetentionDuration": "interval 1 day",
            "delta.deletedFileRetentionDuration": "interval 1 day",
        }
    )


def test_a_property_kept_by_the_implementation_cannot_be_set_but_is_read_by_every_name() -> None:
    kept = Property("delta.kept", parse_boolean, False, settable=False, aliases=("delta.old",))
    with pytest.raises(InvalidPropertyError, match="cannot be set"):
        validate({"delta.kept": "true"}, [kept])
    assert kept.read({"delta.Old": "true"}) is True


def test_columns_are_split_at_dots_and_commas_outside_backticks() -> None:
    assert split_columns("a") == (("a",),)
    assert split_columns(" a . b , `c.d` ") == (("a", "b"), ("c.d",))
    assert split_columns("` a `") == ((" a ",),)
