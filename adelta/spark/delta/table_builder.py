"""Builders of tables: what they are to be like, told step by step, as delta-spark's are."""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from pyspark.sql import types as s

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.spark.exceptions import WrongTypeError, known_as_of, raises_as_spark, with_condition
from adelta.spark.rows.target import Target
from adelta.spark.side import side_of
from adelta.spark.tables.creation import TableWish, create_as_wished
from adelta.spark.translate.not_of_java import NotOfJava

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from adelta.spark.tables.creation import CreationMode

__all__ = ["DeltaColumnBuilder", "DeltaTableBuilder", "IdentityGenerator"]

_Table = TypeVar("_Table")
_GENERATION = "delta.generationExpression"
_LIMITED = re.compile(r"\b(var)?char(acter)?\s*\(", re.IGNORECASE)


@dataclass
class IdentityGenerator:
    """Numbers for rows: `start`, ``start + step`` and so on; changeable, as delta-spark's."""

    start: int = 1
    step: int = 1


class DeltaColumnBuilder(NotOfJava):
    """A column, told step by step: each step returns the builder, and `build` the column.

    Made by `DeltaTable.columnBuilder`, for `DeltaTableBuilder.addColumn`.
    """

    def __init__(self, spark: SparkSession, colName: str) -> None:
        self._spark = spark
        self._name = _text("Column name", colName)
        self._type: s.DataType | None = None
        self._nullable = True
        self._metadata: dict[str, Any] = {}

    def dataType(self, dataType: str | s.DataType) -> DeltaColumnBuilder:
        """Its type, as Spark SQL writes it or as PySpark has it."""
        self._type = _data_type(self._spark, dataType)
        return self

    def nullable(self, nullable: bool) -> DeltaColumnBuilder:
        """Whether it may hold nulls."""
        if type(nullable) is not bool:
            _wrong("Column nullable must be bool.", nullable)
        self._nullable = nullable
        return self

    def generatedAlwaysAs(self, expr: str | IdentityGenerator) -> DeltaColumnBuilder:
        """Its value, by an expression over the other columns, or by numbers that rows are given."""
        if isinstance(expr, IdentityGenerator):
            return self._identity(expr, explicit=False)
        if type(expr) is not str:
            _wrong("Generated always as expression must be str or IdentityGenerator.", expr)
        self._metadata[_GENERATION] = expr
        return self

    def generatedAlwaysAsIdentity(self, start: int = 1, step: int = 1) -> DeltaColumnBuilder:
        """Numbers, which rows cannot bring themselves."""
        return self._identity(IdentityGenerator(start, step), explicit=False)

    def generatedByDefaultAsIdentity(self, start: int = 1, step: int = 1) -> DeltaColumnBuilder:
        """Numbers for rows that bring none themselves."""
        return self._identity(IdentityGenerator(start, step), explicit=True)

    def comment(self, comment: str) -> DeltaColumnBuilder:
        """What it is, for people."""
        self._metadata["comment"] = _text("Column comment", comment)
        return self

    @raises_as_spark
    def build(self) -> s.StructField:
        """The column.

        Raises:
            InvalidOptionError: it has no type, or one that its values cannot have.
        """
        if self._type is None:
            raise InvalidOptionError(f"column {self._name!r} has no type; say dataType(...)")
        if "delta.identity.start" in self._metadata:
            if _GENERATION in self._metadata:
                raise InvalidOptionError(
                    f"column {self._name!r} is to number rows and to be computed as well; choose "
                    "one of them"
                )
            if not isinstance(self._type, s.LongType):
                raise InvalidOptionError(
                    f"column {self._name!r} is to number rows, so it is a BIGINT, not a "
                    f"{self._type.simpleString()}",
                    reason="identity_column_type",
                )
        return s.StructField(self._name, self._type, self._nullable, dict(self._metadata))

    def _identity(self, numbers: IdentityGenerator, *, explicit: bool) -> DeltaColumnBuilder:
        if numbers.step == 0:
            raise InvalidOptionError(
                "Column identity generation requires step to be non-zero: rows would all get the "
                "same number"
            )
        self._metadata |= {
            "delta.identity.start": numbers.start,
            "delta.identity.step": numbers.step,
            "delta.identity.allowExplicitInsert": explicit,
        }
        return self


