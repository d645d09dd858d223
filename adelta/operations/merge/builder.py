"""MERGE: rows of a source into a table, by what matches them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from adelta._arguments import check_choice, checked
from adelta._clock import moment
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta._telemetry import operation
from adelta.errors import InvalidOptionError
from adelta.kernel.expressions import dnf
from adelta.kernel.expressions.nodes import TRUE
from adelta.operations.merge.clauses import Clause, check_clauses, values_of
from adelta.operations.merge.plan import MergeRequest
from adelta.operations.merge.run import MergeOptions, run_merge
from adelta.operations.merge.source import GivenSource
from adelta.table import opened
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.expressions.nodes import Node
    from adelta.operations.delete import IsolationName
    from adelta.operations.merge.clauses import Action, ClauseKind, MergeValue, Values
    from adelta.operations.merge.metrics import MergeMetrics
    from adelta.operations.merge.source import MergeSource
    from adelta.progress import OnProgress
    from adelta.table import TableOrAddress

__all__ = ["Merge", "merge"]

_ON = -1  # no clause: what rows match by


@checked
def merge(
    table: TableOrAddress,
    source: MergeSource,
    on: Where,
    *,
    source_alias: str = "source",
    target_alias: str = "target",
    schema_mode: Literal["merge"] | None = None,
    txn: tuple[str, int] | None = None,
    isolation: IsolationName | None = None,
    user_metadata: str | None = None,
    data_files: DataFileOptions | None = None,
    on_progress: OnProgress | None = None,
    zone: str = "UTC",
    storage_options: Mapping[str, str] | None = None,
) -> Merge:
    """A merge of the rows of `source` into a table; nothing is done before `Merge.execute`.

    Two rows match where `on` is true of them, a Spark SQL condition such as
    ``"target.id = source.id AND target.day = source.day"``. Clauses say what becomes of rows that
    match, of source rows that match none, and of rows of the table that none matches::

        await (
            adelta.merge(table, changes, on="target.id = source.id")
            .when_matched_delete(condition="source.gone")
            .when_matched_update_all()
            .when_not_matched_insert_all(condition="NOT source.gone")
            .execute()
        )

    `source` is read once, from beginning to end: a data frame or another Arrow stream, batches of
    an iterator of either kind, or a snapshot or scan of a table.

    With ``schema_mode="merge"`` the table takes in the columns and fields of the source that it
    lacks and that a clause sets, and an ``_all`` clause sets no more columns than the source has.
    `txn` is an application's id and the number of the merge: one that the table knows to be done is
    not done again. `data_files` says how files are written. `on_progress` is called as the work
    goes on, with phases ``"matching"`` and ``"rewriting"`` that count files. Times that name no
    zone are of `zone`, and so are dates and clocks: in conditions and values, and in what the table
    says of its rows. Clocks in them, such as ``current_timestamp()``, tell when this is called.

    Raises:
        InvalidExpressionError: the condition cannot be parsed. Those of very many values are looked
            into by `Merge.execute`.
        InvalidOptionError: an argument is not as it is said here.
    """
    if schema_mode is not None:
        check_choice("schema_mode", schema_mode, ("merge",))
    for name, alias in (("source_alias", source_alias), ("target_alias", target_alias)):
        if not alias:
            raise InvalidOptionError(f"{name} is empty; name a side, or leave it out")
    now = moment()
    is_long = dnf.is_long(on)
    condition = TRUE if is_long else _match_of(dnf.to_predicate(on, zone=zone, now=now))
    if data_files is not None and not isinstance(data_files, DataFileOptions):
        raise InvalidOptionError(
            f"data_files is {data_files!r:.100}; pass adelta.DataFileOptions(...)"
        )
    evolves = schema_mode == "merge"
    request = MergeRequest(condition, (), source_alias, target_alias, evolves, zone, now)
    options = MergeOptions(
        txn, isolation, user_metadata, data_files or AS_THE_TABLE_SAYS, on_progress
    )
    unread = ((_ON, on),) if is_long else ()
    return Merge(table, GivenSource(source), request, options, storage_options, unread)


def _match_of(condition: Node | None) -> Node:
    if condition is None:
        raise InvalidOptionError("a merge needs a condition; pass on='target.id = source.id'")
    return condition


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Merge:
    """A merge and its clauses. Each method makes a new one with a clause more, behind the others.

    Of the clauses of a kind, the first one whose condition is true for a row takes it. A condition
    that is null is not true. All but the last of a kind need one.

    A row that several source rows would change is an error, but not one that they match without
    changing it, nor where the only clause of matched rows deletes them without a condition.

    Values are Spark SQL expressions as text, ``DEFAULT`` for what the column has by default, or
    Python values of another type. A name that both sides have needs its alias before it.
    """

    _table: TableOrAddress
    _source: GivenSource
    _request: MergeRequest
    _options: MergeOptions
    _storage_options: Mapping[str, str] | None
    _unread: tuple[tuple[int, Where], ...] = ()  # long conditions by the clause; true stands there

    def when_matched_update(
        self, set: Mapping[str, MergeValue], condition: Where | None = None
    ) -> Merge:
        """Set columns, or fields of structs, of rows that match: ``{"n": "source.n", "a.b": 7}``.

        Raises:
            InvalidOptionError: no column is set.
            InvalidExpressionError: an expression cannot be parsed.
        """
        return self._with("matched", "update", condition, self._values("set", set))

    def when_matched_update_all(self, condition: Where | None = None) -> Merge:
        """Set every column of rows that match to that of the source which is so called.

        Raises:
            InvalidExpressionError: the condition cannot be parsed.
        """
        return self._with("matched", "update", condition, None)

    def when_matched_delete(self, condition: Where | None = None) -> Merge:
        """Delete rows that match.

        Raises:
            InvalidExpressionError: the condition cannot be parsed.
        """
        return self._with("matched", "delete", condition)

    def when_not_matched_insert(
        self, values: Mapping[str, MergeValue], condition: Where | None = None
    ) -> Merge:
        """Insert source rows that match none; columns without a value get their default, or null.

        Raises:
            InvalidOptionError: no column gets a value.
            InvalidExpressionError: an expression cannot be parsed.
        """
        return self._with("not_matched", "insert", condition, self._values("values", values))

    def when_not_matched_insert_all(self, condition: Where | None = None) -> Merge:
        """Insert source rows that match none, every column from that of the source so called.

        Raises:
            InvalidExpressionError: the condition cannot be parsed.
        """
        return self._with("not_matched", "insert", condition, None)

    def when_not_matched_by_source_update(
        self, set: Mapping[str, MergeValue], condition: Where | None = None
    ) -> Merge:
        """Set columns of rows of the table that no source row matches.

        Raises:
            InvalidOptionError: no column is set.
            InvalidExpressionError: an expression cannot be parsed.
        """
        given = self._values("set", set)
        return self._with("not_matched_by_source", "update", condition, given)

    def when_not_matched_by_source_delete(self, condition: Where | None = None) -> Merge:
        """Delete rows of the table that no source row matches.

        Raises:
            InvalidExpressionError: the condition cannot be parsed.
        """
        return self._with("not_matched_by_source", "delete", condition)

    async def execute(self, *, dry_run: bool = False) -> MergeMetrics:
        """Do it, in one commit; where nothing changes, there is none.

        Files in which no row can match, by their partition and statistics and the keys of the
        source, are not read; of the others, only the columns by which it is decided what becomes of
        rows. Those that change are written anew, or get a deletion vector where
        `delta.enableDeletionVectors` is set; rows keep their ids where the table tracks rows.

        Rows that others add meanwhile, and that source rows could match, are a conflict; with the
        isolation ``WriteSerializable`` they are not where they were appended blindly.

        With `dry_run` nothing is written, and the metrics tell how many rows it would be about.

        Raises:
            TableNotFoundError: there is no table.
            InvalidUseError: the source can be read once, as an iterator can, and has been.
            InvalidOptionError: there is no clause, or one that can never apply; the source holds
                no rows of columns.
            SchemaMismatchError: a column is not there, cannot be set, or cannot hold a value.
            InvalidExpressionError: an expression does not fit, or fails for a row.
            InvariantViolationError: several source rows would change one row, a row violates a
                constraint of the table, or the table only takes appends.
            CommitConflictError: another commit came first and the work has to be done again.
            CommitOutcomeUnknownError: the commit may or may not have happened.
            UnsupportedFeatureError: writing needs a table feature that adelta does not have.
            InvalidTableError: a file is damaged, or not there.
            StorageError: the store refused or failed.
        """
        check_clauses(self._request.clauses)
        with operation("merge", self._table) as told:
            async with opened(self._table, self._storage_options) as handle:
                request = await in_thread(self._read) if self._unread else self._request
                options = replace(self._options, dry_run=dry_run)
                done = await run_merge(handle, self._source, request, options)
            told.tell(version=done.version)
            return done

    def __repr__(self) -> str:
        """The merge as it stands, without its rows."""
        clauses = ", ".join(clause.shown for clause in self._request.clauses)
        return f"<adelta.Merge into {self._table!r}: {clauses or 'no clause'}>"

    def _values(self, argument: str, values: object) -> Values:
        return values_of(argument, values, self._request.zone, self._request.now)

    def _with(
        self,
        kind: ClauseKind,
        action: Action,
        condition: Where | None,
        values: Values | None = (),
    ) -> Merge:
        asked = self._request
        unread = self._unread
        if condition is not None and dnf.is_long(condition):
            unread, condition = (*unread, (len(asked.clauses), condition)), TRUE
        clause = Clause.of(kind, action, condition, values, asked.zone, asked.now)
        request = replace(asked, clauses=(*asked.clauses, clause))
        return replace(self, _request=request, _unread=unread)

    def _read(self) -> MergeRequest:
        """What is asked, with all conditions."""
        asked = self._request
        on, clauses = asked.on, list(asked.clauses)
        for place, where in self._unread:
            condition = dnf.to_predicate(where, zone=asked.zone, now=asked.now)
            if place == _ON:
                on = _match_of(condition)
            else:
                clauses[place] = replace(clauses[place], condition=condition)
        return replace(asked, on=on, clauses=tuple(clauses))
