"""The options of format("adelta")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adelta.errors import InvalidExpressionError, InvalidOptionError, InvalidPropertyError
from adelta.spark.exceptions import as_spark_has_it
from adelta.spark.options.read_write import ReadOptions, WriteOptions

if TYPE_CHECKING:
    from adelta.operations.write_kind import WriteKind


def test_a_read_needs_an_address():
    with pytest.raises(InvalidOptionError, match="no table is named"):
        ReadOptions.parse({"versionAsOf": "1"})


def test_keys_are_read_in_any_case():
    options = ReadOptions.parse({"path": "/t", "versionasof": "3", "COLUMNS": "a, `b c`"})
    assert (options.uri, options.version, options.columns) == ("/t", 3, ("a", "b c"))


def test_a_relative_path_is_of_the_directory_that_spark_was_started_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ReadOptions.parse({"path": "lake/t"}).uri == str(tmp_path / "lake" / "t")
    assert ReadOptions.parse({"path": "s3://lake/t"}).uri == "s3://lake/t"


def test_names_that_hold_commas_are_given_as_json():
    options = ReadOptions.parse({"path": "/t", "columns": '["a,b", "c"]'})
    assert options.columns == ("a,b", "c")


@pytest.mark.parametrize("text", ["[1]", "[", "", " , "])
def test_a_list_of_columns_that_names_none_is_refused(text):
    with pytest.raises(InvalidOptionError, match="columns"):
        ReadOptions.parse({"path": "/t", "columns": text})


def test_storage_options_are_those_of_the_store_with_or_without_prefix():
    options = ReadOptions.parse(
        {"path": "s3://b/t", "aws_region": "eu-1", "allow_http": "true", "option.anything": "x"}
    )
    assert options.storage_options == {
        "aws_region": "eu-1",
        "allow_http": "true",
        "anything": "x",
    }


def test_secrets_are_not_shown():
    options = {"path": "s3://b/t", "aws_secret_access_key": "hunter2"}
    assert "hunter2" not in repr(ReadOptions.parse(options)) + repr(WriteOptions.parse(options))


def test_a_misspelt_option_is_refused_with_the_right_one_named():
    with pytest.raises(InvalidOptionError, match="did you mean versionAsOf"):
        ReadOptions.parse({"path": "/t", "versonAsOf": "3"})
    with pytest.raises(InvalidOptionError, match="did you mean partitionBy"):
        WriteOptions.parse({"path": "/t", "partitionsBy": "a"})


def test_an_option_of_reading_is_refused_in_a_write():
    with pytest.raises(InvalidOptionError, match="no option 'versionAsOf'"):
        WriteOptions.parse({"path": "/t", "versionAsOf": "3"})


def test_the_change_data_feed_is_asked_for_with_its_first_version():
    assert ReadOptions.parse({"path": "/t", "readChangeFeed": "false"}).changes is None
    with pytest.raises(InvalidOptionError, match="give startingVersion or startingTimestamp"):
        ReadOptions.parse({"path": "/t", "readChangeFeed": "true"})


def test_options_of_delta_spark_say_what_a_write_does_to_the_table():
    def kind(overwrite: bool = True, **options: str) -> WriteKind:
        return WriteOptions.parse({"path": "/t", **options}).request(overwrite=overwrite).kind

    assert kind(mergeSchema="true").schema_mode == "merge"
    assert kind(mergeSchema="true", overwriteSchema="true").schema_mode == "overwrite"
    assert kind(replaceWhere="a = 1").parameters["predicate"] == "a = 1"
    assert kind(partitionOverwriteMode="DYNAMIC").partition_overwrite == "dynamic"
    # Sessions set this for all their writes: it says nothing of an append.
    assert kind(False, partitionOverwriteMode="dynamic").partition_overwrite == "static"
    for options, says in (
        ({"overwrite": False, "replaceWhere": "a = 1"}, "replace_where goes with"),
        ({"overwrite": False, "overwriteSchema": "true"}, "schema_mode=.overwrite. goes with"),
        ({"replaceWhere": "a = 1", "overwriteSchema": "true"}, "cannot be overwritten"),
        ({"replaceWhere": "a = 1", "partitionOverwriteMode": "dynamic"}, "choose one of them"),
        ({"partitionOverwriteMode": "some"}, "'static' or 'dynamic'"),
    ):
        with pytest.raises(InvalidOptionError, match=says):
            kind(**options)
    dynamic = {"partitionOverwriteMode": "dynamic"}
    for options, condition in (
        (
            {"overwriteSchema": "true", "partitionBy": "a"},
            "DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE",
        ),
        ({"replaceWhere": "a = 1"}, "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE"),
    ):
        with pytest.raises(InvalidOptionError) as refused:
            kind(**options, **dynamic)
        told: Any = as_spark_has_it(refused.value)
        assert told.getCondition() == condition
    assert kind(overwriteSchema="true", **dynamic).partition_overwrite == "static"
    with pytest.raises(InvalidExpressionError):
        kind(replaceWhere="a = = 1")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("versionAsOf", "-1"),
        ("versionAsOf", "latest"),
        ("minPartitions", "0"),
        ("maxPartitionBytes", "128m"),
        ("filterPushdown", "yes"),
    ],
)
def test_a_wrong_value_is_refused_with_the_option_named(key, value):
    with pytest.raises(InvalidOptionError, match=key):
        ReadOptions.parse({"path": "/t", key: value})


@pytest.mark.parametrize(("key", "value"), [("delta.foo", "1"), ("delta.appendOnly", "maybe")])
def test_wrong_properties_are_refused_whether_there_is_a_table_or_not(key, value):
    with pytest.raises(InvalidPropertyError, match=key):
        WriteOptions.parse({"path": "/t", key: value})


def test_a_version_and_a_time_exclude_each_other():
    with pytest.raises(InvalidOptionError, match=r"^\[DELTA_ONEOF_IN_TIMETRAVEL\] .* not both"):
        ReadOptions.parse({"path": "/t", "versionAsOf": "1", "timestampAsOf": "2024-01-01"})


def test_an_application_and_its_version_belong_together():
    options = WriteOptions.parse({"path": "/t", "txnAppId": "billing", "txnVersion": "7"})
    assert options.txn == ("billing", 7)
    condition = r"^\[DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS\.MISSING_DATAFRAME_WRITE_OPTIONS\] "
    with pytest.raises(InvalidOptionError, match=condition):
        WriteOptions.parse({"path": "/t", "txnAppId": "billing"})


def test_what_to_do_where_the_table_exists_is_one_of_two_words():
    assert WriteOptions.parse({"path": "/t", "ifExists": "ignore"}).if_exists == "ignore"
    with pytest.raises(InvalidOptionError, match="ifExists"):
        WriteOptions.parse({"path": "/t", "ifExists": "replace"})
