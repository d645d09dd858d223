"""CLONE: another table with the rows of a version, which from then on goes its own way."""

from __future__ import annotations

import os
from dataclasses import asdict
from dataclasses import replace as other
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta import _compute as pc
from adelta._arguments import checked
from adelta._arrow_values import array_of
from adelta._chance import new_uuid
from adelta._concurrency import in_io_thread, in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, TableAlreadyExistsError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.deletion_vector.descriptor import vector_path
from adelta.kernel.file_id import canonical_paths, suspect_paths
from adelta.kernel.file_set import FileSet
from adelta.kernel.statistics import num_records, with_num_records
from adelta.kernel.transaction.cloning import (
    cloned_definition,
    copied_file,
    copies_of,
    copy_key,
    mark_of,
    placed,
    shallow_file,
)
from adelta.operations.clone_source import SourceFormat, SourceWish, clone_source
from adelta.operations.clone_tasks import plan_copies
from adelta.operations.create import ArrowSchema, exists
from adelta.operations.restore_check import check_no_vacuum
from adelta.operations.row_counts import counted
from adelta.operations.stage_content import stage_content
from adelta.progress import Meter, OnProgress
from adelta.storage.addresses import Place
from adelta.storage.providers import LOCAL
from adelta.table import begin, clock_of, latest_state, opened, roots_of
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.schema.types import StructType
    from adelta.kernel.transaction.cloning import Copy
    from adelta.kernel.transaction.creation import NewTable
    from adelta.log.state import LogState
    from adelta.operations.clone_source import CloneSource
    from adelta.operations.clone_tasks import CopiedObjects
    from adelta.storage.roots import StoreRoots
    from adelta.table import Table, TableOrAddress
    from adelta.write.transaction_core import TransactionCore

    _Key = tuple[str, str | None]

__all__ = ["CloneMetrics", "clone"]

_METRICS = {
    "source_table_size": "sourceTableSize",
    "source_num_of_files": "sourceNumOfFiles",
    "num_removed_files": "numRemovedFiles",
    "num_copied_files": "numCopiedFiles",
    "removed_files_size": "removedFilesSize",
    "copied_files_size": "copiedFilesSize",
}
"""What Delta Spark calls them in the history."""

_NO_VERSION = -1  # in the history, of a source that has none


@dataclass(frozen=True, slots=True)
class CloneMetrics:
    """What a clone did; with `dry_run`, what it would have done.

    `version` is the target's, None of a dry run, and `source_version` the one that was cloned, None
    of a source that is no Delta table.
    Sizes are in bytes. Files that were copied are data files; none are of a shallow clone, whose
    readers have to allow the root `reads_from` (`allowed_roots` of `open_table`); None of others.
    """

    version: int | None
    source_version: int | None
    dry_run: bool
    source_table_size: int
    source_num_of_files: int
    num_removed_files: int
    num_copied_files: int
    removed_files_size: int
    copied_files_size: int
    reads_from: str | None = None


