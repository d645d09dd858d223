"""Statistics of the rows written to one file, taken from the Arrow data itself.

A Parquet footer leaves NaN out and may cut long texts short; what is collected here is exact:

* `null_count` counts the rows in which the leaf has no value, also because a struct above it is
  null.
* `min` and `max` are the least and the greatest value that is neither null nor NaN, texts in the
  order of their UTF-8 bytes; `has_nan` says whether there was a NaN. A minimum of zero is -0.0 and
  a maximum of zero +0.0, so that both zeros lie between them in any order.
* Lists and maps have a null count alone.

Arrow's writer compares most values anyway, for the footer. What the footer says exactly is taken
from there: bounds of whole numbers, decimals, dates, timestamps and texts that are not too long.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import scalar_of
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, SchemaMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow.parquet as pq

_pa: Any = pa  # the stubs know no values of a type that is a variable
_LONGEST_TEXT = 4096  # bytes of which Arrow's footers have bounds

__all__ = ["ColumnStatistics", "FileStatistics", "StatisticsCollector", "StatisticsTree"]


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one leaf; `min` and `max` are None where there is nothing to compare."""

    min: pa.Scalar[Any] | None
    max: pa.Scalar[Any] | None
    null_count: int
    has_nan: bool


StatisticsTree: TypeAlias = "Mapping[str, ColumnStatistics | StatisticsTree]"


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """How many rows there are, and the statistics of the leaves asked for.

    `columns` goes by field name; a struct's fields are a mapping of their own.
    """

    num_rows: int
    columns: StatisticsTree


class StatisticsCollector:
    """Collects statistics over the batches of one file.

    Args:
        schema: the schema that every batch has.
        leaves: paths, by struct field names, of the columns wanted: anything but structs, unless
            they are marked as the storage of an extension type.
        bounded: those of `leaves` that get `min` and `max` too. By default every one whose type is
            a number, a decimal, a date, a time, a timestamp or a text.

    Raises:
        InvalidOptionError: a path names no column or a struct, or bounds are asked for a type that
            has none.
    """

    def __init__(
        self,
        schema: pa.Schema,
        leaves: Sequence[tuple[str, ...]],
        *,
        bounded: Sequence[tuple[str, ...]] | None = None,
    ) -> None:
        self._names = schema.names
        self._num_rows = 0
        self._left: list[tuple[int, dict[str, _Leaf]]] = []  # to the footer, of so many rows
        self._root = _Struct(-1)
        wanted = None if bounded is None else set(bounded)
        for path in leaves:
            self._add(schema, path, wanted)
        stray = (wanted or set()).difference(leaves)
        if stray:
            raise InvalidOptionError(
                f"bounds are asked for {_text(min(stray))}, which is not among the leaves"
            )

    @property
    def num_rows(self) -> int:
        """Rows seen so far."""
        return self._num_rows

    def update(self, data: pa.RecordBatch | pa.Table, *, footer_follows: bool = False) -> None:
        """Take in more rows. CPU-heavy: call it in a worker thread, from one at a time.

        With `footer_follows` bounds that a footer tells exactly are left to `complete`; the rows
        are a row group of its file.

        Raises:
            SchemaMismatchError: the columns are not those of the schema.
        """
        if data.schema.names != self._names:
            raise SchemaMismatchError(
                f"statistics are collected of the columns {self._names}, and the data has "
                f"{data.schema.names}"
            )
        self._num_rows += data.num_rows
        left: dict[str, _Leaf] = {}
        for name, part in self._root.parts.items():
            column = data.column(part.index)
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else (column,)
            if footer_follows and isinstance(part, _Leaf) and part.is_told(chunks):
                left[name] = part
                part.null_count += column.null_count
                continue
            for chunk in chunks:
                part.update(chunk)
        if footer_follows:
            self._left.append((data.num_rows, left))

    def complete(self, metadata: pq.FileMetaData) -> None:
        """Take in what the footer of the file says of rows whose bounds were left to it."""
        places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
        groups = iter(range(metadata.num_row_groups))
        for rows, left in self._left:
            while rows > 0:  # one row group, or several where there are more than Arrow puts in one
                chunks = metadata.row_group(next(groups))
                rows -= chunks.num_rows
                for name, part in left.items():
                    part.take(chunks.column(places[name]))
        self._left.clear()

    def is_told_by(self, group: Any, first_leaf: int) -> bool:
        """Whether the footer tells of a row group of the same writer all that `update` would see.

        The columns begin at the footer's `first_leaf`.
        """
        return all(
            isinstance(part, _Leaf)
            and not pa.types.is_nested(part.type)
            and part.is_told_by(group.column(first_leaf + part.index))
            for part in self._root.parts.values()
        )

    def take_row_group(self, group: Any, first_leaf: int) -> None:
        """Take in a row group of another file, by whose footer it `is_told_by`."""
        self._num_rows += group.num_rows
        for part in self._root.parts.values():
            assert isinstance(part, _Leaf)
            chunk = group.column(first_leaf + part.index)
            part.null_count += chunk.statistics.null_count
            if part.bounded:
                part.take(chunk)

    def result(self) -> FileStatistics:
        """The statistics of all rows so far."""
        return FileStatistics(self._num_rows, self._root.result())

    def _add(
        self, schema: pa.Schema, path: tuple[str, ...], bounded: set[tuple[str, ...]] | None
    ) -> None:
        if not path:
            raise InvalidOptionError("statistics are asked for an empty path: name a column")
        parent, fields = self._root, list(schema)
        for depth, step in enumerate(path[:-1], 1):
            index, data_type = _child(fields, path, step)
            if not pa.types.is_struct(data_type):
                raise InvalidOptionError(
                    f"statistics are asked for {_text(path)}, but {_text(path[:depth])} is "
                    f"{data_type}, no struct"
                )
            below = parent.parts.setdefault(step, _Struct(index))
            if not isinstance(below, _Struct):
                raise InvalidOptionError(
                    f"statistics are asked for {_text(path)} and for {_text(path[:depth])} as a "
                    "whole; choose one of these"
                )
            parent, fields = below, [data_type.field(i) for i in range(data_type.num_fields)]
        index, data_type = _child(fields, path, path[-1])
        if pa.types.is_struct(data_type) and not _is_extension(fields[index]):
            raise InvalidOptionError(
                f"statistics are asked for {_text(path)}, which is a struct: name its fields"
            )
        has_bounds = _has_bounds_by_default(data_type) if bounded is None else path in bounded
        if has_bounds and not (_has_bounds_by_default(data_type) or _has_order(data_type)):
            raise InvalidOptionError(
                f"bounds are asked for {_text(path)}, but values of type {data_type} are not "
                "compared"
            )
        parent.parts[path[-1]] = _Leaf(index, has_bounds, data_type)


