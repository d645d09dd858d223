"""The `delta.*` properties of a table as one typed value (PROTOCOL.md, "Table Properties").

Here are the properties of the table itself, and a few of adelta's own under ``adelta.``; those
that switch a table feature stand in that feature's file, as `Property` values too. Reading is
lenient: a damaged value counts only when it is asked for, so it never makes a table unreadable.
Setting is strict: `validate` refuses unknown `delta.` keys and bad values. What is not set has the
default that the protocol's text gives it, else Delta's customary one.
"""

from __future__ import annotations

import re
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, overload

from adelta._dataclasses import dataclass
from adelta.errors import InvalidPropertyError, UnknownPropertyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "CONSTRAINT_PREFIX",
    "FEATURE_PREFIX",
    "PROPERTIES",
    "PROTOCOL_KEYS",
    "Property",
    "TableProperties",
    "parse_boolean",
    "parse_hidden_folder",
    "parse_interval",
    "parse_one_of",
    "parse_text",
    "parse_whole",
    "split_columns",
    "validate",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

CONSTRAINT_PREFIX = "delta.constraints."
"""What the keys of CHECK constraints begin with; the name of the constraint follows."""
FEATURE_PREFIX = "delta.feature."
"""What the keys that ask for a table feature begin with; they are never stored."""
PROTOCOL_KEYS = ("delta.minReaderVersion", "delta.minWriterVersion")
"""Keys that ask for protocol versions; they are never stored."""

_PREFIX = "delta."
_TAKEN_FOLDERS = ("_delta_log", "_change_data", "_symlink_format_manifest", "_delta_index")
_FREE_PREFIXES = ("delta.universalformat.config.",)
_MILLISECONDS = {
    "microsecond": 0.001,
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_INTERVAL_PART = re.compile(r"([+-]?\d+)\s+([a-z]+?)s?(?:\s+|$)")


@dataclass(frozen=True, slots=True)
class Property(Generic[T_co]):
    """One `delta.*` property: its key, how its text is read, and what it is when it is not set.

    `settable` is False for what only the implementation itself sets. As an attribute of
    `TableProperties` it gives the table's value.
    """

    key: str
    parse: Callable[[str], T_co] = field(hash=False)
    default: T_co = field(hash=False)
    settable: bool = True
    aliases: tuple[str, ...] = ()

    @overload
    def __get__(self, instance: None, owner: type[TableProperties]) -> Property[T_co]: ...

    @overload
    def __get__(self, instance: TableProperties, owner: type[TableProperties]) -> T_co: ...

    def __get__(
        self, instance: TableProperties | None, owner: type[TableProperties]
    ) -> Property[T_co] | T_co:
        return self if instance is None else self.read(instance.configuration)

    def read(self, configuration: Mapping[str, str]) -> T_co:
        """The value that `configuration` gives the property.

        Raises:
            InvalidPropertyError: the text stored there is not a value of the property.
        """
        text = self.text(configuration)
        return self.default if text is None else self.check(text)

    def text(self, configuration: Mapping[str, str]) -> str | None:
        """The text stored under the key, or under an older key for the same; else None."""
        for key in (self.key, *self.aliases):
            if key in configuration:
                return configuration[key]
        wanted = {key.lower() for key in (self.key, *self.aliases)}
        return next((v for key, v in configuration.items() if key.lower() in wanted), None)

    def check(self, text: str) -> T_co:
        """The value of a text.

        Raises:
            InvalidPropertyError: the text is not a value of the property.
        """
        try:
            return self.parse(text)
        except ValueError as error:
            raise InvalidPropertyError(
                f"the table property {self.key} is {text!r}, but it {error}",
                reason="property_value",
            ) from error


# ----------------------------------------------------------------------------------------- parsers


def parse_boolean(text: str) -> bool:
    """True or false, in any case."""
    folded = text.strip().lower()
    if folded not in ("true", "false"):
        raise ValueError("must be true or false")
    return folded == "true"


def parse_whole(least: int) -> Callable[[str], int]:
    """A parser of whole numbers from `least` up."""

    def parse(text: str) -> int:
        if re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text) and int(text) >= least:
            return int(text)
        raise ValueError(f"must be a whole number from {least} up")

    return parse


