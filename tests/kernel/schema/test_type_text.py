"""Types as users write them."""

from __future__ import annotations

import pytest

from adelta.errors import InvalidOptionError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.type_text import parse_column, parse_type


def test_fields_have_comments():
    found = parse_type("STRUCT<a INT NOT NULL COMMENT 'it\\'s > b', comment: STRING COMMENT \"\">")
    a, comment = found
    assert (a.nullable, a.metadata) == (False, {"comment": "it's > b"})
    assert (comment.name, comment.metadata) == ("comment", {"comment": ""})
    for wrong in ("struct<a: int comment>", "struct<a: int comment b>", "struct<a: 'int'>"):
        with pytest.raises(InvalidOptionError):
            parse_type(wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bigint", t.LONG),
        (" BIGINT ", t.LONG),
        ("timestamp_ntz", t.TIMESTAMP_NTZ),
        ("decimal", t.DecimalType(10, 0)),
        ("DECIMAL(9)", t.DecimalType(9, 0)),
        ("numeric( 9 , 2 )", t.DecimalType(9, 2)),
        ("array<array<int>>", t.ArrayType(t.ArrayType(t.INTEGER))),
        ("map<string,array<double>>", t.MapType(t.STRING, t.ArrayType(t.DOUBLE))),
        (
            "struct<a: int, `b:,``c` string NOT NULL>",
            t.StructType((t.StructField("a", t.INTEGER), t.StructField("b:,`c", t.STRING, False))),
        ),
    ],
)
def test_types_are_read_as_sql_writes_them(text: str, expected: t.DataType) -> None:
    assert parse_type(text) == expected


def test_the_text_of_a_type_is_that_type() -> None:
    inner = t.StructType((t.StructField("x", t.DecimalType(9, 2)), t.StructField("y", t.VARIANT)))
    for data_type in (t.LONG, t.BYTE, t.MapType(t.STRING, t.ArrayType(inner)), inner):
        assert parse_type(str(data_type)) == data_type


def test_columns_are_read_with_colons_and_without() -> None:
    assert parse_column("a:int") == t.StructField("a", t.INTEGER)
    assert parse_column("a bigint not null") == t.StructField("a", t.LONG, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends too early"),
        ("nonsense", "no type 'nonsense'"),
        ("int int", "'int' is too much"),
        ("array<int", "ends too early"),
        ("array(int)", r"'\(' where '<' belongs"),
        ("map<int>", "'>' where ',' belongs"),
        ("struct<>", "'>' where a name belongs"),
        ("decimal(39,0)", "no decimal has 39 digits"),
        ("decimal(5,6)", "no decimal has 5 digits, 6"),
        ("decimal(x)", "'x' where a number belongs"),
        ("`a", "is not understood"),
        ("array<" * 200 + "int" + ">" * 200, "nests deeper"),
    ],
)
def test_what_is_no_type_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        parse_type(text)