def _is_extension(field: pa.Field[Any]) -> bool:
    return b"ARROW:extension:name" in (field.metadata or {})


@dataclass(slots=True)
class _Leaf:
    """What is known so far of one leaf."""

    index: int
    bounded: bool
    type: pa.DataType
    unknown: bool = False  # what the footer should have told
    null_count: int = 0
    has_nan: bool = False
    low: pa.Scalar[Any] | None = None
    high: pa.Scalar[Any] | None = None

    def update(self, array: pa.Array[Any]) -> None:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if isinstance(array, pa.DictionaryArray):
            if array.dictionary.null_count:
                array = array.dictionary_decode()
            self.null_count += array.null_count
            if not self.bounded:
                return
            if isinstance(array, pa.DictionaryArray):
                array = array.dictionary.take(pc.unique(array.indices.drop_null()))
        else:
            self.null_count += array.null_count
        if not self.bounded or array.null_count == len(array):
            return
        array = _comparable(array)
        if pa.types.is_floating(array.type):
            nan = pc.is_nan(array)
            if pc.any(nan).as_py():
                self.has_nan = True
                array = array.filter(pc.invert(nan))
        extremes = pc.min_max(array)
        self._reach(extremes["min"], extremes["max"])

    def _reach(self, low: pa.Scalar[Any], high: pa.Scalar[Any]) -> None:
        if low.is_valid:
            self.low = low if self.low is None else _extremes((self.low, low))["min"]
            self.high = high if self.high is None else _extremes((self.high, high))["max"]

    def is_told(self, chunks: Sequence[pa.Array[Any]]) -> bool:
        """Whether the footer will tell the bounds of these rows, which are a row group."""
        if not (self.bounded and _is_told(self.type)):
            return False
        if not pa.types.is_string(self.type):
            return True
        lengths: Any = pc.binary_length
        texts = (c.dictionary if isinstance(c, pa.DictionaryArray) else c for c in chunks)
        longest = (pc.max(lengths(each)).as_py() or 0 for each in texts)
        return max(longest, default=0) <= _LONGEST_TEXT

    def is_told_by(self, chunk: Any) -> bool:
        """Whether the footer tells of a row group's column all there is to know."""
        found = chunk.statistics
        if found is None or not found.has_null_count:
            return False
        known = found.has_min_max or found.null_count == chunk.num_values
        return not self.bounded or (_is_told(self.type) and known)

    def take(self, chunk: Any) -> None:
        """Take in what the footer says of a row group's column."""
        found = chunk.statistics
        if not chunk.num_values or (found is not None and found.null_count == chunk.num_values):
            return
        if found is None or not found.has_min_max:
            self.unknown = True
            return
        whole = pa.types.is_string(self.type) or pa.types.is_decimal(self.type)
        try:  # numbers say what dates and times cannot: years that Python does not count
            low, high = (found.min, found.max) if whole else (found.min_raw, found.max_raw)
        except ValueError:  # text that is none
            self.unknown = True
            return
        self._reach(scalar_of(low, self.type), scalar_of(high, self.type))

    def result(self) -> ColumnStatistics:
        low, high = (None, None) if self.unknown else (self.low, self.high)
        if low is not None and high is not None and pa.types.is_floating(low.type):
            low = scalar_of(-0.0, low.type) if low.as_py() == 0 else low
            high = scalar_of(0.0, high.type) if high.as_py() == 0 else high
        return ColumnStatistics(low, high, self.null_count, self.has_nan)


