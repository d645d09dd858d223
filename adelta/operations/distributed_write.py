"""One write by many processes: planned once, its files written by tasks, committed once.

The plan is a value that is pickled to the tasks and to the process that commits. It holds the
version that it was made against, and the commit is a transaction against that version: a job that
replaces what it has read loses against a writer who came between, and never undoes their work.

Whatever runs the tasks calls `plan_write`, then `write_files` in each of them, and `commit_write`
with the files of all of them; or `discard_files`, where the job is given up.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from adelta._arrow_values import empty_batch
from adelta._clock import SYSTEM_CLOCK
from adelta._dataclasses import dataclass
from adelta.commit.choose import coordinator_of
from adelta.errors import (
    InvalidOptionError,
    InvariantViolationError,
    MetadataChangedError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.statistics import num_records
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import identities_of
from adelta.kernel.transaction.conflict_checker import already_applied
from adelta.log.load import load_state
from adelta.operations.clustering import (
    check_clustered_as,
    check_still_clustered,
    end_clustering_if_lost,
)
from adelta.operations.create import definition_parameters, new_table
from adelta.operations.evolve import merge_schema, overwrite_schema
from adelta.operations.matching import decided_by_partition
from adelta.operations.overwrite import replace_partitions, replace_where
from adelta.operations.rearrange.auto_compaction import auto_compact
from adelta.operations.replace import stage_definition
from adelta.operations.write_transactions import check_partitioned_as, note_application
from adelta.storage.resolve import open_store
from adelta.table import begin, latest_state, open_table, roots_of
from adelta.write.discarding import discard_data_files
from adelta.write.layout import DataFileLayout
from adelta.write.spec import WriteSpec
from adelta.write.transaction_core import TransactionCore
from adelta.write.transaction_request import ONLY_READS, TransactionRequest
from adelta.write.write_data_files import WrittenFiles, write_rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    import pyarrow as pa

    from adelta.commit.catalog import CatalogClient
    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType
    from adelta.kernel.transaction.creation import NewTable
    from adelta.log.state import LogState
    from adelta.operations.write_transactions import WriteRequest
    from adelta.storage.object_store import ObjectStore
    from adelta.table import Table

__all__ = [
    "WriteJob",
    "commit_write",
    "discard_files",
    "live_rows",
    "plan_write",
    "write_files",
]


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What is to be written, and against what.

    `spec` is None where nothing is to be written: the table exists and was to be left alone, or
    shows the write as done. `version` is the version planned against, of the table `table_id`; for
    a table that is to be created both are None, and `first` is its first commit but for the files.
    `evolved` are the metadata that the rows give the table, with the protocol that these need;
    `replacement` is the definition that takes the place of the table's own. `catalog` is the client
    of the catalog that manages the table.
    """

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)  # may hold secrets
    request: WriteRequest
    spec: WriteSpec | None = None
    version: int | None = None
    table_id: str | None = None
    first: NewTable | None = None
    evolved: tuple[Metadata, Protocol | None] | None = None
    replacement: NewTable | None = None
    catalog: CatalogClient | None = None


@dataclass(slots=True)
class _Draft:
    """The metadata of a table as a job will leave them."""

    protocol: Protocol
    metadata: Metadata
    evolved: tuple[Metadata, Protocol | None] | None = None

    def update_metadata(self, metadata: Metadata, protocol: Protocol | None = None) -> None:
        self.metadata, self.protocol = metadata, protocol or self.protocol
        self.evolved = metadata, protocol


