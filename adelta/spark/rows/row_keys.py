"""By which columns it is known which rows of a table are meant that only Spark finds.

An expression says the same of two rows that are alike in the columns which it names. So what these
hold stands for all rows that hold it, which adelta finds by it in the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql import types as s

from adelta._dataclasses import dataclass
from adelta.errors import InvalidExpressionError
from adelta.spark.side import side_of
from adelta.spark.translate.identifiers import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["RowKeys", "equal_if_alike", "named_by", "text_of"]


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The columns of a table by which it is known which of its rows are meant.

    Of values that are equal, as 0.0 and -0.0 are and some texts by a collation, an expression may
    tell one from the other. So a column of such numbers is two keys, and texts are compared as they
    are, as adelta does.
    """

    fields: tuple[s.StructField, ...]

    def columns(self, prefix: str, table: str) -> list[Column]:
        """The keys of rows of `table`, under names that begin with `prefix`."""
        keys = [_exact(f.col(quoted((table, each.name))), each.dataType) for each in self.fields]
        numbers = [f.col(f"{quoted((table,))}.{name}") for name in self._numbers()]
        keys += [f.when(number == 0, number.cast("string")) for number in numbers]
        return [key.alias(f"{prefix}{index}") for index, key in enumerate(keys)]

    def union(self, other: RowKeys) -> RowKeys:
        """The columns of both."""
        return RowKeys(tuple(dict.fromkeys((*self.fields, *other.fields))))

    def names(self, prefix: str) -> list[str]:
        """What `columns` are called."""
        return [f"{prefix}{index}" for index in range(len(self.fields) + len(self._numbers()))]

    def matched(self, target: str, source: str, prefix: str) -> str:
        """The condition that a row of one side has the keys that a row of the other one holds."""
        of_target = [quoted((target, field.name)) for field in self.fields]
        numbers = [f"{quoted((target,))}.{name}" for name in self._numbers()]
        of_target += [f"CASE WHEN {name} = 0 THEN CAST({name} AS STRING) END" for name in numbers]
        pairs = zip(of_target, self.names(prefix), strict=True)
        return " AND ".join(f"{key} <=> {quoted((source, name))}" for key, name in pairs) or "true"

    def _numbers(self) -> list[str]:
        kinds = (s.FloatType, s.DoubleType)
        return [quoted((each.name,)) for each in self.fields if isinstance(each.dataType, kinds)]


def text_of(rows: DataFrame, column: Column) -> str:
    """What the history says of a column over some rows, which Spark understands."""
    return side_of(rows.sparkSession).history_text(rows, column)


def named_by(target: DataFrame, rows: DataFrame, columns: Sequence[Column], name: str) -> RowKeys:
    """The columns of `target` by which it is known what others are.

    `rows` are those of the target, or begin with its columns; in them it is called `name`. Through
    Spark Connect the keys may be some more.

    Raises:
        AnalysisException: Spark does not understand one of the columns.
        InvalidExpressionError: one is another value whenever it is computed, or is named by what
            does not tell rows apart.
    """
    places, settled = side_of(rows.sparkSession).columns_named(target, rows, columns, name)
    if not settled:
        raise InvalidExpressionError(
            "a condition or value is another one whenever it is computed, or is about more than "
            "one row, which a change of a Delta table cannot go by: write its values to a table, "
            "and merge that"
        )
    found = [field for place, field in enumerate(target.schema.fields) if place in places]
    for field in found:
        if not _tells_rows_apart(field.dataType):
            raise InvalidExpressionError(
                f"the column {field.name} is a {field.dataType.simpleString()}, by which rows are "
                "not found that only Spark computes: compute what is asked in a DataFrame, and "
                "merge that"
            )
    return RowKeys(tuple(found))


def equal_if_alike(data_type: s.DataType) -> bool:
    """Whether values that are equal are the same to every expression; else their texts tell."""
    if isinstance(data_type, s.StringType):
        return getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"
    return not isinstance(data_type, s.FloatType | s.DoubleType)


def _exact(column: Column, data_type: s.DataType) -> Column:
    collated = isinstance(data_type, s.StringType) and not equal_if_alike(data_type)
    return column.cast(s.StringType()) if collated else column


def _tells_rows_apart(data_type: s.DataType, *, within: bool = False) -> bool:
    """Whether rows are found by such values; what is `within` others has no key of its own."""
    match data_type:
        case s.ArrayType():
            return _tells_rows_apart(data_type.elementType, within=True)
        case s.StructType():
            return all(_tells_rows_apart(each.dataType, within=True) for each in data_type)
        case s.MapType() | s.VariantType() | s.UserDefinedType():
            return False
    return not within or equal_if_alike(data_type)
