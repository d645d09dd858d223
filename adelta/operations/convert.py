"""CONVERT TO DELTA: a folder of Parquet files becomes a table where it is, in one commit.

No data is read or written. The files are listed, their footers are read by ranged requests, many at
once, and the first commit of the table names them all. Names that begin with ``_`` or ``.`` are
hidden, as Spark has it, unless they name a partition (``_part=1``) or are the folder of nulls.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from adelta._arguments import check_choice, checked
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import (
    InvalidOptionError,
    InvalidPropertyError,
    InvalidTableError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.log_path import LOG_DIR
from adelta.kernel.partition import HIVE_DEFAULT_PARTITION
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.schema.column_mapping import map_columns
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import StructType
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import (
    COLUMN_MAPPING_MODE,
    protocol_for_new_table,
    stored_properties,
    validate_properties,
)
from adelta.kernel.table_properties import CONSTRAINT_PREFIX
from adelta.operations.convert_files import ConvertTask, StatisticsWanted
from adelta.operations.convert_schema import (
    FolderNames,
    FoundSchema,
    partition_fields,
    table_schema,
)
from adelta.operations.create import exists, new_table
from adelta.progress import Meter
from adelta.storage.parallel_list import list_in_parallel
from adelta.table import begin, executor_of, open_table, roots_of
from adelta.write.task_executor import IN_PROCESS
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.schema.types import StructField
    from adelta.kernel.transaction.creation import NewTable
    from adelta.operations.convert_files import ConvertResult
    from adelta.operations.create import ArrowSchema
    from adelta.progress import OnProgress
    from adelta.storage.object_store import ObjectMeta, ObjectStore
    from adelta.storage.roots import StoreRoots
    from adelta.table import Table
    from adelta.write.commit_options import CommitOptions
    from adelta.write.task_executor import TaskExecutor

__all__ = [
    "ConvertMetrics",
    "FoundTable",
    "checked_properties",
    "commit_converted",
    "convert",
    "convert_folder",
    "found_in_folder",
]

_FILES_A_TASK = 256
_LOCAL_FILES_A_TASK = 4096  # what is found out of the first of a task counts for little then
_FOLDER_MARK = "_$folder$"
_KEEPERS = {
    ".hoodie/": "a Hudi table, some of whose files are of earlier versions",
    "_spark_metadata/": "what a Spark stream wrote, whose log says which files are whole",
}
"""What tells that not every file of a folder is part of it."""


@dataclass(frozen=True, slots=True)
class ConvertMetrics:
    """What was converted, or would be: nothing where the folder was a Delta table already.

    Attributes:
        version: the version that the conversion became; None where nothing was committed.
        num_converted_files: how many files the table has.
        num_converted_bytes: their size together, in bytes.
        schema: the table's columns; None where nothing was converted.
        partition_columns: the columns that the folders' names hold.
    """

    version: int | None = None
    num_converted_files: int = 0
    num_converted_bytes: int = 0
    schema: pa.Schema | None = None
    partition_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundTable:
    """What is to be a table: what its first commit says of it, and the files that it names."""

    first: NewTable
    files: Sequence[AddFile]

    @classmethod
    def of(cls, first: NewTable, files: Sequence[AddFile]) -> FoundTable:
        """The same of files whose partition values go by the columns' names."""
        names = first.metadata.partition_columns
        stored = dict(zip(names, first.configuration.physical_partition_columns, strict=True))
        if any(name != physical for name, physical in stored.items()):
            files = [
                replace(
                    file,
                    partition_values={stored[n]: v for n, v in file.partition_values.items()},
                )
                for file in files
            ]
        return cls(first, files)

    @property
    def metrics(self) -> ConvertMetrics:
        """What a conversion that is not committed tells."""
        return ConvertMetrics(
            num_converted_files=len(self.files),
            num_converted_bytes=sum(file.size for file in self.files),
            schema=to_arrow_schema(self.first.metadata.schema),
            partition_columns=self.first.metadata.partition_columns,
        )


