"""FSCK: is everything there that the log speaks of, and does the log agree with itself?

Looked at are the commits (no gap), every checkpoint (readable, and equal to the commits), the
latest version's checksum, and every live file with its deletion vector (there, of the right size,
intact). A deep check also reads every page of every file, and every commit. Two kinds of damage are
repaired. Missing files are removed from the table, and their rows with them; outdated checksum
files of Hadoop's are deleted. A lost deletion vector is not repaired: without it deleted rows would
come back, and without the file live rows would be lost.

On a local disk, Spark keeps a hidden checksum file next to each file that it writes, and refuses to
read a file that does not match. Files in the log and manifests are replaced in place, so a checksum
that does not match is one of an earlier version. Data files are never replaced, so one of the two
is damaged; only a deep check compares these, and it keeps both.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._concurrency import in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.errors import (
    InvalidTableError,
    ObjectNotFoundError,
    OutsideRootError,
    RootNotAllowedError,
)
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.log_path import LOG_DIR, LogFileKind, checksum_path, commit_path
from adelta.kernel.log_segment import complete_checkpoints, plan_log_segment
from adelta.log.checksum_io import verify_checksum
from adelta.log.deletion import delete_objects
from adelta.log.deletion_vector_reader import read_deletion_vector
from adelta.log.listing import list_whole_log
from adelta.log.verify import checkpoint_faults, replay
from adelta.operations.deep_check import NOT_TO_BE_READ, check_all
from adelta.progress import Meter
from adelta.storage.distrust import past_cache
from adelta.table import begin, latest_state, opened, roots_of
from adelta.write.symlink_manifests import MANIFESTS_DIR
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.progress import OnProgress
    from adelta.storage.object_store import ObjectMeta, ObjectStore, UnfinishedObject
    from adelta.storage.roots import StoreRoots
    from adelta.table import Table, TableOrAddress

__all__ = ["FsckProblem", "FsckReport", "fsck"]

MISSING_FILE = "missing file"
HADOOP_CHECKSUM = "hadoop checksum"


@dataclass(frozen=True, slots=True)
class FsckProblem:
    """One thing that is wrong.

    `kind` is one of ``missing commit``, ``commit``, ``checkpoint``, ``checksum``,
    ``missing file``, ``file``, ``deletion vector`` and ``hadoop checksum``; `path` is the path in
    the log, or the path of the checksum file; `message` says what is wrong with it.
    """

    kind: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class FsckReport:
    """What was looked at, and what is wrong.

    `version` is the one that was looked at. `num_pages` are the pages of Parquet files that a deep
    check has read, `num_pages_unchecked` those of them that have no checksum and were only decoded;
    None where it was not deep. `repaired_version` is the one that takes the missing
    files out of the table; None where nothing was written. `deleted_checksums` are the paths of the
    outdated checksum files of Hadoop's that a repair has deleted.
    """

    version: int
    num_commits: int
    num_checkpoints: int
    num_files: int
    num_deletion_vectors: int
    problems: tuple[FsckProblem, ...] = ()
    repaired_version: int | None = None
    num_pages: int | None = None
    num_pages_unchecked: int | None = None
    deleted_checksums: tuple[str, ...] = ()

    @property
    def missing_files(self) -> tuple[str, ...]:
        """The paths, as the log has them, of live files that are not there."""
        return tuple(p.path for p in self.problems if p.kind == MISSING_FILE)

    @property
    def outdated_checksums(self) -> tuple[str, ...]:
        """Paths of checksum files of earlier versions of their files, which a repair deletes."""
        return tuple(
            p.path for p in self.problems if p.kind == HADOOP_CHECKSUM and _is_outdated(p.path)
        )

    @property
    def unrepaired(self) -> tuple[FsckProblem, ...]:
        """The problems that are left."""
        return tuple(p for p in self.problems if not self._is_repaired(p))

    def _is_repaired(self, problem: FsckProblem) -> bool:
        if problem.kind == MISSING_FILE:
            return self.repaired_version is not None
        return problem.kind == HADOOP_CHECKSUM and problem.path in self.deleted_checksums


@checked
async def fsck(
    table: TableOrAddress,
    *,
    dry_run: bool = True,
    deep: bool = False,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> FsckReport:
    """Check the table's log and files; without `dry_run`, take files that are gone out of it.

    With `deep` everything that the table relies on is read: every page of every live file and of
    the checkpoints is held to its checksum and decoded, and every commit is decoded. That takes as
    long as a scan of the whole table, in memory for a few columns of a few files.

    It only looks, by default; the default of deltalake's `repair` is to take them out. Taking them
    out is a commit of its own, ``FSCK`` in the history: earlier versions still name the files.
    Restore the files instead, where there is a copy of them. On a local disk, a repair also deletes
    Spark's checksum files of earlier versions of files in the log and of manifests. `on_progress`
    is told of checkpoints, files and deletion vectors that were looked at, and then of what a deep
    check has read. A disk cache is not asked: what it has kept says nothing of the objects.

    Raises:
        TableNotFoundError: there is no table.
        InvalidTableError: the log is too damaged to be read at all.
        InvariantViolationError: files are to be taken out of a table that only takes appends.
        CommitConflictError: another commit came in between.
        UnsupportedFeatureError: the table needs a feature that adelta does not have.
        StorageError: the store refused or failed.
    """
    async with opened(table, storage_options) as handle:
        with past_cache():  # whose sound copies say nothing of the objects
            return await _fsck(handle, on_progress, dry_run=dry_run, deep=deep)


async def _fsck(
    table: Table, on_progress: OnProgress | None, *, dry_run: bool, deep: bool
) -> FsckReport:
    latest = (await latest_state(table)).version  # or that there is no table
    store = table.store
    listing = await list_whole_log(store, latest)
    state = await replay(store, plan_log_segment(listing))
    state.configuration.check_readable(table.uri)
    checkpoints = complete_checkpoints(listing)
    commits = [file.version for file in listing if file.kind is LogFileKind.COMMIT]
    problems = list(_gaps(commits))
    meter = Meter(on_progress, "checking checkpoints", total=len(checkpoints), unit="objects")
    for checkpoint in reversed(checkpoints):
        path = checkpoint.files[0].path
        faults = await checkpoint_faults(store, listing, checkpoint)
        problems += [FsckProblem("checkpoint", path, fault) for fault in faults]
        meter.advance()
    try:
        await verify_checksum(state)
    except InvalidTableError as error:
        problems.append(FsckProblem("checksum", checksum_path(state.version), str(error)))
    files = await in_thread(list, (await state.files()).rows())
    roots = roots_of(table)
    problems += await _file_problems(
        roots, files, Meter(on_progress, "checking files", total=len(files))
    )
    problems += await _vector_problems(roots, files, on_progress)
    checksums = await _wrong_checksums(store, deep=deep)
    problems += [_checksum_problem(checksum) for checksum in checksums]
    read = await check_all(roots, listing, checkpoints, files, on_progress) if deep else None
    if read is not None:
        known = {(problem.kind, problem.path) for problem in problems}
        found = (FsckProblem(*problem) for problem in read.problems)
        problems += [each for each in found if (each.kind, each.path) not in known]
    report = FsckReport(
        version=state.version,
        num_commits=len(commits),
        num_checkpoints=len(checkpoints),
        num_files=len(files),
        num_deletion_vectors=sum(file.deletion_vector is not None for file in files),
        problems=tuple(problems),
        num_pages=None if read is None else read.pages,
        num_pages_unchecked=None if read is None else read.without_checksum,
    )
    if dry_run:
        return report
    report = await _delete_outdated_checksums(store, report, checksums)
    return await _repaired(table, report, files)


def _gaps(commits: Sequence[int]) -> Iterator[FsckProblem]:
    for before, after in pairwise(commits):
        if after != before + 1:
            gone = f"{before + 1}" if after == before + 2 else f"{before + 1} to {after - 1}"
            yield FsckProblem(
                "missing commit",
                commit_path(before + 1),
                f"the commits of version {gone} are not there, between {before} and {after}",
            )


async def _file_problems(
    roots: StoreRoots, files: Sequence[AddFile], meter: Meter
) -> list[FsckProblem]:
    """Live files that are gone or have another size.

    The table's own objects are listed, which costs a request a thousand. What the listing lacks is
    asked for by name before it counts as gone, and so are files outside the table's root.
    """
    sizes: dict[str, int] = {}
    wanted: dict[str, AddFile] = {}
    asked: list[AddFile] = []
    problems: list[FsckProblem] = []
    for file in files:
        try:
            store, path = roots.locate(file.path, decode_path(file.path))
        except NOT_TO_BE_READ as error:
            problems.append(FsckProblem("file", file.path, str(error)))
            meter.advance()
            continue
        if store is roots.store:
            wanted[path] = file
        else:
            asked.append(file)
    if wanted:
        async for page in roots.store.list():
            known = _known(page, wanted)
            sizes.update(known)
            meter.advance(len(known))
    asked += [file for path, file in wanted.items() if path not in sizes]
    problems += [
        _size_problem(wanted[path], size)
        for path, size in sizes.items()
        if size != wanted[path].size
    ]

    async def ask(file: AddFile) -> FsckProblem | None:
        found = await answer(file)
        meter.advance()
        return found

    async def answer(file: AddFile) -> FsckProblem | None:
        store, path = roots.locate(file.path, decode_path(file.path))
        try:
            size = (await store.head(path)).size
        except ObjectNotFoundError:
            return FsckProblem(MISSING_FILE, file.path, f"{store.uri}/{path} is not there")
        except RootNotAllowedError as error:  # by a link
            return FsckProblem("file", file.path, str(error))
        return None if size == file.size else _size_problem(file, size)

    answers = await map_concurrent(ask, asked, limit=roots.store.concurrency)
    return problems + [problem for problem in answers if problem is not None]


def _known(page: Sequence[ObjectMeta], wanted: dict[str, AddFile]) -> dict[str, int]:
    return {
        meta.path: meta.size
        for meta in page
        if meta.path in wanted and not meta.path.startswith(LOG_DIR)
    }


def _size_problem(file: AddFile, size: int) -> FsckProblem:
    return FsckProblem("file", file.path, f"has {size:,} bytes where the log says {file.size:,}")


async def _vector_problems(
    roots: StoreRoots, files: Sequence[AddFile], on_progress: OnProgress | None
) -> list[FsckProblem]:
    with_vectors = [file for file in files if file.deletion_vector is not None]
    meter = Meter(on_progress, "checking deletion vectors", total=len(with_vectors), unit="objects")

    async def check(file: AddFile) -> FsckProblem | None:
        found = await look(file)
        meter.advance()
        return found

    async def look(file: AddFile) -> FsckProblem | None:
        assert file.deletion_vector is not None
        stated = file.deletion_vector.cardinality
        try:
            rows = await read_deletion_vector(roots, file.deletion_vector, file.path)
        except NOT_TO_BE_READ as error:
            return FsckProblem("deletion vector", file.path, str(error))
        if len(rows) == stated:
            return None
        message = f"its deletion vector names {len(rows):,} rows where the log says {stated:,}"
        return FsckProblem("deletion vector", file.path, message)

    found = await map_concurrent(check, with_vectors, limit=roots.store.concurrency)
    return [problem for problem in found if problem is not None]


async def _wrong_checksums(store: ObjectStore, *, deep: bool) -> list[UnfinishedObject]:
    """Hadoop's checksum files that do not match in the log and manifests; if `deep`, anywhere."""
    found: list[UnfinishedObject] = []
    if store.local is None:
        return found
    for folder in ("",) if deep else (LOG_DIR, MANIFESTS_DIR):
        with suppress(OutsideRootError):  # The folder is a link to another place.
            found += await store.local.list_wrong_checksums(folder)
    return found


