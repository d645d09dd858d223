"""Dates and times of files whose writer had the Julian calendar before 1582-10-15.

Spark before 3.0, and later ones in their legacy mode, write days and microseconds that count in the
hybrid calendar of old Java: Julian up to 1582-10-04, Gregorian from 1582-10-15 on. The date that
was meant is kept, so its number changes. Such files say so in their footer. Times of theirs were
also taken to local time by whole offsets of a zone, where today's rules have its local mean time.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import scalar_of
from adelta._dataclasses import dataclass
from adelta.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["LegacyCalendar", "legacy_calendar", "rebase", "rebase_days", "rebase_micros"]

arrow: Any = pa  # likewise of `arange`
Values: TypeAlias = Any
"""A pa.Array, of a type that is known at run time only."""

_VERSION = b"org.apache.spark.version"
_LEGACY_DATETIME = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96 = b"org.apache.spark.legacyINT96"
_TIME_ZONE = b"org.apache.spark.timeZone"

_DAY = 86_400_000_000
_SWITCH = -141_427
"""The day 1582-10-15, the first one of the Gregorian calendar."""
_JULIAN_EPOCH = 719_164 + 306
"""Days from 0000-03-01 of the Julian calendar to 1970-01-01."""
_CIVIL_ERA_DAYS, _CIVIL_ERA_YEARS = 146_097, 400
_JULIAN_CYCLE = 1_461
_FIRST_OFFSETS = datetime(1900, 1, 1, tzinfo=UTC)
"""Before it old Java has the offset of this very time, for every zone."""


@dataclass(frozen=True, slots=True)
class LegacyCalendar:
    """What of a file counts in the hybrid calendar, and the zone that its writer had."""

    dates: bool
    int96: bool
    zone: str = "UTC"


def legacy_calendar(footer: Mapping[bytes, bytes] | None) -> LegacyCalendar | None:
    """What the key-value metadata of a footer says of the calendar; None for today's alone."""
    if not footer or (_VERSION not in footer and _LEGACY_DATETIME not in footer):
        return None
    version = _release(footer.get(_VERSION, b"9"))
    dates = version < (3, 0) or _LEGACY_DATETIME in footer
    int96 = version < (3, 1) or _LEGACY_INT96 in footer
    if not dates and not int96:
        return None
    return LegacyCalendar(dates, int96, footer.get(_TIME_ZONE, b"UTC").decode(errors="replace"))


def _release(version: bytes) -> tuple[int, ...]:
    parts = version.split(b".")[:2]
    return tuple(int(part) if part.isdigit() else 9 for part in parts)


def rebase(values: Values, legacy: LegacyCalendar, int96: Iterator[bool]) -> Values:
    """A column of a file that has a `legacy` calendar, in today's.

    `int96` says of each leaf of the column, in order, whether the file has it as INT96. Timestamps
    without a zone never counted in the old calendar, unless they are INT96, which has no zones.

    Raises:
        UnsupportedFeatureError: the writer's zone is unknown.
    """
    kind = values.type
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(kind):
        children = [
            rebase(pc.struct_field(values, [i]), legacy, int96) for i in range(kind.num_fields)
        ]
        return pa.StructArray.from_arrays(children, fields=_units(kind, children), mask=mask)
    if pa.types.is_map(kind):
        values = values.take(arrow.arange(0, len(values))) if values.offset else values
        keys, items = (rebase(part, legacy, int96) for part in (values.keys, values.items))
        map_of: Any = pa.map_
        pair = kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type)
        made: Any = pa.MapArray
        return made.from_arrays(values.offsets, keys, items, type=map_of(*pair), mask=mask)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = values.take(arrow.arange(0, len(values))) if values.offset else values
        inner = rebase(values.values, legacy, int96)
        list_of: Any = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return type(values).from_arrays(
            values.offsets, inner, type=list_of(kind.value_field.with_type(inner.type)), mask=mask
        )
    is_int96 = next(int96)
    if pa.types.is_date(kind) and legacy.dates:
        return rebase_days(values.cast(pa.int32())).cast(pa.date32())
    if pa.types.is_timestamp(kind) and (legacy.int96 if is_int96 else legacy.dates and kind.tz):
        micros = values.cast(pa.timestamp("us", kind.tz)).view(pa.int64())
        return rebase_micros(micros, legacy.zone).view(pa.timestamp("us", kind.tz))
    return values


def _units(kind: Any, children: list[Values]) -> list[pa.Field[Any]]:
    return [kind.field(i).with_type(child.type) for i, child in enumerate(children)]