@checked
async def convert(
    uri: str | os.PathLike[str],
    *,
    partition_schema: ArrowSchema | StructType | str | None = None,
    folder_names: FolderNames = "hive",
    collect_statistics: bool = True,
    name: str | None = None,
    description: str | None = None,
    properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    unsafe_single_writer: bool = False,
    on_progress: OnProgress | None = None,
    commits: CommitOptions | None = None,
) -> ConvertMetrics:
    """Make a Delta table of the Parquet files at `uri`, in place and in one commit.

    A folder that is a Delta table already is left as it is. Nobody should write to the folder
    meanwhile: files that come after it was listed are not part of the table.

    `partition_schema` says which columns Hive-style folders (``year=2024/month=1``) name, in
    their order: a `pyarrow.Schema`, or a text such as ``"year INT, month INT"``. Every file has to
    lie in such folders. With the `folder_names` ``directory`` these are values alone (``2024/1``).
    The other columns are those of all files together. Statistics come from the footers; where these
    say nothing sure of a column, nothing is said of it (`analyze` computes it). With
    `collect_statistics` off files bear none. With `dry_run` nothing is written. `on_progress` is
    told how far it is. `commits` says more of how the commit is made.

    Raises:
        TableNotFoundError: there are no Parquet files.
        InvalidTableError: a file is no Parquet, is damaged, or has a name that is not UTF-8.
        InvalidOptionError: a file lies in other folders than `partition_schema` says, or the folder
            is kept by another table format, or holds a Delta table; or an option is not allowed.
        SchemaMismatchError: a column has different types in two files, or one that Delta does not
            have, or a folder's name is no value of its column.
        InvalidPropertyError: a property is unknown, has a value that is not allowed, is not for
            files that others have written, or asks for statistics that are not to be collected.
        StorageError: the store refused or failed.
    """
    opened = open_table(uri, storage_options, unsafe_single_writer=unsafe_single_writer)
    async with opened as table:
        return await convert_folder(
            table if commits is None else table.committing(commits),
            partition_schema=partition_schema,
            folder_names=folder_names,
            collect_statistics=collect_statistics,
            name=name,
            description=description,
            properties=properties,
            dry_run=dry_run,
            on_progress=on_progress,
        )


async def convert_folder(
    table: Table,
    *,
    partition_schema: ArrowSchema | StructType | str | None = None,
    folder_names: FolderNames = "hive",
    collect_statistics: bool = True,
    name: str | None = None,
    description: str | None = None,
    properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
) -> ConvertMetrics:
    """What `convert` does, where a handle is; its executor reads the footers."""
    check_choice("folder_names", folder_names, ("hive", "directory"))
    partitions = partition_fields(partition_schema)
    asked = checked_properties(properties, collect_statistics=collect_statistics)
    if await exists(table):
        return ConvertMetrics()
    found = await found_in_folder(
        table,
        partitions,
        asked,
        folder_names=folder_names,
        collect_statistics=collect_statistics,
        name=name,
        description=description,
        on_progress=on_progress,
    )
    if dry_run:
        return found.metrics
    version = await commit_converted(table, found, collect_statistics, "parquet")
    return ConvertMetrics() if version is None else replace(found.metrics, version=version)


async def found_in_folder(
    table: Table,
    partitions: tuple[StructField, ...],
    asked: Mapping[str, str],
    *,
    folder_names: FolderNames = "hive",
    collect_statistics: bool = True,
    name: str | None = None,
    description: str | None = None,
    on_progress: OnProgress | None = None,
) -> FoundTable:
    """The Parquet files below the root of `table` as those of a table with properties.

    Raises: as `convert` does.
    """
    wanted = StatisticsWanted(asked) if collect_statistics else None
    roots, executor = roots_of(table), executor_of(table)
    files = await _listed(roots.store, on_progress)
    if not files:
        raise TableNotFoundError(
            f"{table.uri} holds no Parquet files to convert; look at the address"
        )
    meter = Meter(on_progress, "reading footers", total=len(files))
    done = await _read(
        executor, roots, _tasks(roots.store, files, partitions, wanted, folder_names), meter
    )
    found = await in_thread(_Found, done)
    del files
    schema = await in_thread(table_schema, found.schemas, partitions)
    if wanted is not None:
        wanted = replace(wanted, schema=schema)
        await found.complete(executor, roots, partitions, wanted)
    first = await in_thread(_new_table, schema, partitions, asked, name, description)
    return await in_thread(FoundTable.of, first, found.files)


