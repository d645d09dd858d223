"""Arrow values made of Python's without Arrow's own conversion, where the type is a plain one.

The first time that Arrow converts a value of Python's it imports pandas, if that is installed: half
a second, of which the first query of a process should not consist. So the constants and the few
values that lie on the way to files and rows are made here from bytes, until pandas is there.
"""

from __future__ import annotations

import struct
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

from adelta._lazy_arrow import pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "array_of",
    "array_of_numpy",
    "arrow_is_ready",
    "column_of",
    "empty_batch",
    "empty_table",
    "null_of",
    "numpy_of",
    "places_of_values",
    "scalar_of",
    "table_of",
]

_pa: Any = pa  # the stubs do not know nulls of a type that is a variable
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOST_VALUES = 1 << 17  # of more Arrow's own conversion saves what pandas costs
_MOST_BYTES = 1 << 30
_FEW_ROWS = 1 << 12


@cache
def _formats() -> dict[pa.DataType, str]:
    return {
        pa.int8(): "b",
        pa.int16(): "h",
        pa.int32(): "i",
        pa.int64(): "q",
        pa.float32(): "f",
        pa.float64(): "d",
    }


@cache
def _offsets() -> dict[pa.DataType, str]:
    return {pa.string(): "i", pa.large_string(): "q", pa.binary(): "i", pa.large_binary(): "q"}


def arrow_is_ready() -> bool:
    """Whether Arrow turns Python's values into its own at once.

    The first time that it does so it imports pandas, where that is installed: half a second, during
    which other threads that ask for the same wait.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return not _is_pandas_installed()
    return not getattr(pandas.__spec__, "_initializing", False)


@cache
def _is_pandas_installed() -> bool:
    return find_spec("pandas") is not None


def array_of(values: Iterable[Any], data_type: pa.DataType) -> pa.Array[Any]:
    """`values` as Arrow's, in all like ``pa.array(values, data_type)``."""
    if not arrow_is_ready() and not hasattr(values, "__array__"):
        values = values if isinstance(values, list | tuple) else list(values)
        found = _made(values, data_type) if len(values) <= _MOST_VALUES else None
        if found is not None:
            return found
    return _arrows(values, data_type)


def column_of(values: Sequence[Any], data_type: pa.DataType) -> pa.Array[Any]:
    """As `array_of`, for a value for each row of batch after batch.

    Of many rows Arrow's own conversion, which is up to eight times as fast, soon saves what pandas
    costs.
    """
    return (array_of if len(values) <= _FEW_ROWS else _arrows)(values, data_type)


def array_of_numpy(values: Any) -> Any:
    """A vector of numpy's of numbers or truths as Arrow's, in all like ``pa.array(values)``."""
    import numpy as np  # opening a table needs none

    stored: Any
    if values.dtype == bool:
        kind, stored = pa.bool_(), np.packbits(values, bitorder="little")
    elif values.dtype.kind in "iuf" and values.dtype.isnative:
        kind, stored = _pa.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    else:
        return _arrows(values)
    return _pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(stored)])


def _arrows(values: Any, *data_type: pa.DataType) -> pa.Array[Any]:
    made: pa.Array[Any] = _pa.array(values, *data_type)
    return made


def numpy_of(column: Any) -> NDArray[Any]:
    """A column of Arrow's as a vector of numpy's, in all like its method `to_numpy`.

    It may be the column's own memory, which is read only.
    """
    import numpy as np

    kind = column.type
    is_plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if column.null_count or not is_plain:
        options = {} if isinstance(column, pa.ChunkedArray) else {"zero_copy_only": False}
        found: NDArray[Any] = column.to_numpy(**options)
        return found
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [_stored(chunk) for chunk in chunks if len(chunk)]
    if not parts:
        return np.zeros(0, kind.to_pandas_dtype())
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def places_of_values(column: Any) -> list[int]:
    """Where a column of Arrow's is not null, without Arrow's own functions."""
    found: list[int] = []
    start = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        valid, count = chunk.buffers()[0], len(chunk)
        if not chunk.null_count:
            found += range(start, start + count)
        elif chunk.null_count < count:
            found += (start + _unpacked(valid, chunk.offset, count).nonzero()[0]).tolist()
        start += count
    return found


