"""OPTIMIZE as delta-spark's users write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.expressions.nodes import And, split_conjuncts
from adelta.operations.optimize import rearranged
from adelta.spark.exceptions import WrongTypeError, known_as_of, raises_as_spark
from adelta.spark.tables.answers import frame
from adelta.spark.translate.not_of_java import NotOfJava
from adelta.spark.translate.unresolved_text import unresolved_text
from adelta.sql.execute.optimize import optimize_answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from adelta.kernel.expressions.nodes import Node
    from adelta.operations.rearrange.metrics import OptimizeMetrics
    from adelta.spark.rows.target import Target
    from adelta.table import Table

__all__ = ["DeltaOptimizeBuilder"]


class DeltaOptimizeBuilder(NotOfJava):
    """Which files of a table are to be written anew, and how."""

    def __init__(self, target: Target, where: Node | None = None) -> None:
        self._target = target
        self._where = where

    @raises_as_spark
    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Only the partitions for which a condition is true, and those said before; this builder.

        Raises:
            WrongTypeError: it is no text.
            InvalidExpressionError: it cannot be parsed, or does not fit the table.
        """
        if not isinstance(partitionFilter, str):
            raise WrongTypeError(
                f"'partitionFilter' must be a string, found to be {type(partitionFilter)}"
            )
        condition = self._target.condition(partitionFilter)
        self._where = condition if self._where is None else And((self._where, condition))
        return self

    @raises_as_spark
    def executeCompaction(self) -> DataFrame:
        """Write small files anew as large ones; one row of ``path`` and ``metrics``.

        Raises: as `adelta.optimize` does.
        """
        return self._run(())

    @raises_as_spark
    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Write all files anew, along a Z-order of columns; one row of ``path`` and ``metrics``.

        Raises: as `adelta.optimize` does.
        """
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else cols
        for name in names:
            if not isinstance(name, str):
                raise WrongTypeError(
                    f"Z-order column must be str. Found {name} with type {type(name)}"
                )
        return self._run(tuple(map(str, names)))

    def _run(self, columns: tuple[str, ...]) -> DataFrame:
        target = self._target

        async def run(handle: Table) -> OptimizeMetrics:
            said = [unresolved_text(each) for each in split_conjuncts(self._where)]
            return await rearranged(handle, self._where, columns, said=said)

        with known_as_of("optimize"):
            done = target.access.run(run)
        return frame(target.spark, optimize_answer(target.access.path, done))
