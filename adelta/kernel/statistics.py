"""The `stats` text of a data file (PROTOCOL.md, "Per-file Statistics").

What is written bounds every value of the file, in the order that Spark compares by, or is left out:
texts are cut to a prefix, a greatest text to one that no value exceeds; timestamps are cut to
milliseconds, downwards, as the protocol has it. Infinities are the strings "Infinity" and
"-Infinity", as Spark writes them; a float column with a NaN has no bounds, because readers disagree
about its order. Decimals keep every digit. Booleans have bounds: Spark neither writes nor reads
them, but a pyarrow dataset of deltalake skips files that lack them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import orjson

from adelta._lazy_arrow import pa
from adelta.errors import InvalidPropertyError, InvalidTableError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.names import leaf_fields, physical_schema
from adelta.kernel.table_properties import TableProperties

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "INFINITY",
    "INT64_LIMITS",
    "NEGATIVE_INFINITY",
    "OLD_TIE_BREAKER",
    "bound_text",
    "bounded_leaves",
    "check_stats_columns",
    "exact_text",
    "has_bounds",
    "json_members",
    "json_object",
    "num_records",
    "stats_json",
    "stats_leaves",
    "truncate_max",
    "truncate_min",
    "with_num_records",
    "with_wide_bounds",
    "writes_bounds",
]

INT64_LIMITS = (-(1 << 63), (1 << 63) - 1)
"""The bounds that some writers state for decimals beyond the range of int64."""

OLD_TIE_BREAKER = "\ufffd"
"""The end of maxima that writers once cut; greater characters exist, so these may be too low."""

INFINITY, NEGATIVE_INFINITY = '"Infinity"', '"-Infinity"'
"""The JSON texts of infinite bounds."""

_BOUNDED = (
    t.BYTE,
    t.SHORT,
    t.INTEGER,
    t.LONG,
    t.FLOAT,
    t.DOUBLE,
    t.DATE,
    t.TIMESTAMP,
    t.TIMESTAMP_NTZ,
    t.STRING,
)
_ALL = -1
_SPACES = " \t\r\n"
_LAST_ASCII = "\x7f"
_LAST_CHARACTER = "\U0010ffff"
_FIRST_OF_TWO_UNITS = "\U00010000"


class LeafStatistics(Protocol):
    """What is known of one leaf column of a file, as Arrow's scalars or as Python's values."""

    @property
    def min(self) -> Any:
        """The least value; None where there is none, or it is not known."""

    @property
    def max(self) -> Any:
        """The greatest value; None where there is none, or it is not known."""

    @property
    def null_count(self) -> int | None:
        """How many rows have no value; None where it is not known."""

    @property
    def has_nan(self) -> bool:
        """Whether a value is not a number."""


StatisticsTree: TypeAlias = "Mapping[str, LeafStatistics | StatisticsTree]"


class FileStatistics(Protocol):
    """What is known of one file; `columns` goes by physical name, structs are mappings again."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """The leaves, as a `StatisticsTree`."""


# ----------------------------------------------------------------------------------- which columns


def has_bounds(data_type: t.DataType) -> bool:
    """Whether readers skip files by the bounds of columns of a type."""
    return isinstance(data_type, t.DecimalType) or data_type in _BOUNDED


def writes_bounds(data_type: t.DataType) -> bool:
    """Whether files get bounds for columns of a type; for booleans, other readers need them."""
    return has_bounds(data_type) or data_type == t.BOOLEAN


def stats_leaves(
    schema: t.StructType,
    properties: TableProperties,
    partition_columns: Sequence[str] = (),
    mode: str = "none",
) -> tuple[tuple[str, ...], ...]:
    """The physical paths of the leaf columns that statistics are written of, in the schema's order.

    Those that the table names, else the leading ones. A list or a map is one leaf.

    Example: ``a long, s struct<x: long, y: long>`` is ``("a",), ("s", "x"), ("s", "y")``.

    Raises:
        InvalidPropertyError: the property that decides has a value that is not allowed.
    """
    named = properties.data_skipping_stats_columns
    limit = properties.data_skipping_num_indexed_cols
    partitions = {name.lower() for name in partition_columns}
    wanted = None if named is None else [tuple(s.lower() for s in path) for path in named]
    physical = leaf_fields(physical_schema(schema, mode))
    found: list[tuple[str, ...]] = []
    for (path, field), (physical_path, _) in zip(leaf_fields(schema), physical, strict=True):
        folded = tuple(step.lower() for step in path)
        if folded[0] in partitions or field.type == t.VOID:
            continue
        if wanted is not None:
            if any(folded[: len(prefix)] == prefix for prefix in wanted):
                found.append(physical_path)
        elif limit == _ALL or len(found) < limit:
            found.append(physical_path)
    return tuple(found)


def bounded_leaves(
    schema: t.StructType, leaves: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """Those of `leaves` whose bounds are written; `schema` has the same names."""
    wanted = set(leaves)
    return tuple(p for p, f in leaf_fields(schema) if p in wanted and writes_bounds(f.type))


def check_stats_columns(
    schema: t.StructType, properties: TableProperties, partition_columns: Sequence[str] = ()
) -> None:
    """Refuse a list of columns for statistics that the table cannot have, when it is being set.

    Raises:
        InvalidPropertyError: a column is missing, is a partition column, or has no bounds.
    """
    key = TableProperties.data_skipping_stats_columns.key
    partitions = {name.lower() for name in partition_columns}
    for path in properties.data_skipping_stats_columns or ():
        shown = ".".join(path)
        here: t.DataType = schema
        for step in path:
            field = here.field(step) if isinstance(here, t.StructType) else None
            if field is None:
                raise InvalidPropertyError(
                    f"the table property {key} names {shown!r}, which is not a column of the table"
                )
            here = field.type
        if path[0].lower() in partitions:
            raise InvalidPropertyError(
                f"the table property {key} names the partition column {shown!r}, whose values are "
                "known without statistics; leave it out"
            )
        if not isinstance(here, t.StructType) and not has_bounds(here):
            raise InvalidPropertyError(
                f"the table property {key} names {shown!r}, but columns of type {here} have no "
                "least and greatest value; leave it out"
            )


# ---------------------------------------------------------------------------------------- the text


def stats_json(statistics: FileStatistics, string_prefix_length: int = 32) -> str:
    """The `stats` of an `add`: JSON text with the keys in Delta's order.

    Example: ``{"numRecords":2,"minValues":{"a":1},"maxValues":{"a":3},"nullCount":{"a":0}}``.
    """
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    _fill(statistics.columns, low, high, nulls, string_prefix_length)
    return (
        f'{{"numRecords":{statistics.num_rows},"minValues":{json_object(low)},'
        f'"maxValues":{json_object(high)},"nullCount":{json_object(nulls)}}}'
    )


def num_records(stats: str | None) -> int | None:
    """How many rows a file has, those under a deletion vector included; None where it is not said.

    Example: ``{"numRecords":3}`` says 3.
    """
    try:
        count = orjson.loads(stats or "{}").get("numRecords")
    except (orjson.JSONDecodeError, AttributeError):  # statistics of another writer's file
        return None
    whole = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    return count if whole else None


def with_wide_bounds(stats: str | None, rows: int) -> str:
    """`stats` of a file that gets a deletion vector: all of its rows counted, and the bounds wide.

    Every other number stays as it is written, digit for digit.

    Example: ``{"numRecords":3,"minValues":{"a":1}}`` becomes
    ``{"numRecords":3,"tightBounds":false,"minValues":{"a":1}}``.

    Raises:
        InvalidTableError: the statistics are not a JSON object.
    """
    return _with_members(stats, {"numRecords": str(rows), "tightBounds": "false"})


def with_num_records(stats: str | None, rows: int) -> str:
    """`stats` of a file that say how many rows it has.

    Raises:
        InvalidTableError: the statistics are not a JSON object.
    """
    return _with_members(stats, {"numRecords": str(rows)})


def _with_members(stats: str | None, own: Mapping[str, str]) -> str:
    found = {**own, **(json_members(stats) if stats else {}), **own}
    return json_object(found)


def json_members(text: str) -> dict[str, str]:
    """The members of a JSON object, each value as the text that it was.

    Raises:
        InvalidTableError: the text is not a JSON object.
    """
    decoder = json.JSONDecoder()
    found: dict[str, str] = {}
    try:
        at = _past(text, 0, "{")
        while text[at] != "}":
            key, at = decoder.raw_decode(text, at)
            start = _past(text, at, ":")
            _, at = decoder.raw_decode(text, start)
            found[str(key)] = text[start:at]
            at = _past(text, at, ",") if text[_past(text, at, "")] == "," else _past(text, at, "")
    except (IndexError, ValueError) as error:
        raise InvalidTableError(
            f"a file has the statistics {text[:100]!r}, which are no JSON object; restore the "
            "table to an earlier version"
        ) from error
    return found


def _past(text: str, at: int, mark: str) -> int:
    """Where the text goes on behind `mark`, with spaces before and behind."""
    while text[at] in _SPACES:
        at += 1
    if mark:
        if text[at] != mark:
            raise ValueError(f"expected {mark}")
        return _past(text, at + 1, "")
    return at


def _fill(
    columns: StatisticsTree,
    low: dict[str, Any],
    high: dict[str, Any],
    nulls: dict[str, Any],
    prefix: int,
) -> None:
    """Put the JSON text of every statistic where its column belongs."""
    for name, column in columns.items():
        if not isinstance(column, tuple) and isinstance(column, Mapping):
            parts: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] = ({}, {}, {})
            _fill(column, *parts, prefix)
            for target, part in zip((low, high, nulls), parts, strict=True):
                if part:
                    target[name] = part
            continue
        if column.null_count is not None:
            nulls[name] = str(column.null_count)
        least, greatest = _value(column.min), _value(column.max)
        if least is None and greatest is None:
            continue
        if column.has_nan or _is_nan(least) or _is_nan(greatest):
            continue
        if least is not None and (text := _text(least, prefix, truncate_min)) is not None:
            low[name] = text
        if greatest is not None and (text := _text(greatest, prefix, truncate_max)) is not None:
            high[name] = text


def bound_text(value: Any, prefix: int, *, is_greatest: bool = False) -> str | None:
    """The JSON text of a bound, of a text so many units; None where nothing sure can be said.

    Example: the minimum 0.0 becomes ``-0.0``, which the file may hold as well, and NaN becomes
    None.
    """
    if _is_nan(value):
        return None
    if isinstance(value, float):
        return _float_text(value if value or is_greatest else -0.0)
    return _text(value, prefix, truncate_max if is_greatest else truncate_min)


def exact_text(kind: type) -> Callable[[Any], str] | None:
    """What makes the JSON text of each bound of a type, the least and the greatest alike.

    None of floats and texts, whose bounds are not said as they are, and of types without bounds.
    """
    return None if kind is float else _TEXTS.get(kind)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _value(bound: Any) -> Any:
    if bound is None or not isinstance(bound, pa.Scalar):
        return bound
    try:
        return bound.as_py()
    except (ValueError, OverflowError):  # a date or a time beyond the years that Python counts
        return None


def _text(value: Any, prefix: int, truncate: Callable[[str, int], str | None]) -> str | None:
    """The JSON text of a bound; None where there is none."""
    if isinstance(value, str):
        cut = truncate(value, prefix)
        return None if cut is None else _quoted(cut)
    kind = type(value)
    make = _TEXTS.get(kind) or next((_TEXTS[c] for c in kind.__mro__ if c in _TEXTS), None)
    return None if make is None else make(value)


def _moment(value: datetime) -> str:
    zone = "" if value.tzinfo is None else "Z"
    local = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return f'"{local.isoformat(timespec="milliseconds")}{zone}"'


def _float_text(value: float) -> str:
    return repr(value) if math.isfinite(value) else INFINITY if value > 0 else NEGATIVE_INFINITY


_TEXTS: dict[type, Callable[[Any], str]] = {
    bool: {False: "false", True: "true"}.__getitem__,
    int: repr,
    float: _float_text,
    Decimal: "{:f}".format,
    datetime: _moment,
    date: lru_cache(maxsize=4096)('"{}"'.format),
}
"""What makes the JSON text of a bound that is no text."""


def json_object(parts: Mapping[str, Any]) -> str:
    """The JSON text of an object whose values are JSON texts, or objects again."""
    inside = [
        f"{_quoted_name(name)}:{part if isinstance(part, str) else json_object(part)}"
        for name, part in parts.items()
    ]
    return "{" + ",".join(inside) + "}"


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


_quoted_name = lru_cache(maxsize=4096)(_quoted)  # of columns, which are the same in every file


# -------------------------------------------------------------------------------------------- texts


def truncate_min(text: str, length: int) -> str | None:
    """A text of about `length` UTF-16 units that does not exceed `text`; None for none at all.

    A character of two units is never cut: one unit more is taken instead.
    """
    if len(text) * 2 <= length or _units(text[: length + 1]) <= length:
        return text
    return text[: _characters(text, length)] if length > 0 else None


def truncate_max(text: str, length: int) -> str | None:
    """A text of about `length` UTF-16 units that nothing up to `text` exceeds; None for none.

    "Exceeds" is by UTF-8 bytes, as Spark compares. Where a prefix of `text` is taken, a character
    greater than the one after it goes behind; a text of nothing but the greatest character leads to
    no bound.
    """
    if len(text) * 2 <= length or _units(text[: length + 1]) <= length:
        return text
    if length <= 0:
        return None
    end = _characters(text, length)
    units = _units(text[:end])
    while units <= 2 * length:
        if end == len(text):
            return text
        following = text[end]
        if following == _LAST_CHARACTER:
            end, units = end + 1, units + 2
        else:
            return text[:end] + (_LAST_ASCII if following < _LAST_ASCII else _LAST_CHARACTER)
    return None


def _units(text: str) -> int:
    """How many UTF-16 units a text takes."""
    if text.isascii():
        return len(text)
    return len(text) + sum(char >= _FIRST_OF_TWO_UNITS for char in text)


def _characters(text: str, units: int) -> int:
    """How many characters make up the first `units` units, the last one whole."""
    if text.isascii():
        return min(units, len(text))
    taken = 0
    for count, char in enumerate(text, 1):
        taken += 2 if char >= _FIRST_OF_TWO_UNITS else 1
        if taken >= units:
            return count
    return len(text)
