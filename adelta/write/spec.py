"""WriteSpec: how files of a table are to be written, as a plain value.

It can be pickled and is small: a Spark driver makes it once and sends it to its tasks, which write
files by it without reading the table's log.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Literal

from adelta.errors import InvalidOptionError
from adelta.kernel.table_features import ALLOW_COLUMN_DEFAULTS, GENERATED_COLUMNS

if TYPE_CHECKING:
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["ENGINE", "FileContent", "WriteSpec"]

FileContent = Literal["rows", "copies", "changes"]
"""New rows; rows that the table had before, written anew; or row changes for the feed."""


def _version() -> str:
    try:
        return version("adelta")
    except (
        PackageNotFoundError
    ):  # run from a source tree, or from an archive sent to Spark's workers
        return "source"


ENGINE = f"adelta/{_version()}"
"""`engineInfo` of the commits that adelta makes."""

_MIB = 1024 * 1024
_TARGET_FILE_SIZE = 128 * _MIB
_MEMORY_BUDGET = 256 * _MIB


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """How to write: the table's schema, partitioning and properties, and the writer's own limits.

    `target_file_size` is the size in bytes from which a file is closed and another one begun.
    `memory_budget` bounds the bytes of rows, and of encoded files that are not sent off yet, that a
    writer holds over all partitions.

    Columns are computed by the schema's generation expressions and defaults where the table
    supports these (`generates`, `has_defaults`). `where` is a condition of the caller's own that
    every row has to satisfy, beside the constraints of the table.

    All of that is for new rows. Where the `content` is ``copies``, rows are complete and have been
    held to the rules before; they come with the hidden `row_id_columns` where the table has these.
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

    def __post_init__(self) -> None:
        for name in ("target_file_size", "memory_budget"):
            if getattr(self, name) < 1:
                raise InvalidOptionError(f"{name} is {getattr(self, name)}; it must be 1 or more")

    @classmethod
    def of(
        cls,
        configuration: TableConfiguration,
        *,
        target_file_size: int | None = None,
        memory_budget: int = _MEMORY_BUDGET,
        where: Node | None = None,
        content: FileContent = "rows",
    ) -> WriteSpec:
        """How files of a table with this configuration are written."""
        metadata = configuration.metadata
        return cls(
            metadata.schema_string,
            metadata.partition_columns,
            tuple(metadata.configuration.items()),
            configuration.column_mapping_mode,
            target_file_size or configuration.properties.target_file_size or _TARGET_FILE_SIZE,
            memory_budget,
            configuration.supports(GENERATED_COLUMNS),
            configuration.supports(ALLOW_COLUMN_DEFAULTS),
            where,
            content,
            configuration.row_id_columns if content == "copies" else None,
        )