async def plan_write(
    uri: str,
    storage_options: Mapping[str, str],
    request: WriteRequest,
    columns: StructType,
    schema: pa.Schema,
    *,
    zone: str = "UTC",
    catalog: CatalogClient | None = None,
    assigns: bool = False,
) -> WriteJob:
    """The job that writes rows with the table's `columns`, which come as batches of `schema`.

    Times that name no zone are of `zone`, and so are dates and clocks: in a `replaceWhere`, and in
    what the table computes or checks. `catalog` is as in `open_table`. Where columns are taken in,
    rows with other types than the table's are refused, unless the job `assigns` them to these, for
    which it casts what has to be.

    Raises:
        TableAlreadyExistsError: there is a table, and that was to be an error.
        SchemaMismatchError: the rows do not fit the table, which may be laid out otherwise, or no
            table can have such columns.
        InvariantViolationError: rows would be removed from a table that only takes appends.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        InvalidOptionError: the store cannot exclude other writers, or options do not go together.
        InvalidExpressionError: `replaceWhere` does not fit the schema.
        InvalidTableError: the log is damaged.
    """
    kind = request.kind
    nothing = WriteJob(uri, storage_options, request, catalog=catalog)
    if not request.data_change and kind.mode != "overwrite":
        raise _changes_data(f"the mode {kind.mode!r} adds rows")
    async with open_table(uri, storage_options, catalog=catalog) as table:
        coordinator_of(table.store)
        try:
            state = await latest_state(table)
        except TableNotFoundError:
            if not request.data_change:
                raise _changes_data("there is no table yet") from None
            first = new_table(
                columns,
                partition_by=request.partition_by or (),
                cluster_by=request.cluster_by or (),
                properties=request.properties,
                description=request.description,
            )
            request = _bound(request, first.configuration.schema, zone)
            where = None if request.may_add_others else request.kind.replace_where
            spec = WriteSpec.of(
                first.configuration, files=request.data_files, where=where, zone=zone
            )
            coordinator_of(table.store, first.configuration)
            return replace(nothing, request=request, spec=spec, first=first)
        coordinator_of(table.store, state.configuration)
        if kind.mode == "error":
            raise TableAlreadyExistsError(
                f"there is a Delta table at {table.uri} already; choose the mode 'append', "
                "'overwrite' or 'ignore'"
            )
        if kind.mode == "ignore" or await _is_applied(request, state):
            return nothing
        if request.made_of is not None:
            state = (await table.snapshot(version=request.made_of))._state
        if request.defined_by is not None:
            return replace(nothing, **_replacing(request, columns, state, zone))
        draft = _Draft(state.protocol, state.metadata)
        if kind.schema_mode == "overwrite":
            overwrite_schema(draft, columns, request.partition_by)
        else:
            check_partitioned_as(table.uri, state.metadata.partition_columns, request.partition_by)
        if request.cluster_by is not None:
            async with begin(table, TransactionRequest(operation=ONLY_READS)) as tx:
                await check_clustered_as(tx, request.cluster_by)
        if kind.schema_mode == "merge":
            merge_schema(draft, columns, assigns=assigns)
        configuration = TableConfiguration(draft.protocol, draft.metadata)
        configuration.check_writable(table.uri)
        request = _bound(request, configuration.schema, zone)
        where = request.kind.replace_where
        if not request.data_change:
            _check_only_rearranges(draft, configuration, where)
        if kind.mode == "overwrite":
            configuration.check_removable(table.uri)
        spec = WriteSpec.of(
            configuration,
            files=request.data_files,
            where=None if request.may_add_others else where,
            zone=zone,
            assigns=assigns,
        )
        # No rows yet: what can be said of the columns alone is said before the tasks start.
        layout, nothing_yet = DataFileLayout.of(spec), empty_batch(schema)
        layout.conform(layout.identity_values().fill(nothing_yet))
        return replace(
            nothing,
            request=request,
            spec=spec,
            version=state.version,
            table_id=state.metadata.id,
            evolved=draft.evolved,
        )


def _replacing(
    request: WriteRequest, columns: StructType, state: LogState, zone: str
) -> dict[str, Any]:
    """What a job knows that gives the table another definition."""
    wanted = new_table(
        columns,
        partition_by=request.partition_by or (),
        cluster_by=request.cluster_by or (),
        properties=request.properties,
        description=request.description,
        instead_of=state.configuration,
    )
    return {
        "spec": WriteSpec.of(wanted.configuration, files=request.data_files, zone=zone),
        "version": state.version,
        "table_id": state.metadata.id,
        "replacement": wanted,
    }


def _bound(request: WriteRequest, schema: StructType, zone: str) -> WriteRequest:
    """What is asked of a table with this schema."""
    if (where := request.kind.replace_where) is None:
        return request
    bound = bind_predicate(where, schema, zone=zone)
    return replace(
        request, kind=replace(request.kind, replace_where=bound, predicate=to_sql(where))
    )


