"""Names, settings of Hadoop's and conditions, without a session."""

from __future__ import annotations

import pytest

from adelta.errors import InvalidExpressionError, InvalidOptionError
from adelta.kernel.schema.types import LONG, StructField, StructType
from adelta.spark.options.hadoop_conf import storage_options_of
from adelta.spark.rows.expressions import unqualified
from adelta.spark.translate.identifiers import identifier_parts, path_named, quoted, string_literal

NAMES = [
    ("t", ("t",)),
    ("db.t", ("db", "t")),
    (" c.`a.b`.`d``e` ", ("c", "a.b", "d`e")),
    ("a b", ("a b",)),
]


@pytest.mark.parametrize(("text", "parts"), NAMES)
def test_names_have_parts(text, parts):
    assert identifier_parts(text) == parts
    assert identifier_parts(quoted(parts)) == parts


@pytest.mark.parametrize("text", ["", "a..b", ".a", "a.", "`a", "a`b`", "``"])
def test_what_is_no_name_is_refused(text):
    with pytest.raises(InvalidOptionError, match="is no name"):
        identifier_parts(text)


def test_paths_may_be_named():
    assert path_named("delta.`/a/b`") == path_named("ADELTA.`/a/b`") == "/a/b"
    assert path_named("delta.`s3://b/t`") == "s3://b/t"
    assert [path_named(text) for text in ("parquet.`/a`", "delta.t", "/a/b", "a..b")] == [None] * 4


def test_texts_become_constants():
    assert string_literal("it's \\ here") == "'it\\'s \\\\ here'"


def test_settings_of_hadoop_become_storage_options():
    conf = {
        "fs.s3a.access.key": "k",
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "aws_region": "eu-north-1",
    }
    assert storage_options_of(conf) == {
        "aws_access_key_id": "k",
        "aws_endpoint_url": "http://127.0.0.1:9000",
        "aws_allow_http": "true",  # who names an address without TLS has said so
        "aws_virtual_hosted_style_request": "false",
        "aws_region": "eu-north-1",
    }


def test_the_name_of_a_table_goes_and_fields_of_structs_stay():
    inner = StructType((StructField("x", LONG),))
    schema = StructType((StructField("id", LONG), StructField("t", inner)))
    assert unqualified("t.id > 1 AND T.x = 2", schema, ["t"], "UTC") == "id > 1 AND T.x = 2"
    assert unqualified("t.t.x = 2", schema, ["t"], "UTC") == "t.x = 2"
    assert unqualified("t.id > 1", schema, [], "UTC") == "t.id > 1"
    with pytest.raises(InvalidExpressionError):
        unqualified("t.id >", schema, ["t"], "UTC")