def parse_interval(text: str) -> int:
    """The milliseconds of an interval such as ``interval 1 week`` or ``2 days 12 hours``."""
    folded = text.strip().lower()
    folded = folded.removeprefix("interval").strip() if folded.startswith("interval") else folded
    total, end = 0.0, 0
    while end < len(folded):
        match = _INTERVAL_PART.match(folded, end)
        if match is None or match[2] not in _MILLISECONDS:
            unit = match[2] if match else ""
            raise ValueError(
                "may not be given in months or years, whose length varies: use days"
                if unit in ("month", "year")
                else "must be an interval such as 'interval 30 days' or 'interval 12 hours'"
            )
        total += int(match[1]) * _MILLISECONDS[match[2]]
        end = match.end()
    if not folded or total < 0:
        raise ValueError("must be an interval such as 'interval 30 days', and not a negative one")
    return int(total)


def parse_size(text: str) -> int:
    """The bytes of a size such as ``104857600``, ``100mb`` or ``1 GiB``."""
    match = re.fullmatch(r"\s*(\d{1,18})\s*([kmgt]?)i?b?\s*", text.lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("must be a size in bytes, such as '134217728' or '128mb'")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2]]


def parse_one_of(*names: str) -> Callable[[str], str]:
    """A parser of one of some names, in any case."""
    by_folded = {name.lower(): name for name in names}

    def parse(text: str) -> str:
        try:
            return by_folded[text.strip().lower()]
        except KeyError:
            raise ValueError(f"must be one of {', '.join(names)}") from None

    return parse


def parse_format_version(text: str) -> str:
    """A version of Parquet's data pages, as the protocol spells it."""
    if not re.fullmatch(r"1\.0\.0|2\.\d{1,4}\.\d{1,4}", text.strip()):
        raise ValueError("must be 1.0.0, or 2.x.x with whole numbers for x")
    return text.strip()


def parse_codec(text: str) -> str:
    """A codec of Parquet files, in lower case."""
    names = ("uncompressed", "none", "snappy", "gzip", "lz4", "lz4_raw", "zstd")
    name = parse_one_of(*names)(text)
    return names[0] if name == "none" else name


def parse_names(text: str) -> tuple[str, ...]:
    """A list of names between commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def parse_text(text: str) -> str:
    """The text itself."""
    return text


def parse_hidden_folder(text: str) -> str:
    """The name of a folder in the table's own, of those that hold none of its data."""
    if re.fullmatch(r"_[A-Za-z0-9._-]{1,100}", text) and text not in _TAKEN_FOLDERS:
        return text
    raise ValueError("must be the name of one folder of its own, that begins with an underscore")


def split_columns(text: str) -> tuple[tuple[str, ...], ...]:
    """Split a list of column paths at commas and dots; backticks keep both, doubled they are one.

    Raises:
        ValueError: a backtick is not closed, or a name is empty.
    """
    columns: list[tuple[str, ...]] = []
    path: list[str] = []
    name, quoted, was_quoted, position = "", False, False, 0
    text = text.strip()
    while position <= len(text):
        char = text[position] if position < len(text) else ","
        at_end = position == len(text)
        position += 1
        if quoted:
            if at_end:
                raise ValueError("has a backtick that is not closed")
            if char != "`":
                name += char
            elif text[position : position + 1] == "`":
                name, position = name + char, position + 1
            else:
                quoted = False
        elif char == "`":
            name, quoted, was_quoted = name.strip(), True, True
        elif char in ".,":
            part = name if was_quoted else name.strip()
            if not part:
                raise ValueError("must be names of columns between commas")
            path.append(part)
            name, was_quoted = "", False
            if char == ",":
                columns.append(tuple(path))
                path = []
        elif not (was_quoted and char.isspace()):
            name += char
    return tuple(columns)


# -------------------------------------------------------------------------------------- properties