async def write_files(
    job: WriteJob, batches: AsyncIterator[pa.RecordBatch], *, task: int | None
) -> WrittenFiles:
    """Write a task's rows: the files, which belong to no table yet.

    `task` is the number of this task among those of the job, the same where it is run again; None
    says that it is the only one. Tasks number their rows by it.

    Raises:
        SchemaMismatchError: a value cannot be stored in its column.
        InvariantViolationError: a column that must not be null holds a null.
        StorageError: the store refused or failed.
    """
    if job.spec is None:
        return WrittenFiles((), {})
    store = open_store(job.uri, job.storage_options)
    async with aclosing(store):
        return await write_rows(store, replace(job.spec, task=task), batches)


async def commit_write(
    job: WriteJob, files: Sequence[AddFile], marks: Iterable[Mapping[str, int]] = ()
) -> None:
    """Add the files of all tasks to the table, in one commit.

    `marks` are the values that identity columns have come to in each task. Where the commit
    certainly failed the files are deleted.

    Raises:
        CommitConflictError: another commit came first and the job has to run again.
        TableAlreadyExistsError: the table has been made meanwhile, and that was to be an error.
        InvariantViolationError: rows were to be rearranged, and there are not as many as before.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        StorageError: the store refused; nothing was committed.
    """
    if job.spec is None:
        return
    async with open_table(job.uri, job.storage_options, catalog=job.catalog) as table:
        if job.first is not None:
            await _create(table, job, job.first, files)
        else:
            await _extend(table, job, files, marks)


async def discard_files(job: WriteJob, paths: Iterable[str]) -> None:
    """Delete files of tasks whose job will never be committed, by their paths in the log's form."""
    store = open_store(job.uri, job.storage_options)
    async with aclosing(store):
        await discard_data_files(store, [decode_path(path) for path in paths])


async def _is_applied(request: WriteRequest, state: LogState) -> bool:
    if request.txn is None:
        return False
    wanted = SetTransaction(*request.txn, SYSTEM_CLOCK.now_ms())
    return already_applied((wanted,), await state.set_transactions())


def _check_only_rearranges(
    draft: _Draft, configuration: TableConfiguration, where: Node | None
) -> None:
    """Refuse a write without `data_change` of which it is plain by now that it changes data.

    Raises:
        InvalidOptionError: it changes the columns, or replaces rows that share files with others.
    """
    if draft.evolved is not None:
        raise _changes_data("the columns or the partitioning of the table would change")
    if where is not None and not decided_by_partition(where, configuration):
        raise _changes_data("replaceWhere is about other columns than those of partitions")


def _changes_data(why: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"dataChange=false is for rows of the table that are written anew in other files, and {why}"
        "; leave the option out"
    )


