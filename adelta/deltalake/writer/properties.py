"""How Parquet is to be written, as deltalake's users say it, and what that is to adelta."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from adelta import BloomFilter, ColumnOptions, WriterOptions
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "BloomFilterProperties",
    "ColumnProperties",
    "Compression",
    "Encoding",
    "WriterProperties",
    "writer_options",
]

CompressionName = Literal["UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"]
EncodingName = Literal[
    "PLAIN",
    "RLE",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "BYTE_STREAM_SPLIT",
]

_LEVELS = {"GZIP": (0, 10, 6), "BROTLI": (0, 11, 1), "ZSTD": (1, 22, 1)}


class Compression(Enum):
    """The codecs of Parquet."""

    UNCOMPRESSED = "UNCOMPRESSED"
    SNAPPY = "SNAPPY"
    GZIP = "GZIP"
    BROTLI = "BROTLI"
    LZ4 = "LZ4"
    ZSTD = "ZSTD"
    LZ4_RAW = "LZ4_RAW"

    @classmethod
    def from_str(cls, value: str) -> Compression:
        """The codec of a name in any case.

        Raises:
            ValueError: there is none.
        """
        return _of_name(cls, value)  # type: ignore[no-any-return]

    def get_level_range(self) -> tuple[int, int]:
        """The lowest and the highest level.

        Raises:
            KeyError: the codec has none.
        """
        return self._levels()[:2]

    def get_default_level(self) -> int:
        """The level that is taken where none is given.

        Raises:
            KeyError: the codec has none.
        """
        return self._levels()[2]

    def check_valid_level(self, level: int) -> bool:
        """True, where the codec has the level.

        Raises:
            ValueError: it has not.
        """
        least, most = self.get_level_range()
        if not least <= level <= most:
            raise ValueError(
                f"Compression level for {self.value} should fall between {least}-{most}"
            )
        return True

    def _levels(self) -> tuple[int, int, int]:
        if self.value not in _LEVELS:
            raise KeyError(f"{self.value} does not have a compression level.")
        return _LEVELS[self.value]


class Encoding(Enum):
    """The encodings of Parquet's columns, but for those by dictionary."""

    PLAIN = "PLAIN"
    RLE = "RLE"
    DELTA_BINARY_PACKED = "DELTA_BINARY_PACKED"
    DELTA_LENGTH_BYTE_ARRAY = "DELTA_LENGTH_BYTE_ARRAY"
    DELTA_BYTE_ARRAY = "DELTA_BYTE_ARRAY"
    BYTE_STREAM_SPLIT = "BYTE_STREAM_SPLIT"

    @classmethod
    def from_str(cls, value: str) -> Encoding:
        """The encoding of a name in any case.

        Raises:
            ValueError: there is none.
        """
        return _of_name(cls, value)  # type: ignore[no-any-return]


def _of_name(kind: Any, value: str) -> Any:
    try:
        return kind(value.upper())
    except ValueError:
        raise ValueError(
            f"{value} is not a valid {kind.__name__}. Valid values are: "
            f"{[item.value for item in kind]}"
        ) from None


@dataclass
class BloomFilterProperties:
    """A Bloom filter on a column: `fpp` false positives among so many distinct values, `ndv`."""

    set_bloom_filter_enabled: bool | None
    fpp: float | None = None
    ndv: int | None = None

    def __post_init__(self) -> None:
        if self.fpp is not None and (self.fpp <= 0 or self.fpp >= 1):
            raise ValueError("fpp must be between 0 and 1 exclusive")

    def __str__(self) -> str:
        return (
            f"set_bloom_filter_enabled: {self.set_bloom_filter_enabled}, fpp: {self.fpp}, "
            f"ndv: {self.ndv}"
        )


@dataclass
class ColumnProperties:
    """How a column is to be written; with an `encoding` it has no dictionary."""

    dictionary_enabled: bool | None = None
    statistics_enabled: Literal["NONE", "CHUNK", "PAGE"] | None = None
    bloom_filter_properties: BloomFilterProperties | None = None
    encoding: EncodingName | None = None

    def __post_init__(self) -> None:
        if isinstance(self.encoding, str) and self.dictionary_enabled:
            raise ValueError("Cannot specify dictionary_enabled=True and encoding")

    def __str__(self) -> str:
        return (
            f"dictionary_enabled: {self.dictionary_enabled}, "
            f"statistics_enabled: {self.statistics_enabled}, "
            f"bloom_filter_properties: {self.bloom_filter_properties}, encoding: {self.encoding}"
        )