def rebase_days(days: Values) -> Values:
    """Days of the hybrid calendar as days of the Gregorian one, the date being the same.

    Example: −719164, once written for 0001-01-01, becomes −719162.
    """
    old = pc.less(days, _SWITCH)
    if not pc.any(old).as_py():
        return days
    wide = days.cast(pa.int64())
    return pc.if_else(old, _gregorian(wide), wide).cast(days.type)


def rebase_micros(micros: Values, zone: str) -> Values:
    """Microseconds of the hybrid calendar as those of today's, the time in `zone` being the same.

    Raises:
        UnsupportedFeatureError: there is no such zone.
    """
    last = _Zone.named(zone).last_change
    old = pc.less(micros, max(_SWITCH * _DAY, last))
    if not pc.any(old).as_py():
        return micros
    local = pc.add(micros, _Zone.named(zone).java_offset)
    days = _floor_divide(local, _DAY)
    rest = pc.subtract(local, pc.multiply(days, _DAY))
    moved = pc.if_else(pc.less(days, _SWITCH), _gregorian(days), days)
    rebased = pc.add(pc.multiply(moved, _DAY), rest)
    return pc.if_else(old, _Zone.named(zone).to_utc(rebased), micros)


def _gregorian(days: Values) -> Values:
    """The day of the Gregorian calendar with the date that `days` has in the Julian one."""
    # Years begin in March here, so that a leap day is a year's last one.
    shifted = pc.add(days, _JULIAN_EPOCH)
    cycle = _floor_divide(shifted, _JULIAN_CYCLE)
    of_cycle = pc.subtract(shifted, pc.multiply(cycle, _JULIAN_CYCLE))
    year_of_cycle = pc.min_element_wise(pc.divide(of_cycle, 365), 3, skip_nulls=False)
    of_year = pc.subtract(of_cycle, pc.multiply(year_of_cycle, 365))
    year = pc.add(pc.multiply(cycle, 4), year_of_cycle)
    # The same year and day of the year in the Gregorian calendar; Julian leap days that it lacks
    # are the last day of such a year, and come out as the 1st of March.
    era = _floor_divide(year, _CIVIL_ERA_YEARS)
    of_era = pc.subtract(year, pc.multiply(era, _CIVIL_ERA_YEARS))
    before = pc.subtract(
        pc.add(pc.multiply(of_era, 365), pc.divide(of_era, 4)), pc.divide(of_era, 100)
    )
    return pc.subtract(pc.add(pc.add(pc.multiply(era, _CIVIL_ERA_DAYS), before), of_year), 719_468)


def _floor_divide(values: Values, by: int) -> Values:
    quotient = pc.divide(values, by)
    above = pc.greater(pc.multiply(quotient, by), values)
    return pc.subtract(quotient, above.cast(pa.int64()))


@dataclass(frozen=True, slots=True)
class _Zone:
    """A zone before 1900, in microseconds: old Java's one offset, and today's changes of it.

    `changes` are the local times from which on another offset holds, each with that offset.
    """

    java_offset: int
    first_offset: int
    changes: tuple[tuple[int, int], ...]
    last_change: int

    @staticmethod
    @lru_cache(maxsize=32)
    def named(zone: str) -> _Zone:
        """The zone of this name.

        Raises:
            UnsupportedFeatureError: there is none.
        """
        try:
            info = ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UnsupportedFeatureError(
                f"a data file has times of the zone {zone!r} in the calendar of old Java, and this "
                "machine has no such zone; install the package tzdata"
            ) from error

        def offset(second: int) -> int:
            at = _FIRST_OFFSETS + timedelta(seconds=second)
            found = at.astimezone(info).utcoffset() or timedelta()
            return round(found.total_seconds())

        step = 86_400 * 180
        start = -step * 406  # some two hundred years, in which all local mean times end
        first = before = offset(start)
        changes, last = [], -(1 << 62)
        epoch = int(_FIRST_OFFSETS.timestamp())
        for low in range(start, 0, step):
            after = offset(min(0, low + step))
            if after == before:
                continue
            left, right = low, min(0, low + step)
            while right - left > 1:
                middle = (left + right) // 2
                left, right = (middle, right) if offset(middle) == before else (left, middle)
            last = (epoch + right) * 1_000_000
            changes.append(((epoch + right + after) * 1_000_000, after * 1_000_000))
            before = after
        return _Zone(offset(0) * 1_000_000, first * 1_000_000, tuple(changes), last)

    def to_utc(self, local: Values) -> Values:
        """Local times as UTC, by today's rules."""
        offsets: Any = scalar_of(self.first_offset, pa.int64())
        for start, offset in self.changes:
            offsets = pc.if_else(pc.greater_equal(local, start), offset, offsets)
        return pc.subtract(local, offsets)