async def commit_converted(
    table: Table, found: FoundTable, statistics: bool, source_format: str
) -> int | None:
    """The version that names the files; None where another writer has made a table meanwhile.

    Raises:
        CommitOutcomeUnknownError: it may or may not have been committed.
        StorageError: the store refused or failed; nothing was committed.
    """
    partitions = found.first.metadata.partition_columns
    request = TransactionRequest(
        operation="CONVERT",
        parameters={
            "numFiles": str(len(found.files)),
            "partitionedBy": orjson.dumps(list(partitions)).decode(),
            "collectStats": str(statistics).lower(),
            "sourceFormat": source_format,
        },
    )
    try:
        async with begin(table, request, creates=found.first) as tx:
            await in_thread(tx.staging.add_existing, found.files)
            tx.staging.metrics = {"numConvertedFiles": len(found.files)}
    except TableAlreadyExistsError:
        return None
    return tx.version


# ---------------------------------------------------------------------------------------- the files


async def _listed(store: ObjectStore, on_progress: OnProgress | None) -> list[ObjectMeta]:
    """The files of the folder, in the order of their paths."""
    found: list[ObjectMeta] = []
    meter = Meter(on_progress, "listing")
    async for page in list_in_parallel(store, limit=store.concurrency):
        files = _data_files(store.uri, page)
        found += files
        meter.advance(len(files))
    return found


async def _read(
    executor: TaskExecutor, roots: StoreRoots, tasks: Sequence[ConvertTask], meter: Meter
) -> list[tuple[ConvertTask, ConvertResult]]:
    """What is found out about the files; of a single one first, which tells the footers' length."""

    def advance(result: ConvertResult) -> None:
        meter.advance(len(result.adds))

    first, *others = tasks
    told = await IN_PROCESS.run(roots, [first], on_done=advance)
    others = [replace(task, tail=told[0].tail) for task in others]
    done = await executor.run(roots, others, on_done=advance)
    return list(zip([first, *others], [*told, *done], strict=True))


def _tasks(
    store: ObjectStore,
    files: Sequence[ObjectMeta],
    partitions: tuple[StructField, ...],
    wanted: StatisticsWanted | None,
    folder_names: FolderNames,
) -> list[ConvertTask]:
    step = _FILES_A_TASK if store.local is None else _LOCAL_FILES_A_TASK
    starts = [0, *range(1, len(files), step)]
    ends = [*starts[1:], len(files)]
    groups = (tuple(files[start:end]) for start, end in zip(starts, ends, strict=True))
    return [ConvertTask(group, partitions, wanted, folder_names=folder_names) for group in groups]


def _data_files(root: str, page: Iterable[ObjectMeta]) -> list[ObjectMeta]:
    """The files of a listing that are not hidden."""
    found = []
    for meta in page:
        steps = meta.path.split("/")
        for start, what in _KEEPERS.items():
            if meta.path.startswith(start):
                raise InvalidOptionError(
                    f"{root} holds {meta.path}: the folder is {what}. Write its rows to a new "
                    "table (write_table) instead"
                )
        if LOG_DIR.strip("/") in steps[1:]:
            raise InvalidOptionError(
                f"{root} holds the Delta table {root}/{meta.path.rpartition(LOG_DIR)[0]}, some of "
                "whose files may be of earlier versions; convert the folders beside it one by one"
            )
        hidden = any(
            step.startswith(("_", ".")) and "=" not in step and step != HIVE_DEFAULT_PARTITION
            for step in steps
        )
        is_mark = meta.path.endswith("/") or steps[-1].endswith(_FOLDER_MARK)
        if not hidden and not (is_mark and not meta.size):
            _check_text(root, meta.path)
            found.append(meta)
    return found