@dataclass(init=False)
class WriterProperties:
    """How Parquet is to be written. Sizes are in bytes.

    `write_batch_size` and `dictionary_page_size_limit`, which tune another writer's inside, and
    `data_page_row_count_limit` and `statistics_truncate_length` are taken and not followed.
    """

    data_page_size_limit: int | None
    dictionary_page_size_limit: int | None
    data_page_row_count_limit: int | None
    write_batch_size: int | None
    max_row_group_size: int | None
    compression: str | None
    statistics_truncate_length: int | None
    default_column_properties: ColumnProperties | None
    column_properties: dict[str, ColumnProperties] | None

    def __init__(
        self,
        data_page_size_limit: int | None = None,
        dictionary_page_size_limit: int | None = None,
        data_page_row_count_limit: int | None = None,
        write_batch_size: int | None = None,
        max_row_group_size: int | None = None,
        compression: CompressionName | None = None,
        compression_level: int | None = None,
        statistics_truncate_length: int | None = None,
        default_column_properties: ColumnProperties | None = None,
        column_properties: dict[str, ColumnProperties] | None = None,
    ) -> None:
        self.data_page_size_limit = data_page_size_limit
        self.dictionary_page_size_limit = dictionary_page_size_limit
        self.data_page_row_count_limit = data_page_row_count_limit
        self.write_batch_size = write_batch_size
        self.max_row_group_size = max_row_group_size
        self.compression = _with_level(compression, compression_level)
        self.statistics_truncate_length = statistics_truncate_length
        self.default_column_properties = default_column_properties
        self.column_properties = column_properties

    def __str__(self) -> str:
        columns = (
            ", ".join(f"column '{name}': {value}" for name, value in self.column_properties.items())
            if self.column_properties
            else None
        )
        return (
            f"WriterProperties(data_page_size_limit: {self.data_page_size_limit}, "
            f"dictionary_page_size_limit: {self.dictionary_page_size_limit}, "
            f"data_page_row_count_limit: {self.data_page_row_count_limit}, "
            f"write_batch_size: {self.write_batch_size}, "
            f"max_row_group_size: {self.max_row_group_size}, compression: {self.compression}, "
            f"statistics_truncate_length: {self.statistics_truncate_length},"
            f"default_column_properties: {self.default_column_properties}, "
            f"column_properties: {columns})"
        )


def _with_level(compression: str | None, level: int | None) -> str | None:
    if compression is None:
        if level is not None:
            raise ValueError(
                "Providing a compression level without the compression type is not possible, "
                "please provide the compression as well."
            )
        return None
    codec = Compression.from_str(compression)
    if codec.value not in _LEVELS:
        return codec.value
    if level is None:
        level = codec.get_default_level()
    codec.check_valid_level(level)
    return f"{codec.value}({level})"


_COUNTS = (
    "data_page_size_limit",
    "dictionary_page_size_limit",
    "data_page_row_count_limit",
    "write_batch_size",
    "max_row_group_size",
    "statistics_truncate_length",
)


def writer_options(
    properties: WriterProperties | None, columns: Iterable[str]
) -> WriterOptions | None:
    """What the properties are to adelta, for data with these columns; None where they are None.

    Raises:
        InvalidOptionError: an encoding, a size or statistics are none that adelta writes.
        TypeError: a size is no whole number, or negative.
    """
    if properties is None:
        return None
    for name in _COUNTS:
        if not isinstance(count := getattr(properties, name), int | None) or (count or 0) < 0:
            raise TypeError(f"failed to extract field PyWriterProperties.{name}: it is {count!r}")
    told: dict[str, Any] = {}
    if properties.compression is not None:
        codec, _, level = properties.compression.rstrip(")").partition("(")
        told["compression"] = codec.lower()
        if level:
            told["compression_level"] = int(level)
    if properties.data_page_size_limit is not None:
        told["data_page_bytes"] = properties.data_page_size_limit
    if properties.max_row_group_size is not None:
        told["row_group_rows"] = properties.max_row_group_size
    own, others = properties.column_properties or {}, properties.default_column_properties
    if others is not None or own:
        told |= _of_columns({**dict.fromkeys(columns, others), **own})
    return WriterOptions(**told)


def _of_columns(wanted: dict[str, ColumnProperties | None]) -> dict[str, Any]:
    """Options of adelta's by what is wanted of each column."""
    asked = {name: each or ColumnProperties() for name, each in wanted.items()}
    plain = {name for name, each in asked.items() if each.encoding is not None}
    without = {name for name, each in asked.items() if each.dictionary_enabled is False} | plain
    silent = {name for name, each in asked.items() if _statistics(each) == "NONE"}
    told: dict[str, Any] = {
        "columns": tuple(
            ColumnOptions(name, encoding=asked[name].encoding) for name in asked if name in plain
        ),
        "bloom_filters": tuple(
            _bloom_filter(name, each.bloom_filter_properties)
            for name, each in asked.items()
            if each.bloom_filter_properties is not None
            and each.bloom_filter_properties.set_bloom_filter_enabled is not False
        ),
    }
    if without:
        told["dictionary"] = tuple(name for name in asked if name not in without)
    if silent:
        told["statistics"] = tuple(name for name in asked if name not in silent)
    return told


def _statistics(asked: ColumnProperties) -> str:
    """Which statistics are wanted.

    Raises:
        InvalidOptionError: there are none such.
    """
    found = str(asked.statistics_enabled or "PAGE").upper()
    if found not in ("NONE", "CHUNK", "PAGE"):
        raise InvalidOptionError(
            f"Invalid statistics arg: {asked.statistics_enabled}; pass NONE, CHUNK or PAGE"
        )
    return found


def _bloom_filter(column: str, asked: BloomFilterProperties) -> BloomFilter:
    told: dict[str, Any] = {}
    if asked.ndv is not None:
        told["distinct_values"] = asked.ndv
    if asked.fpp is not None:
        told["false_positives"] = asked.fpp
    return BloomFilter(column, **told)
