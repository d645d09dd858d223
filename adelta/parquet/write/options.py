"""How Parquet is to be written: a value, checked when it is made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from adelta._dataclasses import dataclass
from adelta._fields import check_fields
from adelta.errors import InvalidOptionError
from adelta.parquet.footer.columns import ColumnName, ColumnTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["BloomFilter", "ColumnOptions", "WriterOptions"]

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
_DEFAULT_CODEC: Final = "snappy"
_ENCODINGS: Final = (
    "PLAIN",
    "BYTE_STREAM_SPLIT",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
)


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
        check_fields(self)
        if self.distinct_values < 1 or not 0 < self.false_positives < 1:
            raise InvalidOptionError(
                f"a Bloom filter on {self.column} needs at least one distinct value and a rate of "
                f"false positives between 0 and 1, not {self.distinct_values} and "
                f"{self.false_positives}"
            )


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """How one column is to be written, where that differs from the others.

    A column with an `encoding` (``PLAIN``, ``BYTE_STREAM_SPLIT``, ``DELTA_BINARY_PACKED``,
    ``DELTA_LENGTH_BYTE_ARRAY`` or ``DELTA_BYTE_ARRAY``) is not dictionary-encoded.
    """

    column: ColumnName
    compression: str | None = None
    compression_level: int | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.compression is not None:
            _codec(self.compression)
        _check_level(self.compression, self.compression_level)
        if self.encoding is not None and self.encoding.upper() not in _ENCODINGS:
            raise InvalidOptionError(
                f"the encoding of column {self.column} is {self.encoding!r}; it must be one of "
                f"{', '.join(_ENCODINGS)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How Parquet is to be written.

    Attributes:
        compression: ``uncompressed`` (or ``none``), ``snappy``, ``gzip``, ``zstd``, ``brotli``,
            ``lz4`` or ``lz4_raw``, in any case. None leaves it to who writes: data files follow the
            table's property ``delta.parquet.compression.codec``.
        compression_level: the codec's own level; None is its default.
        row_group_rows: most rows in a row group.
        row_group_bytes: about how many bytes of Arrow data make a row group. One row group is held
            in memory while it fills.
        data_page_bytes: about how many bytes make a data page.
        dictionary: whether columns are dictionary-encoded, or which are. True is those of which the
            first row group of a file has repeated values.
        statistics: whether the footer has statistics of columns, or which it has.
        bloom_filters: Bloom filters to write.
        columns: what differs for single columns.
        page_index: whether to write the column and offset indexes, which let readers skip pages;
            they cost less than a hundredth of a file's size and time.
        page_checksums: whether to write a CRC-32 of every page, by which readers see that it is
            damaged.
        version: the format version that limits which types may be used.
        data_page_version: the version of the data pages.
        key_values: texts to keep in the footer.
    """

    compression: str | None = None
    compression_level: int | None = None
    row_group_rows: int = 1024 * 1024
    row_group_bytes: int = 64 * 1024 * 1024
    data_page_bytes: int = 1024 * 1024
    dictionary: bool | tuple[ColumnName, ...] = True
    statistics: bool | tuple[ColumnName, ...] = True
    bloom_filters: tuple[BloomFilter, ...] = ()
    columns: tuple[ColumnOptions, ...] = ()
    page_index: bool = True
    page_checksums: bool = True
    version: Literal["1.0", "2.4", "2.6"] = "2.6"
    data_page_version: Literal["1.0", "2.0"] = "1.0"
    key_values: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        if self.compression is not None:
            _codec(self.compression)
        _check_level(self.compression, self.compression_level)
        for name in ("row_group_rows", "row_group_bytes", "data_page_bytes"):
            if getattr(self, name) < 1:
                raise InvalidOptionError(f"{name} is {getattr(self, name)}; it must be 1 or more")

    @property
    def names_columns(self) -> bool:
        """Whether any option is for columns by name."""
        choices = (self.dictionary, self.statistics)
        return bool(self.bloom_filters or self.columns) or any(
            not isinstance(choice, bool) for choice in choices
        )

    def renamed(self, rename: Callable[[ColumnName], ColumnName]) -> WriterOptions:
        """The options with every column that they name under another name."""

        def choice(chosen: bool | tuple[ColumnName, ...]) -> bool | tuple[ColumnName, ...]:
            return chosen if isinstance(chosen, bool) else tuple(map(rename, chosen))

        return replace(
            self,
            dictionary=choice(self.dictionary),
            statistics=choice(self.statistics),
            bloom_filters=tuple(replace(b, column=rename(b.column)) for b in self.bloom_filters),
            columns=tuple(replace(c, column=rename(c.column)) for c in self.columns),
        )

    def arrow_arguments(self, schema: pa.Schema) -> dict[str, Any]:
        """The options in Arrow's words, for a file of this schema.

        Raises:
            InvalidOptionError: an option names a column that the schema lacks.
        """
        tree = ColumnTree(schema)
        arguments: dict[str, Any] = {
            "compression": _codec(self.compression or _DEFAULT_CODEC),
            "compression_level": self.compression_level,
            "data_page_size": self.data_page_bytes,
            "use_dictionary": _choice(tree, self.dictionary, "dictionary"),
            "write_statistics": _choice(tree, self.statistics, "statistics"),
            "write_page_index": self.page_index,
            "write_page_checksum": self.page_checksums,
            "store_decimal_as_integer": True,  # as Spark does, where they fit
            "version": self.version,
            "data_page_version": self.data_page_version,
        }
        if self.bloom_filters:  # an option that older Arrows lack
            arguments["bloom_filter_options"] = {
                leaf: {"ndv": bloom.distinct_values, "fpp": bloom.false_positives}
                for bloom in self.bloom_filters
                for leaf in _physical_leaves(tree, (bloom.column,), "bloom_filters")
            }
        for own in self.columns:
            for leaf in _physical_leaves(tree, (own.column,), "columns"):
                _set_apart(arguments, leaf, own, tree)
        return arguments