@dataclass
class DeltaTableBuilder(NotOfJava, Generic[_Table]):
    """A table, told step by step: each step returns the builder, and `execute` makes the table.

    Made by `DeltaTable.create` and its like. A name or a location is needed, or both.
    """

    _spark: SparkSession
    _open: Callable[[Target], _Table] = field(repr=False)
    _mode: CreationMode
    _wish: TableWish = field(default_factory=TableWish)

    def tableName(self, identifier: str) -> DeltaTableBuilder[_Table]:
        """The name by which the session's catalog will know it; or ``delta.`path` ``."""
        return self._with(name=_text("Identifier", identifier))

    def location(self, location: str) -> DeltaTableBuilder[_Table]:
        """Where it is to be: a path, or a URI of a store."""
        return self._with(location=_text("Location", location))

    def comment(self, comment: str) -> DeltaTableBuilder[_Table]:
        """What it is, for people."""
        return self._with(comment=_text("Table comment", comment))

    def addColumn(
        self,
        colName: str | s.StructField,
        dataType: str | s.DataType | None = None,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder[_Table]:
        """A column behind those added before: by its name and type, or as a builder has built it.

        `generatedAlwaysAs` computes it by an expression, or numbers rows; `generatedByDefaultAs`
        numbers rows that bring no number themselves.
        """
        if isinstance(colName, s.StructField):
            return self._with(columns=(*self._wish.columns, colName))
        column = DeltaColumnBuilder(self._spark, colName)
        if type(dataType) is not str and not isinstance(dataType, s.DataType):
            _wrong("Column data type must be str or DataType.", dataType)
        column.dataType(dataType).nullable(nullable)
        if generatedAlwaysAs is not None and generatedByDefaultAs is not None:
            raise InvalidOptionError(
                "generatedByDefaultAs and generatedAlwaysAs cannot both be set; choose one of them"
            )
        if generatedAlwaysAs is not None:
            column.generatedAlwaysAs(generatedAlwaysAs)
        elif isinstance(generatedByDefaultAs, IdentityGenerator):
            column.generatedByDefaultAsIdentity(
                generatedByDefaultAs.start, generatedByDefaultAs.step
            )
        elif generatedByDefaultAs is not None:
            _wrong(
                "Generated by default expression must be IdentityGenerator.", generatedByDefaultAs
            )
        if comment is not None:
            column.comment(comment)
        return self._with(columns=(*self._wish.columns, column.build()))

    def addColumns(self, cols: s.StructType | list[s.StructField]) -> DeltaTableBuilder[_Table]:
        """Columns as another schema has them, behind those added before."""
        if isinstance(cols, list):
            for each in cols:
                if type(each) is not s.StructField:
                    _wrong("Column in existing schema must be StructField.", each)
        elif type(cols) is not s.StructType:
            _wrong("Schema must be StructType or a list of StructField.", cols)
        return self._with(columns=(*self._wish.columns, *cols))

    def partitionedBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder[_Table]:
        """The columns to partition it by; through Spark Connect, behind those said before."""
        names = _names("Partitioning", cols)
        return self._with(partitions=(*self._said(self._wish.partitions), *names))

    def clusterBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder[_Table]:
        """The columns to cluster it by; through Spark Connect, behind those said before."""
        names = _names("Clustering", cols)
        return self._with(clusters=(*self._said(self._wish.clusters), *names))

    def property(self, key: str, value: str) -> DeltaTableBuilder[_Table]:
        """A property of the table."""
        if type(key) is not str or type(value) is not str:
            _wrong("Key and value of property must be string.", key, value)
        return self._with(properties={**self._wish.properties, key: value})

    @raises_as_spark
    def execute(self) -> _Table:
        """Make the table, or replace it.

        Raises:
            TableAlreadyExistsError: it is to be created, and there is one.
            TableNotFoundError: it is to be replaced, and there is none.
            InvalidOptionError: neither a name nor a location is there, or they contradict each
                other.
            SchemaMismatchError: Delta cannot have such a schema, or the table that is there has
                another one.
            InvalidPropertyError: a property is unknown or has a value that is not allowed.
            UnsupportedFeatureError: the table would need a feature that adelta does not have.
        """
        with known_as_of("build"):
            location, name = create_as_wished(self._spark, self._wish, self._mode)
        return self._open(Target.at(self._spark, location, name=name))

    def _said(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """What was said before and goes on to be said, as delta-spark has it."""
        return names if side_of(self._spark).builders_accumulate else ()

    @raises_as_spark
    def _with(self, **told: Any) -> DeltaTableBuilder[_Table]:
        self._wish = replace(self._wish, **told)
        if self._wish.partitions and self._wish.clusters:
            error = InvalidOptionError(
                "a table is partitioned or clustered, not both; leave partitionedBy or clusterBy "
                "out"
            )
            raise with_condition(error, "DELTA_CLUSTER_BY_WITH_PARTITIONED_BY")
        return self


def _data_type(spark: SparkSession, given: str | s.DataType) -> s.DataType:
    if isinstance(given, s.DataType):
        return given
    if _LIMITED.search(given):  # as what a cast makes plain texts of
        return s.DataType.fromDDL(given)
    # Spark reads it: of this very session, so that its settings count
    text = f"CAST(NULL AS {given})"
    found: s.DataType = spark.range(0).selectExpr(text).schema[0].dataType
    return found


def _names(what: str, cols: tuple[str | Sequence[str], ...]) -> tuple[str, ...]:
    listed = cols[0] if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else cols
    for each in listed:
        if type(each) is not str:
            _wrong(f"{what} column must be str.", each)
    return tuple(str(each) for each in listed)


def _text(what: str, value: object) -> str:
    if type(value) is not str:
        _wrong(f"{what} must be str.", value)
    return value


def _wrong(what: str, *values: object) -> NoReturn:
    found = "".join(f" Found {value} with type {type(value)}" for value in values)
    raise WrongTypeError(what + found)
