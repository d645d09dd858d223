"""How Parquet is to be written: a value, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from adelta.errors import InvalidOptionError
from adelta.parquet.columns import ColumnName, ColumnTree

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BloomFilter", "WriterOptions"]

_CODECS: Final[dict[str, Any]] = {  # the stubs want literals
    "uncompressed": "none",
    "none": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "brotli": "brotli",
    "lz4": "lz4",  # Arrow writes both of these as LZ4_RAW: the older framing is deprecated
    "lz4_raw": "lz4",
}
_LEVELS: Final = ("gzip", "zstd", "brotli", "lz4")


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A Bloom filter on one column.

    `distinct_values` is how many different values a row group is expected to hold,
    `false_positives` the fraction of absent values that the filter may let pass.
    """

    column: ColumnName
    distinct_values: int = 1024 * 1024
    false_positives: float = 0.05

    def __post_init__(self) -> None:
        if self.distinct_values < 1 or not 0 < self.false_positives < 1:
            raise InvalidOptionError(
                f"a Bloom filter on {self.column} needs at least one distinct value and a rate of "
                f"false positives between 0 and 1, not {self.distinct_values} and "
                f"{self.false_positives}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How Parquet is to be written.

    Attributes:
        compression: ``uncompressed`` (or ``none``), ``snappy``, ``gzip``, ``zstd``, ``brotli``,
            ``lz4`` or ``lz4_raw``, in any case.
        compression_level: the codec's own level; None is its default.
        row_group_rows: most rows in a row group.
        row_group_bytes: about how many bytes of Arrow data make a row group. One row group is held
            in memory while it fills.
        data_page_bytes: about how many bytes make a data page.
        dictionary: whether columns are dictionary-encoded, or which are.
        statistics: whether the footer has statistics of columns, or which it has.
        bloom_filters: Bloom filters to write.
        page_index: whether to write the column and offset indexes, which let readers skip pages.
        version: the format version that limits which types may be used.
        data_page_version: the version of the data pages.
        key_values: texts to keep in the footer.
    """

    compression: str = "snappy"
    compression_level: int | None = None
    row_group_rows: int = 1024 * 1024
    row_group_bytes: int = 64 * 1024 * 1024
    data_page_bytes: int = 1024 * 1024
    dictionary: bool | tuple[ColumnName, ...] = True
    statistics: bool | tuple[ColumnName, ...] = True
    bloom_filters: tuple[BloomFilter, ...] = ()
    page_index: bool = False
    version: Literal["1.0", "2.4", "2.6"] = "2.6"
    data_page_version: Literal["1.0", "2.0"] = "1.0"
    key_values: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        codec = _CODECS.get(self.compression.lower())
        if codec is None:
            raise InvalidOptionError(
                f"compression is {self.compression!r}; it must be one of {', '.join(_CODECS)}"
            )
        if codec != "none" and not pa.Codec.is_available(codec):
            raise InvalidOptionError(
                f"compression is {self.compression!r}, which this build of Arrow lacks"
            )
        self._check_level(codec)
        for name in ("row_group_rows", "row_group_bytes", "data_page_bytes"):
            if getattr(self, name) < 1:
                raise InvalidOptionError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.version not in ("1.0", "2.4", "2.6"):
            raise InvalidOptionError(f"version is {self.version!r}; it must be 1.0, 2.4 or 2.6")
        if self.data_page_version not in ("1.0", "2.0"):
            raise InvalidOptionError(
                f"data_page_version is {self.data_page_version!r}; it must be 1.0 or 2.0"
            )

    def _check_level(self, codec: Any) -> None:
        if self.compression_level is None:
            return
        if codec not in _LEVELS:
            raise InvalidOptionError(
                f"compression_level is {self.compression_level}, but {self.compression} has no "
                f"levels; those that have are {', '.join(_LEVELS)}"
            )
        least = pa.Codec.minimum_compression_level(codec)
        greatest = pa.Codec.maximum_compression_level(codec)
        if not least <= self.compression_level <= greatest:
            raise InvalidOptionError(
                f"compression_level is {self.compression_level}; for {self.compression} it must "
                f"be {least} to {greatest}"
            )

    def arrow_arguments(self, schema: pa.Schema) -> dict[str, Any]:
        """The options in Arrow's words, for a file of this schema.

        Raises:
            InvalidOptionError: an option names a column that the schema lacks.
        """
        tree = ColumnTree(schema)
        arguments: dict[str, Any] = {
            "compression": _CODECS[self.compression.lower()],
            "compression_level": self.compression_level,
            "data_page_size": self.data_page_bytes,
            "use_dictionary": _choice(tree, self.dictionary, "dictionary"),
            "write_statistics": _choice(tree, self.statistics, "statistics"),
            "write_page_index": self.page_index,
            "version": self.version,
            "data_page_version": self.data_page_version,
        }
        if self.bloom_filters:  # an option that older Arrows lack
            arguments["bloom_filter_options"] = {
                leaf: {"ndv": bloom.distinct_values, "fpp": bloom.false_positives}
                for bloom in self.bloom_filters
                for leaf in _physical_leaves(tree, (bloom.column,), "bloom_filters")
            }
        return arguments


def _choice(
    tree: ColumnTree, chosen: bool | tuple[ColumnName, ...], option: str
) -> bool | list[str]:
    if isinstance(chosen, bool):
        return chosen
    # An empty list would mean all columns to Arrow.
    return _physical_leaves(tree, chosen, option) or False


def _physical_leaves(tree: ColumnTree, columns: Iterable[ColumnName], option: str) -> list[str]:
    leaves: list[str] = []
    for column in columns:
        chain = tree.find(column)
        if not chain:
            name = column if isinstance(column, str) else ".".join(column)
            raise InvalidOptionError(f"{option} names {name!r}, and the file has no such column")
        leaves.extend(".".join(leaf.physical_path) for leaf in chain[-1].leaves())
    return leaves