def _codec(name: str) -> str:
    codec = _CODECS.get(name.lower())
    if codec is None:
        raise InvalidOptionError(f"compression is {name!r}; it must be one of {', '.join(_CODECS)}")
    if codec != "none" and not pa.Codec.is_available(codec):
        raise InvalidOptionError(f"compression is {name!r}, which this build of Arrow lacks")
    return str(codec)


def _check_level(compression: str | None, level: int | None) -> None:
    if level is None:
        return
    if compression is None:
        raise InvalidOptionError(
            f"compression_level is {level}, and no compression is named that it would be a level of"
        )
    codec: Any = _codec(compression)  # the stubs want literals
    if codec not in _LEVELS:
        raise InvalidOptionError(
            f"compression_level is {level}, but {compression} has no levels; those that have are "
            f"{', '.join(_LEVELS)}"
        )
    least = pa.Codec.minimum_compression_level(codec)
    greatest = pa.Codec.maximum_compression_level(codec)
    if not least <= level <= greatest:
        raise InvalidOptionError(
            f"compression_level is {level}; for {compression} it must be {least} to {greatest}"
        )


def _set_apart(arguments: dict[str, Any], leaf: str, own: ColumnOptions, tree: ColumnTree) -> None:
    """Give one leaf its own compression and encoding, and spell the others' out beside it."""
    leaves = [".".join(node.physical_path) for top in tree.columns for node in top.leaves()]
    if own.compression is not None:
        codecs, levels = arguments["compression"], arguments["compression_level"]
        if isinstance(codecs, str):
            arguments["compression"] = codecs = dict.fromkeys(leaves, codecs)
            levels = {} if levels is None else dict.fromkeys(leaves, levels)
        levels = dict(levels or {})
        codecs[leaf] = _codec(own.compression)
        levels.pop(leaf, None)
        if own.compression_level is not None:
            levels[leaf] = own.compression_level
        arguments["compression_level"] = levels or None
    if own.encoding is not None:
        arguments.setdefault("column_encoding", {})[leaf] = own.encoding.upper()
        kept = arguments["use_dictionary"]
        kept = leaves if kept is True else kept or []
        arguments["use_dictionary"] = [each for each in kept if each != leaf] or False


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
