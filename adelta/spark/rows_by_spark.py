"""DELETE and UPDATE by what only Spark computes, such as functions of the user's own.

A condition says of two rows the same that are alike in the columns which it names. So Spark finds
what these hold in the rows for which it is true, and the rows of the table that hold it are merged,
as it is with statements (`NamedRows.java`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as s

from adelta.errors import InvalidExpressionError
from adelta.spark.identifiers import quoted
from adelta.spark.names.merging import merge_rows, rows_said
from adelta.spark.native import jvm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from adelta.operations.merge.metrics import MergeMetrics
    from adelta.spark.table_access import TableAccess

__all__ = ["NOT_ADELTAS", "change_by_spark"]

NOT_ADELTAS = (InvalidExpressionError, UnsupportedOperationException)
"""How it shows that adelta does not compute an expression."""

_UNSETTLED = re.compile(
    r"\bwindow \{|\b(?:rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|"
    r"spark_partition_id|input_file_name|over)(?:\"|\s*\()",
    re.IGNORECASE,
)
_FUNCTION = "common_inline_user_defined_function {"


def change_by_spark(
    access: TableAccess,
    name: str | None,
    verb: str,
    condition: Column | str | None,
    values: Mapping[tuple[str, ...], Column | str],
    reason: Exception,
) -> MergeMetrics:
    """Delete or update the rows that Spark finds, to what it computes, in one commit.

    Expressions may name the table `name`; `values` are for columns, or fields in them. `reason` is
    why adelta does not compute them itself, and is raised where Spark does not, either.

    Raises:
        InvalidExpressionError: an expression is another value whenever it is computed.
    """
    version = access.learn(_version)
    df = access.rows(version)
    if name is not None:
        df = df.alias(name)
    computed = [_column(value) for value in values.values()]
    where = f.lit(True) if condition is None else _column(condition)
    try:
        named, text = _named(df, [*computed, where])
        keys = [f.col(quoted((field.name,))) for field in named]
        # Of numbers that are equal, as 0.0 and -0.0 are, an expression may tell one from the other.
        keys += [
            f.when(key == 0, key.cast("string"))
            for field, key in zip(named, keys, strict=True)
            if isinstance(field.dataType, s.FloatType | s.DoubleType)
        ]
        found = df.where(where).select(
            f.lit(True).alias("k"),
            *(key.alias(f"k{index}") for index, key in enumerate(keys)),
            *(value.alias(f"v{index}") for index, value in enumerate(computed)),
        )
        found = found.dropDuplicates(["k", *(f"k{index}" for index in range(len(keys)))])
    except AnalysisException as error:
        raise reason from error
    of_target = [f"target.{quoted((field.name,))}" for field in named]
    of_target += [
        f"CASE WHEN {key} = 0 THEN CAST({key} AS STRING) END"
        for field, key in zip(named, of_target, strict=True)
        if isinstance(field.dataType, s.FloatType | s.DoubleType)
    ]
    on = [f"{key} <=> source.k{index}" for index, key in enumerate(of_target)]
    said = {
        "on": " AND ".join(on) or "true",
        "predicate": condition if isinstance(condition, str) else text,
        "values": [[quoted(each), f"source.v{index}"] for index, each in enumerate(values)],
    }
    merge, to = rows_said(access.spark, verb, said), access.to_change()
    return merge_rows(access.spark, to.uri, version, merge, found, to.storage_options, to.catalog)


async def _version(table: Any) -> int:
    found: int = (await table.snapshot()).version
    return found


def _column(value: Column | str) -> Column:
    return f.expr(value) if isinstance(value, str) else value


def _named(df: DataFrame, columns: Sequence[Column]) -> tuple[list[s.StructField], str]:
    """The columns of a DataFrame by which it is known what others are; the text of the last one.

    Through Spark Connect they may be some more.
    """
    if hasattr(df, "_jdf"):
        names, settled, texts = jvm.columns_named(df, columns)
        text = texts[-1]
    else:
        _ = df.select(*columns).schema  # which Spark refuses if it does not understand them
        names, settled = _named_remotely(df, columns)
        text = str(columns[-1]).removeprefix("Column<'").removesuffix("'>")
    if not settled:
        raise InvalidExpressionError(
            "a condition or value is another one whenever it is computed, or is about more than "
            "one row, which a change of a Delta table cannot go by: write its values to a table, "
            "and merge that"
        )
    found = [field for field in df.schema.fields if field.name in names]
    for field in found:
        if not _tells_rows_apart(field.dataType):
            raise InvalidExpressionError(
                f"the column {field.name} is a {field.dataType.simpleString()}, by which rows are "
                "not found that only Spark computes: compute what is asked in a DataFrame, and "
                "merge that"
            )
    return found, text


def _named_remotely(df: DataFrame, columns: Sequence[Column]) -> tuple[set[str], bool]:
    """The columns of a DataFrame of Spark Connect's that others may name, and whether these settle.

    What a client sends of an expression has the name of each column in it, as it was written.
    """
    remote: Any = df.sparkSession
    plans: list[Any] = [column.to_plan(remote.client) for column in columns]  # type: ignore[operator]
    sent = b"\n".join(plan.SerializeToString() for plan in plans).decode(errors="replace").lower()
    told = "\n".join(map(str, plans))
    settled = _UNSETTLED.search(told) is None
    settled = settled and told.count(_FUNCTION) == told.count("deterministic: true")
    if "*" in told or "unresolved_star" in told:
        return set(df.columns), settled
    names = {
        each
        for each in df.columns
        if each.lower() in sent or each.lower().replace("`", "``") in sent
    }
    return names or set(df.columns), settled


def _tells_rows_apart(data_type: s.DataType) -> bool:
    """Whether values that are equal are the same to every expression, but for zeros."""
    if isinstance(data_type, s.StringType):
        return getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"
    return not isinstance(
        data_type, s.ArrayType | s.MapType | s.StructType | s.VariantType | s.UserDefinedType
    )
