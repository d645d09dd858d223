"""Rows that are for columns of a table by their order, and so are the fields of their structs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql import types as s

from adelta.spark.translate.identifiers import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["by_position"]


def by_position(rows: DataFrame, names: Sequence[str], table: s.StructType) -> DataFrame:
    """The rows, under these names; fields have those of the table's, and keep their types.

    A NULL has the table's type. A struct of more fields than the table's, or fewer, stays as it is.
    """
    known = {field.name.lower(): field.dataType for field in table}
    rows = rows.toDF(*names)
    wanted = [
        _renamed(field.dataType, known.get(field.name.lower(), field.dataType))
        for field in rows.schema
    ]
    if all(field.dataType == kind for field, kind in zip(rows.schema, wanted, strict=True)):
        return rows
    columns = (f.col(quoted([name])) for name in rows.columns)
    return rows.select(
        *(
            column if field.dataType == kind else column.cast(kind).alias(field.name)
            for column, field, kind in zip(columns, rows.schema, wanted, strict=True)
        )
    )


def _renamed(have: s.DataType, want: s.DataType) -> s.DataType:
    match have, want:
        case s.NullType(), _:
            return want
        case s.StructType(), s.StructType() if len(have) == len(want):
            pairs = zip(have, want, strict=True)
            return s.StructType(
                [
                    s.StructField(to.name, _renamed(one.dataType, to.dataType), one.nullable)
                    for one, to in pairs
                ]
            )
        case s.ArrayType(), s.ArrayType():
            return s.ArrayType(_renamed(have.elementType, want.elementType), have.containsNull)
        case s.MapType(), s.MapType():
            return s.MapType(
                _renamed(have.keyType, want.keyType),
                _renamed(have.valueType, want.valueType),
                have.valueContainsNull,
            )
    return have
