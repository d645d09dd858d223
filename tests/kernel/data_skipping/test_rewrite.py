"""What a predicate asks of partition values and statistics, shown as SQL text."""

from __future__ import annotations

import pytest

from adelta.kernel.data_skipping.rewrite import rewrite
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema import types as t

SCHEMA = t.StructType(
    (
        t.StructField("id", t.LONG),
        t.StructField("n", t.SHORT),
        t.StructField("x", t.DOUBLE),
        t.StructField("s", t.STRING),
        t.StructField("d", t.DATE),
        t.StructField("at", t.TIMESTAMP),
        t.StructField("flag", t.BOOLEAN),
        t.StructField("a", t.StructType((t.StructField("b", t.INTEGER),))),
        t.StructField("p", t.STRING),
        t.StructField("q", t.INTEGER),
    )
)


def rewritten(text: str, *, statistics: bool = True, zone: str = "UTC") -> str | None:
    node = bind(parse_expression(text, zone=zone), SCHEMA, zone=zone)
    found = rewrite(node, SCHEMA, ["p", "q"], statistics=statistics)
    return None if found is None else to_sql(found)


SOME = "nullCount.id < numRecords"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 5", f"minValues.id <= 5L AND 5L <= maxValues.id AND {SOME}"),
        ("5 = id", f"5L <= maxValues.id AND minValues.id <= 5L AND {SOME}"),
        ("id != 5", f"(minValues.id != 5L OR maxValues.id != 5L) AND {SOME}"),
        ("id < 5", f"minValues.id < 5L AND {SOME}"),
        ("id >= 5", f"5L <= maxValues.id AND {SOME}"),
        ("NOT id = 5", f"(minValues.id != 5L OR maxValues.id != 5L) AND {SOME}"),
        ("NOT id != 5", f"minValues.id <= 5L AND 5L <= maxValues.id AND {SOME}"),
        ("NOT id >= 5", f"minValues.id < 5L AND {SOME}"),
        (
            "NOT (id < 5 OR id > 9)",
            f"5L <= maxValues.id AND {SOME} AND minValues.id <= 9L AND {SOME}",
        ),
        ("id < 5 AND coalesce(n, 2) = 2", f"minValues.id < 5L AND {SOME}"),
        ("id < 5 OR coalesce(n, 2) = 2", None),
        ("id IS NULL", "nullCount.id > 0L"),
        ("id IS NOT NULL", SOME),
        ("id <=> 5", f"minValues.id <= 5L AND 5L <= maxValues.id AND {SOME}"),
        (
            "NOT id <=> 5",
            f"nullCount.id > 0L OR (minValues.id != 5L OR maxValues.id != 5L) AND {SOME}",
        ),
        ("id IN (7)", f"minValues.id <= 7L AND 7L <= maxValues.id AND {SOME}"),
        ("id NOT IN (7, NULL)", "FALSE"),
        ("id = NULL", "FALSE"),
        ("NOT (id = NULL)", "FALSE"),
        ("id + 1 > 5", SOME),
        ("coalesce(id, 5) = 5", None),
        # What has a value where the column has none says nothing of the column.
        ("(id IS NULL) = flag", "nullCount.flag < numRecords"),
        ("(id <=> n) = flag", "nullCount.flag < numRecords"),
        ("(id = 5 OR flag) = true", None),
        (
            "CAST(n AS DECIMAL(9,1)) = 1.5",
            "CAST(minValues.n AS DECIMAL(9,1)) <= 1.5BD AND "
            "1.5BD <= CAST(maxValues.n AS DECIMAL(9,1)) AND nullCount.n < numRecords",
        ),
        ("flag", "nullCount.flag < numRecords"),
        ("NOT flag", "nullCount.flag < numRecords"),
        ("a.b = 1", "minValues.a.b <= 1 AND 1 <= maxValues.a.b AND nullCount.a.b < numRecords"),
        ("a IS NULL", None),
        (
            "n = 5",
            "CAST(minValues.n AS INT) <= 5 AND 5 <= CAST(maxValues.n AS INT) AND "
            "nullCount.n < numRecords",
        ),
        (
            "s LIKE 'ab%c'",
            "nullCount.s < numRecords AND maxValues.s >= 'ab' AND left(minValues.s, 2) <= 'ab'",
        ),
        ("s LIKE 'ab'", "minValues.s <= 'ab' AND 'ab' <= maxValues.s AND nullCount.s < numRecords"),
        ("s NOT LIKE 'ab%'", "nullCount.s < numRecords"),
        (
            "startswith(s, 'a')",
            "nullCount.s < numRecords AND maxValues.s >= 'a' AND left(minValues.s, 1) <= 'a'",
        ),
        ("s LIKE '%a'", "nullCount.s < numRecords"),
        (
            "year(d) = 2020",
            "year(minValues.d) <= 2020 AND 2020 <= year(maxValues.d) AND nullCount.d < numRecords",
        ),
        (
            "CAST(at AS DATE) = '2020-01-01'",
            "CAST(minValues.at AS DATE) <= DATE '2020-01-01' AND "
            "DATE '2020-01-01' <= CAST(maxValues.at AS DATE) AND nullCount.at < numRecords",
        ),
        ("hour(at) = 1", "nullCount.at < numRecords"),
        ("true", None),
        ("false", "FALSE"),
    ],
)
def test_a_condition_becomes_bounds_and_null_counts(text, expected):
    assert rewritten(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x > 1", "nullCount.x < numRecords"),
        ("x >= 1", "nullCount.x < numRecords"),
        ("x != 1", "nullCount.x < numRecords"),
        ("x = x", "nullCount.x < numRecords"),
        ("x = CAST('NaN' AS DOUBLE)", "nullCount.x < numRecords"),
        ("x IN (1D, CAST('NaN' AS DOUBLE))", "nullCount.x < numRecords"),
        ("x < 1", "minValues.x < 1.0D AND nullCount.x < numRecords"),
        ("x = 1", "minValues.x <= 1.0D AND 1.0D <= maxValues.x AND nullCount.x < numRecords"),
    ],
)
def test_a_maximum_that_may_leave_out_nan_excludes_nothing_that_nan_satisfies(text, expected):
    assert rewritten(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p = 'a'", "coalesce(partitionValues.p = 'a', FALSE)"),
        (
            "p LIKE '%a%' AND q IN (1, 2)",
            "coalesce(partitionValues.p LIKE '%a%', FALSE) AND "
            "coalesce(partitionValues.q IN (1, 2), FALSE)",
        ),
        ("NOT p = 'a'", "coalesce(NOT partitionValues.p = 'a', FALSE)"),
        ("p IS NULL", "coalesce(partitionValues.p IS NULL, FALSE)"),
        ("p = 'a' AND id = 5", "coalesce(partitionValues.p = 'a', FALSE)"),
        ("p = 'a' OR id = 5", None),
        (
            "p = 'a' OR length(p) = q",
            "coalesce(partitionValues.p = 'a', FALSE) OR "
            "coalesce(length(partitionValues.p) = partitionValues.q, FALSE)",
        ),
        ("q < 3000000000", "coalesce(CAST(partitionValues.q AS BIGINT) < 3000000000L, FALSE)"),
        ("CAST(q AS TINYINT) = 1", None),
        ("6 / q = 1", None),
        ("q = id", None),
    ],
)
def test_partition_values_alone_decide_what_they_can(text, expected):
    assert rewritten(text, statistics=False) == expected


def test_partition_values_and_statistics_meet_in_one_predicate():
    assert rewritten("p = 'a' OR id = 5") == (
        "coalesce(partitionValues.p = 'a', FALSE) OR "
        f"minValues.id <= 5L AND 5L <= maxValues.id AND {SOME}"
    )
    assert rewritten("id > q") == (f"CAST(partitionValues.q AS BIGINT) < maxValues.id AND {SOME}")


def test_times_of_another_zone_than_utc_keep_no_order_of_days():
    assert (
        rewritten("CAST(at AS DATE) = '2020-01-01'", zone="Europe/Vienna")
        == "nullCount.at < numRecords"
    )


def test_the_values_of_a_long_in_become_a_bounded_number_of_ranges():
    text = rewritten(f"id IN ({', '.join(str(i * 10) for i in range(10_000))})")
    assert text is not None
    assert text.count("maxValues.id") <= 48
