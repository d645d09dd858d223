"""Partition values: the log's texts ⇄ typed columns (PROTOCOL.md, "Partition Value Serialization").

Both the scan and the pruning of files go through the one parser here, so they cannot disagree. It
works on columns: each distinct text is parsed once. It accepts what other writers are known to have
written; what it writes is the strictest form, which is also Spark's.

The empty text is null, of every type, wherever it is read. It is never written: empty strings and
empty binaries are written as null, as every Delta writer does.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from adelta import _compute as pc
from adelta._arrow_values import array_of, null_of, scalar_of
from adelta._lazy_arrow import pa
from adelta.errors import InvalidTableError, SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.far_days import day_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "HIVE_DEFAULT_PARTITION",
    "can_partition",
    "lookup_partition_value",
    "lookup_partition_values",
    "parse_partition_values",
    "partition_directory",
    "partition_texts",
    "serialise_partition_value",
    "serialise_partition_values",
    "with_known_values",
]

arrow: Any = pa  # The stubs lack some functions and types.

HIVE_DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The directory text of a null. It occurs in paths only, never in a partition value."""

_INTEGERS = (t.BYTE, t.SHORT, t.INTEGER, t.LONG)
_FLOATS = (t.FLOAT, t.DOUBLE)
_SIMPLE = (
    *_INTEGERS,
    *_FLOATS,
    t.STRING,
    t.BOOLEAN,
    t.BINARY,
    t.DATE,
    t.TIMESTAMP,
    t.TIMESTAMP_NTZ,
    t.VOID,
)

_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_INTEGER = re.compile(r"\s*([+-]?\d+)\s*")
_FLOAT_SUFFIX = re.compile(r"(?<=[\d.])[dDfF]\s*$")
_DATE = re.compile(r"\s*([+-]?\d{1,7})-(\d{1,2})-(\d{1,2})(?:[T ].*)?\s*")
_TIMESTAMP = re.compile(
    r"\s*([+-]?\d{1,7})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?"
    r"\s*(Z|z|[+-]\d{1,2}(?::?\d{2}(?::?\d{2})?)?)?\s*"
)
_ZONED = r"\d:\d\d.*(?:[Zz]|[+-]\d\d(?::?\d\d)?)$"
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_MAX_HOURS_OF_OFFSET = 18
_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def can_partition(data_type: t.DataType) -> bool:
    """Whether a column of this type may be a partition column."""
    return isinstance(data_type, t.DecimalType) or data_type in _SIMPLE


# --------------------------------------------------------------------------------------- reading


def with_known_values(files: pa.Table) -> pa.Table:
    """File actions with null where a text of their `partition_values`, if there, is empty.

    Example: ``{"p": "", "q": "x"}`` becomes ``{"p": None, "q": "x"}``.
    """
    place = files.schema.get_field_index("partition_values")
    if place < 0:
        return files
    field, maps = files.schema.field(place), files.column(place)
    chunks = [_known_map(chunk) for chunk in maps.chunks]
    return files.set_column(place, field, arrow.chunked_array(chunks, field.type))


def _known_map(maps: Any) -> Any:
    texts = maps.items
    known = _known_texts(texts)
    if known is texts:
        return maps
    there: Any = pa.concat_arrays([maps.is_valid(), array_of([True], pa.bool_())])
    offsets = pc.if_else(there, maps.offsets, null_of(pa.int32()))
    return arrow.MapArray.from_arrays(offsets, maps.keys, known, type=maps.type)


def _known_texts(texts: pa.Array[Any]) -> pa.Array[Any]:
    empty = pc.equal(texts, "")
    if not empty.true_count:
        return texts
    return cast("pa.Array[Any]", pc.if_else(empty, null_of(texts.type), texts))


def lookup_partition_value(values: Mapping[str, str | None], column: str) -> str | None:
    """The partition value, as a string, of a column with this physical name, in one file.

    None if the value is null, or if the file does not list the column, as Delta Spark reads it.

    Raises:
        InvalidTableError: the file lists the column, but spells it in another case.
    """
    if column not in values:
        _check_case(values, column)
    return values.get(column)


