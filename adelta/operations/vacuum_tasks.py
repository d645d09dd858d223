"""Files deleted by independent tasks, some thousands each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import OutsideRootError
from adelta.kernel.deletable import parse_unreferenced_path
from adelta.log.deletion import delete_objects

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from adelta.kernel.deletable import UnreferencedPath
    from adelta.storage.roots import StoreRoots

__all__ = ["DeleteFiles", "DeletedFiles", "plan_deletes"]

_FILES_A_TASK = 8_000


@dataclass(frozen=True, slots=True)
class DeletedFiles:
    """How many files a task has deleted, and why some have stayed: links are not deleted."""

    num_files: int
    refusals: tuple[str, ...] = ()

    @property
    def paths(self) -> Iterable[str]:
        """What was written: nothing."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class DeleteFiles:
    """Files of the table's store that nothing needs, by their paths."""

    files: pa.ChunkedArray[Any]

    async def run(self, roots: StoreRoots) -> DeletedFiles:
        """Delete them; one that is not there is no error.

        Raises:
            StorageError: the store refused or failed.
        """
        paths = await in_thread(_deletable, self.files)
        try:
            await delete_objects(roots.store, paths)
        except OutsideRootError:
            return await _one_by_one(roots, paths)
        return DeletedFiles(len(paths))


def plan_deletes(files: pa.Table) -> list[DeleteFiles]:
    """The tasks that delete files of `FOUND`."""
    paths = files.column("path")
    return [
        DeleteFiles(paths.slice(start, _FILES_A_TASK))
        for start in range(0, len(paths), _FILES_A_TASK)
    ]


def _deletable(files: pa.ChunkedArray[Any]) -> list[UnreferencedPath]:
    parsed = (parse_unreferenced_path(str(path)) for path in files.to_pylist())
    return [path for path in parsed if path is not None]


async def _one_by_one(roots: StoreRoots, paths: list[UnreferencedPath]) -> DeletedFiles:
    """What is left of them, after a link was met."""
    refusals = []
    for path in paths:
        try:
            await delete_objects(roots.store, [path])
        except OutsideRootError as error:
            refusals.append(str(error))
    return DeletedFiles(len(paths) - len(refusals), tuple(refusals))
