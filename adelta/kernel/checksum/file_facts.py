"""FileFacts: what a checksum counts of files, and how some files more or less change it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from adelta import _compute as pc
from adelta._arrow_values import numpy_of
from adelta._dataclasses import dataclass
from adelta.kernel.checksum.all_files import MOST_FILES, bodies_of_rows, identity, listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from adelta.kernel.checksum.all_files import AllFiles
    from adelta.kernel.checksum.version_checksum import VersionChecksum

__all__ = ["DELETED_RECORDS", "SIZE_BOUNDARIES", "FileFacts", "joined", "with_files"]


_FEW_FILES = 64  # binned one by one
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
SIZE_BOUNDARIES: tuple[int, ...] = (
    0,
    *(8 * _KIB << power for power in range(10)),
    *range(8 * _MIB, 40 * _MIB + 1, 4 * _MIB),
    *range(48 * _MIB, 120 * _MIB + 1, 8 * _MIB),
    *range(124 * _MIB, 144 * _MIB + 1, 4 * _MIB),
    *range(160 * _MIB, 576 * _MIB + 1, 16 * _MIB),
    *range(640 * _MIB, 1408 * _MIB + 1, 64 * _MIB),
    *range(1536 * _MIB, 2048 * _MIB + 1, 128 * _MIB),
    *range(2304 * _MIB, 4096 * _MIB + 1, 256 * _MIB),
    *(8 * _GIB << power for power in range(6)),
)
"""The bins of file sizes, in bytes, that Delta Spark has."""
DELETED_RECORDS = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 2_147_483_647)
"""The bins of rows that a deletion vector masks, in the histogram of deleted records."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a checksum counts of some files: their sizes, and the rows that vectors mask in each."""

    sizes: NDArray[np.int64]
    masked: NDArray[np.int64]
    num_vectors: int
    _source: pa.Table | Sequence[Mapping[str, Any]] = field(repr=False, compare=False)

    @classmethod
    def of_table(cls, files: pa.Table) -> FileFacts:
        """Of files with the columns `size` and `deletion_vector`; no size counts as none.

        They can only be listed where they have the other columns of their schema as well.
        """
        vectors: Any = files.column("deletion_vector")
        masked = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0)
        sizes = pc.fill_null(files.column("size"), 0)
        numbers = [np.asarray(numpy_of(column), np.int64) for column in (sizes, masked)]
        return cls(numbers[0], numbers[1], files.num_rows - vectors.null_count, files)

    @classmethod
    def of_bodies(cls, bodies: Sequence[Mapping[str, Any]]) -> FileFacts:
        """Of decoded actions; no size counts as none."""
        vectors = [body.get("deletionVector") for body in bodies]
        masked = [vector["cardinality"] if vector else 0 for vector in vectors]
        sizes = [body.get("size") or 0 for body in bodies]
        numbers = [np.array(values, np.int64) for values in (sizes, masked)]
        return cls(numbers[0], numbers[1], sum(vector is not None for vector in vectors), bodies)

    def added_to(self, others: AllFiles | None) -> AllFiles | None:
        """The list of these files and of others; None if that is not known, or is too long."""
        if others is None or len(others) + len(self.sizes) > MOST_FILES:
            return None
        bodies = self._bodies()
        listed_files = {**others, **{identity(body): listed(body) for body in bodies}}
        return listed_files if len(listed_files) == len(others) + len(self.sizes) else None

    def removed_from(self, all_files: AllFiles | None) -> AllFiles | None:
        """The list of files without these; None if that is not known, or does not have them."""
        if all_files is None or len(self.sizes) > len(all_files):
            return None
        gone = {identity(body) for body in self._bodies()}
        remaining = {file: body for file, body in all_files.items() if file not in gone}
        return remaining if len(remaining) == len(all_files) - len(self.sizes) else None

    def _bodies(self) -> Sequence[Mapping[str, Any]]:
        """The decoded actions; none where a table has just the columns that are counted."""
        source = self._source
        if isinstance(source, Sequence):
            return source
        return bodies_of_rows(source) if "path" in source.column_names else ()