def _checksum_problem(checksum: UnfinishedObject) -> FsckProblem:
    message = "it does not match its file, so that Spark cannot read the file; "
    if _is_outdated(checksum.path):
        message += "it is from an earlier version of the file, and can be deleted"
    else:
        message += "one of the two is damaged; delete the checksum if the file proves to be intact"
    return FsckProblem(HADOOP_CHECKSUM, checksum.path, message)


def _is_outdated(path: str) -> bool:
    """Whether a checksum file that does not match is from an earlier version of its file."""
    return path.startswith((LOG_DIR, MANIFESTS_DIR))


async def _delete_outdated_checksums(
    store: ObjectStore, report: FsckReport, checksums: Sequence[UnfinishedObject]
) -> FsckReport:
    """Delete those of `checksums` that are outdated, and return the report with their paths."""
    outdated = [checksum for checksum in checksums if _is_outdated(checksum.path)]
    await delete_objects(store, outdated)
    return replace(report, deleted_checksums=tuple(checksum.path for checksum in outdated))


async def _repaired(table: Table, report: FsckReport, files: Sequence[AddFile]) -> FsckReport:
    missing = set(report.missing_files)
    if not missing:
        return report
    # What others add meanwhile has nothing to do with it.
    async with begin(table, TransactionRequest(operation="FSCK", from_latest=True)) as tx:
        live = await tx.live_files()
        gone = await in_thread(lambda: [f for f in live.rows() if f.path in missing])
        if gone:
            tx.remove(gone)
    return replace(report, repaired_version=tx.version)