def _check_text(root: str, path: str) -> None:
    """Refuse a name that a log cannot hold, as a local disk may have it."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidTableError(
            f"{root} holds {path!a}, whose name is no text in UTF-8, as names in a log are; rename "
            "the file or folder"
        ) from error


class _Found:
    """The files with what their footers say."""

    def __init__(self, done: Sequence[tuple[ConvertTask, ConvertResult]]) -> None:
        self.schemas: list[FoundSchema] = []
        self._done = list(done)
        for _, result in done:
            for each in result.schemas:
                if all(known.schema != each.schema for known in self.schemas):
                    self.schemas.append(each)

    @property
    def files(self) -> list[AddFile]:
        """An `add` for each file, in the order of their paths."""
        return [add for _, result in self._done for add in result.adds]

    async def complete(
        self,
        executor: TaskExecutor,
        roots: StoreRoots,
        partitions: tuple[StructField, ...],
        wanted: StatisticsWanted,
    ) -> None:
        """Read footers again where the table's schema asks for other columns than was guessed."""
        places = await in_thread(self._otherwise, partitions, wanted)
        again = [replace(self._done[place][0], wanted=wanted) for place in places]
        done = await executor.run(roots, again)
        for place, task, result in zip(places, again, done, strict=True):
            self._done[place] = task, result

    def _otherwise(
        self, partitions: tuple[StructField, ...], wanted: StatisticsWanted
    ) -> list[int]:
        """The tasks with files of which other statistics are wanted than were guessed."""
        alone = replace(wanted, schema=None)
        differ = [
            each.schema
            for each in self.schemas
            if alone.leaves(each.schema, partitions) != wanted.leaves(each.schema, partitions)
        ]
        return [
            place
            for place, (_, result) in enumerate(self._done)
            if any(each.schema in differ for each in result.schemas)
        ]


# -------------------------------------------------------------------------------------- the table


def checked_properties(
    properties: Mapping[str, str] | None, *, collect_statistics: bool = True
) -> dict[str, str]:
    """The properties of a table of files that others have written.

    Raises:
        InvalidPropertyError: one is unknown, has a value that is not allowed, is a constraint, or
            asks for statistics that are not to be collected.
    """
    asked = validate_properties(properties or {})
    for key in asked:
        if key.lower().startswith(CONSTRAINT_PREFIX):
            raise InvalidPropertyError(
                f"{key} is a constraint, to which nobody has held the files; convert them, and add "
                "it by add_constraint"
            )
    if not collect_statistics:
        _refuse_uncounted(asked)
    return asked


def _refuse_uncounted(asked: Mapping[str, str]) -> None:
    """Refuse files without statistics for a table that counts rows, as Delta Spark does."""
    nothing = StructType(())
    metadata = Metadata("", schema_to_string(nothing), configuration=stored_properties(asked))
    if TableConfiguration(protocol_for_new_table(nothing, asked), metadata).counts_new_rows:
        raise InvalidPropertyError(
            "the properties ask for ids of rows, or for what Iceberg's clients need, for which the "
            "log has to say how many rows each file holds; convert with collect_statistics=True, "
            "or without these properties"
        )


def _new_table(
    schema: StructType,
    partitions: Sequence[StructField],
    asked: Mapping[str, str],
    name: str | None,
    description: str | None,
) -> NewTable:
    """What the first commit says of the table, whose files have columns by their own names."""
    mode = COLUMN_MAPPING_MODE.read(asked)
    if mode == "name":
        schema, _ = map_columns(schema, 0, lambda _, field: field.name)
    first = new_table(
        schema,
        partition_by=tuple(field.name for field in partitions),
        properties=asked,
        name=name,
        description=description,
    )
    made = first.configuration
    if mode == "id" or made.column_mapping_mode != mode or made.iceberg_compat:
        raise InvalidPropertyError(
            "the properties would find columns by ids, which the files do not have; convert "
            "them without, or with delta.columnMapping.mode 'name' and nothing for Iceberg's "
            "clients"
        )
    return first