@checked
async def clone(
    source: TableOrAddress,
    target: TableOrAddress,
    *,
    shallow: bool = False,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    source_format: SourceFormat = "delta",
    partition_schema: ArrowSchema | StructType | str | None = None,
    iceberg_metadata: str | None = None,
    replace: bool = False,
    properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    user_metadata: str | None = None,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
    target_storage_options: Mapping[str, str] | None = None,
) -> CloneMetrics:
    """Make `target` a table with the rows of `source`: of its latest version, or an earlier one.

    With the `source_format` ``parquet`` or ``iceberg`` the source is a folder of Parquet files, or
    an Iceberg table, which stays as it is. Its files are found as by `convert`, for which
    `partition_schema` is, or as by `convert_iceberg`, whose `metadata` `iceberg_metadata` is.

    Schema, partitioning, clustering, constraints and properties are the source's, other than
    `properties` says; the history, application transactions and row ids are not, and the table has
    an id of its own.

    A deep clone copies data files and deletion vectors, from any store to any other. A shallow one
    names the files of the source where they are: it is made at once, and needs the source, whose
    VACUUM knows nothing of it, and where nobody may write a file of Parquet anew under its name.
    Who opens a shallow clone has to allow the source as a root.

    With `replace` a table that is there becomes the clone, by a commit of its own: files that an
    earlier clone of the source has copied are not copied again, and those that are gone from the
    source go. Whatever is committed to it meanwhile is a conflict. A clone that is broken off
    leaves the target as it was; what it has copied by then may stay for the next one, or VACUUM.

    `storage_options` are the source's, and the target's too unless it is given its own.

    Raises:
        TableNotFoundError: there is no source.
        TableAlreadyExistsError: there is a target, and it is not to be replaced.
        InvalidOptionError: source and target are one table, or lie in each other; options are given
            that do not go together; or the source is not of the format, as for `convert`.
        VersionNotFoundError: the version does not exist, or is no longer kept.
        TimestampOutOfRangeError: the time is outside the history that is kept.
        InvalidPropertyError: a property is unknown, has a value that is not allowed, or cannot be
            another one than the source's.
        InvariantViolationError: rows would go from a target that only takes appends.
        MissingDataFileError: a file of the source is gone.
        RootNotAllowedError: the source is itself a shallow clone, and its files may not be read.
        UnsupportedFeatureError: a table needs a feature that adelta does not have, or an Iceberg
            table what cannot be converted.
        SchemaMismatchError: files of another format are such that Delta cannot have them together.
        InvalidUseError: pyiceberg is not installed.
        CommitConflictError: another commit to the target came first.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        InvalidTableError: the log is damaged, or a file is.
        StorageError: a store refused or failed.
    """
    wish = SourceWish(source_format, version, timestamp, partition_schema, iceberg_metadata)
    wish.check()
    if target_storage_options is None:
        target_storage_options = storage_options
    async with (
        opened(source, storage_options) as origin,
        opened(target, target_storage_options) as handle,
    ):
        await in_io_thread(_check_apart, origin, handle)
        found = await clone_source(origin, wish, properties or {}, on_progress)
        before = await latest_state(handle) if await exists(handle) else None
        if before is not None and not replace:
            raise TableAlreadyExistsError(
                f"there is a Delta table at {handle.uri} already; clone to another address, or "
                "pass replace=True to make it the clone"
            )
        plan = await _plan(origin, found, before, properties or {}, shallow=shallow)
        if dry_run:
            return plan.metrics(None)
        request = TransactionRequest(
            operation="CLONE",
            parameters={
                "source": found.name,
                "sourceVersion": _NO_VERSION if found.version is None else found.version,
            },
            user_metadata=user_metadata,
            rebase=False,
            commits_empty=True,
            from_latest=True,
        )
        creates = plan.definition if before is None else None
        tx = begin(handle, request, creates=creates)
        async with tx:
            if before is not None and tx.base.version != before.version:
                plan = await _plan(origin, found, tx.base, properties or {}, shallow=shallow)
            if before is not None:
                await _check_no_vacuum(tx.base, plan)
            plan = await _counted(plan)
            comes = await _copy(tx, roots_of(handle), plan, on_progress)
            await _stage(tx, plan, comes, creates=before is None)
    return plan.metrics(tx.version)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be copied, and committed to the target.

    `comes` are files by their marks, which in the source are `origins`, and `paths` tells where
    those are that the target has. Those that are `bare` stay, and have no ids for their rows, which
    they come to need; in the source they are `bare_origins`.
    """

    origin: Table
    source: CloneSource
    definition: NewTable
    origins: tuple[AddFile, ...]
    comes: tuple[AddFile, ...]
    copies: tuple[Copy, ...]
    copied: tuple[AddFile, ...]
    paths: Mapping[str, str]
    goes: FileSet
    bare: tuple[AddFile, ...]
    bare_origins: tuple[AddFile, ...]
    shallow: bool

    def metrics(self, version: int | None) -> CloneMetrics:
        """What it does, where it becomes `version`."""
        return CloneMetrics(
            version=version,
            source_version=self.source.version,
            dry_run=version is None,
            source_table_size=self.source.files.total_bytes,
            source_num_of_files=self.source.files.num_files,
            num_removed_files=self.goes.num_files,
            num_copied_files=len(self.copied),
            removed_files_size=self.goes.total_bytes,
            copied_files_size=sum(file.size for file in self.copied),
            reads_from=self.origin.uri if self.shallow else None,
        )


def _check_apart(source: Table, target: Table) -> None:
    one, other = (_as_linked(Place.of(table.uri)) for table in (source, target))
    if one == other or one.below(other) is not None or other.below(one) is not None:
        raise InvalidOptionError(
            f"{target.uri} cannot be a clone of {source.uri}: neither can be, or lie in, the "
            "other's folder, where one's VACUUM would delete the other's files"
        )


def _as_linked(place: Place) -> Place:
    """A folder of this machine as it is called without links."""
    return Place.of(os.path.realpath(place.address)) if place.provider is LOCAL else place


async def _plan(
    origin: Table,
    source: CloneSource,
    target: LogState | None,
    properties: Mapping[str, str],
    *,
    shallow: bool,
) -> _Plan:
    live = FileSet.empty() if target is None else await target.files()
    domain = source.clustering
    definition = await in_thread(
        cloned_definition,
        source.configuration,
        None if target is None else target.configuration,
        properties,
        now_ms=clock_of(origin).now_ms(),
        new_id=lambda: str(new_uuid()),
        domains=() if domain is None else (domain,),
    )
    definition.configuration.check_writable("the clone")

    def compare() -> _Plan:
        files = list(source.files.rows())
        name = shallow_file if shallow else copied_file
        named = [name(file, source.root) for file in files]
        root = source.root if target is None else target.root
        wanted = {copy_key(copy, root): file for file, copy in zip(files, named, strict=True)}
        mine: dict[_Key, AddFile] = {}
        goes = []
        for file in live.rows():
            key = copy_key(file, root)
            goes.append(key not in wanted or key in mine)
            mine.setdefault(key, file)
        again = set() if source.version is not None else _told_anew(mine, named, root)
        there = {key[0]: file for key, file in mine.items()}
        paths = {mark: decode_path(file.path) for mark, file in there.items()}
        paths.update(_vectors_of(mine.values()))
        pairs = [
            (file, copy)
            for file, copy in zip(files, named, strict=True)
            if (key := copy_key(copy, root)) not in mine or key in again
        ]
        copies: dict[str, Copy] = {}
        if not shallow:
            all_copies = (each for file, copy in pairs for each in copies_of(file, copy))
            copies = {each.mark: each for each in all_copies if each.mark not in paths}
        data = {copy.source for copy in copies.values() if copy.size is not None}
        stays = (mine[key] for key in wanted if key in mine and key not in again)
        bare = _bare(stays, definition)
        return _Plan(
            origin=origin,
            source=source,
            definition=definition,
            origins=tuple(file for file, _ in pairs),
            comes=tuple(
                copy
                if (key := copy_key(copy, root)) in again
                else _with_row_ids(copy, there.get(key[0]))
                for _, copy in pairs
            ),
            copies=tuple(copies.values()),
            copied=tuple(file for file, _ in pairs if file.path in data),
            paths=paths,
            goes=live.filter(array_of(goes, pa.bool_())),
            bare=tuple(bare),
            bare_origins=tuple(wanted[copy_key(file, root)] for file in bare),
            shallow=shallow,
        )

    plan = await in_thread(compare)
    if plan.goes.num_files and target is not None:
        target.configuration.check_removable(target.root)
    return plan


def _told_anew(mine: Mapping[_Key, AddFile], named: Iterable[AddFile], root: str) -> set[_Key]:
    """Files that the target has, of which another format says other things by now.

    One may have been written again under its name, or belong to other partitions than it did.
    """
    found = set()
    for file in named:
        key = copy_key(file, root)
        if key in mine and _told(mine[key]) != _told(file):
            found.add(key)
    return found


def _told(file: AddFile) -> tuple[object, ...]:
    return file.size, file.modification_time, dict(file.partition_values)


def _bare(stays: Iterable[AddFile], definition: NewTable) -> list[AddFile]:
    """The files that have no ids for their rows, though the definition asks for some."""
    if definition.configuration.row_id_columns is None:
        return []
    return [file for file in stays if file.base_row_id is None]


def _with_row_ids(file: AddFile, live: AddFile | None) -> AddFile:
    """The file with the ids that its rows have in the target, where it gets another vector."""
    if live is None:
        return file
    return other(
        file,
        base_row_id=live.base_row_id,
        default_row_commit_version=live.default_row_commit_version,
    )


def _vectors_of(files: Iterable[AddFile]) -> Iterator[tuple[str, str]]:
    """The marks and paths of the deletion vectors that lie in the table."""
    for file in files:
        vector = file.deletion_vector
        if vector is not None and vector.storage_type == "u":
            path = decode_path(vector_path(vector))
            yield mark_of(path), path


async def _check_no_vacuum(target: LogState, plan: _Plan) -> None:
    """Refuse files that lie in the target, as a shallow clone of it names them, and may go."""
    if plan.shallow:
        files = FileSet.of(plan.comes).table
        elsewhere = suspect_paths(canonical_paths(files.column("path"), target.root))
        await check_no_vacuum(target, files.filter(pc.invert(elsewhere)))


async def _counted(plan: _Plan) -> _Plan:
    """The plan with files that say how many rows they hold, where the clone demands that."""
    if not plan.definition.configuration.counts_new_rows:
        return plan
    origins = await counted(roots_of(plan.origin), (*plan.origins, *plan.bare_origins))
    files = (
        other(file, stats=with_num_records(file.stats, num_records(origin.stats) or 0))
        for file, origin in zip((*plan.comes, *plan.bare), origins, strict=True)
    )
    return other(plan, comes=tuple(islice(files, len(plan.comes))), bare=tuple(files))


async def _copy(
    tx: TransactionCore, roots: StoreRoots, plan: _Plan, on_progress: OnProgress | None
) -> tuple[AddFile, ...]:
    """The files to add, once what they need has been copied."""
    size = sum(copy.size or 0 for copy in plan.copies)
    meter = Meter(on_progress, "copying", total=size, unit="bytes")
    paths = dict(plan.paths)

    def done(result: CopiedObjects) -> None:
        tx.own_paths(result.paths)
        paths.update(result.by_mark)
        meter.advance(min(result.num_data_bytes, size))

    await tx.executor.run(roots, plan_copies(plan.origin, plan.copies), on_done=done)
    if plan.shallow:
        return plan.comes
    return await in_thread(lambda: tuple(placed(file, paths) for file in plan.comes))


async def _stage(
    tx: TransactionCore, plan: _Plan, comes: tuple[AddFile, ...], *, creates: bool
) -> None:
    if not creates:
        clustering = plan.source.clustering
        domain = None if clustering is None else clustering.configuration
        await stage_content(tx, plan.definition, domain, plan.goes)
    tx.staging.bring_back(comes)
    tx.staging.add_again(plan.bare)
    tx.metrics.clear()
    told = asdict(plan.metrics(None))
    tx.metrics.update({_METRICS[name]: told[name] for name in _METRICS})