@dataclass(slots=True)
class _Struct:
    """The parts of a struct, or of the whole row, that statistics are wanted of."""

    index: int
    parts: dict[str, _Leaf | _Struct] = field(default_factory=dict)

    def update(self, array: pa.Array[Any]) -> None:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        for part in self.parts.values():
            # Unlike StructArray.field this puts the struct's own nulls into the child.
            part.update(pc.struct_field(array, [part.index]))

    def result(self) -> StatisticsTree:
        return {name: part.result() for name, part in self.parts.items()}


def _extremes(scalars: Iterable[pa.Scalar[Any]]) -> Any:
    return pc.min_max(_pa.concat_arrays([_pa.repeat(scalar, 1) for scalar in scalars]))


def _comparable(array: pa.Array[Any]) -> pa.Array[Any]:
    """The array in a type that Arrow compares."""
    data_type = array.type
    if pa.types.is_string_view(data_type):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(data_type):
        return array.cast(pa.large_binary())
    if pa.types.is_float16(data_type):
        return array.cast(pa.float32())
    if pa.types.is_decimal(data_type) and data_type.bit_width < 128:
        return array.cast(pa.decimal128(data_type.precision, data_type.scale))
    return array


def _has_bounds_by_default(data_type: pa.DataType) -> bool:
    types = pa.types
    if isinstance(data_type, pa.DictionaryType):
        return _has_bounds_by_default(data_type.value_type)
    return (
        types.is_integer(data_type)
        or types.is_floating(data_type)
        or types.is_decimal(data_type)
        or types.is_date(data_type)
        or types.is_time(data_type)
        or types.is_timestamp(data_type)
        or types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_string_view(data_type)
    )


def _is_told(data_type: pa.DataType) -> bool:
    """Whether footers tell the bounds of columns of a type exactly."""
    types = pa.types
    return (
        types.is_signed_integer(data_type)
        or types.is_decimal128(data_type)
        or types.is_date32(data_type)
        or (isinstance(data_type, pa.TimestampType) and data_type.unit == "us")
        or types.is_string(data_type)
    )


def _has_order(data_type: pa.DataType) -> bool:
    """Whether a caller may ask for bounds that there are none of by default."""
    types = pa.types
    if isinstance(data_type, pa.DictionaryType):
        return _has_order(data_type.value_type)
    return (
        types.is_boolean(data_type)
        or types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_binary_view(data_type)
        or types.is_fixed_size_binary(data_type)
    )


def _child(
    fields: Sequence[pa.Field[Any]], path: tuple[str, ...], step: str
) -> tuple[int, pa.DataType]:
    """Place and storage type of the field called `step`."""
    for index, child in enumerate(fields):
        if child.name == step:
            data_type = child.type
            if isinstance(data_type, pa.BaseExtensionType):
                data_type = data_type.storage_type
            return index, data_type
    raise InvalidOptionError(
        f"statistics are asked for {_text(path)}, and the schema has no such column"
    )


def _text(path: tuple[str, ...]) -> str:
    return ".".join(path)