def lookup_partition_values(maps: Any, column: str) -> Any:
    """The partition values, as strings, of a column with this physical name, for many files.

    `maps` has the partition values of each file. The result is an array if `maps` is an array, and
    a chunked array if `maps` is one; it has NULL for files that do not list the column.

    Raises:
        InvalidTableError: a file lists the column, but spells it in another case.
    """
    chunks: list[Any] = maps.chunks if isinstance(maps, pa.ChunkedArray) else [maps]
    only = [_only_values(chunk, column) for chunk in chunks]
    if chunks and all(chunk is not None for chunk in only):
        found = arrow.chunked_array(only, pa.string())
        return found if isinstance(maps, pa.ChunkedArray) else only[0]
    for chunk in chunks:
        _check_case(pc.unique(chunk.keys).to_pylist(), column)
    return pc.map_lookup(maps, scalar_of(column, pa.string()), "first")


def _check_case(listed: Iterable[str], column: str) -> None:
    folded = column.lower()
    for name in listed:
        if name != column and name.lower() == folded:
            raise InvalidTableError(
                f"a file in the log has a value of the partition column {name[:80]!r}, but the "
                f"table calls that column {column[:80]!r}, and Delta compares these names by case; "
                "restore the table to an earlier version, or add the file again under that name"
            )


def _only_values(maps: Any, column: str) -> Any:
    """The values of maps that all have this column as their only key; None for other maps."""
    if maps.null_count or not len(maps):
        return None
    offsets, rows = maps.offsets, len(maps)
    start = offsets[0].as_py()
    single = offsets.equals(pc.cast(arrow.arange(start, start + rows + 1), offsets.type))
    keys = maps.keys.slice(start, rows)
    if not single or not pc.all(pc.equal(keys, scalar_of(column, pa.string()))).as_py():
        return None
    return maps.items.slice(start, rows)


def parse_partition_values(
    texts: pa.Array[Any] | pa.ChunkedArray[Any],
    data_type: t.DataType,
    *,
    zone: str = "UTC",
    column: str = "",
) -> pa.Array[Any]:
    """The typed column that a column of partition texts stands for.

    `zone` is where timestamps without a zone were written; `column` is named in messages.

    Example: ``["1", None, ""]`` as integers is ``[1, null, null]``.

    Raises:
        InvalidTableError: a text is not a value of the type, or the type cannot be a partition's.
    """
    if not can_partition(data_type):
        raise InvalidTableError(
            f"the table is partitioned by column {column!r} of type {data_type}, which Delta does "
            "not allow; its metadata is damaged"
        )
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    if texts.type != pa.string():
        texts = texts.cast(pa.string())
    if data_type == t.STRING:
        return _known_texts(texts)
    target = to_arrow_type(data_type)
    if data_type == t.VOID:
        return pa.nulls(len(texts))
    encoded = texts.dictionary_encode()
    distinct = _known_texts(encoded.dictionary)
    try:
        values = _parse_column(distinct, data_type, target, zone)
    except pa.ArrowInvalid:
        values = _parse_each(distinct, data_type, target, zone, column)
    return values.take(encoded.indices)


def _parse_column(
    texts: pa.Array[Any], data_type: t.DataType, target: pa.DataType, zone: str
) -> pa.Array[Any]:
    if data_type == t.TIMESTAMP:
        zoned = pc.match_substring_regex(texts, _ZONED)
        none = null_of(pa.string())
        instants = pc.if_else(zoned, texts, none).cast(target)
        local = pc.if_else(zoned, none, texts).cast(pa.timestamp("us"))
        either: pa.Array[Any] = pc.coalesce(instants, _in_zone(local, zone))
        return either
    if data_type == t.BOOLEAN:
        folded = pc.utf8_lower(texts)
        known = pc.is_in(folded, value_set=pa.array(["true", "false"]))
        if not pc.all(
            pc.fill_null(pc.or_(known, pc.is_null(texts)), scalar_of(False, pa.bool_())),
            min_count=0,
        ).as_py():
            raise pa.ArrowInvalid("neither true nor false")
    return texts.cast(target)


def _in_zone(local: pa.Array[Any], zone: str) -> pa.Array[Any]:
    if zone == "UTC":
        return local.cast(pa.timestamp("us", "UTC"))
    shifted: pa.Array[Any] = pc.assume_timezone(
        local, zone, ambiguous="earliest", nonexistent="latest"
    )
    return shifted.cast(pa.timestamp("us", "UTC"))


