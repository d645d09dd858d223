"""WriteSpec: how files of a table are to be written, as a plain value.

It can be pickled and is small: a Spark driver makes it once and sends it to its tasks, which write
files by it without reading the table's log.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from adelta._arguments import check_count, check_flag
from adelta._clock import moment
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.table_features import ALLOW_COLUMN_DEFAULTS, GENERATED_COLUMNS
from adelta.parquet.write.options import WriterOptions

if TYPE_CHECKING:
    from datetime import datetime

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["AS_THE_TABLE_SAYS", "DataFileOptions", "FileContent", "WriteSpec", "engine_info"]

FileContent = Literal["rows", "copies", "changes"]
"""New rows; rows that the table had before, written anew; or row changes for the feed."""


@cache
def engine_info() -> str:
    """`engineInfo` of the commits that adelta makes."""
    from adelta._version import __version__

    return f"adelta/{__version__}"


_ICEBERG_TAG = "ICEBERG_COMPAT_VERSION"  # by which Delta Spark knows files that need no rewriting
_MARKED_FROM = 2
_MIB = 1024 * 1024
_TARGET_FILE_SIZE = 128 * _MIB
_ROW_GROUP_BYTES = 64 * _MIB
_MEMORY_BUDGET = 256 * _MIB
_COPIES_MEMORY = 128 * _MIB


def _check_sizes(sizes: DataFileOptions | WriteSpec) -> None:
    for name in ("target_file_size", "memory_budget"):
        size = getattr(sizes, name)
        check_count(name, size, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileOptions:
    """How a writer wants data files to be: sizes in bytes, Parquet's options, and their gathering.

    Attributes:
        target_file_size: the size from which a file is closed and another one begun. None is the
            table's property ``delta.targetFileSize``, or 128 MiB.
        writer_options: how Parquet is written. None leaves that to the table's properties.
        optimize_write: whether rows of a partitioned table are gathered, on local disk where they
            are too many for the memory, until they fill files of the target size: few large files
            a partition instead of many small ones. None is the table's property
            ``delta.autoOptimize.optimizeWrite``.
        compression: the codec, where nothing else is said of Parquet. None leaves it to
            `writer_options`, and these to the table's properties.
        max_records_per_file: most rows in a file; None is as many as its size allows.
        memory_budget: bytes of rows, and of encoded files that are not sent off yet, that the
            writer holds over all partitions.

    Raises:
        InvalidOptionError: a size or a number is not positive, or there is no such codec.
    """

    target_file_size: int | None = None
    writer_options: WriterOptions | None = None
    optimize_write: bool | None = None
    compression: str | None = None
    max_records_per_file: int | None = None
    memory_budget: int = _MEMORY_BUDGET

    def __post_init__(self) -> None:
        _check_sizes(self)
        if self.max_records_per_file is not None:
            check_count("max_records_per_file", self.max_records_per_file, least=1)
        WriterOptions(compression=self.compression)  # which knows the codecs
        if self.optimize_write is not None:
            check_flag("optimize_write", self.optimize_write)
        if not isinstance(self.writer_options, WriterOptions | None):
            raise InvalidOptionError(
                f"writer_options is {self.writer_options!r:.100}; pass adelta.WriterOptions(...)"
            )


AS_THE_TABLE_SAYS = DataFileOptions()
"""What holds where a caller says nothing."""


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """How to write: the table's schema, partitioning and properties, and the writer's own limits.

    `target_file_size` is the size in bytes from which a file is closed and another one begun.
    `memory_budget` bounds the bytes of rows, and of encoded files that are not sent off yet, that a
    writer holds over all partitions.

    `writer_options` say how Parquet is written; None leaves that to the table's properties, and to
    `row_group_bytes`, of Arrow data. `compression` goes before all of these. No file has more than
    `max_records_per_file` rows. With `optimize_write` the rows of a partitioned table are gathered,
    on disk where they are too many, until they fill files.

    Columns are computed by the schema's generation expressions and defaults where the table
    supports these (`generates`, `has_defaults`). `where` is a condition of the caller's own that
    every row has to satisfy, beside the constraints of the table. Dates and clocks in all of these
    are of `zone`, and so are times that name no zone. Defaults that tell the time tell `now`, the
    same in all of a statement's files; without it they are refused.

    With `assigns`, the rows are computed by a statement, and are cast to the table's types.

    All of that is for new rows. Where the `content` is ``copies``, rows are complete and have been
    held to the rules before; they come with the hidden `row_id_columns` where the table has these.
    Where it is ``changes``, they are complete too, and come with the type of their change.

    Files hold partition columns only where `partition_columns_in_files` says so. `iceberg_compat`
    is the version of the table's compatibility with Iceberg, 0 where it keeps none.

    `task` tells a writer from others that write by the same spec, and by it alone the identity
    values that they make differ; None is for a writer that is the only one.
    """

    schema_string: str
    partition_columns: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    column_mapping_mode: str = "none"
    target_file_size: int = _TARGET_FILE_SIZE
    memory_budget: int = _MEMORY_BUDGET
    generates: bool = False
    has_defaults: bool = False
    where: Node | None = None
    content: FileContent = "rows"
    row_id_columns: tuple[str, str] | None = None
    writer_options: WriterOptions | None = None
    optimize_write: bool = False
    partition_columns_in_files: bool = False
    iceberg_compat: int = 0
    compression: str | None = None
    max_records_per_file: int | None = None
    task: int | None = None
    zone: str = "UTC"
    now: datetime | None = None
    row_group_bytes: int = _ROW_GROUP_BYTES
    assigns: bool = False

    def __post_init__(self) -> None:
        _check_sizes(self)

    @property
    def file_tags(self) -> dict[str, str] | None:
        """The tags of every file."""
        marked = self.iceberg_compat >= _MARKED_FROM
        return {_ICEBERG_TAG: str(self.iceberg_compat)} if marked else None

    @classmethod
    def of(
        cls,
        configuration: TableConfiguration,
        *,
        files: DataFileOptions = AS_THE_TABLE_SAYS,
        where: Node | None = None,
        content: FileContent = "rows",
        zone: str = "UTC",
        now: datetime | None = None,
        assigns: bool = False,
    ) -> WriteSpec:
        """How files of a table with this configuration are written, from now on."""
        metadata, properties = configuration.metadata, configuration.properties
        optimize = files.optimize_write
        if optimize is None:
            optimize = properties.optimize_write
        if optimize is None:
            optimize = bool(properties.auto_optimize)
        return cls(
            metadata.schema_string,
            metadata.partition_columns,
            tuple(metadata.configuration.items()),
            configuration.column_mapping_mode,
            files.target_file_size or properties.target_file_size or _TARGET_FILE_SIZE,
            files.memory_budget,
            configuration.supports(GENERATED_COLUMNS),
            configuration.supports(ALLOW_COLUMN_DEFAULTS),
            where,
            content,
            configuration.row_id_columns if content == "copies" else None,
            files.writer_options,
            optimize,
            configuration.partition_columns_in_files,
            configuration.iceberg_compat,
            files.compression,
            files.max_records_per_file,
            zone=zone,
            now=now or moment(),
            assigns=assigns,
        )

    @classmethod
    def of_copies(
        cls, configuration: TableConfiguration, files: DataFileOptions = AS_THE_TABLE_SAYS
    ) -> WriteSpec:
        """How a task writes rows of the table anew: ungathered, beside other tasks in memory."""
        spec = cls.of(configuration, files=files, content="copies")
        memory = min(spec.memory_budget, _COPIES_MEMORY)
        return replace(spec, memory_budget=memory, optimize_write=False)