def _stored(chunk: Any) -> NDArray[Any]:
    import numpy as np

    start, count, data = chunk.offset, len(chunk), chunk.buffers()[1]
    if not pa.types.is_boolean(chunk.type):
        dtype = np.dtype(chunk.type.to_pandas_dtype())
        return np.frombuffer(data, dtype, count, start * dtype.itemsize)
    return _unpacked(data, start, count).astype(bool)


def _unpacked(data: Any, start: int, count: int) -> NDArray[Any]:
    import numpy as np

    bits = np.frombuffer(data, np.uint8)[start // 8 : (start + count + 7) // 8]
    return np.unpackbits(bits, bitorder="little")[start % 8 : start % 8 + count]


def scalar_of(value: object, data_type: pa.DataType) -> Any:
    """`value` as Arrow's, in all like ``pa.scalar(value, data_type)``."""
    return null_of(data_type) if value is None else array_of([value], data_type)[0]


def null_of(data_type: pa.DataType) -> Any:
    """The null of a type."""
    return _pa.nulls(1, data_type)[0]


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """`rows` as Arrow's, in all like ``pa.Table.from_pylist(rows, schema)``."""
    columns = [array_of([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows."""
    return pa.RecordBatch.from_arrays([_pa.nulls(0, field.type) for field in schema], schema=schema)


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table of no rows, in all like ``schema.empty_table()``."""
    return pa.Table.from_arrays([_pa.nulls(0, field.type) for field in schema], schema=schema)


def _made(values: Sequence[Any], data_type: pa.DataType) -> pa.Array[Any] | None:
    """None where values are not what the type has, or the type is none of the plain ones."""
    known = [value for value in values if value is not None]
    if not known:
        return cast("pa.Array[Any]", _pa.nulls(len(values), data_type))
    kinds = {type(value) for value in known}
    children: list[pa.Array[Any] | None] = []
    buffers: tuple[pa.Buffer, ...] | None
    if pa.types.is_struct(data_type) and kinds == {dict}:
        buffers, children = (), _fields_of(values, data_type)
    elif pa.types.is_list(data_type) and kinds <= {list, tuple}:
        buffers = _ends_of(values)
        children = [_made([item for each in known for item in each], data_type.value_type)]
    elif pa.types.is_map(data_type) and kinds <= {dict, list}:
        buffers, children = _ends_of(values), [_entries_of(known, data_type)]
    else:
        buffers = _buffers(values, data_type, kinds)
    if buffers is None or any(child is None for child in children):
        return None
    valid = None if len(known) == len(values) else _bits([v is not None for v in values])
    made: pa.Array[Any] = _pa.Array.from_buffers(
        data_type, len(values), [valid, *buffers], children=children or None
    )
    return made


def _ends_of(values: Sequence[Any]) -> tuple[pa.Buffer]:
    ends = list(accumulate((len(each or ()) for each in values), initial=0))
    return (pa.py_buffer(struct.pack(f"={len(ends)}i", *ends)),)


def _fields_of(values: Sequence[Any], data_type: Any) -> list[pa.Array[Any] | None]:
    rows = [value or {} for value in values]
    return [_made([row.get(field.name) for row in rows], field.type) for field in data_type]


def _entries_of(maps: Sequence[Any], data_type: Any) -> pa.Array[Any] | None:
    pairs: list[Any] = []
    for each in maps:
        pairs += each.items() if isinstance(each, dict) else each
    if not all(
        isinstance(pair, tuple) and len(pair) == 2 and pair[0] is not None for pair in pairs
    ):
        return None
    keys = _made([key for key, _ in pairs], data_type.key_type)
    items = _made([item for _, item in pairs], data_type.item_type)
    if keys is None or items is None:
        return None
    fields = [data_type.key_field, data_type.item_field]
    made: pa.Array[Any] = _pa.StructArray.from_arrays([keys, items], fields=fields)
    return made


def _buffers(
    values: Sequence[Any], data_type: pa.DataType, kinds: set[type]
) -> tuple[pa.Buffer, ...] | None:
    """What Arrow keeps of values that are all of one of Python's types, and of nulls."""
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    form = _formats().get(data_type)
    if form is not None and kind is (float if form in "fd" else int):
        return _of_numbers(values, form)
    if kind is int and (pa.types.is_date32(data_type) or pa.types.is_timestamp(data_type)):
        return _of_numbers(values, "i" if pa.types.is_date32(data_type) else "q")
    if kind is Decimal and pa.types.is_decimal128(data_type):
        return _of_decimals(values, data_type)
    if kind is bool and data_type == pa.bool_():
        return (_bits(values),)
    if kind is date and data_type == pa.date32():
        return _of_numbers([v and v.toordinal() - _EPOCH.toordinal() for v in values], "i")
    if kind is datetime and data_type in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        return _of_moments(values, has_zone=data_type != pa.timestamp("us"))
    if kind is str and data_type in (pa.string(), pa.large_string()):
        try:
            return _of_texts(values, _offsets()[data_type])
        except UnicodeEncodeError:
            return None
    if kind is bytes and data_type in (pa.binary(), pa.large_binary()):
        return _of_bytes(values, _offsets()[data_type])
    return None


def _bits(values: Sequence[object]) -> pa.Buffer:
    bits = "".join("1" if value else "0" for value in reversed(values))
    return pa.py_buffer(int(bits or "0", 2).to_bytes((len(values) + 7) // 8, "little"))


def _of_numbers(values: Sequence[float | None], form: str) -> tuple[pa.Buffer] | None:
    try:
        return (
            pa.py_buffer(
                struct.pack(f"={len(values)}{form}", *(0 if v is None else v for v in values))
            ),
        )
    except (struct.error, OverflowError):
        return None


def _of_decimals(values: Sequence[Any], data_type: Any) -> tuple[pa.Buffer] | None:
    stored = []
    for value in values:
        sign, digits, exponent = (value or Decimal(0)).as_tuple()
        if not isinstance(exponent, int) or exponent + data_type.scale < 0:
            return None
        whole = int("".join(map(str, digits))) * 10 ** (exponent + data_type.scale)
        if whole >= 10**data_type.precision:
            return None
        stored.append((-whole if sign else whole).to_bytes(16, "little", signed=True))
    return (pa.py_buffer(b"".join(stored)),)


def _of_moments(values: Sequence[Any], *, has_zone: bool) -> tuple[pa.Buffer] | None:
    if any(v is not None and (v.tzinfo is not None) != has_zone for v in values):
        return None
    epoch = _EPOCH if has_zone else _EPOCH.replace(tzinfo=None)
    return _of_numbers([v and (v - epoch) // _MICROSECOND for v in values], "q")


def _of_texts(values: Sequence[str | None], form: str) -> tuple[pa.Buffer, pa.Buffer] | None:
    texts = [value or "" for value in values]
    whole = "".join(texts)
    if not whole.isascii() or len(whole) > _MOST_BYTES:
        return _of_bytes([text.encode() for text in texts], form)
    ends = accumulate(map(len, texts), initial=0)
    offsets = struct.pack(f"={len(texts) + 1}{form}", *ends)
    return pa.py_buffer(offsets), pa.py_buffer(whole.encode())


def _of_bytes(values: Sequence[bytes | None], form: str) -> tuple[pa.Buffer, pa.Buffer] | None:
    ends = list(accumulate((len(value or b"") for value in values), initial=0))
    if ends[-1] > _MOST_BYTES:
        return None
    offsets = struct.pack(f"={len(ends)}{form}", *ends)
    return pa.py_buffer(offsets), pa.py_buffer(b"".join(value or b"" for value in values))