def with_files(checksum: VersionChecksum, files: FileFacts, sign: int = 1) -> VersionChecksum:
    """The checksum with some files more, or with `sign` -1 with them less.

    What the checksum does not state stays so.
    """
    if not len(files.sizes):
        return checksum
    deleted, vectors = checksum.num_deleted_records, checksum.num_deletion_vectors
    histogram, records = checksum.file_sizes, checksum.deleted_record_counts
    if histogram is not None:
        histogram = replace(
            histogram,
            counts=_binned(histogram.counts, histogram.boundaries, files.sizes, sign, None),
            total_bytes=_binned(
                histogram.total_bytes, histogram.boundaries, files.sizes, sign, files.sizes
            ),
        )
    if records is not None:
        records = _binned(records, DELETED_RECORDS, files.masked, sign, None)
    return replace(
        checksum,
        num_files=checksum.num_files + sign * len(files.sizes),
        table_size_bytes=checksum.table_size_bytes + sign * int(files.sizes.sum()),
        num_deleted_records=(None if deleted is None else deleted + sign * int(files.masked.sum())),
        num_deletion_vectors=None if vectors is None else vectors + sign * files.num_vectors,
        file_sizes=histogram,
        deleted_record_counts=records,
        all_files=(
            files.added_to(checksum.all_files)
            if sign > 0
            else files.removed_from(checksum.all_files)
        ),
    )


def joined(checksums: Sequence[VersionChecksum]) -> VersionChecksum:
    """The checksum of a version that has the files of all of these, which differ in nothing else.

    Example: of one file of 10 bytes and two of 5 each, it is three files of 20 bytes.
    """
    first, *others = checksums
    for other in others:
        histogram = first.file_sizes
        if histogram is not None and other.file_sizes is not None:
            histogram = replace(
                histogram,
                counts=_summed(histogram.counts, other.file_sizes.counts),
                total_bytes=_summed(histogram.total_bytes, other.file_sizes.total_bytes),
            )
        first = replace(
            first,
            num_files=first.num_files + other.num_files,
            table_size_bytes=first.table_size_bytes + other.table_size_bytes,
            num_deleted_records=_sum(first.num_deleted_records, other.num_deleted_records),
            num_deletion_vectors=_sum(first.num_deletion_vectors, other.num_deletion_vectors),
            file_sizes=histogram,
            deleted_record_counts=_summed(first.deleted_record_counts, other.deleted_record_counts),
            all_files=_united(first.all_files, other.all_files),
        )
    return first


def _united(one: AllFiles | None, other: AllFiles | None) -> AllFiles | None:
    if one is None or other is None or len(one) + len(other) > MOST_FILES:
        return None
    return {**one, **other}


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _summed(one: Sequence[int] | None, other: Sequence[int] | None) -> Any:
    if one is None or other is None:
        return None
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _binned(
    before: Sequence[int],
    boundaries: Sequence[int],
    values: NDArray[np.int64],
    sign: int,
    weights: NDArray[np.int64] | None,
) -> tuple[int, ...]:
    """Counts, or sums of `weights`, by bin, with those of `values` added."""
    if len(values) <= _FEW_FILES:
        after = list(before)
        numbers = values.tolist()
        counted = repeat(1) if weights is None else weights.tolist()
        for value, weight in zip(numbers, counted, strict=False):
            after[bisect_right(boundaries, value) - 1] += sign * weight
        return tuple(after)
    bins = np.searchsorted(np.asarray(boundaries, np.int64), values, side="right") - 1
    found = np.zeros(len(boundaries), np.int64)
    np.add.at(found, bins, 1 if weights is None else weights)
    return tuple(b + sign * int(f) for b, f in zip(before, found, strict=True))
