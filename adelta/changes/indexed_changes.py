"""What a version gives a stream, each thing under the index that offsets count by.

The files that a stream begins with are indexed by modification time and path. A commit's are
indexed as its lines stand: those that add rows; for the change data feed those that change any.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of
from adelta._dataclasses import dataclass
from adelta.changes.commit_pieces import changes_nothing
from adelta.errors import UnsupportedFeatureError
from adelta.kernel.file_set import FileSet, add_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.commit import Commit


__all__ = ["IndexedFiles", "added_files", "changed_files", "initial_files", "that_change_data"]


@dataclass(frozen=True, slots=True)
class IndexedFiles:
    """Files of one version, in the order of their indexes, which begin with 0.

    Attributes:
        version: the version.
        paths: their paths, as the log has them.
        sizes: their bytes.
        together: whether a micro-batch takes all of them or none.
        is_initial: whether they are those that a stream begins with.
        table: the added ones as columns, where only these count.
        stops: whether a stream stops before them, since the metadata change.
    """

    version: int
    paths: pa.ChunkedArray[Any]
    sizes: pa.ChunkedArray[Any]
    together: bool = False
    is_initial: bool = False
    table: pa.Table | None = None
    stops: bool = False

    @classmethod
    def stop(cls, version: int) -> IndexedFiles:
        """A version before whose files a stream stops."""
        none = pa.chunked_array([], pa.string()), pa.chunked_array([], pa.int64())
        return cls(version, *none, stops=True)

    def added(self, first: int, end: int) -> Iterator[AddFile]:
        """The files with the indexes from `first` on and below `end`."""
        assert self.table is not None
        return add_files(self.table.slice(first, end - first))

    def nothing(self) -> IndexedFiles:
        """The same version without a file."""
        return replace(self, paths=self.paths.slice(0, 0), sizes=self.sizes.slice(0, 0))

    def __len__(self) -> int:
        """How many there are."""
        return len(self.paths)


def initial_files(version: int, files: FileSet) -> IndexedFiles:
    """The files that a stream begins with. CPU-heavy: there may be very many."""
    order: Any = [("modification_time", "ascending"), ("path", "ascending")]
    return _of_adds(version, files.table.sort_by(order), is_initial=True)


def added_files(commit: Commit) -> IndexedFiles:
    """The files by which a commit adds rows."""
    return _of_adds(commit.version, that_change_data(commit.adds))


def that_change_data(files: pa.Table) -> pa.Table:
    """The added or removed files that are not merely rearranged."""
    return files.filter(pc.fill_null(files.column("data_change"), False))


def _of_adds(version: int, adds: pa.Table, *, is_initial: bool = False) -> IndexedFiles:
    sizes = pc.fill_null(adds.column("size"), 0)
    return IndexedFiles(version, adds.column("path"), sizes, False, is_initial, adds)


def changed_files(commit: Commit, data: bytes) -> IndexedFiles:
    """The files by which a commit, of which `data` are the bytes, changes rows. CPU-heavy."""
    if commit.cdc.num_rows:
        sizes = pc.fill_null(commit.cdc.column("size"), 0)
        return IndexedFiles(commit.version, commit.cdc.column("path"), sizes, together=True)
    adds, removes = that_change_data(commit.adds), that_change_data(commit.removes)
    if changes_nothing(commit):
        return _of_adds(commit.version, adds.slice(0, 0))
    if not removes.num_rows:
        return _of_adds(commit.version, adds)
    paths = pa.chunked_array(
        [*adds.column("path").chunks, *removes.column("path").chunks], pa.string()
    )
    vectors = any(
        part.column("deletion_vector").null_count < part.num_rows for part in (adds, removes)
    )
    again = len(pc.unique(paths)) < len(paths)
    found = _in_order_of_lines(data)
    return IndexedFiles(
        commit.version,
        pa.chunked_array([array_of([path for path, _ in found], pa.string())]),
        pa.chunked_array([array_of([size for _, size in found], pa.int64())]),
        together=vectors or again,
    )


def _in_order_of_lines(data: bytes) -> list[tuple[str, int]]:
    """Paths and sizes of the files that a commit adds and removes."""
    found = []
    for line in data.splitlines():
        try:
            action = orjson.loads(line or b"{}")
        except ValueError as error:
            raise UnsupportedFeatureError(
                "a commit has values on several lines, and the order of its files is not known; "
                "read the table without readChangeFeed"
            ) from error
        file = action.get("add") or action.get("remove")
        if file and file.get("dataChange"):
            found.append((file["path"], file.get("size") or 0))
    return found
