"""UPDATE: other values in rows, by a condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._arguments import check_text, checked
from adelta._concurrency import in_thread
from adelta.errors import InvalidOptionError, SchemaMismatchError
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.expressions.literals import literal_of
from adelta.kernel.expressions.nodes import LiteralValue
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.table_features import DELETION_VECTORS, GENERATED_COLUMNS, identities_of
from adelta.operations.matching import find_matches, match_all
from adelta.operations.rewrite import RewriteTask, plan_rewrites, run_rewrites
from adelta.operations.row_metrics import RowMetrics, Stopwatch, measured, report
from adelta.table import begin, opened, roots_of
from adelta.write.deletion_vectors import RowRemoval, write_deletion_vectors
from adelta.write.row_rules import RowRules
from adelta.write.spec import WriteSpec
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.operations.delete import IsolationName
    from adelta.operations.matching import MatchedFile
    from adelta.table import Table, TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["SetValue", "UpdateMetrics", "update"]

SetValue = LiteralValue
"""Text is a Spark SQL expression over the row as it was; anything else is a value."""


@dataclass(frozen=True, slots=True)
class UpdateMetrics(RowMetrics):
    """What an update did."""

    num_updated_rows: int = 0


@checked
async def update(
    table: TableOrAddress,
    set: Mapping[str, SetValue],  # the word that SQL and delta-spark have for it
    where: Where | None = None,
    *,
    isolation: IsolationName | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> UpdateMetrics:
    """Set columns of the rows for which `where` is true; of all rows where there is no condition.

    `set` gives each column a Spark SQL expression over the row as it was, as text, or a value of
    another Python type: ``{"km": "km * 1.5", "checked": True, "city": "'Bern'"}``. Values are
    stored as a write would store them. Columns that are generated from others are computed anew,
    and every row has to satisfy the constraints of the table afterwards.

    Only files whose partition and statistics leave it open are read for `where`. A file is written
    anew; where `delta.enableDeletionVectors` is set, it gets a deletion vector instead, and only
    the updated rows are written. Rows keep their ids where the table tracks rows.

    Rows that others add meanwhile and that `where` may be true for are a conflict; with the
    isolation ``WriteSerializable`` they are not where they were appended blindly. None is the
    table's isolation level.

    Raises:
        TableNotFoundError: there is no table.
        SchemaMismatchError: there is no such column, it cannot be set, or cannot hold a value.
        InvalidExpressionError: an expression cannot be parsed or computed, or does not fit.
        InvariantViolationError: an updated row violates a constraint of the table, or the table
            only takes appends.
        CommitConflictError: another commit came first and the work has to be done again.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        InvalidOptionError: nothing is to be set.
        InvalidTableError: a file is damaged, or not there.
        StorageError: the store refused or failed.
    """
    if not isinstance(set, Mapping):
        raise InvalidOptionError(f"set is {set!r:.100}; pass a dict of columns and their values")
    for name in set:
        check_text("a column of set", name)
    if not set:
        raise InvalidOptionError("nothing is to be set; name a column and its new value")
    wanted = {name: _expression(value) for name, value in set.items()}
    condition = to_predicate(where)
    async with opened(table, storage_options) as handle:
        request = TransactionRequest(
            operation="UPDATE",
            parameters={"predicate": ["true" if condition is None else to_sql(condition)]},
            user_metadata=user_metadata,
            isolation=isolation,
        )
        tx = begin(handle, request)
        async with tx:
            done = await _stage(handle, tx, wanted, condition)
        if tx.version is None:
            return UpdateMetrics()
        return UpdateMetrics(**measured(tx.version, done), num_updated_rows=done["numUpdatedRows"])


def _expression(value: SetValue) -> Node:
    return parse_expression(value) if isinstance(value, str) else literal_of(value)


async def _stage(
    table: Table, tx: TransactionCore, wanted: Mapping[str, Node], where: Node | None
) -> dict[str, int]:
    watch, roots = Stopwatch(), roots_of(table)
    files = await tx.read(where)
    configuration = tx.configuration
    configuration.check_removable(table.uri)
    assignments = await in_thread(Assignments.of, configuration, wanted)
    if where is None:
        matched = await match_all(roots, files)
    else:
        matched = await find_matches(roots, configuration, files, where)
    matched = [each for each in matched if each.rows]
    scanned = watch.lap_ms()
    copied = await _rewrite(table, tx, configuration, matched, assignments) if matched else 0
    rewriting = watch.lap_ms()
    return report(
        tx,
        numUpdatedRows=sum(len(each.rows) for each in matched),
        numCopiedRows=copied,
        executionTimeMs=watch.total_ms(),
        scanTimeMs=scanned,
        rewriteTimeMs=rewriting,
    )


async def _rewrite(
    table: Table,
    tx: TransactionCore,
    configuration: TableConfiguration,
    matched: Sequence[MatchedFile],
    assignments: Assignments,
) -> int:
    """Stage what becomes of the rows in `matched`; how many others were copied for that."""
    roots, vectors = roots_of(table), configuration.uses(DELETION_VECTORS)
    task = RewriteTask(
        configuration,
        tuple(matched),
        update=assignments,
        copies=not vectors,
        tells=configuration.change_data_feed_enabled,
    )
    target = WriteSpec.of(configuration).target_file_size
    done = await run_rewrites(roots, plan_rewrites(task, target))
    tx.stage_written(adds=done.adds, cdc=done.cdc)
    if vectors:
        removals = (RowRemoval(each.file, each.rows, each.num_rows) for each in matched)
        tx.stage_written(vectors=await write_deletion_vectors(roots, removals))
    else:
        tx.remove([each.file for each in matched])
    return done.num_copied_rows


@dataclass(frozen=True, slots=True)
class Assignments:
    """New values for columns, as a plain value that rows can be put through.

    `values` are bound expressions by column. Columns of `recomputed` are generated from others.
    """

    target: pa.Schema
    values: tuple[tuple[str, Node], ...]
    recomputed: tuple[str, ...]
    rules: RowRules
    row_commit_version: str | None

    @classmethod
    def of(cls, configuration: TableConfiguration, wanted: Mapping[str, Node]) -> Assignments:
        """The assignments of `wanted` to a table's columns.

        Raises:
            SchemaMismatchError: there is no such column, or it cannot be set.
            InvalidOptionError: a column is set twice.
            InvalidExpressionError: an expression does not fit the table.
        """
        schema = configuration.schema
        numbered = {column.name for column in identities_of(schema)}
        values: dict[str, Node] = {}
        for name, node in wanted.items():
            field = schema.field(name)
            if field is None:
                raise SchemaMismatchError(
                    f"the table has no column {name!r} to set; it has {', '.join(schema.names)}. "
                    "Set a struct as a whole"
                )
            if field.name in numbered:
                raise SchemaMismatchError(
                    f"column {field.name!r} is an identity column: numbers that rows were given "
                    "stay; leave it out"
                )
            if field.name in values:
                raise InvalidOptionError(f"column {field.name!r} is set twice; set it once")
            values[field.name] = bind(node, schema)
        rules = RowRules.of(
            schema,
            configuration.metadata.configuration,
            generates=configuration.supports(GENERATED_COLUMNS),
            has_defaults=False,
        )
        generated = tuple(field.name for field, _ in rules.generated if field.name not in values)
        hidden = configuration.row_id_columns
        return cls(
            to_arrow_schema(schema),
            tuple(values.items()),
            generated,
            rules,
            None if hidden is None else hidden[1],
        )

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the new values, complete and checked, and under the ids that they had.

        Raises:
            InvariantViolationError: a row violates a constraint of the table.
            InvalidExpressionError: a value cannot be computed.
            SchemaMismatchError: a column cannot hold a value.
        """
        names = self.target.names
        changed = rows.select(names)
        for name, node in self.values:
            value: pa.Array[Any] = evaluate(node, rows)
            changed = changed.set_column(names.index(name), name, value)
        changed = self.rules.apply(changed.drop_columns(list(self.recomputed)), self.target)
        for name in rows.schema.names[len(names) :]:
            kept: Any = rows.column(name)
            if name == self.row_commit_version:
                kept = pa.nulls(rows.num_rows, pa.int64())
            changed = changed.append_column(name, kept)
        return changed