def _parse_each(
    texts: pa.Array[Any], data_type: t.DataType, target: pa.DataType, zone: str, column: str
) -> pa.Array[Any]:
    """The tolerant parser, for the few distinct texts in forms that Arrow's does not know."""
    parse = _parser(data_type)
    values: list[object] = []
    zoned: list[bool] = []
    for text in texts.to_pylist():
        value, has_zone = None, False
        if text is not None:
            try:
                value, has_zone = parse(text)
                scalar_of(value, _carrier(target))
            except (ValueError, LookupError, ArithmeticError, pa.ArrowException) as error:
                raise InvalidTableError(
                    f"partition column {column!r} has the value {text!r} in the log, which is not "
                    f"a {data_type}; the file action that holds it is damaged"
                ) from error
        values.append(value)
        zoned.append(has_zone)
    parsed = array_of(values, _carrier(target))
    if data_type != t.TIMESTAMP:
        return parsed.cast(target)
    instants = parsed.cast(target)
    local = _in_zone(parsed.cast(pa.timestamp("us")), zone)
    either: pa.Array[Any] = pc.if_else(array_of(zoned, pa.bool_()), instants, local)
    return either


def _carrier(target: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(target):
        return pa.int64()
    return pa.int32() if pa.types.is_date(target) else target


def _parser(data_type: t.DataType) -> Callable[[str], tuple[object, bool]]:
    if data_type in _INTEGERS:
        return lambda text: (int(_matched(_INTEGER, text)[1]), False)
    if data_type in _FLOATS:
        return lambda text: (float(_FLOAT_SUFFIX.sub("", text).replace("_", "x")), False)
    if isinstance(data_type, t.DecimalType):
        return lambda text: (Decimal(text.replace("_", "x").strip()), False)
    if data_type == t.BOOLEAN:
        return lambda text: ({"true": True, "false": False}[text.strip().lower()], False)
    if data_type == t.DATE:
        return lambda text: (_days(*_matched(_DATE, text).groups()[:3]), False)
    if data_type == t.TIMESTAMP:
        return _micros
    if data_type == t.TIMESTAMP_NTZ:
        return _local_micros
    return lambda text: (text.encode(), False)


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _days(year: str, month: str, day: str) -> int:
    """Days since the Unix epoch in the proleptic Gregorian calendar, for any year."""
    y, m, d = int(year), int(month), int(day)
    leap = m == 2 and y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)
    if not (1 <= m <= 12 and 1 <= d <= _DAYS_IN_MONTH[m - 1] + leap):
        raise ValueError("no such day")
    y -= m <= 2
    in_era = y % 400
    in_year = (153 * ((m + 9) % 12) + 2) // 5 + d - 1
    return y // 400 * 146_097 + in_era * 365 + in_era // 4 - in_era // 100 + in_year - 719_468


