from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from adelta.errors import UnsupportedFeatureError
from adelta.kernel.schema.calendar import (
    LegacyCalendar,
    legacy_calendar,
    rebase,
    rebase_days,
    rebase_micros,
)

EPOCH = date(1970, 1, 1)
LEGACY = LegacyCalendar(True, True)


def days_of_hybrid(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date in the Julian calendar, counted by the Julian day number."""
    shift = (14 - month) // 12
    years, months = year + 4800 - shift, month + 12 * shift - 3
    number = day + (153 * months + 2) // 5 + 365 * years + years // 4 - 32083
    return number - 2_440_588


def test_every_julian_date_keeps_its_date():
    written, meant = [], []
    for year in range(1, 1583):
        for month, day in ((1, 1), (2, 28), (3, 1), (10, 4), (12, 31)):
            if (year, month, day) <= (1582, 10, 4):
                written.append(days_of_hybrid(year, month, day))
                meant.append((date(year, month, day) - EPOCH).days)
    assert rebase_days(pa.array(written, pa.int32())).to_pylist() == meant


def test_the_days_that_sources_name_are_those():
    """D04: 0001-01-01 was written as -719164; the day after 1582-10-04 was 1582-10-15."""
    values = pa.array([-719_164, -141_428, -141_427, 0, None], pa.int32())
    assert rebase_days(values).to_pylist() == [-719_162, -141_438, -141_427, 0, None]


def test_a_leap_day_that_todays_calendar_lacks_is_the_first_of_march():
    written = days_of_hybrid(1500, 2, 29)
    meant = (date(1500, 3, 1) - EPOCH).days
    assert rebase_days(pa.array([written], pa.int32())).to_pylist() == [meant]


def test_times_in_utc_move_by_whole_days():
    noon = 43_200_000_001
    written = days_of_hybrid(1000, 6, 1) * 86_400_000_000 + noon
    meant = (date(1000, 6, 1) - EPOCH).days * 86_400_000_000 + noon
    values = pa.array([written, None, 5], pa.int64())
    assert rebase_micros(values, "UTC").to_pylist() == [meant, None, 5]


@pytest.mark.parametrize(
    ("zone", "seconds"),
    [("America/Los_Angeles", -28_800), ("Europe/Berlin", 3_600), ("Asia/Tokyo", 32_400)],
)
def test_a_zones_local_mean_time_replaces_the_whole_offset_that_old_java_took(zone, seconds):
    """Old Java took the offset of 1900 for all times before it."""
    local = datetime(1850, 5, 5, 12, 0, 0, 250)
    epoch = datetime(1970, 1, 1)
    written = (local - epoch) // timedelta(microseconds=1) - seconds * 1_000_000
    meant = local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    found = rebase_micros(pa.array([written], pa.int64()), zone).to_pylist()
    assert found == [(meant.replace(tzinfo=None) - epoch) // timedelta(microseconds=1)]


def test_times_after_a_zones_last_change_stay():
    values = pa.array([-2_208_988_800_000_000, 0, 1 << 50], pa.int64())
    assert rebase_micros(values, "America/Los_Angeles").to_pylist() == values.to_pylist()


def test_an_unknown_zone_is_refused_by_name():
    with pytest.raises(UnsupportedFeatureError, match="Mars/Olympus"):
        rebase_micros(pa.array([0], pa.int64()), "Mars/Olympus")


@pytest.mark.parametrize(
    ("footer", "found"),
    [
        (None, None),
        ({}, None),
        ({b"org.apache.spark.version": b"3.5.0"}, None),
        ({b"org.apache.spark.version": b"2.4.8"}, LEGACY),
        ({b"org.apache.spark.version": b"3.0.1"}, LegacyCalendar(False, True)),
        (
            {b"org.apache.spark.version": b"3.5.0", b"org.apache.spark.legacyDateTime": b""},
            LegacyCalendar(True, False),
        ),
        (
            {
                b"org.apache.spark.version": b"3.2.0",
                b"org.apache.spark.legacyINT96": b"",
                b"org.apache.spark.timeZone": b"Europe/Berlin",
            },
            LegacyCalendar(False, True, "Europe/Berlin"),
        ),
        ({b"org.apache.spark.version": b"4.0.0-preview"}, None),
    ],
)
def test_the_footer_says_which_calendar_it_was(footer, found):
    assert legacy_calendar(footer) == found


def test_columns_are_rebased_at_every_depth_and_int96_by_its_own_flag():
    old = (date(1000, 6, 1) - EPOCH).days
    days, micros = days_of_hybrid(1000, 6, 1), days_of_hybrid(1000, 6, 1) * 86_400_000_000
    inner = pa.struct([("d", pa.date32()), ("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    kind = pa.list_(pa.field("element", inner, metadata={"PARQUET:field_id": "7"}))
    values = pa.array([[{"d": days, "n": 1, "t": micros}], None, [None]], kind)
    found = rebase(values, LegacyCalendar(True, False), iter([False, False, True]))
    assert found.type.equals(kind, check_metadata=True)
    numbers = found.values.field("d").cast(pa.int32()), found.values.field("t").cast(pa.int64())
    assert [one[0].as_py() for one in numbers] == [old, micros]
    found = rebase(values, LEGACY, iter([False, False, True]))
    assert found.values.field("t").cast(pa.int64())[0].as_py() == old * 86_400_000_000
    assert found.is_valid().to_pylist() == [True, False, True]
    pairs = pa.array([[(days, days)], []], pa.map_(pa.date32(), pa.date32()))
    assert rebase(pairs, LEGACY, iter([False, False])).to_pylist() == [
        [(date(1000, 6, 1), date(1000, 6, 1))],
        [],
    ]


def test_timestamps_without_a_zone_never_counted_in_the_old_calendar():
    values = pa.array([days_of_hybrid(1000, 6, 1) * 86_400_000_000], pa.timestamp("us"))
    assert rebase(values, LEGACY, iter([False])) == values
    assert rebase(values, LEGACY, iter([True])) != values