def _furthest(schema: StructType, marks: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The values that identity columns have come to in all tasks, by column."""
    found: dict[str, int] = {}
    steps = {column.name: column.step for column in identities_of(schema)}
    for task in marks:
        for name, value in task.items():
            further = max if steps[name] > 0 else min
            found[name] = further(found.get(name, value), value)
    return found


def _request(job: WriteJob, partition_columns: Iterable[str]) -> TransactionRequest:
    if job.request.micro_batch is not None:
        query_id, number = job.request.micro_batch
        mode = "Complete" if job.request.kind.mode == "overwrite" else "Append"
        return TransactionRequest(
            operation="STREAMING UPDATE",
            parameters={"outputMode": mode, "queryId": query_id, "epochId": str(number)},
            user_metadata=job.request.user_metadata,
        )
    defined = job.first or job.replacement
    if job.request.defined_by is not None and defined is not None:
        clustered, properties = job.request.cluster_by or (), job.request.properties
        return TransactionRequest(
            operation=job.request.defined_by,
            parameters=definition_parameters(defined, clustered, properties),
            user_metadata=job.request.user_metadata,
        )
    return TransactionRequest(
        operation="WRITE",
        parameters=job.request.kind.parameters | {"partitionBy": list(partition_columns)},
        user_metadata=job.request.user_metadata,
    )


async def _create(table: Table, job: WriteJob, first: NewTable, files: Sequence[AddFile]) -> None:
    """Commit the table with its rows, or go into the same one that another has made meanwhile."""
    joins = job.request.kind.mode == "append"
    tx = begin(table, _request(job, first.metadata.partition_columns), creates=first, joins=joins)
    tx.own(files)
    try:
        async with tx:
            note_application(tx, job.request.application)
            tx.stage_written(adds=files)
    except TableAlreadyExistsError:
        if job.request.kind.mode == "error":
            raise
        if job.request.kind.mode != "ignore":
            raise MetadataChangedError(
                f"{table.uri}: another writer has created the table while this job ran; run the "
                "job again",
                winning_version=0,
            ) from None
    await auto_compact(table, tx)


async def _extend(
    table: Table, job: WriteJob, files: Sequence[AddFile], marks: Iterable[Mapping[str, int]]
) -> None:
    """Commit the files to the table, as it was when the job was planned."""
    kind, spec = job.request.kind, job.spec
    assert spec is not None
    columns = spec.partition_columns
    tx = TransactionCore(_Planned(table.store, job), _request(job, columns))
    tx.own(files)
    async with tx:
        note_application(tx, job.request.application)
        if job.request.made_of is not None:
            tx.staging.read_whole_table()
        if job.replacement is not None:
            await stage_definition(tx, table.uri, job.replacement)
        if job.evolved is not None:
            tx.update_metadata(*job.evolved)
            overwrites = kind.schema_mode == "overwrite"
            await (end_clustering_if_lost if overwrites else check_still_clustered)(tx)
        if kind.mode != "overwrite" or job.replacement is not None or await tx.is_applied():
            tx.stage_written(adds=files)
        elif kind.replace_where is not None:
            await replace_where(tx, roots_of(table), files, kind.replace_where)
        elif kind.partition_overwrite == "dynamic" and columns:
            tx.stage_written(adds=files)
            await replace_partitions(tx, files)
        else:
            await tx.overwrite(to_arrow_schema(tx.metadata.schema).empty_table())
            tx.stage_written(adds=files)
        tx.staging.advance_identities(tx.metadata, _furthest(tx.metadata.schema, marks))
        if not job.request.data_change:
            await _rearrange(tx)
    await auto_compact(table, tx)


async def _rearrange(tx: TransactionCore) -> None:
    """Say that what is staged changes no data, where nothing speaks against it.

    Raises:
        InvariantViolationError: there are more or fewer rows than before.
    """
    gone = set(tx.staging.removes.column("path").to_pylist())
    before = [file for file in (await tx.live_files()).rows() if file.path in gone]
    rows = [live_rows(file) for file in before], [live_rows(file) for file in tx.staging.adds]
    if None not in rows[0] and None not in rows[1]:
        had, has = (sum(count or 0 for count in counts) for counts in rows)
        if had != has:
            raise InvariantViolationError(
                f"{tx.root}: with dataChange=false rows are only arranged in other files, and {has}"
                f" would take the place of {had}; read the table anew and write all of its rows, or"
                " leave the option out"
            )
    tx.staging.rearrange()


def live_rows(file: AddFile) -> int | None:
    """How many rows of a file are not deleted; None where its statistics do not say that."""
    rows, vector = num_records(file.stats), file.deletion_vector
    return rows if rows is None or vector is None else rows - vector.cardinality


class _Planned:
    """The version that a job was planned against, as what its transaction is based on."""

    def __init__(self, store: ObjectStore, job: WriteJob) -> None:
        self.store = store
        self._job = job
        self._state: LogState | None = None

    async def known_state(self) -> LogState:
        if self._state is None:
            state = await load_state(self.store, version=self._job.version)
            if state.metadata.id != self._job.table_id:
                raise MetadataChangedError(
                    f"{self.store.uri}: the table was dropped and made anew while this job ran; "
                    "run the job again",
                    winning_version=state.version,
                )
            self._state = state
        return self._state

    async def latest_state(self) -> LogState:
        return await self.known_state()

    async def state_at(self, version: int) -> LogState:
        return await load_state(self.store, version=version)

    def publish_state(self, state: LogState) -> None:
        """Nobody here needs a newer state."""

    def doubt_state(self) -> None:
        """Nobody here looks at the log again."""
