"""UPDATE: other values in rows, by a condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from adelta._arguments import check_text, checked
from adelta._clock import moment
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import ColumnNotFoundError, InvalidOptionError, SchemaMismatchError
from adelta.kernel.expressions.dnf import is_long
from adelta.kernel.expressions.literals import literal_of
from adelta.kernel.expressions.nodes import LiteralValue, Node
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind, bind_predicate
from adelta.kernel.table_features import DELETION_VECTORS, identities_of
from adelta.operations.assigned_rows import AssignedRows
from adelta.operations.column_update import ColumnAssignments
from adelta.operations.matching import find_matches, match_all
from adelta.operations.nested_values import StructValue, column_path, nested, value_of
from adelta.operations.rearrange.auto_compaction import auto_compact
from adelta.operations.removal import concerned, removals_of
from adelta.operations.rewrite import RewriteTask, rewrite
from adelta.operations.row_metrics import RowMetrics, Stopwatch, measured, report
from adelta.table import begin, opened, roots_of
from adelta.write.conditions import condition_of, said_of
from adelta.write.deletion_vectors import write_deletion_vectors
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import pyarrow as pa

    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.operations.delete import IsolationName
    from adelta.operations.matching import MatchedFile
    from adelta.operations.nested_values import Assigned
    from adelta.progress import OnProgress
    from adelta.table import Table, TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["SetValue", "UpdateMetrics", "update"]

SetValue = LiteralValue | Node
"""Text is a Spark SQL expression over the row as it was, a node one parsed; all else is a value."""


@dataclass(frozen=True, slots=True)
class UpdateMetrics(RowMetrics):
    """What an update did.

    As in Delta Spark, `num_removed_files` includes files that got a deletion vector.
    """

    num_updated_rows: int = 0


@checked
async def update(
    table: TableOrAddress,
    set: Mapping[str, SetValue],  # the word that SQL and delta-spark have for it
    where: Where | None = None,
    *,
    zone: str = "UTC",
    isolation: IsolationName | None = None,
    dry_run: bool = False,
    user_metadata: str | None = None,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> UpdateMetrics:
    """Set columns of the rows for which `where` is true; of all rows where there is no condition.

    `set` gives each column a Spark SQL expression over the row as it was, as text, or a value of
    another Python type: ``{"km": "km * 1.5", "checked": True, "city": "'Bern'"}``. Values are
    cast to their column's type as by Spark's ANSI store assignment: decimals are rounded half up,
    and a value that does not fit is an error. ``"place.city"`` sets a field of a struct, whose
    other fields stay; a struct that was null becomes one. Columns that are generated from others
    are computed again, and every row has to satisfy the constraints of the table afterwards.

    Times that name no zone are of `zone`, and so are dates and clocks: in `set`, in `where`, and in
    what the table computes and checks.

    Only files whose partition and statistics leave it open are read for `where`. A file is written
    anew; where `delta.enableDeletionVectors` is set, it gets a deletion vector instead, and only
    the updated rows are written. Rows keep their ids where the table tracks rows.

    Rows that others add meanwhile and that `where` may be true for are a conflict; with the
    isolation ``WriteSerializable`` they are not where they were appended blindly. None is the
    table's isolation level. With `dry_run` nothing is computed or written, and the metrics tell
    which rows and files it would be about. `on_progress` is told of the files that are looked
    through, and then of those that are written.

    Raises:
        TableNotFoundError: there is no table.
        SchemaMismatchError: there is no such column, it cannot be set, or cannot hold a value.
        InvalidExpressionError: an expression cannot be parsed or computed, or does not fit.
        InvariantViolationError: an updated row violates a constraint of the table, or the table
            only takes appends.
        CommitConflictError: another commit came first and the work has to be done again.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        InvalidOptionError: nothing is to be set, or something twice.
        InvalidTableError: a file is damaged, or not there.
        StorageError: the store refused or failed.
    """
    if not isinstance(set, Mapping):
        raise InvalidOptionError(f"set is {set!r:.100}; pass a dict of columns and their values")
    for name in set:
        check_text("a column of set", name)
    if not set:
        raise InvalidOptionError("nothing is to be set; name a column and its new value")
    now = moment()

    def parsed() -> dict[str, Node]:
        return {name: _expression(value, zone, now) for name, value in set.items()}

    texts = (value for value in set.values() if isinstance(value, str))
    wanted = await in_thread(parsed) if any(map(is_long, texts)) else parsed()
    condition = await condition_of(where, now=now, zone=zone)
    async with opened(table, storage_options) as handle:
        request = TransactionRequest(
            operation="UPDATE",
            parameters={"predicate": await said_of(condition)},
            user_metadata=user_metadata,
            isolation=isolation,
            from_latest=True,  # all that is written depends on the table's settings and columns
        )
        tx = begin(handle, request)
        async with tx:
            done = await _stage(handle, tx, wanted, condition, zone, on_progress, dry_run=dry_run)
        await auto_compact(handle, tx)
        if tx.version is None and not dry_run:
            return UpdateMetrics()
        rows = done.get("numUpdatedRows", 0)
        return UpdateMetrics(**measured(tx.version, done), num_updated_rows=rows)


def _expression(value: SetValue, zone: str, now: datetime) -> Node:
    if isinstance(value, Node):
        return value
    if isinstance(value, str):
        return parse_expression(value, zone=zone, now=now)
    return literal_of(value)


async def _stage(
    table: Table,
    tx: TransactionCore,
    wanted: Mapping[str, Node],
    where: Node | None,
    zone: str = "UTC",
    on_progress: OnProgress | None = None,
    *,
    dry_run: bool = False,
) -> dict[str, int]:
    watch, roots = Stopwatch(), roots_of(table)
    configuration = tx.configuration
    configuration.check_removable(table.uri)
    if where is not None:
        where = await in_thread(bind_predicate, where, configuration.schema, zone=zone)
    files = await tx.read(where)
    if await tx.is_applied():
        return {}
    assignments = await in_thread(Assignments.of, configuration, wanted, zone)
    if where is None:
        matched = await match_all(roots, files)
    else:
        matched = await find_matches(
            tx.executor, roots, configuration, files, where, on_progress=on_progress
        )
    matched = [each for each in matched if each.rows]
    scanned = watch.lap_ms()
    copied, planned = 0, {}
    if dry_run:
        planned = concerned(matched, configuration) | {"numRemovedFiles": len(matched)}
    elif matched:
        copied = await _rewrite(table, tx, configuration, matched, assignments, on_progress)
    rewriting = watch.lap_ms()
    return (
        report(
            tx,
            numUpdatedRows=sum(len(each.rows) for each in matched),
            numRemovedFiles=0 if dry_run else len(matched),  # including those with a new vector
            numCopiedRows=copied,
            executionTimeMs=watch.total_ms(),
            scanTimeMs=scanned,
            rewriteTimeMs=rewriting,
        )
        | planned
    )


async def _rewrite(
    table: Table,
    tx: TransactionCore,
    configuration: TableConfiguration,
    matched: Sequence[MatchedFile],
    assignments: Assignments,
    on_progress: OnProgress | None,
) -> int:
    """Stage what becomes of the rows in `matched`; how many others were copied for that."""
    roots, vectors = roots_of(table), configuration.uses(DELETION_VECTORS)
    task = RewriteTask(
        configuration,
        tuple(matched),
        update=assignments,
        copies=not vectors,
        tells=configuration.change_data_feed_enabled,
        options=tx.data_files,
    )
    done = await rewrite(tx.executor, roots, task, on_progress=on_progress)
    removed = [] if vectors else [each.file for each in matched]
    await tx.stage_rewrite(adds=done.adds, cdc=done.cdc, removed=removed)
    if vectors:
        await tx.stage_rewrite(vectors=await write_deletion_vectors(roots, removals_of(matched)))
    return done.num_copied_rows


@dataclass(frozen=True, slots=True)
class Assignments:
    """New values for columns, as a plain value that rows can be put through.

    `values` are bound expressions by column, and structs of which some fields are set.
    """

    values: tuple[tuple[str, Assigned], ...]
    assigned: AssignedRows

    @classmethod
    def of(
        cls, configuration: TableConfiguration, wanted: Mapping[str, Node], zone: str
    ) -> Assignments:
        """The assignments of `wanted` to a table's columns, by the clocks of `zone`.

        Raises:
            SchemaMismatchError: there is no such column, or it cannot be set.
            InvalidOptionError: a column is set twice, or together with a part of it.
            InvalidExpressionError: an expression does not fit the table.
        """
        schema = configuration.schema
        numbered = {column.name for column in identities_of(schema)}
        found: dict[tuple[str, ...], Node] = {}
        for name, node in wanted.items():
            path = column_path(name, schema)
            if path is None:
                raise ColumnNotFoundError(
                    f"the table has no column {name!r} to set; it has {', '.join(schema.names)}"
                )
            if path[0] in numbered:
                raise SchemaMismatchError(
                    f"column {path[0]!r} is an identity column: numbers that rows were given "
                    "stay; leave it out",
                    reason="identity_column_set",
                )
            if path in found:
                raise InvalidOptionError(
                    f"column {'.'.join(path)!r} is set twice; set it once", reason="set_twice"
                )
            part = next((o for o in found if o[: len(path)] == path[: len(o)]), None)
            if part is not None:
                raise InvalidOptionError(
                    f"{'.'.join(path)!r} and {'.'.join(part)!r} are both set, of which one is a "
                    "part of the other; set one of them",
                    reason="set_twice",
                )
            found[path] = bind(node, schema, zone=zone)
        values = dict(nested(schema, found))
        return cls(tuple(values.items()), AssignedRows.of(configuration, values, zone))

    @property
    def alone(self) -> ColumnAssignments | None:
        """The assignments, where they set whole columns, and nothing but those is looked at."""
        whole = [(name, to) for name, to in self.values if not isinstance(to, StructValue)]
        return (
            ColumnAssignments.of(whole, self.assigned) if len(whole) == len(self.values) else None
        )

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the new values, complete and checked, and under the ids that they had.

        Raises:
            InvariantViolationError: a row violates a constraint of the table.
            InvalidExpressionError: a value cannot be computed.
            SchemaMismatchError: a column cannot hold a value.
        """
        return self.assigned.apply(rows, {name: value_of(to, rows) for name, to in self.values})