def _micros(text: str) -> tuple[int, bool]:
    """Microseconds since the Unix epoch, and whether the text has a zone; finer digits are cut."""
    match = _matched(_TIMESTAMP, text)
    days = _days(match[1], match[2], match[3])
    hour, minute, second = (int(part or 0) for part in match.group(4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("no such time")
    micros = int((match[7] or "").ljust(6, "0")[:6])
    total = days * _DAY + ((hour * 60 + minute) * 60 + second) * _SECOND + micros
    zone = match[8]
    if zone is None:
        return total, False
    if zone in "Zz":
        return total, True
    offset = _matched(_OFFSET, zone)
    hours, minutes, seconds = (int(part or 0) for part in offset.group(2, 3, 4))
    if hours > _MAX_HOURS_OF_OFFSET or minutes > 59 or seconds > 59:
        raise ValueError("no such zone")
    shift = ((hours * 60 + minutes) * 60 + seconds) * _SECOND
    return total + shift if offset[1] == "-" else total - shift, True


def _local_micros(text: str) -> tuple[int, bool]:
    micros, zoned = _micros(text)
    if zoned:
        raise ValueError("a timestamp_ntz has no zone")
    return micros, False


# --------------------------------------------------------------------------------------- writing


def serialise_partition_values(values: pa.Array[Any], data_type: t.DataType) -> pa.Array[Any]:
    """The log's texts for a typed column of partition values.

    Example: the instant 0 is ``1970-01-01T00:00:00.000000Z``, the double 1e20 is ``1.0E20``.

    Raises:
        SchemaMismatchError: a value, or the type, cannot be written as a partition value.
    """
    if not can_partition(data_type):
        raise SchemaMismatchError(
            f"a column of type {data_type} cannot be a partition column; partition by another one"
        )
    if data_type == t.VOID:
        return pa.nulls(len(values), pa.string())
    values = values.cast(to_arrow_type(data_type))
    if data_type in _FLOATS or isinstance(data_type, t.DecimalType):
        return _numbers(values)
    if data_type == t.TIMESTAMP:
        spaced = _moments(values.cast(pa.timestamp("us")))
        joined = pc.replace_substring(spaced, " ", "T", max_replacements=1)
        instants: pa.Array[Any] = pc.binary_join_element_wise(joined, "Z", "")
        return instants
    if data_type in (t.DATE, t.TIMESTAMP_NTZ):
        return _moments(values)
    texts: pa.Array[Any]
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            "a binary partition column holds bytes that are not UTF-8 text, which the log cannot "
            "hold; partition by another column, or by a text form of this one"
        ) from error
    if data_type in (t.STRING, t.BINARY):
        texts = pc.if_else(pc.equal(texts, ""), null_of(pa.string()), texts)
    return texts


def serialise_partition_value(value: object, data_type: t.DataType) -> str | None:
    """The log's text for one value, as Python or as an Arrow scalar holds it.

    Raises:
        SchemaMismatchError: the value is not of the type, or cannot be written.
    """
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    try:
        column = array_of([value], to_arrow_type(data_type))
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise SchemaMismatchError(
            f"{value!r} is not a value of type {data_type}; give a value of the column's type"
        ) from error
    text: str | None = serialise_partition_values(column, data_type)[0].as_py()
    return text


def _moments(values: pa.Array[Any]) -> pa.Array[Any]:
    """Dates, or times without a zone, as texts; Arrow has none for years of more than 15 bits."""
    texts: pa.Array[Any] = values.cast(pa.string())
    far = pc.starts_with(texts, "<")
    if not far.true_count:
        return texts
    write = _day_text if pa.types.is_date(values.type) else _time_text
    numbers: list[Any] = cast("Any", values.filter(far).cast(_carrier(values.type))).to_pylist()
    written = array_of([write(number) for number in numbers], pa.string())
    known: Any = pc.fill_null(far, scalar_of(False, pa.bool_()))
    replaced: pa.Array[Any] = pc.replace_with_mask(texts, known, written)
    return replaced


def _day_text(days: int) -> str:
    """A day since the Unix epoch in the proleptic Gregorian calendar; the inverse of `_days`."""
    year, month, day = day_of(days)
    return f"{'-' if year < 0 else ''}{abs(year):04}-{month:02}-{day:02}"


def _time_text(micros: int) -> str:
    days, of_day = divmod(micros, _DAY)
    seconds, micros = divmod(of_day, _SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_day_text(days)} {hour:02}:{minute:02}:{second:02}.{micros:06}"


def _numbers(values: pa.Array[Any]) -> pa.Array[Any]:
    encoded = values.dictionary_encode()
    write = _java_float if pa.types.is_floating(values.type) else _plain_decimal
    texts = [
        None if x is None else write(x) for x in encoded.dictionary.cast(pa.string()).to_pylist()
    ]
    return array_of(texts, pa.string()).take(encoded.indices)


def _plain_decimal(text: str) -> str:
    return f"{Decimal(text):f}" if "E" in text else text


def _java_float(text: str) -> str:
    """The shortest text of a float in the shape of Java's `Double.toString`."""
    if text in ("nan", "-nan"):
        return "NaN"
    if text in ("inf", "-inf"):
        return text.replace("inf", "Infinity")
    number = Decimal(text)
    sign, digits, _ = number.as_tuple()
    if number == 0:
        return "-0.0" if sign else "0.0"
    exponent = number.adjusted()
    if -3 <= exponent < 7:
        plain = f"{number.normalize():f}"
        return plain if "." in plain else plain + ".0"
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{exponent}"


def partition_directory(values: Iterable[tuple[str, str | None]]) -> str:
    """The Hive-style directory, without a slash at the end, for column names and their texts.

    This is the directory's real name; the `path` of an `add` is its percent-encoded form.

    Example: ``[("a", "x/y"), ("b", None)]`` is ``a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__``.
    """
    return "/".join(
        f"{_escape(name)}={_escape(text) if text else HIVE_DEFAULT_PARTITION}"
        for name, text in values
    )


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def partition_texts(directory: str) -> tuple[tuple[str, str | None], ...]:
    """The column names and texts that a Hive-style directory names; the inverse of the above.

    Steps without a ``=`` name no column.

    Example: ``a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__`` is ``(("a", "x/y"), ("b", None))``.
    """
    found = []
    for step in directory.split("/"):
        name, equals, text = step.partition("=")
        if equals:
            known = text not in ("", HIVE_DEFAULT_PARTITION)
            found.append((unquote(name), unquote(text) if known else None))
    return tuple(found)
