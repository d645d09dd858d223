"""Bins: which files of a partition are written anew together.

Files are packed in the order in which their rows came to the table, so that a file of the outcome
holds rows that came one after the other: what statistics say of times and of running numbers stays
narrow. A file that was packed bears the tag `INSERTION_TIME` of the newest file in it, by which it
keeps its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of
from adelta._dataclasses import dataclass
from adelta.kernel.partition import lookup_partition_value, parse_partition_values
from adelta.kernel.schema import types as t
from adelta.kernel.schema.names import leaf_fields
from adelta.kernel.statistics import num_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.file_set import FileSet
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = [
    "INSERTION_TIME",
    "Bin",
    "FileSizes",
    "by_partition",
    "file_sizes",
    "has_too_many_deleted",
    "in_order",
    "insertion_time",
    "is_small",
    "pack",
    "small_files",
]


INSERTION_TIME: Final = "INSERTION_TIME"
"""The tag that says when the newest rows of a file came, in microseconds."""

_TARGET_SIZE = 1024 * 1024 * 1024
_FOOTER_BYTES = 400  # of a file that other rows can share,
_COLUMN_BYTES = 150  # and of each of its columns
_LEAST_SHARE = 8  # of a file that is nothing but footer, its rows are taken to be an eighth


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Which files are written anew, and how large they become; sizes in bytes.

    Files below `least` are small. A file more of whose rows are under a deletion vector than the
    share `most_deleted` is written anew whatever its size.
    """

    target: int
    least: int
    most_deleted: float = 0.05


def file_sizes(
    configuration: TableConfiguration, target: int | None = None, least: int | None = None
) -> FileSizes:
    """The sizes that a user asks for, or the table does, or that are Delta's."""
    target = target or configuration.properties.target_file_size or _TARGET_SIZE
    return FileSizes(target, target if least is None else least)


@dataclass(frozen=True, slots=True)
class Bin:
    """Files of one partition, in the order of their rows, that are written anew together."""

    files: tuple[AddFile, ...]

    @property
    def num_bytes(self) -> int:
        """The files' size."""
        return sum(file.size for file in self.files)


def small_files(files: FileSet, sizes: FileSizes) -> list[AddFile]:
    """The files that are small, or have lost too many rows. CPU-heavy where there are many."""
    small = pc.less(files.table.column("size"), sizes.least)
    vector = pc.is_valid(files.table.column("deletion_vector"))
    return [file for file in files.filter(pc.or_(small, vector)).rows() if is_small(file, sizes)]


def is_small(file: AddFile, sizes: FileSizes) -> bool:
    """Whether the file is small, or has lost too many rows."""
    return file.size < sizes.least or has_too_many_deleted(file, sizes)


def has_too_many_deleted(file: AddFile, sizes: FileSizes) -> bool:
    """Whether so many rows are deleted that the file is written anew; as well if nobody knows."""
    if file.deletion_vector is None:
        return False
    rows = num_records(file.stats)
    return rows is None or file.deletion_vector.cardinality > sizes.most_deleted * rows


def by_partition(
    files: Iterable[AddFile], configuration: TableConfiguration
) -> list[list[AddFile]]:
    """The files by the partition that they are in, however writers have spelled its values.

    Raises:
        InvalidTableError: a partition value is not of its column's type.
    """
    fields = configuration.partition_fields
    columns = configuration.physical_partition_columns
    readers = [_reader(field) for field in fields]
    groups: dict[tuple[object, ...], list[AddFile]] = {}
    for file in files:
        texts = (lookup_partition_value(file.partition_values, name) for name in columns)
        key = tuple(read(text) for read, text in zip(readers, texts, strict=True))
        groups.setdefault(key, []).append(file)
    return list(groups.values())


def _reader(field: t.StructField) -> Callable[[str | None], object]:
    """What a text of a partition column stands for, as something to compare by."""
    known: dict[str | None, object] = {None: None}

    def read(text: str | None) -> object:
        if text not in known:
            texts = array_of([text], pa.string())
            values = parse_partition_values(texts, field.type, column=field.name)
            if field.type in (t.TIMESTAMP, t.TIMESTAMP_NTZ):
                values = values.cast(pa.int64())  # Python's times end with the year 9999
            value = values[0].as_py()
            # No two NaN are equal, and 0.0 and -0.0 are, which are partitions of their own.
            known[text] = repr(value) if value != value or value == 0 else value
        return known[text]

    return (lambda text: text) if field.type == t.STRING else read


def insertion_time(file: AddFile) -> int:
    """When the newest rows of a file came, in microseconds."""
    tagged = (file.tags or {}).get(INSERTION_TIME) or ""
    return int(tagged) if tagged.isdecimal() else file.modification_time * 1000


def in_order(files: Iterable[AddFile]) -> list[AddFile]:
    """The files in the order in which their rows came."""
    return sorted(files, key=lambda file: (insertion_time(file), file.path))


def pack(
    files: Sequence[AddFile],
    configuration: TableConfiguration,
    sizes: FileSizes,
    *,
    alone: Callable[[AddFile], bool],
) -> list[Bin]:
    """Bins of about the target size, of files of one partition.

    A file that would be the only one of its bin is left as it is, unless `alone` says otherwise.
    """
    leaves = sum(1 for _ in leaf_fields(configuration.data_schema))
    shared = _FOOTER_BYTES + _COLUMN_BYTES * leaves
    bins: list[list[AddFile]] = []
    held = 0
    for file in in_order(files):
        size = max(file.size - shared, file.size // _LEAST_SHARE)
        if not bins or held + size > sizes.target:
            bins.append([])
            held = 0
        bins[-1].append(file)
        held += size
    return [Bin(tuple(each)) for each in bins if len(each) > 1 or alone(each[0])]
