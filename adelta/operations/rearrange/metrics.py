"""What OPTIMIZE reports, to its callers and to the table's history, under Spark's names."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.operations.rearrange.bins import Bin

__all__ = [
    "ClusteringStats",
    "DeletionVectorStats",
    "FileSizeMetrics",
    "FilesAndBytes",
    "OptimizeMetrics",
    "ZOrderStats",
    "commit_metrics",
]


@dataclass(frozen=True, slots=True)
class FileSizeMetrics:
    """Sizes of files in bytes; `min` and `max` are None where there are no files."""

    min: int | None = None
    max: int | None = None
    avg: float = 0.0
    total_files: int = 0
    total_size: int = 0

    @classmethod
    def of(cls, files: Iterable[AddFile]) -> FileSizeMetrics:
        """The metrics of these files."""
        sizes = [file.size for file in files]
        if not sizes:
            return cls()
        total = sum(sizes)
        return cls(min(sizes), max(sizes), total / len(sizes), len(sizes), total)


@dataclass(frozen=True, slots=True)
class FilesAndBytes:
    """How many files there are, and their size together."""

    num: int = 0
    size: int = 0

    @classmethod
    def of(cls, files: Sequence[AddFile]) -> FilesAndBytes:
        """Those of these files."""
        return cls(len(files), sum(file.size for file in files))


@dataclass(frozen=True, slots=True)
class ZOrderStats:
    """What a Z-order was made of: files of cubes in this very order, and others."""

    strategy_name: str
    input_cube_files: FilesAndBytes
    input_other_files: FilesAndBytes
    input_num_cubes: int
    merged_files: FilesAndBytes
    num_output_cubes: int


@dataclass(frozen=True, slots=True)
class ClusteringStats:
    """What a clustering was made of: files of cubes by these very columns, and others."""

    input_z_cube_files: FilesAndBytes
    input_other_files: FilesAndBytes
    input_num_z_cubes: int
    merged_files: FilesAndBytes
    num_output_z_cubes: int


@dataclass(frozen=True, slots=True)
class DeletionVectorStats:
    """Deletion vectors whose rows are gone for good."""

    num_deletion_vectors_removed: int = 0
    num_deletion_vector_rows_removed: int = 0

    @classmethod
    def of(cls, files: Iterable[AddFile]) -> DeletionVectorStats:
        """Those of these files."""
        vectors = [f.deletion_vector for f in files if f.deletion_vector is not None]
        return cls(len(vectors), sum(vector.cardinality for vector in vectors))


@dataclass(frozen=True, slots=True)
class OptimizeMetrics:
    """What was written anew, or would have been.

    `versions` are those that were committed, one a batch of bins; there are none where nothing was
    to be done, nor in a dry run, which says of no file that it was added. A bin is a group of files
    that are written anew together. `num_bins_lost` are those that another commit took files from
    meanwhile, which were left as they are. Times are in milliseconds since the epoch.
    """

    versions: tuple[int, ...] = ()
    num_files_added: int = 0
    num_files_removed: int = 0
    files_added: FileSizeMetrics = field(default_factory=FileSizeMetrics)
    files_removed: FileSizeMetrics = field(default_factory=FileSizeMetrics)
    partitions_optimized: int = 0
    z_order_stats: ZOrderStats | None = None
    clustering_stats: ClusteringStats | None = None
    num_bins: int = 0
    num_bins_lost: int = 0
    num_batches: int = 0
    total_considered_files: int = 0
    total_files_skipped: int = 0
    preserve_insertion_order: bool = True
    start_time_ms: int = 0
    end_time_ms: int = 0
    deletion_vector_stats: DeletionVectorStats | None = None
    dry_run: bool = False


def commit_metrics(adds: Sequence[AddFile], bins: Iterable[Bin]) -> dict[str, int]:
    """`operationMetrics` of a commit that puts `adds` in the place of the files of `bins`."""
    sizes = sorted(add.size for add in adds)
    removed = [file for each in bins for file in each.files]
    vectors = [f.deletion_vector for f in removed if f.deletion_vector is not None]
    found = {
        "numAddedFiles": len(adds),
        "numAddedBytes": sum(sizes),
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(file.size for file in removed),
        "numDeletionVectorsRemoved": len(vectors),
        "numDeletionVectorRowsRemoved": sum(vector.cardinality for vector in vectors),
        "numDeletionVectorBytesRemoved": sum(vector.size_in_bytes for vector in vectors),
    }
    if sizes:
        found |= {
            "minFileSize": sizes[0],
            "p25FileSize": sizes[len(sizes) // 4],
            "p50FileSize": sizes[len(sizes) // 2],
            "p75FileSize": sizes[len(sizes) * 3 // 4],
            "maxFileSize": sizes[-1],
        }
    return found
