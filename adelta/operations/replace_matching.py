"""WRITE in place of what matches: rows of a table go that match new ones, and these come."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from adelta._arguments import check_choice, checked
from adelta._clock import moment
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, SchemaMismatchError
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.expressions.nodes import Column, Comparison, conjunction
from adelta.kernel.expressions.sql import to_sql
from adelta.operations.merge.clauses import Clause, values_of
from adelta.operations.merge.plan import MergeRequest
from adelta.operations.merge.run import MergeOptions, run_merge
from adelta.operations.merge.source import GivenSource
from adelta.table import latest_state, opened
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType
    from adelta.operations.delete import IsolationName
    from adelta.operations.merge.clauses import MergeValue, Values
    from adelta.operations.merge.metrics import MergeMetrics
    from adelta.operations.merge.source import MergeSource
    from adelta.progress import OnProgress
    from adelta.table import Table, TableOrAddress

__all__ = ["ReplaceRequest", "replace_matching", "run_replacing"]

_MISSING = "replaced_by_missing_column"


@checked
async def replace_matching(
    table: TableOrAddress,
    source: MergeSource,
    *,
    using: Iterable[str] | None = None,
    on: Where | None = None,
    source_alias: str = "source",
    target_alias: str = "target",
    values: Mapping[str, MergeValue] | None = None,
    schema_mode: Literal["merge"] | None = None,
    txn: tuple[str, int] | None = None,
    isolation: IsolationName | None = None,
    user_metadata: str | None = None,
    data_files: DataFileOptions | None = None,
    on_progress: OnProgress | None = None,
    zone: str = "UTC",
    storage_options: Mapping[str, str] | None = None,
) -> MergeMetrics:
    """Delete the rows of a table that match a row of `source`, and insert all rows of `source`.

    That is ``INSERT INTO ... REPLACE USING`` and ``REPLACE ON``, in one commit. Rows match where
    the columns that `using` names are equal, so that a null matches nothing; or where the Spark SQL
    condition `on` is true of them, such as ``"target.day <=> source.day"``, in which a name that
    both sides have needs its alias before it. Several rows of the source may match one row, and one
    row several. Where there are no rows nothing is deleted, and nothing committed.

    Columns of the source go into those of the table that are so called, and columns that it does
    not have get their default, or null; `values` says what columns get instead, as
    `Merge.when_not_matched_insert` does. The rest is as for `merge`, also the conflicts.

    Raises:
        TableNotFoundError: there is no table.
        InvalidUseError: the source can be read once, as an iterator can, and has been.
        InvalidOptionError: neither or both of `using` and `on` are given, or an argument is not as
            it is said here; the source holds no rows of columns.
        SchemaMismatchError: one of the sides lacks a column of `using`, the table lacks a column of
            the source, or a column cannot hold a value.
        InvalidExpressionError: an expression does not fit, or fails for a row.
        InvariantViolationError: a row violates a constraint of the table, or the table only takes
            appends.
        CommitConflictError: another commit came first and the work has to be done again.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        InvalidTableError: a file is damaged, or not there.
        StorageError: the store refused or failed.
    """
    if schema_mode is not None:
        check_choice("schema_mode", schema_mode, ("merge",))
    if data_files is not None and not isinstance(data_files, DataFileOptions):
        raise InvalidOptionError(
            f"data_files is {data_files!r:.100}; pass adelta.DataFileOptions(...)"
        )
    for name, alias in (("source_alias", source_alias), ("target_alias", target_alias)):
        if not alias:
            raise InvalidOptionError(f"{name} is empty; name a side, or leave it out")
    now = moment()
    replacing = ReplaceRequest(
        None if using is None else tuple(using),
        to_predicate(on, zone=zone, now=now),
        source_alias,
        target_alias,
        None if values is None else values_of("values", values, zone, now),
        schema_mode == "merge",
        zone,
        now,
        on if isinstance(on, str) else None,
    )
    options = MergeOptions(
        txn, isolation, user_metadata, data_files or AS_THE_TABLE_SAYS, on_progress
    )
    async with opened(table, storage_options) as handle:
        return await run_replacing(handle, GivenSource(source), replacing, options)


@dataclass(frozen=True, slots=True)
class ReplaceRequest:
    """Which rows new ones take the place of: those with equal columns `using`, or by a condition.

    `values` are what columns of the new rows get; None is what the source has under their names.
    `text` is what the history says of it, where that is not what the columns or the condition are.

    Raises:
        InvalidOptionError: it is not said by one of the two.
    """

    using: tuple[str, ...] | None
    on: Node | None
    source_alias: str
    target_alias: str
    values: Values | None
    evolves: bool
    zone: str
    now: datetime
    text: str | None = None

    def __post_init__(self) -> None:
        if (self.using is None) == (self.on is None):
            raise InvalidOptionError(
                "say which rows are replaced by one of using=['day'], for equal columns, and "
                "on='target.day = source.day', for a condition"
            )
        if self.using == ():
            raise InvalidOptionError("using names no column; name those by which rows match")

    def request(self, target: StructType, source: StructType) -> MergeRequest:
        """The same of a table and a source of these columns, as a merge.

        Raises:
            SchemaMismatchError: one of them lacks a column that rows are to match by.
        """
        said = {"mode": "Overwrite"}
        if self.evolves:
            said["canMergeSchema"] = "true"
        condition: Any = self.on
        if self.using is None:
            said["replaceOnCond"] = self.text or to_sql(condition)
        else:
            said["replaceUsingCols"] = f"({self.text or ', '.join(self.using)})"
            condition = conjunction(*(self._equal(each, target, source) for each in self.using))
        return MergeRequest(
            condition,
            (Clause("matched", "delete"), Clause("not_matched", "insert", None, self.values)),
            self.source_alias,
            self.target_alias,
            self.evolves,
            self.zone,
            self.now,
            replaces=said,
        )

    def _equal(self, name: str, target: StructType, source: StructType) -> Node:
        sides = (self.target_alias, target, "table"), (self.source_alias, source, "query")
        columns = []
        for alias, schema, what in sides:
            field = schema.field(name)
            if field is None:
                raise SchemaMismatchError(
                    f"rows are to match by column {name!r}, which the {what} does not have; it has "
                    f"{', '.join(sorted(schema.names))}",
                    reason=_MISSING,
                )
            columns.append(Column((alias, field.name)))
        return Comparison("=", columns[0], columns[1])


async def run_replacing(
    table: Table, source: GivenSource, replacing: ReplaceRequest, options: MergeOptions
) -> MergeMetrics:
    """Replace rows, in one commit.

    Raises: as `replace_matching` does.
    """
    rows = await source.open()
    async with aclosing(rows.batches):
        schema = (await latest_state(table)).configuration.schema
        request = await in_thread(replacing.request, schema, rows.schema)
        return await run_merge(table, GivenSource(rows), request, options)
