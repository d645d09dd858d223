"""What expressions mean: each fact is what Spark 4.3 answers with its default, ANSI, settings.

They are constant expressions, so each also goes through constant folding; `test_compute` shows the
same rules on columns.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal as D
from typing import Any

import pyarrow as pa
import pytest

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind, type_of
from adelta.kernel.schema import types as t

NAN = float("nan")
NO_COLUMNS = t.StructType()
ONE_ROW = pa.record_batch([pa.array([0])], ["unused"])


def value_of(text: str, zone: str = "UTC") -> Any:
    node = bind(parse_expression(text, zone=zone), NO_COLUMNS, zone=zone)
    return evaluate(node, ONE_ROW)[0].as_py()


def ts(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]  # year, month, day and so on


COMPARISONS = [
    ("1 = '1'", True),
    ("1 = ' 1 '", True),
    ("'1.5' > 1.0", True),
    ("date'2020-01-01' = '2020-01-01'", True),
    ("date'2020-01-01' = '2020'", True),
    ("date'2020-01-01' = timestamp'2020-01-01'", True),
    ("date'2020-01-01' < '2020-01-01 12:00'", False),
    ("CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)", True),
    ("CAST('NaN' AS DOUBLE) > CAST('Infinity' AS DOUBLE)", True),
    ("CAST('NaN' AS DOUBLE) IN (CAST('NaN' AS DOUBLE))", True),
    ("-0.0D = 0.0D", True),
    ("true > false", True),
    ("'true' = true", True),
    ("'é' > 'z'", True),
    ("'\\U0001F600' > '\\uffff'", True),
    ("'a ' = 'a'", False),
    ("'a' < 'B'", False),
    ("x'61' = 'a'", True),
    ("CAST('a' AS BINARY) < x'7f'", True),
    ("1.10 = 1.1", True),
    ("1.5F = 1.5", True),
    ("0.1F = 0.1", False),
    ("16777217 = 16777216F", False),
    ("9007199254740993L = 9007199254740992D", True),
    ("null = null", None),
    ("null <=> null", True),
    ("1 <=> null", False),
    ("null is true", False),
    ("null is not true", True),
    ("1 in (2, null)", None),
    ("1 not in (2, null)", None),
    ("null in (1)", None),
    ("1 in ('1', '2')", True),
    ("1.0 in (1, 2.50)", True),
    ("true or null", True),
    ("null and false", False),
    ("not null", None),
    ("true and 'true'", True),
    ("1.5 in (1.50, null, '2')", True),
    ("1.5 = '1.5'", True),
    ("1.5 <= '1.5' and '1.5' <= 1.5", True),
    ("greatest(1, null)", 1),
    ("greatest(CAST('NaN' AS DOUBLE), 1.0D)", NAN),
    ("least('a', 'b')", "a"),
]

ARITHMETIC = [
    ("1 / 3", 1 / 3, t.DOUBLE),
    ("1.5 / 3", D("0.500000"), t.DecimalType(7, 6)),
    ("5 div 2", 2, t.LONG),
    ("-5 div 2", -2, t.LONG),
    ("7.5 div 2", 3, t.LONG),
    ("-5 % 3", -2, t.INTEGER),
    ("-7 % -3", -1, t.INTEGER),
    ("5.5 % 2", D("1.5"), t.DecimalType(2, 1)),
    ("-5.5 % 2", D("-1.5"), t.DecimalType(2, 1)),
    ("1.5 + 1", D("2.5"), t.DecimalType(3, 1)),
    ("1.5 * 2.25", D("3.375"), t.DecimalType(6, 3)),
    ("1Y + 1Y", 2, t.BYTE),
    ("1Y + 1S", 2, t.SHORT),
    ("1.5F + 1L", 2.5, t.DOUBLE),
    ("1.5F + 1.5", 3.0, t.DOUBLE),
    ("'5' + 1", 6, t.LONG),
    ("'5' / 2", 2.5, t.DOUBLE),
    ("'1' || 2 + 3", 15, t.LONG),
    ("null + 1", None, t.INTEGER),
    ("CAST(1 AS DECIMAL(38,0)) + 1", D("2"), t.DecimalType(38, 0)),
    ("CAST(1 AS DECIMAL(38,10)) * CAST(1 AS DECIMAL(38,10))", D("1.000000"), t.DecimalType(38, 6)),
    ("CAST(1 AS DECIMAL(38,10)) / CAST(3 AS DECIMAL(38,10))", D("0.333333"), t.DecimalType(38, 6)),
    ("pmod(-5, 3)", 1, t.INTEGER),
    ("pmod(-7, -3)", -1, t.INTEGER),
    ("mod(-5, 3)", -2, t.INTEGER),
    ("floor(1.5)", D("1"), t.DecimalType(2, 0)),
    ("floor(1.5D)", 1, t.LONG),
    ("floor(CAST('NaN' AS DOUBLE))", 0, t.LONG),
    ("ceil(-1.5)", D("-1"), t.DecimalType(2, 0)),
    ("round(2.5D)", 3.0, t.DOUBLE),
    ("round(-2.5D)", -3.0, t.DOUBLE),
    ("round(1.005D, 2)", 1.01, t.DOUBLE),
    ("round(0.35F, 1)", 0.30000001192092896, t.FLOAT),
    ("1F / 3F", 1 / 3, t.DOUBLE),
    ("round(1.2345, 2)", D("1.23"), t.DecimalType(4, 2)),
    ("round(15, -1)", 20, t.INTEGER),
    ("abs('-1')", 1.0, t.DOUBLE),
    ("coalesce(null, 1, 2.5)", D("1.0"), t.DecimalType(11, 1)),
    ("case when false then 1/0 else 2 end", 2.0, t.DOUBLE),
    ("case when true then 1 else 'a' end", 1, t.LONG),
    ("if(null, 1, 2)", 2, t.INTEGER),
    ("nvl2(null, 1, 2)", 2, t.INTEGER),
]

CASTS = [
    ("CAST(' +5 ' AS INT)", 5),
    ("CAST('1e3' AS DOUBLE)", 1000.0),
    ("CAST('1d' AS DOUBLE)", 1.0),
    ("CAST('.5' AS DOUBLE)", 0.5),
    ("CAST('1.5' AS DECIMAL(10,0))", D("2")),
    ("CAST('1e2' AS DECIMAL(10,1))", D("100.0")),
    ("CAST(1.7 AS INT)", 1),
    ("CAST(-1.7D AS INT)", -1),
    ("CAST(1.2355 AS DECIMAL(3,2))", D("1.24")),
    ("CAST(1.005D AS DECIMAL(10,2))", D("1.01")),
    ("CAST(0.1F AS DECIMAL(12,10))", D("0.1000000015")),
    ("CAST('tRue' AS BOOLEAN)", True),
    ("CAST('  n ' AS BOOLEAN)", False),
    ("CAST(2 AS BOOLEAN)", True),
    ("CAST(true AS INT)", 1),
    ("CAST('2020' AS DATE)", date(2020, 1, 1)),
    ("CAST('2020-1-5' AS DATE)", date(2020, 1, 5)),
    ("CAST('2020-01-01T' AS DATE)", date(2020, 1, 1)),
    ("CAST('2020-01-01 xyz' AS DATE)", date(2020, 1, 1)),
    ("CAST('2020-01-01 10' AS TIMESTAMP)", ts(2020, 1, 1, 10)),
    ("CAST('2020-01' AS TIMESTAMP)", ts(2020, 1, 1)),
    ("CAST('2020-01-01 00:00:00GMT+1' AS TIMESTAMP)", ts(2019, 12, 31, 23)),
    ("CAST('2020-01-01 1:2' AS TIMESTAMP)", ts(2020, 1, 1, 1, 2)),
    ("CAST('2020-01-01 01:02:03.1234567' AS TIMESTAMP)", ts(2020, 1, 1, 1, 2, 3, 123456)),
    ("CAST('2020-01-01 01:02:03+1' AS TIMESTAMP)", ts(2020, 1, 1, 0, 2, 3)),
    ("CAST('2020-01-01 01:02:03 Europe/Berlin' AS TIMESTAMP)", ts(2020, 1, 1, 0, 2, 3)),
    ("CAST('2020-01-01 00:00:00Z' AS TIMESTAMP_NTZ)", datetime(2020, 1, 1)),
    ("CAST(timestamp'2020-01-01' AS LONG)", 1577836800),
    ("CAST(1577836800 AS TIMESTAMP)", ts(2020, 1, 1)),
    ("CAST(1.5 AS TIMESTAMP)", ts(1970, 1, 1, 0, 0, 1, 500000)),
    ("CAST(1.5 AS STRING)", "1.5"),
    ("CAST(1e10 AS STRING)", "1.0E10"),
    ("CAST(1.0e-5 AS STRING)", "1.0E-5"),
    ("CAST(0.001D AS STRING)", "0.001"),
    ("CAST(0.0001D AS STRING)", "1.0E-4"),
    ("CAST(1e7 AS STRING)", "1.0E7"),
    ("CAST(12345678.9D AS STRING)", "1.23456789E7"),
    ("CAST(100D AS STRING)", "100.0"),
    ("CAST(-0.0D AS STRING)", "-0.0"),
    ("CAST(0.1F AS STRING)", "0.1"),
    ("CAST(timestamp'2020-01-01 01:02:03.120' AS STRING)", "2020-01-01 01:02:03.12"),
    ("CAST(x'ff' AS STRING)", "\ufffd"),
    ("CAST(1e39 AS FLOAT)", float("inf")),
    ("TRY_CAST('abc' AS INT)", None),
    ("TRY_CAST('2020-01-01 10:11Z' AS TIMESTAMP)", None),  # a zone stands behind seconds
    ("TRY_CAST('2020-01-01 10:11:12nowhere' AS TIMESTAMP_NTZ)", None),
    ("NULL LIKE 'a%'", None),
    ("greatest(NULL, NULL)", None),
    ("TRY_CAST(300 AS TINYINT)", None),
]

DATES = [
    ("trunc(date'2020-05-06', 'MM')", date(2020, 5, 1)),
    ("trunc(date'2020-05-06', 'week')", date(2020, 5, 4)),
    ("trunc(date'2020-05-06', 'hour')", None),
    ("date_trunc('hour', timestamp'2020-05-06 07:08:09')", ts(2020, 5, 6, 7)),
    ("date_trunc('week', timestamp'2020-05-06 07:08:09')", ts(2020, 5, 4)),
    ("date_trunc('foo', timestamp'2020-05-06 07:08:09')", None),
    ("date_trunc('MM', date'2020-05-06')", ts(2020, 5, 1)),
    ("year('2020-01-01')", 2020),
    ("hour('2020-01-01 05:00:00')", 5),
    ("hour(date'2020-01-01')", 0),
    ("dayofweek(date'2020-05-06')", 4),
    ("weekday(date'2020-05-06')", 2),
    ("weekofyear(date'2020-01-01')", 1),
    ("quarter(date'2020-05-06')", 2),
    ("second(timestamp'1969-12-31 23:59:59.5')", 59),
    ("CAST(timestamp'1969-12-31 23:59:59.5' AS LONG)", -1),
    ("CAST(timestamp'1969-12-31 23:59:59.5' AS DATE)", date(1969, 12, 31)),
    ("date_trunc('quarter', timestamp'1969-12-31 23:59:59.5')", ts(1969, 10, 1)),
    ("dayofyear(date'2020-02-01')", 32),
    ("second(timestamp'2020-01-01 00:00:05.5')", 5),
    ("date_add('2020-01-01', 1)", date(2020, 1, 2)),
    ("date'2020-01-03' - 1", date(2020, 1, 2)),
    ("5 + date'2020-01-01'", date(2020, 1, 6)),
    ("datediff('2020-01-03', '2020-01-01')", 2),
    ("add_months(date'2020-01-31', 1)", date(2020, 2, 29)),
    ("add_months(date'2020-03-31', -13)", date(2019, 2, 28)),
    ("last_day('2020-02-01')", date(2020, 2, 29)),
    ("date_format(timestamp'2020-05-06 07:08:09', 'yyyy-MM-dd-HH')", "2020-05-06-07"),
    ("date_format(date'2020-05-06', \"yyyy'M'MM\")", "2020M05"),
    ("date_format(date'2020-05-06', \"'o''clock' yyyy''MM\")", "o'clock 2020'05"),
    ("CAST(date'9999-12-31' - INTERVAL 1 MONTH AS STRING)", "9999-11-30"),
    ("to_date('2020-01-01 10:00:00')", date(2020, 1, 1)),
    ("to_timestamp('2020-01-01')", ts(2020, 1, 1)),
]

STRINGS = [
    ("regexp_count('aab', '^a')", 1),
    ("array_join(split('aab', '^a|b'), '|')", "|a|"),
    ("array_join(split('aabb', '^a|b', 2), '|')", "|abb"),
    ("regexp_substr('b', 'a*')", None),
    ("substring('Spark SQL', 0, 3)", "Spa"),
    ("substring('Spark SQL', -3)", "SQL"),
    ("substring('abc', -5, 3)", "a"),
    ("substring('abc', 2, -1)", ""),
    ("left('abc', 2)", "ab"),
    ("left('abc', -1)", ""),
    ("right('abc', 2)", "bc"),
    ("replace('aaab', 'a')", "b"),
    ("lower('ΑΣ')", "ας"),
    ("length('añ😀')", 3),
    ("upper('ß')", "SS"),
    ("trim('  a\t ')", "a\t"),
    ("trim('a', 'aba')", "b"),
    ("trim(both 'x' from 'xxaxx')", "a"),
    ("concat('a', 1, null)", None),
    ("concat('a', 1)", "a1"),
    ("concat(true, date'2020-01-01')", "true2020-01-01"),
    ("1 + 2 || 3", "33"),
    ("replace('abc', 'b', 'x')", "axc"),
    ("md5('a')", "0cc175b9c0f1b6a831c399e269772661"),
    ("startswith(1, '1')", True),
    ("contains('abc', null)", None),
    ("'a_c' like 'a\\_c'", True),
    ("'abc' like 'a\\_c'", False),
    ("'a\\nb' like 'a_b'", True),
    ("'a\\nb' like 'a%b'", True),
    ("'' like '%'", True),
    ("'a.c' like 'a.c'", True),
    ("'abc' like 'a.c'", False),
    ("'a%' like 'a/%' escape '/'", True),
    ("'é' like '_'", True),
    ("'abc' rlike '^a.c$'", True),
    ("'abc\\n' rlike 'c$'", True),
    ("'a\\r' rlike 'a$'", True),
    ("'a\\u2028' rlike 'a$'", True),
    ("'a\\u0085b' rlike 'a.b'", False),
    ("'a\\u000bb' rlike 'a\\\\sb'", True),
    ("'é' rlike '\\\\w'", False),
    ("'x-y' rlike '[\\\\w-]+'", True),
    ("'' rlike ''", True),
    ("'ABC' rlike '(?i)^a[b]c$'", True),
    ("'AbC' rlike '(?i)[^c-]$'", False),
    ("'É' rlike '(?i)é'", False),
    ("'É' rlike '(?iu)é'", True),
    ("'\u017f' rlike '(?iu)\\\\w'", False),
    ("'\u0131' rlike '(?iu)^i$'", True),
    ("'a\nb' rlike '(?s)a.b'", True),
    ("'a\n' rlike '(a$|b)|c'", True),
    ("regexp_replace('FoO', '(?i)o+', '0')", "F0"),
    ("regexp_replace('x\n', 'x\\\\z', 'y')", "x\n"),
    ("regexp_replace('x', 'x$', 'y')", "y"),
]

ERRORS = [
    ("'1.5' > 1", "cannot be cast to long"),
    ("CAST('2020-01-01 24:00:00' AS TIMESTAMP)", "cannot be cast to timestamp"),
    ("'a' = true", "cannot be cast to boolean"),
    ("true = 1", "cannot be compared"),
    ("CAST('1.0' AS INT)", "cannot be cast to integer"),
    ("CAST('1e3' AS INT)", "cannot be cast"),
    ("CAST('0x1' AS INT)", "cannot be cast"),
    ("CAST('1_0' AS INT)", "cannot be cast"),
    ("CAST('\u0663' AS INT)", "cannot be cast"),
    ("CAST('' AS INT)", "cannot be cast"),
    ("CAST('2020-02-30' AS DATE)", "cannot be cast to date"),
    ("CAST('10' AS DATE)", "cannot be cast to date"),
    ("CAST(1e20 AS LONG)", "cannot be cast to long"),
    ("CAST(CAST('NaN' AS DOUBLE) AS INT)", "cannot be cast to integer"),
    ("CAST(300 AS TINYINT)", "cannot be cast to byte"),
    ("CAST(12.355 AS DECIMAL(3,2))", "cannot be cast to decimal"),
    ("CAST(date'2020-01-01' AS INT)", "cannot be cast to integer"),
    ("CAST(1 AS BINARY)", "cannot be cast to binary"),
    ("1 / 0", "division by zero"),
    ("1.0D / 0", "division by zero"),
    ("1 % 0", "division by zero"),
    ("5 div 0", "division by zero"),
    ("2147483647 + 1", "overflows"),
    ("127Y + 1Y", "overflows"),
    ("abs(-128Y)", "overflows"),
    ("floor(1e19)", "overflows"),
    ("CAST(99999999999999999999999999999999999999 AS DECIMAL(38,0)) + 1", "does not fit"),
    ("'5' * '2'", "both sides are strings"),
    ("1.5D div 2", "no div of double"),
    ("date_add(date'2020-01-01', 1L)", "argument 2 is a long"),
    ("year(1)", "argument 1 is a integer"),
    ("greatest('1', 2)", "strings"),
    ("true and 1", "not a condition"),
    ("case when 1 then 2 end", "not a condition"),
    ("'abc' like 'abc\\\\'", "escape character"),
    ("'a' like '\\\\a'", "escape character"),
    ("date'2020-01-03' - date'2020-01-01'", "datediff"),
    ("'ab' rlike 'a(?=b)'", "group that begins"),
    ("'ab' rlike '(a)\\\\1'", "\\\\1"),
    ("'ab' rlike 'a++b'", "possessive"),
    ("'ab' rlike '[a[b]]'", "within another"),
    ("'ab' rlike '(?m)a'", "group that begins"),
    ("'ab' rlike '(?iu)[A-Z]'", "such letters"),
    ("'a\n' rlike 'a$\\\\s'", "something behind"),
    ("regexp_replace('x\n', 'x$', 'y')", "line end"),
    ("date_format(date'2020-01-01', 'EEE')", "Spark engine"),
]


@pytest.mark.parametrize(("text", "value"), [*COMPARISONS, *CASTS, *DATES, *STRINGS])
def test_a_value_is_spark_s(text, value):
    found = value_of(text)
    assert type(found) is type(value)
    assert str(found) == str(value)  # as text, NaN is equal to itself


@pytest.mark.parametrize(("text", "value", "data_type"), ARITHMETIC)
def test_a_number_has_spark_s_value_and_type(text, value, data_type):
    assert value_of(text) == value
    assert type_of(parse_expression(text), NO_COLUMNS) == data_type


@pytest.mark.parametrize(("text", "why"), ERRORS)
def test_what_is_an_error_in_spark_is_one_here(text, why):
    with pytest.raises(InvalidExpressionError, match=why):
        value_of(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CAST(date'2020-07-01' AS TIMESTAMP)", ts(2020, 6, 30, 22)),
        ("CAST(timestamp'2020-06-30 22:00:00Z' AS DATE)", date(2020, 7, 1)),
        ("hour(timestamp'2020-06-30 22:00:00Z')", 0),
        ("date_trunc('day', timestamp'2020-06-30 23:00:00Z')", ts(2020, 6, 30, 22)),
        ("CAST(timestamp'2020-06-30 22:00:00Z' AS STRING)", "2020-07-01 00:00:00"),
        ("hour('2020-06-30 22:00:00')", 22),
        ("hour(date'2020-07-01')", 0),
        ("date_trunc('day', date'2020-07-01')", ts(2020, 6, 30, 22)),
        ("date_format('2020-07-01 05:00:00', 'HH')", "05"),
        # An hour that the clocks skip is one hour later, one that comes twice is the first one.
        ("CAST(timestamp_ntz'2020-03-29 02:30:00' AS TIMESTAMP)", ts(2020, 3, 29, 1, 30)),
        ("CAST(timestamp_ntz'2020-10-25 02:30:00' AS TIMESTAMP)", ts(2020, 10, 25, 0, 30)),
        # What is made of an instant in the second of such hours is in the second one, too.
        ("date_trunc('hour', timestamp'2020-10-25 01:30:00Z')", ts(2020, 10, 25, 1)),
        ("date_trunc('second', timestamp'2020-10-25 00:30:00Z')", ts(2020, 10, 25, 0, 30)),
        ("timestamp'2020-11-25 01:30:00Z' - INTERVAL 1 MONTH", ts(2020, 10, 25, 1, 30)),
        ("timestamp'2020-10-26 01:30:00Z' - INTERVAL 1 DAY", ts(2020, 10, 25, 1, 30)),
        ("timestamp'2020-10-24 00:30:00Z' + INTERVAL 1 DAY", ts(2020, 10, 25, 0, 30)),
        ("date_trunc('week', timestamp'2020-10-25 01:30:00Z')", ts(2020, 10, 18, 22)),
        ("date_trunc('hour', timestamp_ntz'2020-07-01 10:30:00')", ts(2020, 7, 1, 8)),
        ("date_format(timestamp_ntz'2020-03-29 02:30:00', 'HH:mm')", "03:30"),
        ("unix_seconds(timestamp_ntz'2020-01-01 00:00:00')", 1577836800),
    ],
)
def test_dates_and_times_meet_in_the_zone_of_the_session(text, value):
    assert value_of(text, zone="Europe/Vienna") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CAST(CAST('9999-12-31 23:59:59' AS TIMESTAMP) AS STRING)", "9999-12-31 23:59:59"),
        ("year(TIMESTAMP '9999-12-31 23:59:59.999999')", 9999),
        ("CAST(timestamp_ntz'9999-12-31 23:59:59' AS TIMESTAMP) > '2020-01-01'", True),
        ("unix_micros(CAST('9999-12-31 23:59:59' AS TIMESTAMP))", 253_402_318_799_000_000),
    ],
)
def test_the_last_day_of_all_ends_where_it_is_the_next_year_in_utc(text, value):
    assert value_of(text, zone="America/New_York") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CAST(DATE '-0005-02-28' AS STRING)", "-0005-02-28"),
        ("CAST(DATE '0000-02-29' AS STRING)", "0000-02-29"),
        ("CAST(CAST('10000-1' AS DATE) AS STRING)", "+10000-01-01"),
        ("CAST(TIMESTAMP '10000-01-01 00:00:00.5' AS STRING)", "+10000-01-01 00:00:00.5"),
        ("CAST(TIMESTAMP_NTZ '-0005-01-01 01:02:03' AS STRING)", "-0005-01-01 01:02:03"),
        ("unix_micros(CAST('10000-01-01' AS TIMESTAMP))", 253_402_318_800_000_000),
        ("datediff(DATE '+10000-01-01', DATE '9999-12-31')", 1),
        ("DATE '-0005-01-01' < DATE '-0004-01-01'", True),
        ("TRY_CAST('-0005-02-29' AS DATE)", None),
        ("TRY_CAST('6000000-01-01' AS DATE)", None),
        ("TRY_CAST('300000-01-01' AS TIMESTAMP)", None),
    ],
)
def test_years_that_python_has_no_dates_for(text, value):
    assert value_of(text, zone="America/New_York") == value