@dataclass(frozen=True, slots=True)
class TableProperties:
    """A table's properties, each read from the configuration when it is asked for.

    Every attribute raises `InvalidPropertyError` where the text that is stored is not a value.
    Durations are in milliseconds, sizes in bytes.
    """

    configuration: Mapping[str, str] = field(hash=False)

    @classmethod
    def parse(cls, configuration: Mapping[str, str]) -> TableProperties:
        """The properties that a `metaData` action's configuration gives a table; never an error."""
        return cls(MappingProxyType(dict(configuration)))

    @property
    def checkpoint_statistics(self) -> tuple[bool, bool]:
        """Whether checkpoints keep statistics as JSON text, and whether as typed columns.

        A table that gives up the text and says nothing of the columns gets these: otherwise a
        checkpoint would lose what the commits before it said of their files.
        """
        as_json = self.checkpoint_write_stats_as_json
        as_struct = TableProperties.checkpoint_write_stats_as_struct
        is_set = as_struct.text(self.configuration) is not None
        return as_json, as_struct.read(self.configuration) if is_set else not as_json

    checkpoint_interval = Property("delta.checkpointInterval", parse_whole(1), 10)
    """How many commits lie between two checkpoints."""
    checkpoint_policy = Property("delta.checkpointPolicy", parse_one_of("classic", "v2"), "classic")
    """The kind of checkpoint wanted."""
    checkpoint_write_stats_as_json = Property(
        "delta.checkpoint.writeStatsAsJson", parse_boolean, True
    )
    """Whether checkpoints hold statistics as JSON text."""
    checkpoint_write_stats_as_struct = Property(
        "delta.checkpoint.writeStatsAsStruct", parse_boolean, False
    )
    """Whether checkpoints hold statistics as typed columns."""
    checkpoint_part_size: ClassVar[Property[int | None]] = Property(
        "adelta.checkpoint.partSize", parse_whole(1), None
    )
    """How many file actions make a part of a checkpoint; None is one part, or 50,000 a sidecar."""
    checkpoint_v2_format = Property(
        "adelta.checkpoint.v2Format", parse_one_of("json", "parquet"), "json"
    )
    """The format of the manifest of V2 checkpoints."""
    write_checksum = Property("adelta.writeChecksum", parse_boolean, True)
    """Whether a version checksum is written after each commit."""
    log_compaction_interval: ClassVar[Property[int | None]] = Property(
        "adelta.logCompactionInterval", parse_whole(2), None
    )
    """After how many commits these are compacted into one file beside them; None is never."""
    consumer_holds: ClassVar[Property[str | None]] = Property(
        "adelta.consumerHolds", parse_hidden_folder, None
    )
    """The folder below the table's root in which consumers say from where on they need its log."""
    checkpoint_retention_ms = Property(
        "delta.checkpointRetentionDuration", parse_interval, parse_interval("2 days")
    )
    """How long checkpoints are kept that newer ones have made superfluous."""
    log_retention_ms = Property(
        "delta.logRetentionDuration", parse_interval, parse_interval("30 days")
    )
    """How long commits are kept."""
    deleted_file_retention_ms = Property(
        "delta.deletedFileRetentionDuration", parse_interval, parse_interval("1 week")
    )
    """How long files that left the table are kept, and their tombstones."""
    sample_retention_ms = Property(
        "delta.sampleRetentionDuration", parse_interval, parse_interval("7 days")
    )
    """How long samples of query results are kept, by engines that take some."""
    drop_feature_retention_ms = Property(
        "delta.dropFeatureTruncateHistory.retentionDuration",
        parse_interval,
        parse_interval("24 hours"),
    )
    """How long history is kept when a feature is dropped together with its history."""
    set_transaction_retention_ms: ClassVar[Property[int | None]] = Property(
        "delta.setTransactionRetentionDuration", parse_interval, None
    )
    """How long application transactions are remembered; None is for ever."""
    enable_expired_log_cleanup = Property("delta.enableExpiredLogCleanup", parse_boolean, True)
    """Whether old commits are deleted after a checkpoint."""
    enable_full_retention_rollback = Property(
        "delta.enableFullRetentionRollback", parse_boolean, True
    )
    """Whether a table can be restored to any version that the log's retention keeps."""
    isolation_level = Property("delta.isolationLevel", parse_one_of("Serializable"), "Serializable")
    """The isolation of commits."""
    data_skipping_num_indexed_cols = Property(
        "delta.dataSkippingNumIndexedCols", parse_whole(-1), 32
    )
    """How many of the leading leaf columns have statistics; -1 is all."""
    data_skipping_stats_columns: ClassVar[Property[tuple[tuple[str, ...], ...] | None]] = Property(
        "delta.dataSkippingStatsColumns", split_columns, None
    )
    """The paths of the columns that have statistics, where they are named."""
    data_skipping_string_prefix_length = Property(
        "delta.dataSkippingStringPrefixLength", parse_whole(0), 32
    )
    """How many characters of a text go into statistics."""
    randomize_file_prefixes = Property("delta.randomizeFilePrefixes", parse_boolean, False)
    """Whether data files lie under random prefixes instead of partition directories."""
    random_prefix_length = Property("delta.randomPrefixLength", parse_whole(1), 2)
    """How many characters a random prefix has."""
    target_file_size: ClassVar[Property[int | None]] = Property(
        "delta.targetFileSize", parse_size, None
    )
    """The size that data files should have; None leaves it to the writer."""
    tune_file_sizes_for_rewrites = Property("delta.tuneFileSizesForRewrites", parse_boolean, False)
    """Whether the size of data files follows how often they are rewritten."""
    parquet_compression_codec = Property("delta.parquet.compression.codec", parse_codec, "zstd")
    """The codec of new Parquet files: uncompressed, snappy, gzip, lz4, lz4_raw or zstd."""
    parquet_format_version = Property("delta.parquet.format.version", parse_format_version, "1.0.0")
    """The version of the data pages in new Parquet files: 1.0.0 or 2.x.x."""
    auto_optimize: ClassVar[Property[bool | None]] = Property(
        "delta.autoOptimize", parse_boolean, None
    )
    """What the two properties below are where they are not set."""
    auto_compact: ClassVar[Property[str | None]] = Property(
        "delta.autoOptimize.autoCompact", parse_one_of("true", "false", "auto"), None
    )
    """Whether small files are compacted after a commit."""
    optimize_write: ClassVar[Property[bool | None]] = Property(
        "delta.autoOptimize.optimizeWrite", parse_boolean, None
    )
    """Whether rows are gathered into fewer files before they are written."""
    symlink_format_manifest = Property(
        "delta.compatibility.symlinkFormatManifest.enabled", parse_boolean, False
    )
    """Whether a manifest for Hive is kept up to date."""
    universal_formats: ClassVar[Property[tuple[str, ...]]] = Property(
        "delta.universalFormat.enabledFormats", parse_names, ()
    )
    """The other table formats that metadata is kept in."""
    iceberg_atomic_conversion: ClassVar[Property[bool]] = Property(
        "delta.universalFormat.iceberg.atomicConversion.supported", parse_boolean, False
    )
    """Whether a catalog may write Iceberg metadata atomically with each commit."""


