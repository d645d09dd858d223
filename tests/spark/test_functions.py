"""Every function that adelta evaluates, on values at the edges, against Spark itself.

`SAMPLES` are calls by function, over the columns of `ROWS`, or constant; `RAISES` are such for
which Spark fails, and adelta has to.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.functions import FUNCTIONS
from adelta.kernel.expressions.library import LIBRARY, UNWRITTEN
from adelta.kernel.expressions.nodes import Call
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind, type_of
from adelta.kernel.schema.arrow import from_arrow_schema, to_arrow_type

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ZONE = "America/New_York"
COLUMNS_AT_ONCE = 100
NAN, INF = float("nan"), float("inf")
ROWS = pa.table(
    {
        "n": pa.array([0, 1, -1, 7, 2**31 - 1, -(2**31), None], pa.int32()),
        "big": pa.array([0, 1, -1, 40, 2**63 - 1, -(2**63), None], pa.int64()),
        "small": pa.array([0, 1, -1, 5, 127, -128, None], pa.int8()),
        "x": [0.0, -0.0, 2.5, -3.5, NAN, INF, None],
        "f": pa.array([0.5, -0.0, 2.5, -3.5, NAN, -INF, None], pa.float32()),
        "m": pa.array([*map(Decimal, ("0", "1.25", "-1.25", "99.99", "2.35", "-2.5")), None],
                      pa.decimal128(6, 2)),
        "s": ["", "a", "a,b,,c", "Éclair 😀 x", "xxaXx", "a1b22c333", None],
        "p": ["", "a", ",", "x", "ax", "22", None],
        "k": pa.array([1, -1, 2, -2, 3, 1, None], pa.int32()),
        "b": [b"", b"a", b"\x00\xff", b"abc", b"\xc3\xa9", b"z" * 70, None],
        "d": [date(1970, 1, 1), date(2024, 2, 29), date(1969, 12, 31), date(2023, 12, 31),
              date(1900, 3, 1), date(2262, 4, 12), None],
        "e": [date(2024, 3, 31), date(2023, 2, 28), date(1970, 1, 31), date(2000, 2, 29),
              date(2024, 2, 29), date(1999, 1, 1), None],
        "at": pa.array(
            [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 3, 10, 7, 30, tzinfo=UTC),
             datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
             datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
             datetime(2024, 2, 29, 23, 59, 59, 1, UTC), datetime(1950, 6, 1, 12, tzinfo=UTC), None],
            pa.timestamp("us", "UTC"),
        ),
        "other": pa.array(
            [datetime(2024, 3, 31, 4, tzinfo=UTC), datetime(2024, 2, 10, 7, 30, tzinfo=UTC),
             datetime(2023, 10, 31, 5, 30, tzinfo=UTC), datetime(1970, 12, 31, 22, tzinfo=UTC),
             datetime(2020, 2, 28, 1, 0, 0, 500000, UTC), datetime(1949, 6, 30, 12, tzinfo=UTC),
             None],
            pa.timestamp("us", "UTC"),
        ),
        # Hours that come twice when clocks go back, one that never comes, and the end of all.
        "twice": pa.array(
            [datetime(2024, 11, 3, 6, 30, tzinfo=UTC), datetime(2024, 11, 3, 5, 59, 59, 9, UTC),
             datetime(2024, 12, 3, 6, 30, tzinfo=UTC), datetime(2024, 11, 4, 6, 30, tzinfo=UTC),
             datetime(1883, 11, 18, 17, tzinfo=UTC), datetime(9999, 12, 30, 12, tzinfo=UTC), None],
            pa.timestamp("us", "UTC"),
        ),
        "ntz": pa.array(
            [datetime(2024, 11, 3, 1, 30), datetime(2024, 3, 10, 2, 30), datetime(2024, 7, 1, 23),
             datetime(1969, 12, 31, 23, 59, 59, 1), datetime(1, 2, 3),
             datetime(9999, 11, 30), None],
            pa.timestamp("us"),
        ),
        "list": pa.array([[], [1], [1, None, 2], [7, -1], None, [None], [0]], pa.list_(pa.int32())),
        "texts": pa.array([[], ["a"], ["a", None, "b"], [",", ""], None, [None], ["x"]]),
        "tags": pa.array(
            [[], [("a", 1)], [("a", None), ("b", 2)], [("", 0)], None, [("x", 1)], [("a", 9)]],
            pa.map_(pa.string(), pa.int32()),
        ),
        "flag": [True, False, None, True, False, None, True],
    }
)  # fmt: skip

SCHEMA = from_arrow_schema(ROWS.schema)
SAMPLES: dict[str, list[str]] = {
    "abs": ["abs(x)", "abs(m)", "abs(k)", "abs(f)"],
    "add_months": ["add_months(d, 1)", "add_months(e, -1)", "add_months(d, k)"],
    "array": ["array(n, big)", "array(x, m)", "array(s, p)", "array(list, list)",
              "array(NULL, d)"],
    "array_contains": ["array_contains(list, 1)", "array_contains(list, k)",
                       "array_contains(texts, p)", "array_contains(list, small)"],
    "array_join": ["array_join(texts, '-')", "array_join(texts, p, '?')"],
    "array_position": ["array_position(list, k)", "array_position(texts, 'b')"],
    "array_size": ["array_size(list)", "array_size(texts)"],
    "ascii": ["ascii(s)", "ascii(p)"],
    "base64": ["base64(b)", "base64(s)"],
    "bin": ["bin(n)", "bin(big)"],
    "bit_count": ["bit_count(n)", "bit_count(big)", "bit_count(small)", "bit_count(flag)"],
    "bit_length": ["bit_length(s)", "bit_length(b)"],
    "bround": ["bround(x)", "bround(x, 1)", "bround(2.5D)", "bround(-2.5D)", "bround(1.25D, 1)",
               "bround(1250.0D, -2)", "bround(0.1D + 0.2D, 3)"],
    "btrim": ["btrim(s)", "btrim(s, 'x')", "btrim(' a ')"],
    "ceil": ["ceil(m)", "ceil(k / 2)", "ceil(2.5D)", "ceil(k)"],
    "chr": ["chr(n)", "chr(big)", "chr(321)", "chr(256)"],
    "coalesce": ["coalesce(n, k, 3)", "nvl(s, p)", "ifnull(flag, true)"],
    "concat": ["concat(s, p)", "s || p", "concat(b, b)"],
    "concat_ws": ["concat_ws('-', s, p)", "concat_ws(p, s, NULL, 'z')", "concat_ws(',', texts, s)",
                  "concat_ws(NULL, s)", "concat_ws(',')"],
    "contains": ["contains(s, p)"],
    "crc32": ["crc32(b)", "crc32(s)"],
    "date_add": ["date_add(d, k)", "d + 3"],
    "date_format": ["date_format(at, 'yyyy-MM-dd HH:mm:ss')",
                    "date_format(ntz, 'yyyy-MM-dd HH:mm:ss')",
                    "date_format('2024-07-01 05:00:00', \"HH 'o''clock' ''mm\")"],
    "date_from_unix_date": ["date_from_unix_date(k)", "date_from_unix_date(20000)"],
    "date_sub": ["date_sub(d, k)", "d - 3"],
    "date_trunc": [f"date_trunc('{u}', at)" for u in ("YEAR", "WEEK", "DAY", "HOUR", "QUARTER")]
    + [f"date_trunc('{u}', {of})" for u in ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
       for of in ("twice", "ntz", "DATE '2024-07-01'")],
    "datediff": ["datediff(d, e)", "date_diff(e, d)"],
    "day": ["day(d)", "dayofmonth(at)", "extract(DAY FROM at)", "date_part('day', at)"],
    "dayname": ["dayname(d)", "dayname(at)"],
    "dayofweek": ["dayofweek(d)", "dayofweek(at)"],
    "dayofyear": ["dayofyear(d)", "dayofyear(at)"],
    "degrees": ["degrees(x)", "degrees(1.1D)", "degrees(m)", "degrees(n)"],
    "element_at": ["element_at(split(s, ','), -1)", "element_at(tags, 'a')", "element_at(tags, p)"],
    "endswith": ["endswith(s, p)"],
    "factorial": ["factorial(k)", "factorial(n)", "factorial(20)", "factorial(21)"],
    "floor": ["floor(m)", "floor(2.5D)", "floor(k)"],
    "from_utc_timestamp": ["from_utc_timestamp(ntz, 'Asia/Tokyo')",
                           "from_utc_timestamp(at, 'Asia/Tokyo')",
                           "from_utc_timestamp(at, 'America/Los_Angeles')",
                           "from_utc_timestamp(at, '+01:00')"],
    "get": ["get(list, 0)", "get(list, k)", "get(texts, 2)", "get(list, -1)"],
    "getbit": ["getbit(n, 0)", "getbit(big, 63)", "bit_get(n, 31)", "getbit(small, 7)"],
    "greatest": ["greatest(n, k)", "greatest(x, 1.0D)", "greatest(s, p)"],
    "hex": ["hex(n)", "hex(big)", "hex(s)", "hex(b)"],
    "hour": ["hour(at)", "hour(ntz)", "hour('2024-07-01 05:00:00')", "hour(DATE '2024-07-01')"],
    "instr": ["instr(s, p)", "instr(s, '😀')"],
    "is_variant_null": ["is_variant_null(parse_json('null'))",
                        "is_variant_null(parse_json(cast(k AS STRING)))"],
    "isnan": ["isnan(x)", "isnan(f)"],
    "last_day": ["last_day(d)", "last_day(e)"],
    "least": ["least(n, k)", "least(x, 1.0D)"],
    "left": ["left(s, 2)", "left(s, k)"],
    "length": ["length(s)", "char_length(p)", "len(s)"],
    "locate": ["locate(p, s)", "locate(p, s, 2)", "locate('a', s, k)", "position(p, s)",
               "position(p IN s)", "position('a' || p IN lower(s))", "position(NULL IN s)",
               "locate('', s, 3)", "locate('a', s, CAST(NULL AS INT))"],
    "lower": ["lower(s)", "lcase(s)", "s ILIKE '%X%'", "ilike(s, 'A_B%')"],
    "lpad": ["lpad(s, 6, p)", "lpad(s, 3)", "lpad(s, k, 'é😀')", "lpad(s, 12, 'é😀')"],
    "ltrim": ["ltrim(s)", "ltrim('x', s)", "trim(LEADING 'x' FROM s)"],
    "make_date": ["make_date(2024, 2, 29)", "make_date(1900 + k, 3, 4)"],
    "map_contains_key": ["map_contains_key(tags, p)", "map_contains_key(tags, 'b')"],
    "map_keys": ["map_keys(tags)"],
    "map_values": ["map_values(tags)"],
    "md5": ["md5(b)", "md5(s)"],
    "minute": ["minute(at)"],
    "month": ["month(d)", "month(at)"],
    "monthname": ["monthname(d)", "monthname(at)"],
    "months_between": ["months_between(at, ntz)",
                       "months_between(at, other)", "months_between(other, at, false)",
                       "months_between(d, e)", "months_between(e, d)",
                       "months_between(TIMESTAMP '2024-03-31', TIMESTAMP '2024-02-29')"],
    "nanvl": ["nanvl(x, 1.5D)", "nanvl(f, f)", "nanvl(f, x)", "nanvl(x, n)"],
    "next_day": ["next_day(d, 'MON')", "next_day(d, 'su')", "next_day(e, 'Thursday')"],
    "octet_length": ["octet_length(s)", "octet_length(b)"],
    "parse_json": ["variant_get(parse_json(cast(big AS STRING)), '$', 'string')"],
    "pmod": ["pmod(k, 3)", "pmod(m, 2)", "pmod(k, -3)"],
    "quarter": ["quarter(d)", "quarter(at)"],
    "radians": ["radians(x)", "radians(33.3D)"],
    "regexp_count": ["regexp_count(s, '^[a-x]')", "regexp_count('aab^', '\\\\Aa|[\\\\^]')",
                     "regexp_count(s, '[a-c]')", "regexp_count(s, '(a|b)[0-9]+')"],
    "regexp_extract": ["regexp_extract(s, '([a-z])([0-9]+)')", "regexp_extract(s, '[a-z]', 0)",
                       "regexp_extract(s, '([a-z])([0-9]+)', 2)", "regexp_extract(s, '(a)|(b)', 2)",
                       "regexp_extract(s, NULL)", "regexp_extract(s, '(?:a|b)(\\\\d*)', 1)"],
    "regexp_replace": ["regexp_replace(s, '[0-9]+', '#')", "regexp_replace(s, '([a-z])', '<$1>')",
                       "regexp_replace(s, 'a', '\\\\$1')", "regexp_replace(s, '[^a-z]', '$0$0')"],
    "regexp_substr": ["regexp_substr(s, 'x*')", "regexp_substr(s, '[0-9]+')",
                      "regexp_substr(s, 'x.')"],
    "repeat": ["repeat(s, 2)", "repeat(p, k)"],
    "replace": ["replace(s, 'a', p)", "replace(s, 'x')"],
    "reverse": ["reverse(s)"],
    "right": ["right(s, 2)", "right(s, k)"],
    "rint": ["rint(x)", "rint(0.5D)", "rint(1.5D)", "rint(-0.5D)"],
    "rlike": ["s RLIKE '[0-9]+'", "rlike(s, '^a')", "regexp_like(s, 'x$')"],
    "round": ["round(x, 1)", "round(m, 1)", "round(m)", "round(k, -1)"],
    "rpad": ["rpad(s, 6, p)", "rpad(s, 3)", "rpad(s, k, 'é😀')"],
    "rtrim": ["rtrim(s)", "rtrim('x', s)"],
    "second": ["second(at)"],
    "sha1": ["sha1(b)", "sha(s)"],
    "sha2": ["sha2(b, 256)", "sha2(s, 0)", "sha2(s, 224)", "sha2(b, 384)", "sha2(b, 512)",
             "sha2(s, k)"],
    "shiftleft": ["shiftleft(n, 1)", "shiftleft(big, 63)", "shiftleft(small, k)",
                  "shiftleft(n, 33)", "shiftleft(1, -1)"],
    "shiftright": ["shiftright(n, 1)", "shiftright(big, k)", "shiftright(small, 1)"],
    "shiftrightunsigned": ["shiftrightunsigned(n, 1)", "shiftrightunsigned(big, k)",
                           "shiftrightunsigned(small, 28)"],
    "sign": ["sign(x)", "signum(f)", "sign(m)", "sign(k)"],
    "size": ["size(list)", "size(tags)", "cardinality(texts)"],
    "space": ["space(k)"],
    "split": ["split(s, '^[a-x]')", "split('aab', '^a|b')", "split('aab', '^a|b', 2)",
              "split(s, ',')", "split(s, '[0-9]+')", "split(s, ',', 2)", "split(s, ',', 1)",
              "split(s, 'x|a', 0)", "split(s, '\\\\.')"],
    "split_part": ["split_part(s, ',', 1)", "split_part(s, ',', -1)", "split_part(s, p, k)",
                   "split_part(s, '', 1)", "split_part(s, ',', 9)"],
    "sqrt": ["sqrt(x)", "sqrt(m)", "sqrt(n)", "sqrt(2)"],
    "startswith": ["startswith(s, p)"],
    "substring": ["substring(s, 2)", "substring(s, k, 2)", "substr(s, 0, 2)"],
    "substring_index": ["substring_index(s, ',', 1)", "substring_index(s, ',', -1)",
                        "substring_index(s, p, k)", "substring_index(s, ',', 9)",
                        "substring_index('aaaa', 'aa', 2)", "substring_index('aaaa', 'aa', -2)",
                        "substring_index('a.b.c.d', '.', -2)",
                        "substring_index('é.b😀.c', '.', -2)"],
    "timestamp_micros": ["timestamp_micros(k)", "timestamp_micros(1700000000000001L)"],
    "timestamp_millis": ["timestamp_millis(k)"],
    "timestamp_seconds": ["timestamp_seconds(k)", "timestamp_seconds(m)", "timestamp_seconds(1.5)"],
    "to_utc_timestamp": ["to_utc_timestamp(at, 'Asia/Tokyo')",
                         "to_utc_timestamp(at, 'America/Los_Angeles')"],
    "translate": ["translate(s, 'ab', 'x')", "translate(s, 'xx😀', 'yz')", "translate(s, p, 'é')",
                  "translate(s, '', 'a')"],
    "trim": ["trim(s)", "trim('x', s)"],
    "trunc": ["trunc(d, 'MM')", "trunc(d, 'YEAR')", "trunc(d, 'WEEK')", "trunc(d, 'nothing')"],
    "try_element_at": ["try_element_at(list, 1)", "try_element_at(list, k)",
                       "try_element_at(tags, 'a')"],
    "try_variant_get": ["try_variant_get(parse_json(cast(n AS STRING)), '$', 'tinyint')"],
    "unhex": ["unhex(s)", "unhex('F')", "unhex('0aF')", "unhex('xy')"],
    "unix_date": ["unix_date(d)"],
    "unix_micros": ["unix_micros(at)", "unix_micros(ntz)",
                    "unix_micros(TIMESTAMP '9999-12-31 23:59:59')"],
    "unix_millis": ["unix_millis(at)", "unix_millis(ntz)"],
    "unix_seconds": ["unix_seconds(at)", "unix_seconds(ntz)",
                     "unix_seconds(CAST(ntz AS TIMESTAMP))"],
    "upper": ["upper(s)", "ucase(s)"],
    "variant_get": ["variant_get(parse_json(concat('[', cast(k AS STRING), ']')), '$[0]', 'int')",
                    "variant_get(parse_json('{\"a\": 1.5}'), '$.b', 'double')"],
    "weekday": ["weekday(d)", "weekday(at)"],
    "weekofyear": ["weekofyear(d)", "weekofyear(at)"],
    "xxhash64": ["xxhash64(n)", "xxhash64(big, s)", "xxhash64(x, f, m)", "xxhash64(b, d, at)",
                 "xxhash64(small, flag)", "xxhash64(CAST(m AS DECIMAL(30, 2)))", "xxhash64(NULL)",
                 "xxhash64(s, p, n, big, x)"],
    "year": ["year(d)", "year(at)"],
    "+ months": ["twice - INTERVAL 1 MONTH", "twice + INTERVAL 0 MONTH", "ntz - INTERVAL 1 MONTH",
                 "DATE '9999-12-31' - INTERVAL 1 MONTH",
                 "d + INTERVAL 1 MONTH", "e - INTERVAL '1' YEAR", "at + INTERVAL 1 YEAR 2 MONTHS",
                 "INTERVAL 13 MONTHS + at", "other - INTERVAL 1 MONTH"],
    "+ micros": ["twice - INTERVAL 1 DAY", "twice - INTERVAL 24 HOURS", "ntz + INTERVAL 1 DAY",
                 "d + INTERVAL 1 DAY", "at + INTERVAL 1 DAY", "at - INTERVAL '1' DAY",
                 "other + INTERVAL 24 HOURS", "d + INTERVAL 90 MINUTES", "d - INTERVAL 1 WEEK",
                 "at - INTERVAL '1 02:03:04.5' DAY TO SECOND", "at + INTERVAL '1.25' SECOND",
                 "at + INTERVAL '3 days 2 hours'", "at + INTERVAL -1 DAY",
                 "TIMESTAMP_NTZ '2024-03-10 02:30:00' + INTERVAL 1 DAY 1 MILLISECOND"],
    "array =": [
        "list = list",
        "list <=> array(1, NULL, 2)",
        "list != array(0)",
        "array(list) = array(array(7, -1))",
        "texts = array(',')",
        "texts <=> array(NULL)",
        "array(d) = array(d)",
        "list IN (array(1, NULL, 2), array(7), NULL)",
        "list NOT IN (array(0), array())",
    ],
    "array <": [
        "list < array(1, 2)",
        "list >= array(1, NULL)",
        "array(1) < array(1, NULL)",
        "array(CAST(NULL AS INT)) < array(-5)",
        "array(list, NULL) <= array(list, list)",
        "texts > array('a')",
        "array(-0.0D) < array(0.0D)",
        "array(1.5D, x) > array(1.5D, 0.0D)",
        "array(-7, 2) < array(3)",
        "array(DATE'1969-12-31') < array(DATE'1970-01-02')",
        "array(-1.25) < array(1.25)",
        "list < NULL",
        "list BETWEEN array(0) AND array(9, 9)",
    ],
    "[]": ["tags['a']", "tags[p]", "split(s, ',')[0]", "split('a,b', ',')[1]"],
}  # fmt: skip
OF_THE_GRAMMAR = [
    "nullif(n, k)", "nvl2(s, p, 'z')", "if(flag, n, k)", "equal_null(n, k)", "isnull(s)",
    "negative(k)",
    "isnotnull(s)", "pi()", "e()", "mod(k, 2)", "to_date('2024-02-29')", "TRY_CAST(s AS INT)",
    "to_timestamp('2024-03-10 02:30:00')", "CASE k WHEN 1 THEN 'one' ELSE s END", "k::string",
    "like(s, 'a%')", "try_cast('x' AS DATE)", "(n <=> k) AND flag", "f / 3F", "NULL LIKE 'a'",
    "try_cast('2024-01-01 10:11Z' AS TIMESTAMP)", "CAST(ntz AS TIMESTAMP)", "CAST(ntz AS STRING)",
    "ntz < at", "CAST(twice AS STRING)",
]  # fmt: skip
RAISES = [
    "abs(n)", "getbit(n, 32)", "getbit(n, -1)", "make_date(2023, 2, 29)", "next_day(d, 'x')",
    "element_at(list, 0)", "element_at(list, 9)", "list[9]", "list[-1]", "split_part(s, ',', 0)",
    "timestamp_seconds(big)", "timestamp_millis(big)", "regexp_extract(s, 'a', 1)",
    "from_utc_timestamp(at, 'Nowhere/Land')", "try_element_at(list, 0)",
    "regexp_extract(s, '(a)', -1)", "ceil(1e30D)", "repeat(s)", "size(n)", "array_contains(n, 1)",
    "array(n, flag)", "array(list, n)", "array(s, n)",
]  # fmt: skip


def test_every_function_of_the_registry_is_compared() -> None:
    assert set(SAMPLES) == set(FUNCTIONS)


def test_functions_give_what_spark_gives(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "edges.parquet")  # PySpark has no wall times that are in a gap
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("edges")
    texts = [text for some in SAMPLES.values() for text in some] + OF_THE_GRAMMAR
    texts += [found.example for found in LIBRARY.values()]
    columns: list[Any] = []
    for start in range(0, len(texts), COLUMNS_AT_ONCE):
        part = enumerate(texts[start : start + COLUMNS_AT_ONCE])
        named = ", ".join(f"{text} AS c{place}" for place, text in part)
        columns += spark.sql(f"SELECT {named} FROM edges").toArrow().columns
    wrong = []
    for text, theirs in zip(texts, columns, strict=True):
        ours, kind = _evaluated(text)
        if kind != theirs.type:
            wrong.append(f"{text}: is {kind}, in Spark {theirs.type}")
        elif _shown(ours) != _shown(theirs.to_pylist()):
            found = _shown(theirs.to_pylist())
            wrong.append(f"{text}:\n  here  {_shown(ours)}\n  Spark {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(set(LIBRARY) - UNWRITTEN))
def test_a_function_that_is_not_tolerant_is_null_where_an_argument_is(name: str) -> None:
    for text in SAMPLES[name]:
        node = parse_expression(text, zone=ZONE)
        if LIBRARY[name].tolerant or not isinstance(node, Call):
            continue
        for argument in node.arguments:
            missing = evaluate(bind(argument, SCHEMA, zone=ZONE), ROWS).is_null()
            values = evaluate(bind(node, SCHEMA, zone=ZONE), ROWS)
            assert values.filter(missing).null_count == pc.sum(missing).as_py(), text


def test_what_spark_refuses_is_refused(spark: SparkSession) -> None:
    spark.createDataFrame(ROWS.drop_columns(["ntz"])).createOrReplaceTempView("edges")
    for text in RAISES:
        with pytest.raises(Exception, match=r"."):
            spark.sql(f"SELECT {text} AS c FROM edges").collect()
        with pytest.raises(InvalidExpressionError):
            _evaluated(text)


def _evaluated(text: str) -> tuple[list[Any], pa.DataType]:
    node = parse_expression(text, zone=ZONE)
    bound = bind(node, SCHEMA, zone=ZONE)
    return evaluate(bound, ROWS).to_pylist(), to_arrow_type(type_of(node, SCHEMA))


def _shown(values: list[Any]) -> str:
    """Values such that NaN equals NaN and -0.0 is not 0.0; instants in UTC."""
    utc = (v.astimezone(UTC) if isinstance(v, datetime) and v.tzinfo else v for v in values)
    return repr(list(utc))
