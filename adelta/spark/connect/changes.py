"""DELETE, UPDATE and MERGE through Spark Connect whose expressions adelta does not compute itself.

They are carried out as `DeltaTable` does it, where Spark computes the expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.spark.rows.merge_builder import DeltaMergeBuilder
from adelta.spark.rows.rows_by_spark import affected, delete_rows, update_rows
from adelta.spark.rows.target import Target
from adelta.spark.statements.tables import source_of
from adelta.spark.translate.identifiers import quoted
from adelta.sql.statements import Delete, Update

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from adelta.sql.statements import Assignment, Merge, MergeClause

__all__ = ["run_change"]


def run_change(spark: SparkSession, statement: Delete | Update | Merge, zone: str) -> DataFrame:
    """Carry out a statement of whose expressions there is only the text.

    Raises:
        TableNotFoundError: the session knows no such Delta table.
        InvalidExpressionError: Spark does not compute an expression, either.
    """
    name = statement.table
    if name.path is not None:
        table = Target.at(spark, name.path).existing()
    else:
        table = Target.named(spark, quoted(name.parts))
    if isinstance(statement, Delete | Update):
        table = table if statement.alias is None else table.aliased(statement.alias)
        where = None if statement.where is None else statement.where.text
        if isinstance(statement, Delete):
            return affected(spark, delete_rows(table, where))
        return affected(spark, update_rows(table, where, _values(statement.assignments)))
    if statement.target_alias is not None:
        table = table.aliased(statement.target_alias)
    rows, alias = source_of(spark, statement, zone)
    source = rows if alias is None else rows.alias(alias)
    merge = DeltaMergeBuilder(table, source, statement.on.text)._checked()
    for clause in statement.clauses:
        merge = _with(merge, clause)
    return (merge.withSchemaEvolution() if statement.evolves_schema else merge).execute()


def _with(merge: DeltaMergeBuilder, clause: MergeClause) -> DeltaMergeBuilder:
    where = None if clause.condition is None else clause.condition.text
    values = _values(clause.assignments)
    match clause.when, clause.action:
        case "matched", "delete":
            return merge.whenMatchedDelete(where)
        case "matched", "update":
            return merge.whenMatchedUpdate(where, values)
        case "matched", _:
            return merge.whenMatchedUpdateAll(where)
        case "not matched", "insert":
            return merge.whenNotMatchedInsert(where, values)
        case "not matched", _:
            return merge.whenNotMatchedInsertAll(where)
        case _, "delete":
            return merge.whenNotMatchedBySourceDelete(where)
    return merge.whenNotMatchedBySourceUpdate(where, values)


def _values(assignments: tuple[Assignment, ...]) -> dict[str, str]:
    return {
        quoted(each.column): "DEFAULT" if each.value is None else each.value.text
        for each in assignments
    }