PROPERTIES: tuple[Property[object], ...] = tuple(
    p for p in vars(TableProperties).values() if isinstance(p, Property)
)
"""The properties of tables, apart from those of features."""


def validate(
    configuration: Mapping[str, str], properties: Iterable[Property[object]] = PROPERTIES
) -> dict[str, str]:
    """The configuration to store for properties that a user sets, keys in their proper spelling.

    Keys without ``delta.`` are free. Keys that ask for the protocol go through unchanged.

    Example: ``{"DELTA.APPENDONLY": "true"}`` is ``{"delta.appendOnly": "true"}``.

    Raises:
        InvalidPropertyError: a ``delta.`` key is unknown or not for users, occurs twice, or has a
            value that is not allowed.
    """
    known = {p.key.lower(): p for p in properties}
    aliases = {alias.lower(): alias for p in known.values() for alias in p.aliases}
    by_alias = {alias.lower(): p for p in known.values() for alias in p.aliases}
    protocol_keys = {key.lower(): key for key in PROTOCOL_KEYS}
    stored: dict[str, str] = {}
    for key, value in configuration.items():
        name, folded = key, key.lower()
        if not isinstance(value, str):
            raise InvalidPropertyError(
                f"the table property {key} is {value!r}; properties are texts: give a str"
            )
        if folded in known:
            name = _checked(known[folded], value).key
        elif folded.startswith(_PREFIX):
            if folded in by_alias:
                _checked(by_alias[folded], value)
                name = aliases[folded]
            elif folded in protocol_keys:
                name = protocol_keys[folded]
            elif folded.startswith(FEATURE_PREFIX):
                name = FEATURE_PREFIX + key[len(FEATURE_PREFIX) :]
            elif folded.startswith(CONSTRAINT_PREFIX):
                name = CONSTRAINT_PREFIX + key[len(CONSTRAINT_PREFIX) :]
            elif not folded.startswith(_FREE_PREFIXES):
                raise UnknownPropertyError(_unknown(key, [p.key for p in known.values()]))
        if name in stored:
            raise InvalidPropertyError(f"the table property {name} is given twice; give it once")
        stored[name] = value
    _check_retention(stored)
    return stored


def _checked(known: Property[object], text: str) -> Property[object]:
    if not known.settable:
        raise InvalidPropertyError(
            f"the table property {known.key} is kept by Delta itself and cannot be set",
            reason="property_not_settable",
        )
    known.check(text)
    return known


def _unknown(key: str, known: list[str]) -> str:
    word = key.lower().removeprefix(_PREFIX)
    close = sorted(k for k in known if word in k.lower() or k.lower()[len(_PREFIX) :] in word)
    hint = f"did you mean {' or '.join(close[:3])}? " if close and word else ""
    return (
        f"{key!r} is not a table property of Delta: {hint}"
        "Properties of your own may have any name that does not begin with 'delta.'"
    )


def _check_retention(configuration: Mapping[str, str]) -> None:
    log, files = TableProperties.log_retention_ms, TableProperties.deleted_file_retention_ms
    if log.read(configuration) < files.read(configuration):
        raise InvalidPropertyError(
            f"{log.key} is shorter than {files.key}, so files would outlive the log that knows "
            "them; make it at least as long, or set both"
        )
